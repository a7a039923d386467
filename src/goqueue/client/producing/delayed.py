"""Messages that are to be delivered later, published through the JSON route.

Apart from the producer: when a delayed message is due it gets another offset, so there is no order
to keep with others. By JSON because the broker then counts a delay by its own clock, and refuses
one message without the others. Those of one topic that come while a request is under way travel
together in the next.

Invariant: every message that was taken is answered for, also when the connection ends.
"""

import asyncio
import base64
import datetime as dt
import math
from collections.abc import Sequence

import msgspec

from goqueue.client.errors import Closed, GoQueueError, refusal
from goqueue.client.producing.parcel import Sent
from goqueue.client.tasks import Tasks
from goqueue.client.transport import Request, Transport, target
from goqueue.client.values import nanoseconds
from goqueue.model import Message

__all__ = ["DelayedPublisher", "Due"]

# Seconds from now, a span from now, or a time with a zone.
Due = float | dt.timedelta | dt.datetime

_MESSAGES_MAX = 1000
_BYTES_MAX = 4 * 1024 * 1024


class _Result(msgspec.Struct, frozen=True):
    partition: int = 0
    offset: int = 0
    timestamp: str = ""
    error: str = ""
    code: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[_Result]


class _Waiting(msgspec.Struct, frozen=True, eq=False):
    """A message as JSON, and who waits for its place."""

    body: bytes
    placed: asyncio.Future[Sent]


_RESULTS = msgspec.json.Decoder(_Results)


class DelayedPublisher:
    """One request under way per topic; a task runs only while there is something to send."""

    def __init__(self, transport: Transport, tasks: Tasks) -> None:
        self._transport = transport
        self._tasks = tasks
        self._waiting: dict[str, list[_Waiting]] = {}

    async def publish(self, topic: str, message: Message, due: Due, partition: int | None) -> Sent:
        """Publish; the place that is answered names the message until it is due."""
        body = msgspec.json.encode(_fields(message, due, partition))
        entry = _Waiting(body, asyncio.get_running_loop().create_future())
        if topic not in self._waiting:
            sending = self._tasks.start(self._send_all(topic))
            # One that is ended before its first step never gets to its own end.
            sending.add_done_callback(
                lambda ended: self._give_up(topic) if ended.cancelled() else None
            )
        self._waiting.setdefault(topic, []).append(entry)
        return await entry.placed

    async def _send_all(self, topic: str) -> None:
        batch: list[_Waiting] = []
        try:
            while self._waiting[topic]:
                batch, self._waiting[topic] = _split(self._waiting[topic])
                await self._send(topic, batch)
        finally:
            self._give_up(topic, batch)

    def _give_up(self, topic: str, batch: Sequence[_Waiting] = ()) -> None:
        """Answer for what is left; there is something only if the connection ended."""
        for entry in [*batch, *self._waiting.pop(topic, ())]:
            words = "the connection ended before the answer came: the outcome is unknown"
            _settle(entry, Closed(words))

    async def _send(self, topic: str, batch: list[_Waiting]) -> None:
        request = Request(
            method="POST",
            target=target("topics", topic, "messages"),
            body=b'{"messages":[' + b",".join(entry.body for entry in batch) + b"]}",
        )
        try:
            results = (await self._transport.read(request, _RESULTS)).results
        except GoQueueError as error:
            outcomes: list[Sent | GoQueueError] = [error] * len(batch)
        else:
            outcomes = [_outcome(topic, result) for result in results]
        if len(outcomes) != len(batch):
            words = f"{len(outcomes)} results for {len(batch)} messages"
            outcomes = [GoQueueError("response_invalid", words)] * len(batch)
        for entry, outcome in zip(batch, outcomes, strict=True):
            _settle(entry, outcome)


def _split(waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """As many as one request takes, and the rest; nobody waits for what was given up."""
    waiting = [entry for entry in waiting if not entry.placed.done()]
    size_bytes = count = 0
    for entry in waiting[:_MESSAGES_MAX]:
        size_bytes += len(entry.body)
        if count and size_bytes > _BYTES_MAX:
            break
        count += 1
    return waiting[:count], waiting[count:]


def _settle(entry: _Waiting, outcome: Sent | GoQueueError) -> None:
    if entry.placed.done():
        return
    if isinstance(outcome, Sent):
        entry.placed.set_result(outcome)
    else:
        entry.placed.set_exception(outcome)


def _outcome(topic: str, result: _Result) -> Sent | GoQueueError:
    if result.code:
        return refusal(result.code, result.error)
    try:
        return Sent(topic, result.partition, result.offset, nanoseconds(result.timestamp))
    except GoQueueError as error:
        return error


def _fields(message: Message, due: Due, partition: int | None) -> dict[str, object]:
    fields: dict[str, object] = {
        "key": base64.b64encode(message.key).decode(),
        "value": None if message.value is None else base64.b64encode(message.value).decode(),
        "encoding": "base64",
        "priority": message.priority,
    }
    try:
        fields["headers"] = {name: value.decode() for name, value in message.headers}
    except UnicodeDecodeError as error:
        words = f"the headers of a delayed message are text: {error}"
        raise GoQueueError("message_invalid", words) from error
    if partition is not None:
        fields["partition"] = partition
    if isinstance(due, dt.datetime):
        if due.tzinfo is None:
            raise ValueError("a time to deliver at needs a time zone")
        fields["deliverAt"] = due.astimezone(dt.UTC)
    else:
        fields["delay"] = _seconds(due)
    return fields


def _seconds(due: float | dt.timedelta) -> float:
    seconds = due.total_seconds() if isinstance(due, dt.timedelta) else due
    # Not left to the broker: JSON has no such numbers, and writes null for them.
    if not math.isfinite(seconds):
        raise GoQueueError("message_invalid", f"a delay of {seconds} seconds is none")
    return seconds
