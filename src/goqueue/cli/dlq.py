"""`goqueue dlq`: list, show and redrive dead letters.

Dead letters are read from their dead-letter topic as messages; the server moves them.
"""

import re
from typing import TYPE_CHECKING

import click
import msgspec

from goqueue.cli.client import Session, ask, run_session
from goqueue.cli.messages import read_merged, report_damage
from goqueue.cli.options import (
    Output,
    complete_topics,
    confirm,
    force_option,
    limit_option,
    output_option,
    server_options,
    topic_argument,
)
from goqueue.cli.output import console, cut, draw, printable, show, table, write_document
from goqueue.client import GoQueueError, NotFound, TopicNotFound
from goqueue.model import DEAD_LETTER_PREFIX, format_time

if TYPE_CHECKING:
    from goqueue.client.pages import PageMessage

__all__ = ["dlq", "draw_moved", "list_letters", "read_place", "show_letter"]

_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")
_VALUE_WIDTH = 60


def draw_moved(count: int) -> None:
    print(f"moved {count} dead letter{'' if count == 1 else 's'}")


def read_place(text: str) -> tuple[int, int]:
    """`PARTITION:OFFSET` of a dead letter."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text!a} is not PARTITION:OFFSET such as 0:12")
    return int(found[1]), int(found[2])


async def list_letters(session: Session, topic: str, limit: int, output: Output) -> None:
    name = await _dead_letter_topic(session, topic)
    try:
        readers = await session.q.pages(name, from_=0, on_damage=report_damage)
    except TopicNotFound:
        # The first dead letter creates the topic: no message has died yet.
        readers = []
    items = [item async for item in read_merged(readers, limit)]
    offsets = {str(reader.log.partition): reader.offset for reader in readers}
    if output.is_table:
        draw_dead_letters(items, topic)
    else:
        messages = [msgspec.json.decode(item.json) for item in items]
        write_document({"messages": messages, "next_offsets": offsets}, output)


def draw_dead_letters(items: "list[PageMessage]", topic: str) -> None:
    rows = [
        (
            f"{item.message.partition}:{item.message.offset}",
            _fact(item, "time") or format_time(item.message.timestamp),
            f"{_fact(item, 'partition')}:{_fact(item, 'offset')}",
            _fact(item, "group"),
            _fact(item, "cause"),
            _fact(item, "deliveries"),
            _fact(item, "reason"),
            cut(_shown(item.message.value), _VALUE_WIDTH),
        )
        for item in items
    ]
    headings = ("LETTER", "DIED", "ORIGIN", "GROUP", "CAUSE", "DELIVERIES", "REASON", "VALUE")
    draw(headings, rows, empty=f"no dead letters of {printable(topic)}")


async def show_letter(
    session: Session, topic: str, partition: int, offset: int, output: Output
) -> None:
    name = await _dead_letter_topic(session, topic)
    items = (await session.q.page(name, partition, offset=offset, limit=1)).messages
    if not items or items[0].message.offset != offset:
        words = f"there is no dead letter {partition}:{offset} of {topic}"
        raise NotFound("message_not_found", words)
    if not output.is_table:
        write_document(msgspec.json.decode(items[0].json), output)
        return
    message = items[0].message
    facts = [
        ("topic", message.topic),
        ("place", f"{partition}:{offset}"),
        ("time", format_time(message.timestamp)),
        ("priority", message.lane.name.lower()),
        ("key", _shown(message.key)),
    ]
    headers = sorted(message.headers.items())
    facts += [(printable(header), _shown(value)) for header, value in headers]
    console().print(table(("FIELD", "VALUE"), facts))
    print(_shown(message.value))


async def _dead_letter_topic(session: Session, topic: str) -> str:
    name = (await session.q.topics.describe(topic)).config.dead_letter_topic
    if not name:
        words = f"{topic} is a dead-letter topic itself; name the topic that its messages came from"
        raise GoQueueError("dead_letter_loop", words)
    return name


def _fact(item: "PageMessage", name: str) -> str:
    return item.message.headers.get(DEAD_LETTER_PREFIX + name, b"").decode(
        errors="backslashreplace"
    )


def _shown(octets: bytes | None) -> str:
    if octets is None:
        return "(null)"
    return printable(octets.decode(errors="backslashreplace"))


@click.group("dlq")
@server_options
@output_option
def dlq(output: Output) -> None:
    """Inspect dead letters (messages that were rejected or failed too often) and redrive them."""


@dlq.command("list", short_help="List dead letters, oldest first.")
@topic_argument
@limit_option("messages")
@server_options
@output_option
def list_command(topic: str, limit: int, output: Output) -> None:
    """List the dead letters of TOPIC, oldest first, including those already redriven."""
    run_session(lambda session: list_letters(session, topic, limit, output))


@dlq.command("show", short_help="Show one dead letter in full.")
@topic_argument
@click.argument("place", metavar="PARTITION:OFFSET")
@server_options
@output_option
def show_command(topic: str, place: str, output: Output) -> None:
    """Show the dead letter of TOPIC at PARTITION:OFFSET, as shown by `dlq list`."""
    partition, offset = read_place(place)
    run_session(lambda session: show_letter(session, topic, partition, offset, output))


@dlq.command("redrive", short_help="Move dead letters back to their topic.")
@topic_argument
@click.option(
    "--max", "count_max", type=int, metavar="N", help="Maximum number of messages.  [default: 1000]"
)
@click.option(
    "--to-topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Target topic (default: the original topic).",
)
@click.option("--reason", metavar="TEXT", help="Only messages with this cause or reason.")
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
) -> None:
    """Move dead letters of TOPIC back, oldest first, each once. Repeat until none is moved."""
    goal = "back to it" if to_topic is None else f"to {to_topic!a}"
    confirm(f"Move dead letters of {topic!a} {goal}?", is_forced=is_forced)
    moved = ask(
        lambda q: q.dead_letters.redrive(topic, limit=count_max, to_topic=to_topic, reason=reason)
    )
    show(moved, output, draw_moved)
