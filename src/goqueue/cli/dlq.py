"""`goqueue dlq`: list, show, export, redrive and purge dead letters.

Dead letters are read from their dead-letter topic as messages; the server moves and deletes them.
TOPIC is the topic that they came from. Letters are selected by place, group, reason and age; a
selection that the server does not know is searched here, and the places found are sent to it.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from goqueue.cli.client import Session, run_session
from goqueue.cli.errors import Failure
from goqueue.cli.messages import read_merged, report_damage
from goqueue.cli.options import (
    Output,
    Place,
    Whole,
    complete_groups,
    complete_topics,
    confirm,
    force_option,
    limit_option,
    output_option,
    place_argument,
    read_place,
    server_options,
    topic_argument,
    wide_output_option,
)
from goqueue.cli.output import (
    console,
    cut,
    draw,
    encode,
    printable,
    table,
    write_document,
    write_items,
)
from goqueue.cli.quantities import read_time, shown_time
from goqueue.cli.topic import refuse_kept
from goqueue.client import GoQueueError, TopicNotFound
from goqueue.model import DEAD_LETTER_PREFIX, parse_time

if TYPE_CHECKING:
    from goqueue.client.message import Message
    from goqueue.client.pages import PageMessage, PageReader

__all__ = ["LetterFilter", "dlq", "draw_moved", "list_letters", "read_filter", "show_letter"]

_VALUE_WIDTH = 60
# How many places the server takes in one request.
_PLACES_MAX = 10_000
_EXPORTED_AT_ONCE = 500
_ASKED_AT_ONCE = 16
_REDRIVEN_MAX = 1000


def draw_moved(count: int) -> None:
    print(f"moved {count} dead letter{'' if count == 1 else 's'}")


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters: of a group, for a reason, that died in [since_ns, before_ns)."""

    group: str | None = None
    reason: str | None = None
    since_ns: int | None = None
    before_ns: int | None = None

    @property
    def is_empty(self) -> bool:
        return self == LetterFilter()

    def matches(self, letter: "Message") -> bool:
        died = _died(letter)
        return (
            self.group in (None, _fact(letter, "group"))
            and self.reason in (None, _fact(letter, "reason"), _fact(letter, "cause"))
            and (self.since_ns is None or died >= self.since_ns)
            and (self.before_ns is None or died < self.before_ns)
        )


def read_filter(given: Mapping[str, str | None]) -> LetterFilter:
    """What the flags say; a time that is none is a usage error."""
    now_ns = time.time_ns()

    def moment(flag: str) -> int | None:
        text = given.get(flag)
        return None if text is None else parse_time(read_time(flag, text, now_ns))

    return LetterFilter(
        group=given.get("group"),
        reason=given.get("reason"),
        since_ns=moment("since"),
        before_ns=moment("before"),
    )


# Reading


async def _letters(
    session: Session, topic: str, wanted: LetterFilter, limit: int | None
) -> "tuple[list[PageReader], AsyncIterator[PageMessage]]":
    name = await _dead_letter_topic(session, topic)
    try:
        readers = await session.q.pages(name, from_=0, on_damage=report_damage)
    except TopicNotFound:
        # The first dead letter creates the topic: no message has died yet.
        readers = []

    def is_wanted(letter: "Message") -> bool:
        return not _is_of_another(letter, topic) and wanted.matches(letter)

    return readers, read_merged(readers, limit, is_wanted=is_wanted)


def _is_of_another(letter: "Message", topic: str) -> bool:
    """Whether a message died in another topic that has the same dead-letter topic."""
    return _fact(letter, "topic") not in ("", topic)


async def list_letters(
    session: Session, topic: str, wanted: LetterFilter, limit: int, output: Output
) -> None:
    readers, found = await _letters(session, topic, wanted, limit)
    items = [item async for item in found]
    if output.is_table:
        draw_dead_letters(items, topic, is_wide=output is Output.WIDE)
        left = sum(max(0, reader.end - reader.offset) for reader in readers)
        if len(items) == limit and left:
            print(f"{left} more: -n {limit + left}", file=sys.stderr)
        return
    messages = [msgspec.json.decode(item.json) for item in items]
    offsets = {str(reader.log.partition): reader.offset for reader in readers}
    write_items({"messages": messages, "next_offsets": offsets}, "messages", output)


