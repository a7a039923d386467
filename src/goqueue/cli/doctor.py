"""`goqueue doctor`: examine a node, say what is wrong and what to do; write a support bundle.

Only reads. A bundle holds what the node says about itself: versions, readiness, metrics, topics,
groups and counts, and the settings that a node started here would have, with secrets masked. It
never holds a message, a key of a message, a header, a reason of a dead letter, an API key or the
value of an environment variable; it is readable by its owner only.
"""

import asyncio
import contextlib
import datetime as dt
import io
import os
import platform
import sys
import tarfile
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from goqueue.cli.client import Session, run_session
from goqueue.cli.cluster_nodes import ask_nodes
from goqueue.cli.diagnosis import (
    CheckResult,
    Facts,
    FailedRequest,
    Level,
    NodeFacts,
    diagnose,
)
from goqueue.cli.errors import Failure
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Output, output_option, server_options
from goqueue.cli.output import console, printable, table, write_items
from goqueue.cli.quantities import read_duration, shown_time
from goqueue.cli.scraped_metrics import Metrics, parse_metrics
from goqueue.cli.version import own_version
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.model import SECOND

if TYPE_CHECKING:
    from goqueue.client.admin_replies import GroupSummary, Health, Readiness, Topic
    from goqueue.client.cluster import ClusterHealth
    from goqueue.client.connection import Connection

__all__ = ["bundle_of", "collect", "doctor"]

T = TypeVar("T")

# Each costs a request; a node with more of them is judged by the first.
_TOPICS_MAX = 200
_GROUPS_MAX = 200
_SCHEDULES_MAX = 1000
_OWNER_ONLY = 0o600
_MARKS = {Level.OK: "ok", Level.NOTE: "note", Level.WARNING: "WARNING", Level.PROBLEM: "PROBLEM"}


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """Facts for the checks, and the texts that a bundle keeps, by file name."""

    facts: Facts
    texts: Mapping[str, bytes]


