"""`goqueue consume`: read a topic as a stream, or as a member of a group.

As a stream nothing is leased and nothing committed: anyone may read, from any position on.

As a member of a group it never leases more than it is going to print, because each lease counts as
a delivery. A message is acknowledged after it was printed, so none is lost on the way to the reader
of the output. Filters are for streams only: a group would settle what they hide.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from goqueue.cli.client import Session, run_session
from goqueue.cli.errors import describe, tell
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.message_filter import MessageFilter, read_filter
from goqueue.cli.message_format import MessageFormat, read_format
from goqueue.cli.messages import (
    Outage,
    Printer,
    follow,
    read_merged,
    report_damage,
)
from goqueue.cli.options import (
    Output,
    Whole,
    complete_groups,
    read_name,
    read_place,
    server_options,
    topic_argument,
    wide_output_option,
)
from goqueue.cli.output import write_document
from goqueue.cli.quantities import read_time
from goqueue.cli.schema_values import ValueDecoder
from goqueue.cli.signals import Stop, stopped_by_signals
from goqueue.client import GoQueueError
from goqueue.client.values import GroupMode, IsolationLevel

if TYPE_CHECKING:
    from goqueue.client.pages import PageMessage, PageReader
    from goqueue.client.poll_consumer import PollConsumer

__all__ = ["ConsumeOptions", "consume", "consume_group", "consume_stream", "read_options"]

_LIMIT = 10
_VALUES = "%v"
_LATEST = "latest"
_OFFSETS = Whole(0, 2**63 - 1)
_OFFSET_OPTION = click.Option(["--offset"])


class _Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the command, under the names that click gives them."""

    topic: str
    output: Output
    partition: int | None
    place: str | None
    from_beginning: bool
    from_latest: bool
    from_time: str | None
    limit: int | None
    follow: bool
    isolation: IsolationLevel | None
    values: bool
    format: str | None
    key: str | None
    header: tuple[str, ...]
    grep: str | None
    json: tuple[str, ...]
    group: str | None
    mode: GroupMode | None
    no_ack: bool
    decode: bool = False


class ConsumeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, and how to read and show it; `limit` None is no limit.

    Reading begins at an offset, at "latest", or at the first message at or after a time.
    """

    topic: str
    start: int | str
    output: Output
    partition: int | None = None
    limit: int | None = None
    isolation: IsolationLevel | None = None
    is_following: bool = False
    form: MessageFormat | None = None
    filter: MessageFilter = MessageFilter()
    group: str | None = None
    mode: GroupMode | None = None
    is_acking: bool = True
    is_decoding: bool = False


def read_options(given: Mapping[str, object]) -> ConsumeOptions:
    """What the flags mean together; a contradiction is a usage error."""
    flags = msgspec.convert(given, type=_Flags)
    partition, offset = _place(flags)
    options = ConsumeOptions(
        topic=flags.topic,
        start=_start(flags, offset, time.time_ns()),
        output=flags.output,
        partition=partition,
        limit=_limit(flags),
        isolation=flags.isolation,
        is_following=flags.follow,
        form=_form(flags),
        filter=read_filter(flags.key, flags.header, flags.grep, flags.json),
        group=flags.group,
        mode=flags.mode,
        is_acking=not flags.no_ack,
        is_decoding=flags.decode,
    )
    _refuse_foreign(options)
    return options


def _form(flags: _Flags) -> MessageFormat | None:
    if flags.values and flags.format is not None:
        raise click.UsageError(f"--values means --format {_VALUES}; give only one of them")
    worded = _VALUES if flags.values else flags.format
    if worded is not None and not flags.output.is_table:
        raise click.UsageError("--format and --values cannot be combined with another --output")
    return None if worded is None else read_format(worded)


def _limit(flags: _Flags) -> int | None:
    if flags.limit is None:
        return None if flags.follow else _LIMIT
    return flags.limit or None


def _place(flags: _Flags) -> tuple[int | None, int | None]:
    """Partition and offset; `--offset 1:7` names both."""
    given = flags.place
    if given is None or ":" not in given:
        offset = None if given is None else _OFFSETS.convert(given, _OFFSET_OPTION, None)
        return flags.partition, offset
    place = read_place(given)
    if flags.partition not in (None, place.partition):
        raise click.UsageError(f"--offset {given} and --partition {flags.partition} disagree")
    return place


def _start(flags: _Flags, offset: int | None, now_ns: int) -> int | str:
    """At most one of the four; none is the beginning."""
    has_place = (offset is not None, flags.from_time is not None)
    if sum((*has_place, flags.from_beginning, flags.from_latest)) > 1:
        raise click.UsageError(
            "give only one of --offset, --from-time, --from-beginning and --from-latest"
        )
    if flags.from_time is None:
        return _LATEST if flags.from_latest else offset or 0
    return read_time("from-time", flags.from_time, now_ns)


def _refuse_foreign(options: ConsumeOptions) -> None:
    """A group has its own position in a topic; a stream acknowledges nothing."""
    if options.group is None:
        if options.mode is not None or not options.is_acking:
            raise click.UsageError("--mode and --no-ack need --group")
    elif options.partition is not None or options.start not in (0, _LATEST):
        raise click.UsageError(
            "a group continues at its own offsets: --group cannot be combined with --partition, "
            "--offset or --from-time; move it with: goqueue group reset-offsets"
        )
    elif not options.filter.is_empty:
        raise click.UsageError(
            "--key, --header, --grep and --json cannot be combined with --group, which would "
            "settle the messages that they hide"
        )


# Formats that are one document; the others are printed message by message.
_DOCUMENTS = (Output.JSON, Output.YAML)


# A group


_BATCH = 100
# Long enough for a rebalance that our joining began, short enough to wait for nothing.
_WAIT_S = 1.0
# Polls keep the session alive, so they come more often than it ends.
_WAIT_S_FOLLOWING = 10.0


async def consume_group(session: Session, options: ConsumeOptions) -> int:
    """Print messages of the group's share; how many could not be acknowledged."""
    assert options.group is not None, "read as a stream without a group"
    consumer = session.q.poll_consumer(
        options.topic,
        group=options.group,
        mode=options.mode,
        start="latest" if options.start == _LATEST else "earliest",
        isolation=options.isolation or "read_committed",
    )
    async with consumer:
        try:
            with stopped_by_signals() as stop:
                decoder = ValueDecoder(session.q) if options.is_decoding else None
                return await _GroupPrinter(consumer, options, stop, decoder).run()
        finally:
            await _leave(consumer)


async def _leave(consumer: "PollConsumer") -> None:
    """Give back at once what was leased and not settled."""
    try:
        await consumer.leave()
    except GoQueueError as error:
        # The session ends by itself in its time, and the messages come back then.
        tell(f"could not leave the group: {error.sentence}")


