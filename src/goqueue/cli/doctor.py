"""`goqueue doctor`: examine a node, say what is wrong and what to do; write a support bundle.

Only reads. A bundle holds what the node says about itself: versions, readiness, metrics, topics,
groups and counts, and the settings that a node started here would have, with secrets masked. It
never holds a message, a key of a message, a header, a reason of a dead letter, an API key or the
value of an environment variable; it is readable by its owner only.
"""

import asyncio
import datetime as dt
import io
import os
import platform
import sys
import tarfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from goqueue.cli.client import Session, run_session
from goqueue.cli.diagnosis import CheckResult, Facts, Level, diagnose, parse_metrics
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Output, output_option, server_options
from goqueue.cli.output import console, printable, table, write_items
from goqueue.cli.quantities import read_duration, shown_time
from goqueue.cli.version import own_version
from goqueue.client import GoQueueError
from goqueue.model import SECOND

if TYPE_CHECKING:
    from goqueue.client.admin_replies import GroupSummary, Topic
    from goqueue.client.connection import Connection

__all__ = ["bundle_of", "collect", "doctor"]

# Each costs a request; a node with more of them is judged by the first.
_TOPICS_MAX = 200
_GROUPS_MAX = 200
_OWNER_ONLY = 0o600
_MARKS = {Level.OK: "ok", Level.NOTE: "note", Level.WARNING: "WARNING", Level.PROBLEM: "PROBLEM"}


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """Facts for the checks, and the texts that a bundle keeps, by file name."""

    facts: Facts
    texts: Mapping[str, bytes]


async def collect(session: Session, apart_s: float) -> Examined:
    """Ask the node everything; `apart_s` passes between the first and the last question."""
    q = session.q
    before = await q.reliability()
    started = time.monotonic()
    asked_at = time.time()
    health = await q.health()
    latency_s = time.monotonic() - started
    skew_s = health.timestamp.timestamp() - (asked_at + latency_s / 2)
    texts: dict[str, bytes] = {}

    async def keep(name: str, value: object) -> None:
        texts[name] = msgspec.json.format(msgspec.json.encode(value), indent=2)

    version = await q.version()
    await keep("version.json", {"server": version, "program": own_version()})
    readiness = await q.readiness()
    await keep("readiness.json", readiness)
    await keep("stats.json", await q.stats())
    topics = await _topics(q)
    await keep("topics.json", topics)
    groups = await q.groups.list()
    lags = await _lags(q, groups)
    await keep("groups.json", {"groups": groups, "lags": lags})
    await keep("priorities.json", await q.priorities())
    await keep("delays.json", await q.delayed.stats())
    await keep("transactions.json", await q.transactions.stats())
    await asyncio.sleep(apart_s)
    metrics = await q.metrics()
    texts["metrics.txt"] = metrics.encode()
    letters = await q.reliability()
    await keep("reliability.json", letters)
    facts = Facts(
        server=session.settings.server,
        own_version=own_version()["version"],
        server_version=version.version,
        latency_s=latency_s,
        readiness=readiness,
        metrics=parse_metrics(metrics),
        skew_s=skew_s,
        letters_before=before,
        letters=letters,
        groups=groups,
        lags=lags,
        topics=topics,
        now=dt.datetime.now(dt.UTC),
    )
    return Examined(facts=facts, texts=texts)


async def _topics(q: "Connection") -> "tuple[Topic, ...]":
    found = []
    for name in (await q.topics.list())[:_TOPICS_MAX]:
        try:
            found.append(await q.topics.describe(name))
        except GoQueueError as error:
            if error.code != "topic_not_found":
                raise
    return tuple(found)


async def _lags(q: "Connection", groups: "tuple[GroupSummary, ...]") -> dict[str, int]:
    lags = {}
    for group in groups[:_GROUPS_MAX]:
        try:
            lags[group.group_id] = (await q.groups.lag(group.group_id)).total_lag
        except GoQueueError as error:
            if error.code != "group_not_found":
                raise
    return lags


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
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists already; choose another name") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


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
    groups without members, dead letters, delayed messages and settings.

    Exit code 1 means a problem, 3 that the node was not reached.
    """
    apart_s = min(read_duration("interval", interval) / SECOND, 3600.0)
    examined = run_session(lambda session: collect(session, apart_s))
    findings = diagnose(examined.facts)
    if bundle is not None:
        _write_bundle(bundle, bundle_of(examined.texts, findings, examined.facts.now))
    if output.is_table:
        draw_findings(findings)
        if bundle is not None:
            print(printable(f"wrote {bundle} at {shown_time(examined.facts.now)}"))
    else:
        document: dict[str, object] = {
            "server": examined.facts.server,
            "findings": msgspec.to_builtins(findings),
        }
        write_items(document, "findings", output)
    bad = {Level.PROBLEM, Level.WARNING} if is_strict else {Level.PROBLEM}
    return ExitCode.FAILED if any(each.level in bad for each in findings) else ExitCode.DONE
