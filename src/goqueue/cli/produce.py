"""`goqueue produce`: publish one message, or the lines of a file or a pipe.

Owns the flags, which are checked together, and the progress bar, which appears on a terminal only.
Ctrl-C stops reading; what was read is still sent, and the count is reported.
"""

import asyncio
import contextlib
import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

import click
import msgspec

from goqueue.cli.client import Session, run_session
from goqueue.cli.errors import as_failure, tell
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import (
    Output,
    Whole,
    output_option,
    server_options,
    topic_argument,
)
from goqueue.cli.output import write_items
from goqueue.cli.produce_input import (
    DraftInvalid,
    Line,
    LineFormat,
    Lines,
    Pattern,
    decode_base64,
    read_draft,
    read_pieces,
    read_priority,
)
from goqueue.cli.publishers import DraftPublisher, ProducerPublisher, Tally, produce_single
from goqueue.cli.quantities import read_duration
from goqueue.cli.schema_values import ValueEncoder
from goqueue.cli.signals import Stop, stopped_by_signals
from goqueue.client import GoQueueError
from goqueue.client.message_drafts import MessageDraft
from goqueue.model import Priority, format_duration, parse_time
from goqueue.model.requests import Acks

__all__ = [
    "Bar",
    "Bulk",
    "Flags",
    "produce",
    "produce_bulk",
    "read_flags",
    "read_message",
    "read_pattern",
    "show_bar",
]


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags under the names that click gives them."""

    topic: str
    output: Output
    message: str | None
    key: str | None
    partition: int | None
    header: tuple[str, ...]
    delay: str | None
    deliver_at: str | None
    priority: str | None
    base64: bool
    raw: bool
    format: LineFormat | None
    file: str | None
    acks: Acks = Acks.ALL
    schema: str | None = None


def read_flags(given: Mapping[str, object]) -> Flags:
    """A contradiction is a usage error, and so is nothing to send."""
    flags = msgspec.convert(given, type=Flags)
    has_lines = flags.file is not None or flags.raw or flags.format is not None
    if flags.message is not None and has_lines:
        raise click.UsageError(
            "--message publishes one message; it cannot be combined with --file or --format"
        )
    if flags.raw and flags.format is LineFormat.JSON:
        raise click.UsageError(
            "--raw means --format text; it cannot be combined with --format json"
        )
    if flags.delay is not None and flags.deliver_at is not None:
        raise click.UsageError("give only one of --delay and --deliver-at")
    if flags.message is None and flags.file is None and sys.stdin.isatty():
        raise click.UsageError("nothing to send: add -m TEXT, or -f FILE (- to type messages)")
    return flags


def read_message(flags: Flags) -> MessageDraft:
    """The one message that stands on the command line."""
    assert flags.message is not None
    common = _common(flags)
    text = flags.message.encode(errors="surrogateescape")
    try:
        value = decode_base64(text) if flags.base64 else text
    except DraftInvalid as invalid:
        raise click.UsageError(f"--message: {invalid}") from invalid
    return msgspec.structs.replace(common, value=value)


def read_pattern(flags: Flags) -> Pattern:
    """How lines are read."""
    return Pattern(
        common=_common(flags), format=flags.format or LineFormat.TEXT, is_base64=flags.base64
    )


def _common(flags: Flags) -> MessageDraft:
    try:
        key = (flags.key or "").encode(errors="surrogateescape")
        return MessageDraft(
            value=None,
            key=decode_base64(key) if flags.base64 else key,
            headers=_headers(flags.header),
            partition=flags.partition,
            priority=None if flags.priority is None else read_priority(flags.priority),
            delay=None if flags.delay is None else _delay(flags.delay),
            deliver_at=None if flags.deliver_at is None else _moment(flags.deliver_at),
        )
    except DraftInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


def _delay(given: str) -> str:
    return format_duration(read_duration("delay", given))


def _moment(given: str) -> str:
    try:
        parse_time(given)
    except ValueError as error:
        raise click.UsageError(f"--deliver-at {given[:100]!a}: {error}") from error
    return given


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise DraftInvalid(f"--header {text!a} is not NAME=VALUE")
        headers[name] = value
    return headers


class Bar(Protocol):
    """Told how many bytes more were worked off."""

    def advance(self, size_bytes: int) -> None: ...


class _NoBar:
    def advance(self, size_bytes: int) -> None:
        """Nobody looks."""


@contextlib.contextmanager
def show_bar(topic: str, descriptor: int, tally: Tally) -> Iterator[Bar]:
    """A bar for a file whose size is known, a count for everything else."""
    if not sys.stderr.isatty() or os.isatty(descriptor):
        # On a terminal the messages that were typed are visible already.
        yield _NoBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    found = os.fstat(descriptor)
    size = found.st_size if stat.S_ISREG(found.st_mode) else None
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    sent = TextColumn("{task.fields[count]}", markup=False)
    console = Console(stderr=True)
    with Progress(*columns, sent, TimeRemainingColumn(), console=console, transient=True) as drawn:
        task = drawn.add_task(f"to {topic}", total=size, count=str(tally))

        class _Drawn:
            def advance(self, size_bytes: int) -> None:
                drawn.update(task, advance=size_bytes, count=str(tally))

        yield _Drawn()


_FAREWELL_S = 1.0


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages come from, how they are read, and where they go."""

    topic: str
    descriptor: int
    pattern: Pattern
    output: Output
    acks: Acks = Acks.ALL
    # The subject whose latest version values are written with.
    schema: str | None = None