class _GroupPrinter:
    """Polls, prints and acknowledges, until the limit is reached or it is told to stop."""

    def __init__(
        self,
        consumer: "PollConsumer",
        options: ConsumeOptions,
        stop: Stop,
        decoder: ValueDecoder | None,
    ) -> None:
        self._consumer = consumer
        self._decoder = decoder
        self._options = options
        self._stop = stop
        self._outage = Outage(is_patient=options.is_following)
        self._wait_s = _WAIT_S_FOLLOWING if options.is_following else _WAIT_S

    async def run(self) -> int:
        """How many messages could not be acknowledged."""
        options = self._options
        printer = Printer(options.output, options.form)
        is_whole = not options.is_following and options.output in _DOCUMENTS
        count = 0
        kept: list[PageMessage] = []
        left, failed = options.limit, 0
        while left is None or left > 0:
            items = await self._poll(_BATCH if left is None else min(left, _BATCH))
            if items is None or (not items and not options.is_following):
                break
            if is_whole:
                kept += items
            else:
                printer.print(items)
                failed += await self._ack_through_outages(items)
            count += len(items)
            if left is not None:
                left -= len(items)
        if sys.stderr.isatty():
            self._advise(count, left)
        if is_whole:
            messages = [msgspec.json.decode(item.json) for item in kept]
            write_document({"messages": messages}, options.output)
            failed += await self._ack(kept)
        # A group that is followed gets again what was not acknowledged.
        return 0 if options.is_following else failed

    def _advise(self, count: int, left: int | None) -> None:
        """What a person at a terminal may wonder about."""
        if not count:
            print("nothing to read; use --follow to wait for messages", file=sys.stderr)
        elif left == 0:
            print(f"stopped after {count}; -n 0 reads all", file=sys.stderr)

    async def _poll(self, limit: int) -> "list[PageMessage] | None":
        """The next messages; None when told to stop."""
        async with asyncio.TaskGroup() as tasks:
            polling = tasks.create_task(self._poll_through_outages(limit))
            stopping = tasks.create_task(self._stop.wait())
            await asyncio.wait((polling, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not polling.done():
                polling.cancel()
                return None
            return polling.result()

    async def _poll_through_outages(self, limit: int) -> "list[PageMessage]":
        while True:
            try:
                items = await self._consumer.poll(limit=limit, wait_s=self._wait_s)
            except GoQueueError as error:
                await self._outage.wait_out(error)
                continue
            self._outage.note_answer()
            return items if self._decoder is None else await self._decoder.decode(items)

    async def _ack_through_outages(self, items: "Sequence[PageMessage]") -> int:
        """Acknowledge what was printed; how many were refused."""
        while True:
            try:
                return await self._ack(items)
            except GoQueueError as error:
                if self._stop.is_asked:
                    raise
                await self._outage.wait_out(error)

    async def _ack(self, items: "Sequence[PageMessage]") -> int:
        """Acknowledge; how many were refused. Each of those is reported."""
        if not self._options.is_acking:
            return 0
        failed = 0
        for first in range(0, len(items), _BATCH):
            batch = items[first : first + _BATCH]
            for item, result in zip(batch, await self._consumer.ack(batch), strict=True):
                if not result.success:
                    failed += 1
                    place = f"{item.message.partition}:{item.message.offset}"
                    tell(f"{place} was not acknowledged: {describe(result.code, result.error)}")
        return failed


# A stream


_PRINTED_AT_ONCE = 500


async def consume_stream(session: Session, options: ConsumeOptions) -> None:
    """Print what is there; with `is_following` also what comes."""
    readers = await session.q.pages(
        options.topic,
        partition=options.partition,
        from_=options.start,
        isolation=options.isolation,
        on_damage=report_damage,
    )
    if options.is_decoding:
        for reader in readers:
            reader.convert = ValueDecoder(session.q).decode
    printer = Printer(options.output, options.form)
    if options.is_following:
        wanted = None if options.filter.is_empty else options.filter.matches
        with stopped_by_signals() as stop:
            await follow(readers, printer.print, limit=options.limit, stop=stop, is_wanted=wanted)
    elif options.output in _DOCUMENTS:
        await _print_whole(readers, options)
    else:
        await _print(readers, printer, options)


def _existing(
    readers: "Sequence[PageReader]", options: ConsumeOptions
) -> "AsyncIterator[PageMessage]":
    wanted = None if options.filter.is_empty else options.filter.matches
    return read_merged(readers, options.limit, is_wanted=wanted)


async def _print(
    readers: "Sequence[PageReader]", printer: Printer, options: ConsumeOptions
) -> None:
    count = 0
    waiting: list[PageMessage] = []
    async for item in _existing(readers, options):
        waiting.append(item)
        count += 1
        if len(waiting) == _PRINTED_AT_ONCE:
            printer.print(waiting)
            waiting = []
    printer.print(waiting)
    _advise(readers, options, count)


def _advise(readers: "Sequence[PageReader]", options: ConsumeOptions, count: int) -> None:
    """Say on standard error what was left out, and to a person at a terminal why nothing came."""
    left = sum(max(0, reader.end - reader.offset) for reader in readers)
    if options.limit == count and left:
        print(
            f"{left} more{'' if options.filter.is_empty else ' to search'}: -n 0", file=sys.stderr
        )
    elif isinstance(options.start, int) and all(options.start > each.end for each in readers):
        ends = max(each.end for each in readers)
        print(
            f"nothing to read: offset {options.start} is beyond the end ({ends})", file=sys.stderr
        )
    elif not count and sys.stderr.isatty():
        what = "nothing to read" if options.filter.is_empty else "nothing matches"
        print(f"{what}; use --follow to wait for messages", file=sys.stderr)


async def _print_whole(readers: "Sequence[PageReader]", options: ConsumeOptions) -> None:
    """The body of the API; over several partitions each has its own offset to continue from."""
    items = [item async for item in _existing(readers, options)]
    document: dict[str, object] = {"messages": [msgspec.json.decode(item.json) for item in items]}
    if options.partition is not None:
        document["next_offset"] = readers[0].offset
    else:
        document["next_offsets"] = {str(each.log.partition): each.offset for each in readers}
    write_document(document, options.output)


@click.command("consume", short_help="Read messages from a topic.")
@topic_argument
@click.option(
    "-p",
    "--partition",
    type=Whole(0),
    metavar="N",
    help="Read only this partition.  [default: all]",
)
@click.option("--offset", "place", metavar="N", help="Start at this offset, or PARTITION:OFFSET.")
@click.option("--from-beginning", is_flag=True, help="Start at the oldest message.  [default]")
@click.option("--from-latest", is_flag=True, help="Start after the newest message.")
@click.option(
    "--from-time",
    "--since",
    "from_time",
    metavar="TIME",
    help="Start at a timestamp, or a duration ago (15m).",
)
@click.option(
    "-n",
    "--limit",
    type=Whole(0),
    metavar="N",
    help="Maximum number of messages; 0 is all.  [default: 10, with --follow all]",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new messages, until Ctrl-C.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether to read open and aborted transactions.",
)
@click.option("--values", is_flag=True, help="Print only the values, as raw bytes.")
@click.option(
    "--format",
    metavar="TEXT",
    help="Print each message like this: '%p:%o %k %v'. %t topic, %p partition, %o offset, %k key, "
    "%v value, %h headers, %{name} one header, %T time, %P priority, %d delivery, %K and %V sizes.",
)
@click.option(
    "--decode", is_flag=True, help="Show values of registered schemas as JSON; filters see that."
)
@click.option("-k", "--key", metavar="REGEX", help="Only messages whose whole key matches.")
@click.option(
    "-H",
    "--header",
    multiple=True,
    metavar="NAME[=REGEX]",
    help="Only messages with this header, or whose header matches; may be repeated.",
)
@click.option("--grep", metavar="REGEX", help="Only messages with this in their value.")
@click.option(
    "--json",
    multiple=True,
    metavar="CONDITION",
    help="Only messages whose JSON value has a path, or fulfils a condition: "
    "'$.total > 100', 'items[*].sku = \"A1\"', 'name ~ ^A'; may be repeated.",
)
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    callback=read_name,
    shell_complete=complete_groups,
    help="Consume as a member of this group, and acknowledge.",
)
@click.option(
    "--mode",
    type=click.Choice(["partitioned", "shared", "key_ordered"]),
    help="How messages are shared in the group.",
)
@click.option(
    "--no-ack", is_flag=True, help="Return the messages instead; each counts as a delivery."
)
@server_options
@wide_output_option
def consume(**given: object) -> ExitCode:
    """Print the messages of TOPIC, and with --follow also new ones as they arrive.

    Without --group, reading changes nothing and can be repeated. With --group, messages are
    leased, printed and acknowledged, and the group does not get them again.

    A line shows partition:offset, time, key and value; -o wide adds priority and headers. -o json
    prints the response of the API, -o jsonl one message per line, as --follow always does.
    """
    options = read_options(given)

    async def work(session: Session) -> int:
        if options.group is not None:
            return await consume_group(session, options)
        await consume_stream(session, options)
        return 0

    return ExitCode.FAILED if run_session(work) else ExitCode.DONE