def draw_dead_letters(items: "list[PageMessage]", topic: str, *, is_wide: bool = False) -> None:
    rows = []
    for item in items:
        message = item.message
        value = _shown(message.value)
        rows.append(
            (
                f"{message.partition}:{message.offset}",
                shown_time(_died(message)),
                f"{_fact(message, 'partition')}:{_fact(message, 'offset')}",
                _fact(message, "group"),
                _fact(message, "cause"),
                _fact(message, "deliveries"),
                _fact(message, "reason"),
                *((_shown(message.key), value) if is_wide else (cut(value, _VALUE_WIDTH),)),
            )
        )
    more = ("KEY", "VALUE") if is_wide else ("VALUE",)
    headings = ("LETTER", "DIED", "ORIGIN", "GROUP", "CAUSE", "DELIVERIES", "REASON", *more)
    draw(headings, rows, empty=f"no dead letters of {printable(topic)}")


async def show_letter(session: Session, topic: str, place: Place, output: Output) -> None:
    letter = await _letter(session, await _dead_letter_topic(session, topic), place)
    if letter is None:
        raise _absence(topic, (str(place),))
    if not output.is_table:
        write_document(msgspec.json.decode(letter.json), output)
        return
    message = letter.message
    facts = [
        ("topic", message.topic),
        ("letter", str(place)),
        ("died", shown_time(_died(message))),
        ("priority", message.lane.name.lower()),
        ("key", _shown(message.key)),
    ]
    headers = sorted(message.headers.items())
    facts += [(printable(header), _shown(value)) for header, value in headers]
    console().print(table(("FIELD", "VALUE"), facts))
    print(_shown(message.value))


async def _letter(session: Session, name: str, place: Place) -> "PageMessage | None":
    """The letter at a place of a dead-letter topic."""
    try:
        page = await session.q.page(name, place.partition, offset=place.offset, limit=1)
    except GoQueueError as error:
        if error.code not in ("topic_not_found", "partition_not_found", "offset_out_of_range"):
            raise
        return None
    found = page.messages
    return found[0] if found and found[0].message.offset == place.offset else None


def _absence(topic: str, places: Sequence[str]) -> Failure:
    return Failure(
        printable(f"there is no dead letter {', '.join(places)} of {topic}"),
        code="message_not_found",
        hint=printable(f"see: goqueue dlq list {topic}"),
    )


async def export_letters(session: Session, topic: str, wanted: LetterFilter) -> None:
    """Write every letter as one line of JSON, so that a file of any size can be made."""
    _, found = await _letters(session, topic, wanted, None)
    waiting: list[bytes] = []
    async for item in found:
        waiting.append(encode(msgspec.Raw(item.json)))
        if len(waiting) == _EXPORTED_AT_ONCE:
            sys.stdout.buffer.write(b"\n".join(waiting) + b"\n")
            waiting = []
    if waiting:
        sys.stdout.buffer.write(b"\n".join(waiting) + b"\n")


async def _dead_letter_topic(session: Session, topic: str) -> str:
    name = (await session.q.topics.describe(topic)).config.dead_letter_topic
    if not name:
        words = f"{topic} is a dead-letter topic itself; name the topic that its messages came from"
        raise GoQueueError("dead_letter_loop", words)
    return name


def _died(letter: "Message") -> int:
    """When the message became a dead letter, in nanoseconds since 1970."""
    try:
        return parse_time(_fact(letter, "time"))
    except ValueError:
        # Somebody published to the dead-letter topic.
        return letter.timestamp


def _fact(letter: "Message", name: str) -> str:
    return letter.headers.get(DEAD_LETTER_PREFIX + name, b"").decode(errors="backslashreplace")


def _shown(octets: bytes | None) -> str:
    if octets is None:
        return "(null)"
    return printable(octets.decode(errors="backslashreplace"))


# Redrive


class _Redrive(msgspec.Struct, frozen=True, kw_only=True):
    """What to move, where, and at most how many; None is left to the server."""

    topic: str
    places: tuple[Place, ...]
    wanted: LetterFilter
    limit: int | None
    to_topic: str | None


class _Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """How many letters were moved, and which places have none."""

    moved: int
    absent: tuple[str, ...] = ()


