"""Messages of a topic as the command line reads, follows and prints them.

Where reading begins, as a person says it. Told the time; knows no server.

One message of an answer: its JSON as it came, and what the command line reads of it.

A reader's place in one partition.

Invariant: the place never moves back, and moves only past what was handed out or is never shown.

What is in a topic now, oldest first, over all its partitions.

Holds one page of each partition at a time, so that a topic of any length can be read. Messages of
one partition keep their order even where a clock went back.

Tells a person once that the server is gone, and once that it is back.

Messages as they come, from any number of partitions, until somebody says stop.

Goes on through restarts of the server. Reads no further ahead than one page per partition.

Messages on the screen, or on their way to another program.

As a table: a line for each, with its place, time, key and value. What a message holds is
untrusted: on a terminal nothing of it is acted upon, and no message takes more than one line.
"""

import asyncio
import base64
import binascii
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from goqueue.cli.client import Session
from goqueue.cli.errors import tell
from goqueue.cli.options import Output
from goqueue.cli.output import encode, printable, write_document
from goqueue.cli.signals import Stop
from goqueue.client import GoQueueError, NotFound
from goqueue.client.admin_replies import PartitionEnds
from goqueue.client.http import Request, get, target
from goqueue.client.retries import is_worth_retrying
from goqueue.model import format_time, parse_duration, parse_time

__all__ = [
    "Cursor",
    "Item",
    "Outage",
    "Page",
    "Printer",
    "Start",
    "as_line",
    "follow",
    "open_cursors",
    "read_merged",
    "read_page",
    "read_time",
]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """At the end, else at the first message at or after a time, else at an offset."""

    offset: int = 0
    time: str | None = None
    is_latest: bool = False


def read_time(text: str, now_ns: int) -> str:
    """RFC 3339, or a duration that has passed since then: `15m` is a quarter of an hour ago."""
    try:
        return format_time(now_ns - parse_duration(text))
    except ValueError:
        # It is a time, then, or nothing.
        return format_time(parse_time(text))


class _Fields(msgspec.Struct, frozen=True):
    """The fields that are looked at; the rest stays in the JSON."""

    topic: str
    partition: int
    offset: int
    timestamp: str
    value: str | None
    key: str = ""
    encoding: str = ""
    priority: str = "normal"
    headers: dict[str, str] = {}
    base64_headers: list[str] = []
    receipt_handle: str = ""
    delivery_count: int = 0


class _Body(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw]
    next_offset: int = 0


_BODIES = msgspec.json.Decoder(_Body)
_FIELDS = msgspec.json.Decoder(_Fields)


class Item:
    """A message; `raw` is its JSON, byte for byte as the server sent it."""

    __slots__ = ("fields", "raw", "timestamp")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.fields = _FIELDS.decode(raw)
        self.timestamp = parse_time(self.fields.timestamp)

    @property
    def partition(self) -> int:
        return self.fields.partition

    @property
    def offset(self) -> int:
        return self.fields.offset

    @property
    def key(self) -> bytes:
        return self._octets(self.fields.key)

    @property
    def value(self) -> bytes | None:
        value = self.fields.value
        return None if value is None else self._octets(value)

    @property
    def headers(self) -> dict[str, bytes]:
        encoded = self.fields.base64_headers
        return {
            name: base64.b64decode(value) if name in encoded else value.encode()
            for name, value in self.fields.headers.items()
        }

    def _octets(self, text: str) -> bytes:
        return base64.b64decode(text) if self.fields.encoding == "base64" else text.encode()


class Page(msgspec.Struct, frozen=True):
    """Messages of one answer, and where its reader goes on."""

    items: list[Item]
    next_offset: int


def read_page(body: bytes) -> Page:
    """The messages of an answer; an answer that is not what the contract says is refused."""
    try:
        answer = _BODIES.decode(body)
        return Page([Item(bytes(raw)) for raw in answer.messages], answer.next_offset)
    except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
        words = f"the answer is not what the contract says: {error}"
        raise GoQueueError("response_invalid", words) from error


_PAGE_MAX = 1000


class _Topic(msgspec.Struct, frozen=True):
    partition_offsets: dict[int, PartitionEnds]


