"""How `goqueue produce` sends: over the JSON route, or through the SDK's producer.

What became of the lines: how many were sent, how many were not, and why the first were not.

One message from the command line, and where it went.

Messages through the JSON route, many in one request: delayed ones, and those whose answers are
to be shown as the API gives them.

Invariant: results are kept in the order of the lines, one for each.

Messages through the SDK's producer: records in their stored form, many requests at a time.
"""

import contextlib
import sys
from collections import deque

import msgspec

from goqueue.cli.client import Session
from goqueue.cli.errors import ServerRefusal, describe
from goqueue.cli.options import Output
from goqueue.cli.output import printable, write_document
from goqueue.cli.produce_input import Draft, as_json
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.client.batch import Receipt
from goqueue.client.http import Request, target
from goqueue.client.producer import Producer
from goqueue.model import Priority

__all__ = ["Posting", "Sending", "Tally", "post_messages", "produce_single"]

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
        sent = f"{self.sent} message{'' if self.sent == 1 else 's'} sent"
        return f"{sent} and {self.failed} not" if self.failed else sent


class _Result(msgspec.Struct, frozen=True):
    partition: int = 0
    offset: int = 0
    code: str = ""
    error: str = ""
    due: str = msgspec.field(default="", name="deliverAt")


class _Results(msgspec.Struct, frozen=True):
    results: tuple[_Result]


async def produce_single(session: Session, topic: str, draft: Draft, output: Output) -> None:
    body = await post_messages(session, topic, [as_json(draft)])
    try:
        (result,) = msgspec.json.decode(body, type=_Results).results
    except msgspec.MsgspecError as error:
        words = f"the answer is not what the contract says: {error}"
        raise GoQueueError("response_invalid", words) from error
    if output is not Output.TABLE:
        write_document(msgspec.json.decode(body), output)
    if result.code:
        raise ServerRefusal(describe(result.code, result.error))
    if output is Output.TABLE:
        due = f", due {result.due}" if result.due else ""
        print(printable(f"{topic} {result.partition}:{result.offset}{due}"))


_MESSAGES_MAX = 1000
_BYTES_MAX = 4 * 1024 * 1024


class _Posted(msgspec.Struct, frozen=True):
    code: str = ""
    error: str = ""


class _PostedAll(msgspec.Struct, frozen=True):
    results: list[msgspec.Raw]


_RESULT = msgspec.json.Decoder(_Posted)


# With these, too, each message has its result, if the request got as far as messages.
_NONE_STORED = frozenset({400, 403, 404, 413, 422, 500, 507})


class _Failure(msgspec.Struct, frozen=True):
    error: str = ""
    code: str = ""
    results: list[msgspec.Raw] | None = None


_FAILURES = msgspec.json.Decoder(_Failure)


async def post_messages(session: Session, topic: str, messages: list[bytes]) -> bytes:
    """The body of the answer to one request, which has a result for each message."""
    body = b'{"messages":[' + b",".join(messages) + b"]}"
    request = Request(
        method="POST",
        target=target("topics", topic, "messages"),
        body=body,
        answers=_NONE_STORED,
    )
    answer = await session.ask(request)
    try:
        failure = _FAILURES.decode(answer)
    except msgspec.MsgspecError:
        # Whoever reads the results says what is wrong with them.
        return answer
    if failure.code and failure.results is None:
        raise GoQueueError(failure.code, failure.error)
    return answer


class Posting:
    """Gathers messages and posts them; with `keeps` all results are kept to be shown."""

    def __init__(self, session: Session, topic: str, tally: Tally, *, keeps: bool) -> None:
        self._session = session
        self._topic = topic
        self._tally = tally
        self._keeps = keeps
        self._waiting: list[tuple[int, bytes]] = []
        self._size = 0
        self.results: list[object] = []

    async def add(self, number: int, draft: Draft) -> None:
        message = as_json(draft)
        if self._waiting and self._size + len(message) > _BYTES_MAX:
            await self.flush()
        self._waiting.append((number, message))
        self._size += len(message)
        if len(self._waiting) >= _MESSAGES_MAX:
            await self.flush()

    async def note_invalid(self, number: int, words: str) -> None:
        """A line that is no message has its place among the results too."""
        await self.flush()
        self._tally.note_failed(number, words)
        if self._keeps:
            self.results.append({"error": words, "code": "message_invalid"})

    async def flush(self) -> None:
        """Post what waits."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        messages = [message for _, message in waiting]
        body = await post_messages(self._session, self._topic, messages)
        try:
            results = msgspec.json.decode(body, type=_PostedAll).results
            for (number, _), raw in zip(waiting, results, strict=True):
                self._settle(number, raw)
        except ValueError as error:
            words = f"the answer is not what the contract says: {error}"
            raise GoQueueError("response_invalid", words) from error

    def _settle(self, number: int, raw: msgspec.Raw) -> None:
        result = _RESULT.decode(raw)
        if result.code:
            self._tally.note_failed(number, describe(result.code, result.error))
        else:
            self._tally.note_sent()
        if self._keeps:
            self.results.append(msgspec.json.decode(raw))


# Answers are looked at in the order of the lines, this many lines behind at most.
_BEHIND_MAX = 20_000
_LOOK_EVERY = 1_000


class Sending:
    """Sends drafts, and tells the tally what became of each. A server that is gone is raised."""

    def __init__(self, producer: Producer, topic: str, tally: Tally) -> None:
        self._producer = producer
        self._topic = topic
        self._tally = tally
        self._open: deque[tuple[int, Receipt]] = deque()

    async def add(self, number: int, draft: Draft) -> None:
        try:
            receipt = await self._producer.send(
                self._topic,
                draft.value,
                key=draft.key or None,
                headers=draft.headers or None,
                partition=draft.partition,
                priority=int(Priority.NORMAL if draft.priority is None else draft.priority),
            )
        except ServerUnreachable:
            raise
        except GoQueueError as error:
            self._tally.note_failed(number, describe(error.code, error.sentence))
            return
        self._open.append((number, receipt))
        if len(self._open) % _LOOK_EVERY == 0:
            await self._settle(down_to=_BEHIND_MAX)

    async def flush(self) -> None:
        """Wait for every answer."""
        with contextlib.suppress(GoQueueError):
            # The same failure is found at its line below.
            await self._producer.flush()
        await self._settle(down_to=0)

    async def _settle(self, *, down_to: int) -> None:
        """Look at the answers that are there, and wait for those that are too far behind."""
        while self._open and (len(self._open) > down_to or self._open[0][1].is_settled):
            number, receipt = self._open.popleft()
            try:
                await receipt
            except ServerUnreachable:
                self._open.appendleft((number, receipt))
                raise
            except GoQueueError as error:
                self._tally.note_failed(number, describe(error.code, error.sentence))
            else:
                self._tally.note_sent()