async def redrive_letters(session: Session, asked: _Redrive) -> _Redriven:
    """Move letters; of places that were named, those that hold a letter of the topic."""
    if not asked.places:
        return _Redriven(moved=await _redrive(session, asked, ()))
    name = await _dead_letter_topic(session, asked.topic)
    limits = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def is_there(place: Place) -> bool:
        async with limits:
            letter = await _letter(session, name, place)
        return letter is not None and not _is_of_another(letter.message, asked.topic)

    places = tuple(dict.fromkeys(asked.places))
    found = await asyncio.gather(*map(is_there, places))
    present = tuple(itertools.compress(places, found))
    absent = tuple(str(place) for place, has in zip(places, found, strict=True) if not has)
    moved = await _redrive(session, asked, present) if present else 0
    return _Redriven(moved=moved, absent=absent)


async def _redrive(session: Session, asked: _Redrive, named: tuple[Place, ...]) -> int:
    """Move the letters at some places, or those that match; how many were moved."""
    letters = session.q.dead_letters
    wanted = asked.wanted
    is_simple = wanted == LetterFilter(reason=wanted.reason)
    if not named and is_simple:
        return await letters.redrive(
            asked.topic, limit=asked.limit, to_topic=asked.to_topic, reason=wanted.reason
        )
    places = list(named) or await _places_of(session, asked)
    moved = 0
    for first in range(0, len(places), _PLACES_MAX):
        by_partition: dict[int, list[int]] = {}
        for place in places[first : first + _PLACES_MAX]:
            by_partition.setdefault(place.partition, []).append(place.offset)
        moved += await _redrive_named(session, asked, by_partition)
    return moved


async def _redrive_named(session: Session, asked: _Redrive, named: dict[int, list[int]]) -> int:
    """The server may move some of them at a time: ask until it moves no more."""
    moved = 0
    while True:
        now = await session.q.dead_letters.redrive(
            asked.topic,
            limit=min(_PLACES_MAX, sum(map(len, named.values()))),
            to_topic=asked.to_topic,
            reason=asked.wanted.reason,
            letters=named,
        )
        moved += now
        if not now:
            return moved


async def _places_of(session: Session, asked: _Redrive) -> list[Place]:
    _, found = await _letters(session, asked.topic, asked.wanted, asked.limit)
    return [Place(item.message.partition, item.message.offset) async for item in found]


# Purge


async def purge_letters(session: Session, topic: str, before_ns: int | None) -> int:
    """Delete letters, all or those that died before a time; how many offsets went.

    Up to the first of each partition that died later, or to the last that is there now. Letters of
    another topic in between are a refusal: a log can only be cut, and they are not to go.
    """
    name = await _dead_letter_topic(session, topic)
    offsets: dict[int, int] = {}
    try:
        for reader in await session.q.pages(name, from_=0, on_damage=report_damage):
            offsets[reader.log.partition] = await _end_of_purge(reader, topic, before_ns)
        starts = await session.q.topics.trim(name, offsets)
    except TopicNotFound:
        return 0
    refuse_kept(name, starts)
    return sum(each.deleted_offsets for each in starts)


async def _end_of_purge(reader: "PageReader", topic: str, before_ns: int | None) -> int:
    while not reader.is_at_end:
        before = reader.offset
        for item in await reader.read(limit=_EXPORTED_AT_ONCE):
            if before_ns is not None and _died(item.message) >= before_ns:
                return item.message.offset
            if _is_of_another(item.message, topic):
                name, other = reader.log.topic, _fact(item.message, "topic")
                sentence = f"{name} also has dead letters of {other}"
                hint = f"to delete the letters of all its topics: goqueue topic purge {name}"
                raise Failure(printable(sentence), hint=printable(hint))
        if reader.offset <= before:
            break
    return min(reader.offset, reader.end)


# The commands


Decorated = TypeVar("Decorated", bound=Callable[..., object])


def _filter_options(decorated: Decorated) -> Decorated:
    """Give a command the flags that select letters."""
    flags = (
        click.option(
            "--group", metavar="GROUP", shell_complete=complete_groups, help="Only of this group."
        ),
        click.option("--reason", metavar="TEXT", help="Only with this cause or reason."),
        click.option(
            "--since", metavar="TIME", help="Only died since a timestamp, or a duration ago (1h)."
        ),
        click.option(
            "--before", metavar="TIME", help="Only died before a timestamp, or a duration ago (7d)."
        ),
    )
    for flag in reversed(flags):
        decorated = flag(decorated)
    return decorated


