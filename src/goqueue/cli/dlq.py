"""`goqueue dlq`: list, show and redrive dead letters.

Dead letters read from the topic that keeps them.
"""

import re

import click
import msgspec

from goqueue.cli.client import Session
from goqueue.cli.messages import Item, Start, open_cursors, read_merged, read_page
from goqueue.cli.options import (
    Output,
    complete_topics,
    confirm,
    force_option,
    output_option,
    server_options,
    topic_argument,
)
from goqueue.cli.output import console, cut, draw, printable, table, write_document
from goqueue.client import GoQueueError, NotFound, TopicNotFound
from goqueue.client.admin_replies import Topic
from goqueue.client.http import get
from goqueue.model import DEAD_LETTER_PREFIX

__all__ = ["Moved", "dlq", "draw_moved", "list_letters", "read_place", "show_letter"]

_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")
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
    return item.headers.get(DEAD_LETTER_PREFIX + name, b"").decode(errors="backslashreplace")


def _shown(octets: bytes | None) -> str:
    if octets is None:
        return "(null)"
    return printable(octets.decode(errors="backslashreplace"))


DONE = 0


@click.group("dlq")
@server_options
@output_option
def dlq(output: Output) -> None:
    """Look at dead letters: messages that were rejected, or failed too often. Put them back."""


@dlq.command("list", short_help="List dead letters, oldest first.")
@topic_argument
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="At most so many.",
)
@server_options
@output_option
def list_command(topic: str, limit: int, output: Output) -> int:
    """List the dead letters of TOPIC that are kept, oldest first, redriven ones included."""
    from goqueue.cli.client import Session, run_session

    async def scene(session: Session) -> None:
        await list_letters(session, topic, limit, output)

    run_session(scene)
    return DONE


@dlq.command("show", short_help="Show one dead letter in full.")
@topic_argument
@click.argument("place", metavar="PARTITION:OFFSET")
@server_options
@output_option
def show_command(topic: str, place: str, output: Output) -> int:
    """Show the dead letter of TOPIC at PARTITION:OFFSET, as `dlq list` names it."""
    from goqueue.cli.client import Session, run_session

    partition, offset = read_place(place)

    async def scene(session: Session) -> None:
        await show_letter(session, topic, partition, offset, output)

    run_session(scene)
    return DONE


@dlq.command("redrive", short_help="Put dead letters back.")
@topic_argument
@click.option("--max", "count_max", type=int, metavar="N", help="At most so many.  [default: 1000]")
@click.option(
    "--to-topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Not back to their origin but here.",
)
@click.option("--reason", metavar="TEXT", help="Only those with this cause or reason.")
@force_option
@server_options
@output_option
def redrive_command(
    topic: str,
    count_max: int | None,
    to_topic: str | None,
    reason: str | None,
    output: Output,
    *,
    is_forced: bool,
) -> int:
    """Put dead letters of TOPIC back, oldest first, each once. Repeat until none is moved."""
    from goqueue.cli.client import ask
    from goqueue.cli.output import show
    from goqueue.client.http import post

    goal = "back into" if to_topic is None else f"into {to_topic!a} instead of"
    confirm(f"Put dead letters {goal} {topic!a}?", is_forced=is_forced)
    fields: dict[str, object] = {
        "max": count_max,
        "to_topic": to_topic,
        "filter": None if reason is None else {"reason": reason},
    }
    request = post("topics", topic, "dlq", "redrive", fields=fields)
    show(ask(request), output, Moved, draw_moved)
    return DONE
