"""`goqueue consume`: read a topic as a stream, or as a member of a group.

What `goqueue consume` was asked for, checked as a whole.

A topic read as a queue: as a member of a group that leases, prints and acknowledges.

Never leases more than it is going to print, because each lease counts as a delivery. A message is
acknowledged after it was printed, so none is lost between here and whoever reads what we print.

A topic read as a stream: from a place on, by anyone, nothing leased and nothing committed.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence

import click
import msgspec

from goqueue.cli.client import Session
from goqueue.cli.errors import describe, tell
from goqueue.cli.messages import (
    Cursor,
    Item,
    Outage,
    Printer,
    Start,
    follow,
    open_cursors,
    read_merged,
    read_page,
    read_time,
)
from goqueue.cli.options import (
    Output,
    complete_groups,
    output_option,
    server_options,
    topic_argument,
)
from goqueue.cli.output import write_document
from goqueue.cli.signals import Stop, stopped_by_signals
from goqueue.client import GoQueueError
from goqueue.client.http import Request, post, target

__all__ = ["Wish", "consume", "consume_group", "consume_stream", "read_wish"]

_LIMIT = 10


class _Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the command, under the names that click gives them."""

    topic: str
    output: Output
    partition: int | None
    offset: int | None
    from_beginning: bool
    from_latest: bool
    from_time: str | None
    limit: int | None
    follow: bool
    isolation: str | None
    values: bool
    group: str | None
    mode: str | None
    no_ack: bool


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, and how to read and show it; `limit` None is no limit."""

    topic: str
    start: Start
    output: Output
    partition: int | None = None
    limit: int | None = None
    isolation: str | None = None
    is_following: bool = False
    is_values: bool = False
    group: str | None = None
    mode: str | None = None
    is_acking: bool = True


def read_wish(given: Mapping[str, object]) -> Wish:
    """What the flags mean together; a contradiction is a usage error."""
    flags = msgspec.convert(given, type=_Flags)
    wish = Wish(
        topic=flags.topic,
        start=_start(flags, time.time_ns()),
        output=flags.output,
        partition=flags.partition,
        limit=_limit(flags),
        isolation=flags.isolation,
        is_following=flags.follow,
        is_values=flags.values,
        group=flags.group,
        mode=flags.mode,
        is_acking=not flags.no_ack,
    )
    _refuse_foreign(wish)
    return wish


def _limit(flags: _Flags) -> int | None:
    if flags.limit is None:
        return None if flags.follow else _LIMIT
    return flags.limit or None


def _start(flags: _Flags, now_ns: int) -> Start:
    """At most one of the four; none is the beginning."""
    has_place = (flags.offset is not None, flags.from_time is not None)
    if sum((*has_place, flags.from_beginning, flags.from_latest)) > 1:
        raise click.UsageError(
            "only one of --offset, --from-time, --from-beginning and --from-latest"
        )
    if flags.from_time is None:
        return Start(offset=flags.offset or 0, is_latest=flags.from_latest)
    try:
        return Start(time=read_time(flags.from_time, now_ns))
    except ValueError as error:
        words = "--from-time is neither a time such as 2026-01-31T12:00:00Z nor an age such as 15m"
        raise click.UsageError(f"{words}: {error}") from error


def _refuse_foreign(wish: Wish) -> None:
    """A group has its own place in a topic; a stream has nobody to acknowledge to."""
    if wish.group is None:
        if wish.mode is not None or not wish.is_acking:
            raise click.UsageError("--mode and --no-ack need --group")
    elif wish.partition is not None or wish.start.offset or wish.start.time is not None:
        raise click.UsageError(
            "a group goes on where it was: no --partition, --offset or --from-time with --group; "
            "move it with: goqueue group reset-offsets"
        )


_BATCH = 100
# Long enough for a rebalance that our joining began, short enough to wait for nothing.
_WAIT_S = 1
# Polls keep the session alive, so they come more often than it ends.
_WAIT_S_FOLLOWING = 10
_LOST = frozenset({"group_not_found", "member_not_found"})
_PAUSE_S = 0.05


class _Joined(msgspec.Struct, frozen=True):
    member_id: str


class _Result(msgspec.Struct, frozen=True):
    receipt_handle: str
    success: bool
    error: str = ""
    code: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[_Result]


async def consume_group(session: Session, wish: Wish) -> int:
    """Print messages of the group's share; how many could not be acknowledged."""
    member = _Member(session, wish)
    await member.join()
    try:
        with stopped_by_signals() as stop:
            return await _consume(member, wish, stop)
    finally:
        await member.leave()