class _Questions:
    """Asks the node, keeps replies for the bundle, and what failed for the report."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.failed: list[FailedRequest] = []

    async def ask(self, what: str, reply: Awaitable[T], *, file: str = "") -> T | None:
        """The reply; None if the node did not give one, which is kept, not raised."""
        try:
            value = await reply
        except GoQueueError as error:
            reason = error.sentence.rstrip(". ")
            self.failed.append(FailedRequest(what=what, code=error.code, reason=reason))
            return None
        if file:
            self.keep(file, value)
        return value

    def keep(self, file: str, value: object) -> None:
        """Keep a reply for the bundle."""
        self.texts[file] = msgspec.json.format(msgspec.json.encode(value), indent=2)


async def collect(session: Session, apart_s: float) -> Examined:
    """Ask the node everything; `apart_s` passes between the first and the last question.

    A node that cannot be reached is the end of it. Any other failure costs only its own answer.
    """
    q = session.q
    questions = _Questions()
    ask = questions.ask
    started = time.monotonic()
    asked_at = time.time()
    try:
        health: Health | None = await q.health()
    except ServerUnreachable:
        raise
    except GoQueueError as error:
        health = await ask("health", _raising(error))
    latency_s = time.monotonic() - started
    before = await ask("dead letters", q.reliability())
    version = await ask("version", q.version())
    questions.keep("version.json", {"server": version, "program": own_version()})
    readiness = await ask("readiness", q.readiness(), file="readiness.json")
    await ask("stats", q.stats(), file="stats.json")
    topics = await _topics(q, questions)
    groups = await ask("groups", q.groups.list())
    lags = await _lags(q, questions, groups or ())
    questions.keep("groups.json", {"groups": groups, "lags": lags})
    await ask("priorities", q.priorities(), file="priorities.json")
    await ask("delayed messages", q.delayed.stats(), file="delays.json")
    await ask("transactions", q.transactions.stats(), file="transactions.json")
    # Schedules have messages, which a bundle never holds.
    schedules = await ask("schedules", q.schedules.list(limit=_SCHEDULES_MAX))
    cluster = await ask("cluster", q.cluster.health(), file="cluster.json")
    offline, lacking = await _partitions_in_need(q, questions, topics or (), cluster)
    await asyncio.sleep(apart_s)
    scraped = await ask("metrics", q.metrics())
    questions.texts["metrics.txt"] = (scraped or "").encode()
    nodes = await _nodes(session, questions)
    letters = await ask("dead letters", q.reliability(), file="reliability.json")
    facts = Facts(
        server=session.settings.server,
        own_version=own_version()["version"],
        server_version=None if version is None else version.version,
        latency_s=latency_s,
        readiness=readiness,
        metrics=_all_metrics(scraped, nodes),
        skew_s=None if health is None else _skew_s(health, asked_at + latency_s / 2),
        letters_before=before,
        letters=letters,
        groups=groups,
        lags=lags,
        topics=topics,
        now=dt.datetime.now(dt.UTC),
        schedules=schedules,
        cluster=cluster,
        failed=_distinct(questions.failed),
        nodes=nodes,
        offline=offline,
        lacking=lacking,
    )
    return Examined(facts=facts, texts=questions.texts)


async def _nodes(session: Session, questions: _Questions) -> tuple[NodeFacts, ...]:
    """What each node of a cluster says of itself; none if there is one node only."""
    state = await questions.ask("nodes", session.q.cluster.state(), file="nodes.json")
    if state is None or len(state.nodes) <= 1:
        return ()
    replies = await ask_nodes(session.settings, state.nodes, _examine_node)
    found = []
    for node, reply in zip(state.nodes, replies, strict=True):
        facts = NodeFacts(name=node.id, address=node.client_address)
        if isinstance(reply, GoQueueError):
            reason = reply.sentence.rstrip(". ")
            found.append(msgspec.structs.replace(facts, failure=reason))
            continue
        questions.keep(f"nodes/{node.id}/readiness.json", reply.readiness)
        questions.texts[f"nodes/{node.id}/metrics.txt"] = reply.metrics.encode()
        facts = msgspec.structs.replace(
            facts,
            version=reply.version,
            readiness=reply.readiness,
            metrics=parse_metrics(reply.metrics),
            skew_s=reply.skew_s,
        )
        found.append(facts)
    return tuple(found)


class _NodeReplies(msgspec.Struct, frozen=True, kw_only=True):
    """What one node answered."""

    version: str
    readiness: "Readiness"
    metrics: str
    skew_s: float


def _all_metrics(scraped: str | None, nodes: tuple[NodeFacts, ...]) -> Metrics | None:
    """Those of all nodes of a cluster, else of the node that was asked."""
    scrapes = {each.name: each.metrics for each in nodes if each.metrics is not None}
    if scrapes:
        return Metrics.joined(scrapes)
    return None if scraped is None else parse_metrics(scraped)


async def _examine_node(q: "Connection") -> _NodeReplies:
    # The first answer includes the connection.
    version = await q.version()
    started, asked_at = time.monotonic(), time.time()
    health = await q.health()
    latency_s = time.monotonic() - started
    return _NodeReplies(
        version=version.version,
        readiness=await q.readiness(),
        metrics=await q.metrics(),
        skew_s=_skew_s(health, asked_at + latency_s / 2),
    )


async def _partitions_in_need(
    q: "Connection",
    questions: _Questions,
    topics: "tuple[Topic, ...]",
    health: "ClusterHealth | None",
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Partitions without a leader, and those that lack copies, if there are any."""
    offline: list[str] = []
    lacking: list[str] = []
    if health is None or not (health.offline_partitions or health.under_replicated_partitions):
        return (), ()
    for topic in topics:
        asked = _if_there(q.topics.partitions(topic.name))
        for each in await questions.ask("partitions", asked) or ():
            name = f"{topic.name}-{each.partition}"
            if not each.leader:
                offline.append(name)
            elif len(each.isr) < len(each.replicas):
                lacking.append(name)
    return tuple(offline), tuple(lacking)


async def _raising(error: GoQueueError) -> "Health":
    raise error


def _skew_s(health: "Health", asked_at: float) -> float:
    return health.timestamp.timestamp() - asked_at


def _distinct(failed: list[FailedRequest]) -> tuple[FailedRequest, ...]:
    """The first failure of each kind of question: a thousand topics may fail alike."""
    return tuple({each.what: each for each in reversed(failed)}.values())[::-1]


async def _topics(q: "Connection", questions: _Questions) -> "tuple[Topic, ...] | None":
    names = await questions.ask("topics", q.topics.list())
    if names is None:
        return None
    found = []
    for name in names[:_TOPICS_MAX]:
        described = await questions.ask("topics", _if_there(q.topics.describe(name)))
        if described is not None:
            found.append(described)
    questions.keep("topics.json", found)
    return tuple(found)


async def _lags(
    q: "Connection", questions: _Questions, groups: "tuple[GroupSummary, ...]"
) -> dict[str, int]:
    lags = {}
    for group in groups[:_GROUPS_MAX]:
        lag = await questions.ask("lags", _if_there(q.groups.lag(group.group_id)))
        if lag is not None:
            lags[group.group_id] = lag.total_lag
    return lags


async def _if_there(reply: Awaitable[T]) -> T | None:
    """The reply about something that may have been deleted meanwhile."""
    try:
        return await reply
    except GoQueueError as error:
        if error.code not in ("topic_not_found", "group_not_found"):
            raise
        return None


