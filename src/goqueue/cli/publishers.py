"""How `goqueue produce` sends: as drafts with a result for each, or through the SDK's producer.

Drafts are for delayed messages, and for results that are shown as the API gives them; the producer
is the fast path. Both count what became of the lines in a `Tally`.

Invariant: results are kept in the order of the lines, one for each.
"""

import sys
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from goqueue.cli.client import Session
from goqueue.cli.errors import describe, explained
from goqueue.cli.options import Output
from goqueue.cli.output import printable, write_items
from goqueue.cli.quantities import shown_time
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.client.message_drafts import MessageDraft, PublishResult, encode_draft
from goqueue.model import Priority, parse_time
from goqueue.model.requests import Acks

if TYPE_CHECKING:
    from goqueue.client.batch import Receipt
    from goqueue.client.connection import Connection
    from goqueue.client.producer import Producer

__all__ = ["DraftPublisher", "ProducerPublisher", "Tally", "produce_single"]

_SHOWN_MAX = 5


class Tally:
    """Counts; keeps the first few failures in words."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed = 0
        self._words: list[str] = []

    def note_sent(self, count: int = 1) -> None:
        self.sent += count

    def note_failed(self, number: int, words: str) -> None:
        self.failed += 1
        if len(self._words) < _SHOWN_MAX:
            self._words.append(f"line {number}: {words}")

    def print_failures(self) -> None:
        """One line on standard error for each of the first failures, and one for the rest."""
        for words in self._words:
            print(f"goqueue: {printable(words)}", file=sys.stderr)
        if self.failed > len(self._words):
            print(f"goqueue: and {self.failed - len(self._words)} more", file=sys.stderr)

    def __str__(self) -> str:
        return self.worded()

    def worded(self, topic: str = "") -> str:
        """`sent 3 messages to orders, 2 failed`."""
        goal = f" to {topic}" if topic else ""
        sent = f"sent {self.sent} message{'' if self.sent == 1 else 's'}{goal}"
        return f"{sent}, {self.failed} failed" if self.failed else sent


async def produce_single(
    session: Session, topic: str, draft: MessageDraft, output: Output, acks: Acks
) -> None:
    """Publish one message and show its result."""
    published = await session.ask(lambda q: q.publish_drafts(topic, [draft], acks=acks))
    (result,) = published.value
    if not output.is_table:
        write_items(msgspec.json.decode(published.body), "results", output)
    if result.code:
        raise explained(result.code, result.error)
    if output.is_table:
        due = f", due {shown_time(parse_time(result.deliver_at))}" if result.deliver_at else ""
        place = f"{result.partition}:{result.offset}" if result.offset >= 0 else result.partition
        print(printable(f"{topic} {place}{due}"))


_MESSAGES_MAX = 1000
_BYTES_MAX = 4 * 1024 * 1024


class DraftPublisher:
    """Gathers drafts and publishes them; with `keeps` all results are kept to be shown."""

    def __init__(
        self, q: "Connection", topic: str, tally: Tally, *, keeps: bool, acks: Acks
    ) -> None:
        self._acks = acks
        self._q = q
        self._topic = topic
        self._tally = tally
        self._keeps = keeps
        self._waiting: list[tuple[int, bytes]] = []
        self._size = 0
        self.results: list[object] = []

    async def add(self, number: int, draft: MessageDraft) -> None:
        encoded = encode_draft(draft)
        if self._waiting and self._size + len(encoded) > _BYTES_MAX:
            await self.flush()
        self._waiting.append((number, encoded))
        self._size += len(encoded)
        if len(self._waiting) >= _MESSAGES_MAX:
            await self.flush()

    async def note_invalid(self, number: int, words: str) -> None:
        """A line that is no message has its place among the results too."""
        await self.flush()
        self._tally.note_failed(number, words)
        if self._keeps:
            self.results.append({"error": words, "code": "message_invalid"})

    async def flush(self) -> None:
        """Publish what waits."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        encoded = [each for _, each in waiting]
        results = await self._q.publish_drafts(self._topic, encoded, acks=self._acks)
        for (number, _), result in zip(waiting, results, strict=True):
            self._settle(number, result)

    def _settle(self, number: int, result: PublishResult) -> None:
        if result.code:
            self._tally.note_failed(number, describe(result.code, result.error))
        else:
            self._tally.note_sent()
        if self._keeps:
            self.results.append(msgspec.json.decode(result.json))


# Answers are processed in the order of the lines, at most this many lines behind.
_BEHIND_MAX = 20_000
_LOOK_EVERY = 1_000


def _ends_all(error: GoQueueError) -> bool:
    return isinstance(error, ServerUnreachable) or error.code == "storage_full"


class ProducerPublisher:
    """Sends drafts and counts the result of each in the tally.

    Raises if the server is gone or full: every line that follows would be tried for as long.
    """

    def __init__(self, producer: "Producer", topic: str, tally: Tally) -> None:
        self._producer = producer
        self._topic = topic
        self._tally = tally
        self._open: deque[tuple[int, Receipt]] = deque()

    async def add(self, number: int, draft: MessageDraft) -> None:
        try:
            receipt = await self._producer.send(
                self._topic,
                draft.value,
                key=draft.key or None,
                headers=draft.headers or None,
                partition=draft.partition,
                priority=int(Priority.NORMAL if draft.priority is None else draft.priority),
            )
        except GoQueueError as error:
            if _ends_all(error):
                raise
            self._tally.note_failed(number, describe(error.code, error.sentence))
            return
        self._open.append((number, receipt))
        if len(self._open) % _LOOK_EVERY == 0 or self._producer.failure is not None:
            await self._settle(down_to=_BEHIND_MAX)

    async def flush(self) -> None:
        """Wait for every answer, in order: one that ends everything is not waited behind."""
        await self._settle(down_to=0)

    async def _settle(self, *, down_to: int) -> None:
        """Look at the answers that are there, and wait for those that are too far behind."""
        while self._open and (len(self._open) > down_to or self._open[0][1].is_settled):
            number, receipt = self._open.popleft()
            try:
                await receipt
            except GoQueueError as error:
                if _ends_all(error):
                    self._open.appendleft((number, receipt))
                    raise
                self._tally.note_failed(number, describe(error.code, error.sentence))
            else:
                self._tally.note_sent()
