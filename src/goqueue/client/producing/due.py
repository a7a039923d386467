"""When a message is to be delivered, in the time of the broker.

A delay counts by the clock of the broker, which is asked for the time now and then: between two
questions a clock that nobody sets counts on. The answer is taken for the time at which the question
left, so that what is reckoned is never early, and late by the time of the way there at most.
"""

import asyncio
import datetime as dt
import math

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.transport import Transport, get
from goqueue.client.values import DELIVER_HEADER, nanoseconds
from goqueue.model import Message

__all__ = ["BrokerClock", "Due"]

# Seconds from now, a span from now, or a time with a zone.
Due = float | dt.timedelta | dt.datetime

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_KNOWN_S_MAX = 60.0


class _Told(msgspec.Struct, frozen=True):
    timestamp: str


_TOLD = msgspec.json.Decoder(_Told)


class BrokerClock:
    """What time it is for the broker."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._ticks = asyncio.get_running_loop().time
        self._asking = asyncio.Lock()
        self._asked_at = -math.inf
        self._told = 0

    async def delay(self, message: Message, due: Due) -> Message:
        """The message with the time at which it is due, if that has not come."""
        due_at = _moment(due) if isinstance(due, dt.datetime) else await self._after(due)
        if due_at <= 0:
            return message
        header = (DELIVER_HEADER, b"%d" % due_at)
        return msgspec.structs.replace(message, headers=(*message.headers, header))

    async def _after(self, due: float | dt.timedelta) -> int:
        """The time so long from now; 0 for now."""
        seconds = due.total_seconds() if isinstance(due, dt.timedelta) else due
        if not math.isfinite(seconds) or seconds < 0:
            raise GoQueueError("message_invalid", f"a delay of {seconds} seconds is none")
        if not seconds:
            return 0
        wanted_at = self._ticks()
        async with self._asking:
            if wanted_at - self._asked_at > _KNOWN_S_MAX:
                asked_at = self._ticks()
                told = await self._transport.read(get("healthz"), _TOLD)
                self._asked_at, self._told = asked_at, nanoseconds(told.timestamp)
        passed = max(wanted_at - self._asked_at, 0.0) + seconds
        return self._told + math.ceil(passed * 1_000_000_000)


def _moment(time: dt.datetime) -> int:
    if time.tzinfo is None:
        raise ValueError("a time to deliver at needs a time zone")
    return (time - _EPOCH) // _MICROSECOND * 1000