@click.group("dlq")
@server_options
@output_option
def dlq(output: Output) -> None:
    """Inspect dead letters (messages that were rejected or failed too often) and redrive them."""


@dlq.command("list", short_help="List dead letters, oldest first.")
@topic_argument
@limit_option("messages")
@_filter_options
@server_options
@wide_output_option
def list_command(topic: str, limit: int, output: Output, **given: str | None) -> None:
    """List the dead letters of TOPIC, oldest first, including those already redriven.

    -o wide adds the keys and shows whole values.
    """
    wanted = read_filter(given)
    run_session(lambda session: list_letters(session, topic, wanted, limit, output))


@dlq.command("show", short_help="Show one dead letter in full.")
@topic_argument
@place_argument
@server_options
@output_option
def show_command(topic: str, place: Place, output: Output) -> None:
    """Show the dead letter of TOPIC at PARTITION:OFFSET, as shown by `dlq list`."""
    run_session(lambda session: show_letter(session, topic, place, output))


@dlq.command("export", short_help="Write dead letters as JSON lines.")
@topic_argument
@_filter_options
@server_options
@output_option
def export_command(topic: str, output: Output, **given: str | None) -> None:  # noqa: ARG001 - one form only
    """Write the dead letters of TOPIC to standard output, one JSON object per line.

    The lines can be published again with: goqueue produce TOPIC --format json
    """
    wanted = read_filter(given)
    run_session(lambda session: export_letters(session, topic, wanted))


@dlq.command("redrive", short_help="Move dead letters back to their topic.")
@topic_argument
@click.argument("places", nargs=-1, metavar="[PARTITION:OFFSET]...")
@click.option(
    "--max",
    "limit",
    type=Whole(1, 10_000),
    metavar="N",
    help="Maximum number, up to 10000.  [default: 1000]",
)
@click.option(
    "--to-topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Target topic (default: the original topic).",
)
@_filter_options
@force_option
@server_options
@output_option
def redrive_command(
    topic: str,
    places: tuple[str, ...],
    limit: int | None,
    to_topic: str | None,
    output: Output,
    *,
    is_forced: bool,
    **given: str | None,
) -> None:
    """Move dead letters of TOPIC back, oldest first, each once.

    With PARTITION:OFFSET only those letters, as shown by `dlq list`; if one does not exist, the
    others are moved and the exit code is 1. Otherwise all that match the options, at most --max at
    a time; repeat until none is moved.
    """
    asked = _Redrive(
        topic=topic,
        places=tuple(read_place(place) for place in places),
        wanted=read_filter(given),
        limit=limit if limit is not None else _REDRIVEN_MAX,
        to_topic=to_topic,
    )
    if places and not asked.wanted.is_empty:
        raise click.UsageError("give PARTITION:OFFSET, or options that select, not both")
    goal = "back to it" if to_topic is None else f"to {to_topic!a}"
    confirm(f"Move dead letters of {topic!a} {goal}?", is_forced=is_forced)
    done = run_session(lambda session: redrive_letters(session, asked))
    if output.is_table:
        draw_moved(done.moved)
    else:
        absent = {"absent": done.absent} if places else {}
        write_document({"moved": done.moved, **absent}, output)
    if done.absent:
        raise _absence(topic, done.absent)


@dlq.command("purge", short_help="Delete dead letters.")
@topic_argument
@click.option("--before", metavar="TIME", help="Only died before a time, or a duration ago (7d).")
@force_option
@server_options
@output_option
def purge_command(topic: str, before: str | None, output: Output, *, is_forced: bool) -> None:
    """Delete the dead letters of TOPIC for good, all or the oldest; redriven ones included."""
    wanted = read_filter({"before": before})
    which = "all dead letters" if before is None else f"the dead letters from before {before}"
    confirm(f"Delete {which} of {topic!a}?", is_forced=is_forced)
    deleted = run_session(lambda session: purge_letters(session, topic, wanted.before_ns))
    if output.is_table:
        print(printable(f"deleted the dead letters of {topic}: {deleted} offsets"))
    else:
        write_document({"topic": topic, "deleted_offsets": deleted}, output)
