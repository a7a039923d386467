"""Messages of a topic as the command line merges, follows and prints them.

Owns the order in which messages of several partitions are shown, the waiting for a server that is
away, and the form of a message on the screen. Reads through the SDK's page readers, and holds one
page of each partition at a time, so that a topic of any length can be read. Messages of one
partition keep their order even where a clock went back.

What a message holds is untrusted: on a terminal nothing of it is acted upon, and in a table no
message takes more than one line.
"""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.cli.errors import tell
from goqueue.cli.options import Output
from goqueue.cli.output import encode, printable, write_document
from goqueue.cli.quantities import shown_time
from goqueue.cli.signals import Stop
from goqueue.client import GoQueueError
from goqueue.client.retries import is_worth_retrying

if TYPE_CHECKING:
    from goqueue.cli.message_format import MessageFormat
    from goqueue.client.message import Message
    from goqueue.client.pages import DamageSkipped, PageMessage, PageReader

    Pages = asyncio.Queue[list[PageMessage] | None]

__all__ = [
    "Outage",
    "Printer",
    "as_line",
    "follow",
    "read_merged",
    "report_damage",
]


def report_damage(skipped: "DamageSkipped") -> None:
    """Tell a person which messages cannot be shown any more."""
    log = skipped.log
    first = "up to " if skipped.first is None else f"{skipped.first} to "
    last = skipped.next_offset - 1
    tell(f"{log.topic} {log.partition}: offsets {first}{last} are damaged and were skipped")


_PAGE = 500


async def read_merged(
    readers: "Sequence[PageReader]",
    limit: int | None,
    *,
    is_wanted: "Callable[[Message], bool] | None" = None,
) -> "AsyncIterator[PageMessage]":
    """Up to `limit` wanted messages that were there at the beginning, oldest first.

    The readers end after the last message that was yielded.
    """
    pages: list[deque[PageMessage]] = [deque() for _ in readers]
    page_size = _PAGE if limit is None or is_wanted is not None else min(limit, _PAGE)
    count = 0
    breath = _Breath()
    async with asyncio.TaskGroup() as tasks:
        for reader, page in zip(readers, pages, strict=True):
            tasks.create_task(_fill(reader, page, page_size))
    while limit is None or count < limit:
        filled = [number for number, page in enumerate(pages) if page]
        if not filled:
            break
        first = min(filled, key=lambda number: pages[number][0].message.timestamp)
        item = pages[first].popleft()
        if is_wanted is None or is_wanted(item.message):
            yield item
            count += 1
        if is_wanted is not None:
            await breath.take()
        if not pages[first]:
            await _fill(readers[first], pages[first], page_size)
    for reader, page in zip(readers, pages, strict=True):
        reader.step_back(page)


async def _fill(reader: "PageReader", page: "deque[PageMessage]", page_size: int) -> None:
    """The next page that holds a message; none at the end, or where nothing is to be seen yet."""
    while not page and not reader.is_at_end:
        before = reader.offset
        items = await reader.read(limit=page_size)
        page.extend(item for item in items if item.message.offset < reader.end)
        if not items and reader.offset <= before:
            break


_BREATH_S = 0.05


