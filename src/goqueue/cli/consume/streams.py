"""A topic read as a stream: from a place on, by anyone, nothing leased and nothing committed."""

import sys
from collections.abc import Sequence

import msgspec

from goqueue.cli.asking import Session, Stop, stopped_by_signals
from goqueue.cli.consume.wish import Wish
from goqueue.cli.messages import Cursor, Item, Printer, follow, open_cursors, read_merged
from goqueue.cli.output import Output
from goqueue.cli.render import write_document

__all__ = ["consume_stream"]

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