class Cursor:
    """Reads on in one partition; `end` is where the partition ended when reading began."""

    def __init__(
        self, topic: str, partition: int, end: int, start: Start, isolation: str | None
    ) -> None:
        self.partition = partition
        self.offset = end if start.is_latest else start.offset
        self.end = end
        self._topic = topic
        self._time = None if start.is_latest else start.time
        self._isolation = isolation

    @property
    def is_at_end(self) -> bool:
        return self._time is None and self.offset >= self.end

    async def read(self, session: Session, *, limit: int, wait_s: int = 0) -> list[Item]:
        """The next messages; none when there are none yet."""
        request = Request(
            method="GET",
            target=target(
                "topics",
                self._topic,
                "partitions",
                self.partition,
                "messages",
                offset=self.offset if self._time is None else None,
                timestamp=self._time,
                limit=min(limit, _PAGE_MAX),
                isolation=self._isolation,
                wait=f"{wait_s}s" if wait_s else None,
            ),
            is_repeatable=True,
            wait_s=wait_s,
        )
        try:
            page = read_page(await session.ask(request))
        except GoQueueError as error:
            self._skip_damage(error)
            return []
        if self._time is not None or page.next_offset > self.offset:
            self.offset = page.next_offset
        self._time = None
        return page.items

    def _skip_damage(self, error: GoQueueError) -> None:
        """Go on behind records that are damaged, and say so; other failures are passed on."""
        following = error.details.get("next_offset")
        if error.code != "records_damaged" or not isinstance(following, int):
            raise error
        first = f"{self.offset} to " if self._time is None else "up to "
        tell(f"{self._topic} {self.partition}: offsets {first}{following - 1} are damaged, skipped")
        self.offset, self._time = following, None

    def step_back(self, items: Sequence[Item]) -> None:
        """These were read and not shown: whoever goes on wants them again."""
        if items:
            self.offset = items[0].offset


async def open_cursors(
    session: Session, topic: str, partition: int | None, start: Start, isolation: str | None
) -> list[Cursor]:
    """A cursor for one partition, or for each."""
    described = await session.read(get("topics", topic), _Topic)
    ends = sorted(described.partition_offsets.items())
    if partition is not None:
        ends = [(number, end) for number, end in ends if number == partition]
        if not ends:
            words = f"{topic} has no partition {partition}"
            raise NotFound("partition_not_found", words)
    return [Cursor(topic, number, end.latest + 1, start, isolation) for number, end in ends]


_PAGE = 500


async def read_merged(
    session: Session, cursors: Sequence[Cursor], limit: int | None
) -> AsyncIterator[Item]:
    """Up to `limit` messages that were there at the beginning; the cursors end after the last."""
    pages: list[deque[Item]] = [deque() for _ in cursors]
    page_size = _PAGE if limit is None else min(limit, _PAGE)
    count = 0
    async with asyncio.TaskGroup() as tasks:
        for cursor, page in zip(cursors, pages, strict=True):
            tasks.create_task(_fill(session, cursor, page, page_size))
    while limit is None or count < limit:
        filled = [number for number, page in enumerate(pages) if page]
        if not filled:
            break
        first = min(filled, key=lambda number: pages[number][0].timestamp)
        yield pages[first].popleft()
        count += 1
        if not pages[first]:
            await _fill(session, cursors[first], pages[first], page_size)
    for cursor, page in zip(cursors, pages, strict=True):
        cursor.step_back(page)


async def _fill(session: Session, cursor: Cursor, page: deque[Item], page_size: int) -> None:
    """The next page that holds a message; none at the end, or where nothing is to be seen yet."""
    while not page and not cursor.is_at_end:
        before = cursor.offset
        items = await cursor.read(session, limit=page_size)
        page.extend(item for item in items if item.offset < cursor.end)
        if not items and cursor.offset <= before:
            break


_PAUSE_S = 0.25
_PAUSE_S_MAX = 4.0