class _Breath:
    """Lets the event loop run now and then during long filtering, so that Ctrl-C is heard."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._next = self._clock() + _BREATH_S

    async def take(self) -> None:
        if self._clock() >= self._next:
            await asyncio.sleep(0)
            self._next = self._clock() + _BREATH_S


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
            tell(f"{error.sentence.rstrip('.')}; retrying")
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        await asyncio.sleep(pause_s)

    def note_answer(self) -> None:
        """The server answers."""
        if self._is_on:
            tell("the server is reachable again")
        self._is_on = False
        self._pause_s = _PAUSE_S


_WAIT_S = 20.0
# A server that is stopping answers "nothing" at once: do not ask it in a tight loop.
_EMPTY_PAUSE_S = 0.05


async def follow(
    readers: "Sequence[PageReader]",
    sink: "Callable[[Sequence[PageMessage]], None]",
    *,
    limit: int | None,
    stop: Stop,
    is_wanted: "Callable[[Message], bool] | None" = None,
) -> None:
    """Hand wanted messages to `sink` as they come, until the limit or until `stop` is asked for.

    Continues through restarts of the server. Reads no further ahead than one page per partition.
    """
    pages: Pages = asyncio.Queue(maxsize=1)
    outage = Outage()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_read_on(each, pages, outage)) for each in readers]
        running.append(tasks.create_task(_end(pages, stop)))
        await _drain(pages, sink, limit, stop, is_wanted)
        for task in running:
            task.cancel()


async def _read_on(reader: "PageReader", pages: "Pages", outage: Outage) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        asked_at = clock()
        try:
            items = await reader.read(limit=_PAGE, wait_s=_WAIT_S)
        except GoQueueError as error:
            await outage.wait_out(error)
            continue
        outage.note_answer()
        if items:
            await pages.put(items)
        elif clock() - asked_at < _EMPTY_PAUSE_S:
            await asyncio.sleep(_EMPTY_PAUSE_S)


async def _end(pages: "Pages", stop: Stop) -> None:
    await stop.wait()
    await pages.put(None)


async def _drain(
    pages: "Pages",
    sink: "Callable[[Sequence[PageMessage]], None]",
    limit: int | None,
    stop: Stop,
    is_wanted: "Callable[[Message], bool] | None",
) -> None:
    left = limit
    while left is None or left > 0:
        items = await pages.get()
        if items is None:
            return
        if is_wanted is not None:
            items = await _wanted(items, stop, is_wanted)
        shown = items if left is None else items[:left]
        sink(shown)
        if left is not None:
            left -= len(shown)


async def _wanted(
    items: "Sequence[PageMessage]", stop: Stop, is_wanted: "Callable[[Message], bool]"
) -> "list[PageMessage]":
    """Those that are wanted, of those that were examined before `stop` was asked for."""
    breath = _Breath()
    found = []
    for item in items:
        if is_wanted(item.message):
            found.append(item)
        await breath.take()
        if stop.is_asked:
            break
    return found


class Printer:
    """Prints messages as they come; with a format as it says."""

    def __init__(self, output: Output, form: "MessageFormat | None" = None) -> None:
        self._output = output
        self._form = form
        self._is_terminal = sys.stdout.isatty()

    def print(self, items: "Sequence[PageMessage]") -> None:
        """Print without buffering: a reader that follows sees each message at once."""
        sys.stdout.flush()
        for item in items:
            if self._form is not None:
                sys.stdout.buffer.write(self._form.apply(item, is_terminal=self._is_terminal))
            elif self._output.is_table:
                print(as_line(item, is_wide=self._output is Output.WIDE))
            elif self._output in (Output.JSON, Output.JSONL):
                sys.stdout.buffer.write(encode(msgspec.Raw(item.json)) + b"\n")
            else:
                print("---")
                write_document(msgspec.json.decode(item.json), self._output)
        sys.stdout.flush()


def as_line(item: "PageMessage", *, is_wide: bool = False) -> str:
    """`partition:offset  time  key  value`, and how often it was delivered if more than once.

    A wide line also has the priority and the headers, before the value.
    """
    message = item.message
    place = f"{message.partition}:{message.offset}"
    key = _text(message.key) or "-"
    again = item.delivery_count
    note = f"  (delivery {again})" if again > 1 else ""
    worded = "(null)" if message.value is None else _text(message.value)
    if is_wide:
        headers = sorted(message.headers.items())
        shown = ",".join(f"{printable(name)}={_text(value)}" for name, value in headers) or "-"
        key = f"{key:<12}  {message.lane.name.lower():<10}  {shown}"
    return f"{place:<8}  {shown_time(message.timestamp)}  {key:<12}  {worded}{note}"


def _text(octets: bytes) -> str:
    return printable(octets.decode(errors="backslashreplace"))