async def _consume(member: "_Member", wish: Wish, stop: Stop) -> int:
    printer = Printer(wish.output, is_values=wish.is_values)
    is_whole = not wish.is_following and wish.output is not Output.TABLE and not wish.is_values
    outage = Outage(is_patient=wish.is_following)
    kept: list[Item] = []
    left, failed = wish.limit, 0
    while left is None or left > 0:
        items = await _poll(member, outage, stop, _BATCH if left is None else min(left, _BATCH))
        if items is None or (not items and not wish.is_following):
            break
        if is_whole:
            kept += items
        else:
            printer.print(items)
            failed += await _ack(member, items, outage, stop)
        if left is not None:
            left -= len(items)
    if is_whole:
        messages = [msgspec.json.decode(item.raw) for item in kept]
        write_document({"messages": messages}, wish.output)
        failed += await member.ack(kept)
    # Whoever follows gets again what was not acknowledged.
    return 0 if wish.is_following else failed


async def _ack(member: "_Member", items: Sequence[Item], outage: Outage, stop: Stop) -> int:
    """Acknowledge what was printed, through an outage too; how many were refused."""
    while True:
        try:
            return await member.ack(items)
        except GoQueueError as error:
            if stop.is_asked:
                raise
            await outage.wait_out(error)


async def _poll(member: "_Member", outage: Outage, stop: Stop, count: int) -> list[Item] | None:
    """The next messages; None when told to stop."""
    async with asyncio.TaskGroup() as tasks:
        polling = tasks.create_task(_poll_until_answered(member, outage, count))
        stopping = tasks.create_task(stop.wait())
        await asyncio.wait((polling, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not polling.done():
            polling.cancel()
            return None
        return polling.result()


async def _poll_until_answered(member: "_Member", outage: Outage, count: int) -> list[Item]:
    while True:
        try:
            items = await member.poll(count)
        except GoQueueError as error:
            await outage.wait_out(error)
            continue
        outage.note_answer()
        return items


class _Member:
    """Our membership; joins again when the server has forgotten it."""

    def __init__(self, session: Session, wish: Wish) -> None:
        assert wish.group is not None
        self._session = session
        self._wish = wish
        self._group = wish.group
        self._member_id: str | None = None

    async def join(self) -> None:
        wish = self._wish
        fields: dict[str, object] = {
            "client_id": "goqueue-cli",
            "topics": [wish.topic],
            "mode": wish.mode,
            "start_position": "latest" if wish.start.is_latest else "earliest",
        }
        request = post("groups", self._group, "join", fields=fields)
        self._member_id = (await self._session.read(request, _Joined)).member_id

    async def poll(self, count: int) -> list[Item]:
        if self._member_id is None:
            await self.join()
        wait_s = _WAIT_S_FOLLOWING if self._wish.is_following else _WAIT_S
        request = Request(
            method="GET",
            target=target(
                "groups",
                self._group,
                "poll",
                member_id=self._member_id,
                timeout=f"{wait_s}s",
                max_messages=count,
                isolation=self._wish.isolation,
            ),
            is_repeatable=True,
            wait_s=wait_s,
        )
        clock = asyncio.get_running_loop().time
        asked_at = clock()
        try:
            items = read_page(await self._session.ask(request)).items
        except GoQueueError as error:
            if error.code not in _LOST:
                raise
            self._member_id = None
            await asyncio.sleep(_PAUSE_S)
            return await self.poll(count)
        if not items and self._wish.is_following and clock() - asked_at < _PAUSE_S:
            # A server that is stopping answers "nothing" at once.
            await asyncio.sleep(_PAUSE_S)
        return items

    async def ack(self, items: Sequence[Item]) -> int:
        """Acknowledge; how many were refused. Each of those is told."""
        if not items or not self._wish.is_acking:
            return 0
        failed = 0
        for first in range(0, len(items), _BATCH):
            batch = items[first : first + _BATCH]
            fields: dict[str, object] = {
                "receipt_handles": [item.fields.receipt_handle for item in batch]
            }
            request = post("messages", "ack", "batch", fields=fields, is_repeatable=True)
            results = (await self._session.read(request, _Results)).results
            for item, result in zip(batch, results, strict=True):
                if not result.success:
                    failed += 1
                    words = describe(result.code, result.error)
                    tell(f"{item.partition}:{item.offset} is not acknowledged: {words}")
        return failed

    async def leave(self) -> None:
        """Give back at once what was leased and not settled."""
        if self._member_id is None:
            return
        fields: dict[str, object] = {"member_id": self._member_id}
        try:
            await self._session.ask(post("groups", self._group, "leave", fields=fields))
        except GoQueueError as error:
            if error.code not in _LOST:
                # The session ends by itself in its time, and the messages come back then.
                tell(f"the group was not left: {error.sentence}")


_PRINTED_AT_ONCE = 500


async def consume_stream(session: Session, wish: Wish) -> None:
    """Print what is there; with `is_following` also what comes."""
    cursors = await open_cursors(session, wish.topic, wish.partition, wish.start, wish.isolation)
    printer = Printer(wish.output, is_values=wish.is_values)
    if wish.is_following:
        with stopped_by_signals() as stop:
            await _follow(session, cursors, printer, wish, stop)
    elif wish.output is Output.TABLE or wish.is_values:
        await _print(session, cursors, printer, wish)
    else:
        await _print_whole(session, cursors, wish)


async def _follow(
    session: Session, cursors: list[Cursor], printer: Printer, wish: Wish, stop: Stop
) -> None:
    await follow(session, cursors, printer.print, limit=wish.limit, stop=stop)


async def _print(session: Session, cursors: list[Cursor], printer: Printer, wish: Wish) -> None:
    count = 0
    waiting: list[Item] = []
    async for item in read_merged(session, cursors, wish.limit):
        waiting.append(item)
        count += 1
        if len(waiting) == _PRINTED_AT_ONCE:
            printer.print(waiting)
            waiting = []
    printer.print(waiting)
    if sys.stderr.isatty():
        _advise(cursors, wish, count)


def _advise(cursors: Sequence[Cursor], wish: Wish, count: int) -> None:
    """What a person at a terminal may wonder about."""
    if not count:
        print("no messages; wait for some with --follow", file=sys.stderr)
    elif wish.limit == count and not all(cursor.is_at_end for cursor in cursors):
        print(f"there are more; this was -n {count}", file=sys.stderr)


async def _print_whole(session: Session, cursors: list[Cursor], wish: Wish) -> None:
    """The body of the API; over several partitions each has its own place to go on."""
    items: list[Item] = [item async for item in read_merged(session, cursors, wish.limit)]
    document: dict[str, object] = {"messages": [msgspec.json.decode(item.raw) for item in items]}
    if wish.partition is not None:
        document["next_offset"] = cursors[0].offset
    else:
        document["next_offsets"] = {str(each.partition): each.offset for each in cursors}
    write_document(document, wish.output)


DONE = 0
FAILED = 1


@click.command("consume", short_help="Read messages of a topic.")
@topic_argument
@click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="Only this one.  [default: all]"
)
@click.option("--offset", type=click.IntRange(0), metavar="N", help="Begin at this offset.")
@click.option("--from-beginning", is_flag=True, help="Begin at the oldest.  [default]")
@click.option("--from-latest", is_flag=True, help="Begin after the newest.")
@click.option("--from-time", metavar="TIME", help="Begin at a time, or so long ago as 15m.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help="At most so many; 0 is all.  [default: 10, with --follow all]",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether to see open and aborted transactions.",
)
@click.option("--values", is_flag=True, help="Print the values alone, as they are.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Lease and acknowledge as its member.",
)
@click.option(
    "--mode",
    type=click.Choice(["partitioned", "shared", "key_ordered"]),
    help="How the group shares the messages.",
)
@click.option("--no-ack", is_flag=True, help="Give leased messages back; each was a delivery.")
@server_options
@output_option
def consume(**given: object) -> int:
    """Print messages of TOPIC: what is there, or with --follow also what comes.

    Without --group anyone may read, any number of times. With --group a message is leased,
    printed and acknowledged, and the group does not get it again.

    A line shows partition:offset, time, key and value. With -o json the answer of the API is
    printed, or with --follow one message per line.
    """
    from goqueue.cli.client import Session, run_session

    wish = read_wish(given)

    async def scene(session: Session) -> int:
        if wish.group is None:
            await consume_stream(session, wish)
            return 0
        return await consume_group(session, wish)

    return FAILED if run_session(scene) else DONE