async def produce_bulk(session: Session, bulk: Bulk) -> ExitCode:
    """Send every line; the exit code."""
    # A missing topic or an unreachable server is reported before anything is read.
    await session.q.topics.describe(bulk.topic)
    tally = Tally()
    started = time.monotonic()
    keeps = not bulk.output.is_table
    posting = DraftPublisher(session.q, bulk.topic, tally, keeps=keeps, acks=bulk.acks)
    with stopped_by_signals() as stop:
        try:
            await _send_all(session, bulk, tally, posting, stop)
        except GoQueueError as error:
            raise _broken_off(error, session, tally) from error
        is_stopped = stop.is_asked
    if not bulk.output.is_table:
        write_items({"results": posting.results}, "results", bulk.output)
    elif not is_stopped:
        seconds = max(time.monotonic() - started, 0.001)
        speed = f"in {seconds:.1f} s, {tally.sent / seconds:.0f} per second"
        print(f"{tally.worded(bulk.topic)}, {speed}")
    tally.print_failures()
    if is_stopped:
        tell(f"stopped: {tally}")
        return ExitCode.INTERRUPTED
    return ExitCode.FAILED if tally.failed else ExitCode.DONE


async def _send_all(
    session: Session, bulk: Bulk, tally: Tally, posting: DraftPublisher, stop: Stop
) -> None:
    async with _fast_path(session, bulk, tally) as sending:
        with show_bar(bulk.topic, bulk.descriptor, tally) as bar:
            encoder = None if bulk.schema is None else ValueEncoder(session.q, bulk.schema)
            await _Lines(bulk, posting, sending, encoder).send(bar, stop)


@contextlib.asynccontextmanager
async def _fast_path(
    session: Session, bulk: Bulk, tally: Tally
) -> AsyncIterator[ProducerPublisher | None]:
    """The fast path, unless the results of the API are to be shown."""
    if not bulk.output.is_table:
        yield None
        return
    async with session.patient_connection() as connection:
        from goqueue.client.batch import ProducerConfig

        producer = connection.producer(ProducerConfig(acks=bulk.acks))
        try:
            yield ProducerPublisher(producer, bulk.topic, tally)
        finally:
            # Whatever went wrong was found at its line. After a failure that ended everything, what
            # still waits would be tried for a long time.
            with contextlib.suppress(GoQueueError, TimeoutError):
                async with asyncio.timeout(_FAREWELL_S):
                    await producer.close()