# The bundle


def bundle_of(texts: Mapping[str, bytes], findings: list[CheckResult], now: dt.datetime) -> bytes:
    """A compressed archive of the texts, the findings and what is known of this machine."""
    files = {
        "findings.json": msgspec.json.format(msgspec.json.encode(findings), indent=2),
        "machine.json": msgspec.json.format(msgspec.json.encode(_machine(now)), indent=2),
        "settings.json": msgspec.json.format(msgspec.json.encode(_settings()), indent=2),
        **texts,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"goqueue-support/{name}")
            entry.size, entry.mode, entry.mtime = len(content), _OWNER_ONLY, int(now.timestamp())
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _machine(now: dt.datetime) -> dict[str, object]:
    return {
        "time": now,
        "platform": platform.platform(),
        "python": sys.version,
        # The names say which settings are overridden; values may be secret.
        "variables": sorted(name for name in os.environ if name.startswith("GOQUEUE_")),
    }


def _settings() -> object:
    """The settings that a node started here would have, with secrets masked."""
    from goqueue.runtime.settings import SettingsInvalid, load_settings

    try:
        settings = load_settings({}, os.environ)
    except SettingsInvalid as invalid:
        return {"invalid": sorted({problem.setting for problem in invalid.problems})}
    return {"settings": settings.origins, "warnings": settings.warnings}


def _write_bundle(path: str, content: bytes) -> None:
    """Write a new file that only its owner may read; nothing is left of one that is not whole."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists already; choose another name") from error
    except (OSError, ValueError) as error:
        raise _unwritten(path, error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        with contextlib.suppress(OSError):
            Path(path).unlink()
        raise _unwritten(path, error) from error


def _unwritten(path: str, error: Exception) -> Failure:
    reason = error.strerror if isinstance(error, OSError) else error
    return Failure(printable(f"the bundle {path} was not written: {reason}"), code="not_written")


# The report


def draw_findings(findings: list[CheckResult]) -> None:
    rows = [(_MARKS[each.level], each.check, each.found) for each in findings]
    console().print(table(("", "CHECK", "FOUND"), rows))
    advised = [each for each in findings if each.advice and each.level is not Level.OK]
    for each in advised:
        print(f"{_MARKS[each.level]} {each.check}: {printable(each.advice)}")
    counts = {level: sum(each.level is level for each in findings) for level in Level}
    problems, warnings = counts[Level.PROBLEM], counts[Level.WARNING]
    if advised:
        print()
    print("nothing is wrong" if not problems + warnings else _counted(problems, warnings))


def _counted(problems: int, warnings: int) -> str:
    def many(count: int, what: str) -> str:
        return f"{count} {what}{'' if count == 1 else 's'}"

    return f"{many(problems, 'problem')}, {many(warnings, 'warning')}"


@click.command("doctor", short_help="Say what is wrong with a node, and what to do.")
@click.option(
    "--bundle",
    "bundle",
    metavar="FILE",
    help="Also write a support bundle (tar.gz) without secrets and messages.",
)
@click.option(
    "--interval",
    metavar="TIME",
    default="2s",
    show_default=True,
    help="How long to watch whether dead letters become more.",
)
@click.option("--strict", "is_strict", is_flag=True, help="Exit with 1 also for warnings.")
@server_options
@output_option
def doctor(bundle: str | None, interval: str, output: Output, *, is_strict: bool) -> ExitCode:
    """Examine a node: readiness, damage, disk space, file descriptors, slow syncs, load, clock,
    groups that nobody consumes, dead letters, delayed messages, schedules, certificates and
    settings. Of a cluster every node, and its controller, leaders, copies, clocks and versions.

    What the node does not answer is reported, and the rest is examined all the same. Exit code 1
    means a problem, 3 that the node was not reached.
    """
    apart_s = min(read_duration("interval", interval) / SECOND, 3600.0)
    examined = run_session(lambda session: collect(session, apart_s))
    findings = diagnose(examined.facts)
    if output.is_table:
        draw_findings(findings)
    else:
        document: dict[str, object] = {
            "server": examined.facts.server,
            "findings": msgspec.to_builtins(findings),
        }
        write_items(document, "findings", output)
    if bundle is not None:
        # What was found is on the screen by now, whatever becomes of the file.
        sys.stdout.flush()
        _write_bundle(bundle, bundle_of(examined.texts, findings, examined.facts.now))
        if output.is_table:
            print(printable(f"wrote {bundle} at {shown_time(examined.facts.now)}"))
    bad = {Level.PROBLEM, Level.WARNING} if is_strict else {Level.PROBLEM}
    return ExitCode.FAILED if any(each.level in bad for each in findings) else ExitCode.DONE