class Outage:
    """Shared by all who ask one server. Who is not patient does not wait but fails."""

    def __init__(self, *, is_patient: bool = True) -> None:
        self._is_patient = is_patient
        self._is_on = False
        self._pause_s = _PAUSE_S

    async def wait_out(self, error: GoQueueError) -> None:
        """Pause before another attempt; raises what no waiting will mend."""
        if not self._is_patient or not is_worth_retrying(error, is_repeatable=True):
            raise error
        if not self._is_on:
            self._is_on = True
            tell(f"{error.sentence.rstrip('.')}; trying again")
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        await asyncio.sleep(pause_s)

    def note_answer(self) -> None:
        """The server answers."""
        if self._is_on:
            tell("the server answers again")
        self._is_on = False
        self._pause_s = _PAUSE_S


_WAIT_S = 20
# A server that is stopping answers "nothing" at once: do not ask it in a tight loop.
_PAUSE_S_following = 0.05

Pages = asyncio.Queue[list[Item] | None]


async def follow(
    session: Session,
    cursors: Sequence[Cursor],
    sink: Callable[[Sequence[Item]], None],
    *,
    limit: int | None,
    stop: Stop,
) -> None:
    """Hand messages to `sink` until `limit` is reached or `stop` is set."""
    pages: Pages = asyncio.Queue(maxsize=1)
    outage = Outage()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_read_on(session, each, pages, outage)) for each in cursors]
        running.append(tasks.create_task(_end(pages, stop)))
        await _drain(pages, sink, limit)
        for task in running:
            task.cancel()


async def _read_on(session: Session, cursor: Cursor, pages: Pages, outage: Outage) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        asked_at = clock()
        try:
            items = await cursor.read(session, limit=_PAGE, wait_s=_WAIT_S)
        except GoQueueError as error:
            await outage.wait_out(error)
            continue
        outage.note_answer()
        if items:
            await pages.put(items)
        elif clock() - asked_at < _PAUSE_S_following:
            await asyncio.sleep(_PAUSE_S_following)


async def _end(pages: Pages, stop: Stop) -> None:
    await stop.wait()
    await pages.put(None)


async def _drain(pages: Pages, sink: Callable[[Sequence[Item]], None], limit: int | None) -> None:
    left = limit
    while left is None or left > 0:
        items = await pages.get()
        if items is None:
            return
        shown = items if left is None else items[:left]
        sink(shown)
        if left is not None:
            left -= len(shown)


_MILLISECONDS = len("2026-01-01T00:00:00.000")


class Printer:
    """Prints messages as they come. With `is_values` only the values, as bytes."""

    def __init__(self, output: Output, *, is_values: bool = False) -> None:
        self._output = output
        self._is_values = is_values

    def print(self, items: Sequence[Item]) -> None:
        """Print, and leave nothing in a buffer: whoever follows wants to see it now."""
        sys.stdout.flush()
        for item in items:
            if self._is_values:
                sys.stdout.buffer.write(_value_line(item, is_terminal=sys.stdout.isatty()))
            elif self._output is Output.TABLE:
                print(as_line(item))
            elif self._output is Output.JSON:
                sys.stdout.buffer.write(encode(msgspec.Raw(item.raw)) + b"\n")
            else:
                print("---")
                write_document(msgspec.json.decode(item.raw), self._output)
        sys.stdout.flush()


def as_line(item: Item) -> str:
    """`partition:offset  time  key  value`, and how often it was delivered if more than once."""
    place = f"{item.partition}:{item.offset}"
    key = _text(item.key) or "-"
    again = item.fields.delivery_count
    note = f"  (delivery {again})" if again > 1 else ""
    value = item.value
    worded = "(null)" if value is None else _text(value)
    return f"{place:<8}  {_moment(item.fields.timestamp)}  {key:<12}  {worded}{note}"


def _value_line(item: Item, *, is_terminal: bool) -> bytes:
    value = item.value or b""
    return (_text(value).encode() if is_terminal else value) + b"\n"


def _text(octets: bytes) -> str:
    return printable(octets.decode(errors="backslashreplace"))


def _moment(timestamp: str) -> str:
    """To the millisecond, so that the columns stand in line."""
    whole, _, fraction = timestamp.removesuffix("Z").partition(".")
    return f"{whole}.{fraction.ljust(3, '0')}"[:_MILLISECONDS]