class _Lines:
    """Reads lines, and sends each on its way."""

    def __init__(
        self,
        bulk: Bulk,
        posting: DraftPublisher,
        sending: ProducerPublisher | None,
        encoder: ValueEncoder | None,
    ) -> None:
        self._bulk = bulk
        self._posting = posting
        self._sending = sending
        self._encoder = encoder

    async def send(self, bar: Bar, stop: Stop) -> None:
        lines = Lines()
        async for piece in read_pieces(self._bulk.descriptor, stop):
            for line in lines.feed(piece):
                await self._send_line(line)
            # A line from an interactive writer is sent at once, not with a full request.
            await self._posting.flush()
            bar.advance(len(piece))
        for line in [] if stop.is_asked else lines.end():
            await self._send_line(line)
        await self._posting.flush()
        if self._sending is not None:
            await self._sending.flush()

    async def _send_line(self, line: Line) -> None:
        if line.text is None:
            await self._posting.note_invalid(line.number, "the line is too long")
            return
        try:
            draft = read_draft(line.text, self._bulk.pattern)
            if draft is not None and self._encoder is not None:
                draft = await self._encoder.encode(draft)
        except DraftInvalid as invalid:
            await self._posting.note_invalid(line.number, str(invalid))
            return
        except GoQueueError as error:
            if error.code != "message_invalid":
                raise
            await self._posting.note_invalid(line.number, error.sentence)
            return
        if draft is None:
            return
        if self._sending is None or draft.is_delayed:
            await self._posting.add(line.number, draft)
        else:
            await self._sending.add(line.number, draft)


def _broken_off(error: GoQueueError, session: Session, tally: Tally) -> click.ClickException:
    """The failure that ended the command, with the count, which says where to resume."""
    tally.print_failures()
    failure = as_failure(error, session.settings.server)
    failure.hint = "; ".join(filter(None, (failure.hint, f"{tally} before that")))
    return failure


@click.command("produce", short_help="Publish messages.")
@topic_argument
@click.option("-m", "--message", metavar="TEXT", help="Publish one message with this value.")
@click.option(
    "-k", "--key", metavar="KEY", help="Message key; messages with the same key stay in order."
)
@click.option(
    "-p",
    "--partition",
    type=Whole(0),
    metavar="N",
    help="Partition.  [default: chosen by key]",
)
@click.option("-H", "--header", multiple=True, metavar="K=V", help="Header; may be repeated.")
@click.option("-d", "--delay", metavar="TIME", help="Deliver after a delay: 30s, 1h30m, 7d.")
@click.option("--deliver-at", metavar="TIME", help="Deliver at a time: 2026-01-31T12:00:00Z.")
@click.option(
    "--priority",
    metavar="P",
    shell_complete=lambda _, __, text: [
        each.name.lower() for each in Priority if each.name.lower().startswith(text)
    ],
    help="critical, high, normal, low, background, or 0 to 4.",
)
@click.option(
    "--acks",
    type=click.Choice([each.value for each in Acks]),
    default=Acks.ALL.value,
    help="What to wait for: none (messages may be lost), leader or all.  [default: all]",
)
@click.option(
    "--schema",
    metavar="SUBJECT",
    help="Values are JSON, written with the latest schema of SUBJECT.",
)
@click.option("--base64", is_flag=True, help="TEXT, KEY and text lines are base64.")
@click.option(
    "--format",
    type=click.Choice(["text", "json"]),
    help="text: a line is a value; json: a line is a message object.  [default: text]",
)
@click.option("--raw", is_flag=True, hidden=True)
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    help="Read one message per line; - is standard input.  [default: standard input]",
)
@server_options
@output_option
def produce(**given: object) -> ExitCode:
    """Publish to TOPIC: one message with -m, or one for each line of a file or a pipe.

    A line is a value, whatever it contains. With --format json a line is a message:
    {"key": "a", "value": "b", "headers": {"c": "d"}}. Blank lines and lines that begin with # are
    skipped; an unknown field is an error. The other options apply to every line that does not set
    them itself.
    """
    flags = read_flags(given)
    if flags.message is not None:
        draft = read_message(flags)

        async def send(session: Session) -> None:
            framed = draft
            if flags.schema is not None:
                framed = await ValueEncoder(session.q, flags.schema).encode(draft)
            await produce_single(session, flags.topic, framed, flags.output, flags.acks)

        run_session(send)
        return ExitCode.DONE
    pattern = read_pattern(flags)
    with _opened(flags) as file:
        wanted = Bulk(
            topic=flags.topic,
            descriptor=file.fileno(),
            pattern=pattern,
            output=flags.output,
            acks=flags.acks,
            schema=flags.schema,
        )
        return run_session(lambda session: produce_bulk(session, wanted))


def _opened(flags: Flags) -> BinaryIO:
    if flags.file is None or flags.file == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    try:
        return Path(flags.file).open("rb")
    except OSError as error:
        raise click.UsageError(f"{flags.file}: {error.strerror}") from error
