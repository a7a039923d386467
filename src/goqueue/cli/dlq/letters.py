"""Dead letters read from the topic that keeps them."""

import re

import click
import msgspec

from goqueue.cli.asking import Session, draw
from goqueue.cli.messages import Item, Start, open_cursors, read_merged, read_page
from goqueue.cli.output import Output
from goqueue.cli.render import console, cut, printable, table, write_document
from goqueue.client import GoQueueError, NotFound, TopicNotFound
from goqueue.client.admin import Topic
from goqueue.client.transport import get

__all__ = ["Moved", "draw_moved", "list_letters", "read_place", "show_letter"]

_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")
_PREFIX = "goqueue.dlq."
_VALUE_WIDTH = 60


class Moved(msgspec.Struct, frozen=True):
    """The answer to a redrive."""

    moved: int


def draw_moved(moved: Moved) -> None:
    print(f"moved {moved.moved} dead letter{'' if moved.moved == 1 else 's'}")


def read_place(text: str) -> tuple[int, int]:
    """`PARTITION:OFFSET` of a letter."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text!a} is not PARTITION:OFFSET such as 0:12")
    return int(found[1]), int(found[2])


async def list_letters(session: Session, topic: str, limit: int, output: Output) -> None:
    name = await _dead_letter_topic(session, topic)
    try:
        cursors = await open_cursors(session, name, None, Start(), None)
    except TopicNotFound:
        # Made by the first letter: none has died yet.
        cursors = []
    items = [item async for item in read_merged(session, cursors, limit)]
    offsets = {str(cursor.partition): cursor.offset for cursor in cursors}
    if output is Output.TABLE:
        draw_letters(items, topic)
    else:
        messages = [msgspec.json.decode(item.raw) for item in items]
        write_document({"messages": messages, "next_offsets": offsets}, output)


def draw_letters(items: list[Item], topic: str) -> None:
    rows = [
        (
            f"{item.partition}:{item.offset}",
            _fact(item, "time") or item.fields.timestamp,
            f"{_fact(item, 'partition')}:{_fact(item, 'offset')}",
            _fact(item, "group"),
            _fact(item, "cause"),
            _fact(item, "deliveries"),
            _fact(item, "reason"),
            cut(_shown(item.value), _VALUE_WIDTH),
        )
        for item in items
    ]
    headings = ("LETTER", "DIED", "ORIGIN", "GROUP", "CAUSE", "DELIVERIES", "REASON", "VALUE")
    draw(headings, rows, empty=f"no dead letters of {printable(topic)}")


async def show_letter(
    session: Session, topic: str, partition: int, offset: int, output: Output
) -> None:
    name = await _dead_letter_topic(session, topic)
    request = get("topics", name, "partitions", partition, "messages", offset=offset, limit=1)
    page = read_page(await session.ask(request))
    if not page.items or page.items[0].offset != offset:
        words = f"there is no dead letter {partition}:{offset} of {topic}"
        raise NotFound("message_not_found", words)
    item = page.items[0]
    if output is not Output.TABLE:
        write_document(msgspec.json.decode(item.raw), output)
        return
    facts = [
        ("topic", item.fields.topic),
        ("place", f"{partition}:{offset}"),
        ("time", item.fields.timestamp),
        ("priority", item.fields.priority),
        ("key", _shown(item.key)),
    ]
    headers = sorted(item.headers.items())
    facts += [(printable(header), _shown(value)) for header, value in headers]
    console().print(table(("FIELD", "VALUE"), facts))
    print(_shown(item.value))


async def _dead_letter_topic(session: Session, topic: str) -> str:
    name = (await session.read(get("topics", topic), Topic)).config.dead_letter_topic
    if not name:
        words = f"{topic} holds dead letters and has none of its own; name the topic they came from"
        raise GoQueueError("dead_letter_loop", words)
    return name


def _fact(item: Item, name: str) -> str:
    return item.headers.get(_PREFIX + name, b"").decode(errors="backslashreplace")


def _shown(octets: bytes | None) -> str:
    if octets is None:
        return "(null)"
    return printable(octets.decode(errors="backslashreplace"))
