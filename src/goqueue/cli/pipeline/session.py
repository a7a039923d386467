"""The server and the Spark session of a pipeline command, and its exit codes.

Asks the server about topics before Spark starts, and turns failures into one line and an exit code.
Spark shows options in plans, so an API key is passed to it as a file that only this user can read;
the file is removed when the program ends.
"""

import atexit
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from goqueue.cli.client import Session
from goqueue.cli.client_settings import ClientSettings
from goqueue.cli.exit_codes import ExitCode
from goqueue.client import TopicNotFound
from goqueue.client.admin_replies import Topic
from goqueue.pipelines import JavaMissing
from goqueue.pipelines.errors import Fault, StepInvalid
from goqueue.pipelines.progress import CheckpointBusy
from goqueue.pipelines.runner import RunFailed
from goqueue.pipelines.spec import Pipeline
from goqueue.pipelines.spec_files import PipelineInvalid

__all__ = [
    "ENDS",
    "EXPECTED",
    "Found",
    "Misused",
    "WorkFailed",
    "asked_of",
    "ended",
    "link_to",
    "look_at_topics",
    "sink_topic",
    "topic_ends",
]

EXPECTED = (CheckpointBusy, JavaMissing, PipelineInvalid, RunFailed, StepInvalid)


class WorkFailed(click.ClickException):
    """A pipeline that could not continue."""

    exit_code = ExitCode.FAILED


class Misused(click.ClickException):
    """A pipeline that cannot be run as it is."""

    exit_code = ExitCode.MISUSED


class Unreached(click.ClickException):
    """A pipeline whose broker does not answer."""

    exit_code = ExitCode.UNREACHED


ENDS = {
    Fault.WORK: WorkFailed,
    Fault.USAGE: Misused,
    Fault.SERVER: Unreached,
    Fault.SCHEMA: WorkFailed,
}


def ended(error: Exception, file: str, log: str | None = None) -> click.ClickException:
    """The end of a command by one of the expected errors."""
    if isinstance(error, PipelineInvalid | JavaMissing):
        return Misused(str(error))
    if isinstance(error, StepInvalid):
        return Misused(f"{file}: {error}")
    if isinstance(error, RunFailed):
        more = "" if log is None else f"; Spark's own words are in {log}"
        return ENDS[error.failure.fault](f"{file}: {error}{more}")
    return WorkFailed(f"{file}: {error}")


_SERVERS = "goqueue.servers"
_TOKEN = "goqueue.tokenFile"  # noqa: S105 - the name of an option


class Found(msgspec.Struct, frozen=True):
    """A topic as the broker describes it; None partitions if there is none."""

    topic: str
    partitions: int | None
    ends: dict[int, int]


def link_to(settings: ClientSettings, *, is_local: bool) -> dict[str, str]:
    """The options of the connector for the server of the command line."""
    files = {
        "goqueue.tls.caFile": settings.ca_file,
        "goqueue.tls.certFile": settings.client_cert,
        "goqueue.tls.keyFile": settings.client_key,
    }
    link = {_SERVERS: settings.server}
    if settings.server.startswith("https://"):
        link |= {option: path for option, path in files.items() if path is not None}
    if settings.allow_plaintext:
        link["goqueue.allowPlaintext"] = "true"
    if settings.credentials is None:
        return link
    if settings.credentials.file is not None:
        return link | {_TOKEN: settings.credentials.file}
    if not is_local:
        words = f"executors do not see the key of the command line; give the option `{_TOKEN}`"
        raise click.UsageError(words)
    handle, path = tempfile.mkstemp(prefix="goqueue-key-")
    atexit.register(Path(path).unlink, missing_ok=True)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(settings.credentials.key.reveal())
    return link | {_TOKEN: path}


def asked_of(pipeline: Pipeline) -> list[str]:
    """The topics of a pipeline that lie with the server of the command line, as far as is known."""
    names: set[str | None] = set()
    for source in pipeline.views.values():
        if not _is_elsewhere(source.options):
            names.update(source.topic_names)
            names.add(None if source.decode is None else source.decode.dead_letters)
    if not _is_elsewhere(pipeline.sink.options):
        names.add(sink_topic(pipeline))
    return sorted(name for name in names if name is not None)


def _is_elsewhere(options: Mapping[str, object]) -> bool:
    """Whether the file says itself how to reach a broker."""
    return any(name.lower().startswith("goqueue.") for name in options)


def sink_topic(pipeline: Pipeline) -> str | None:
    """The topic that is written, if it is one for all rows."""
    return None if pipeline.sink.topic == "*" else pipeline.sink.topic


async def look_at_topics(session: Session, topics: list[str]) -> list[Found]:
    """What the broker says about topics; those that are not there have no partitions."""
    found = []
    for topic in topics:
        try:
            told = await session.q.topics.describe(topic)
        except TopicNotFound:
            found.append(Found(topic, None, {}))
        else:
            found.append(Found(topic, told.partitions, topic_ends(told)))
    return found


def topic_ends(topic: Topic) -> dict[int, int]:
    """The offset after the last one of every partition."""
    return {number: ends.latest + 1 for number, ends in topic.partition_offsets.items()}
