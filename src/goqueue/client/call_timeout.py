"""`with goqueue.timeout(2.0):` bounds the calls in a block, with and without await.

Owns the deadline of the present context. A call reads it when it begins; background tasks of a
connection never do, whoever's call started them.

Cost: one look-up of a context variable for each request.
"""

import asyncio
import contextlib
import contextvars
import math
import time
from collections.abc import Awaitable, Iterator
from typing import TypeVar

from goqueue.client.errors import ArgumentInvalid, TimedOut

__all__ = ["background_context", "remaining_s", "timeout", "wait_for_acknowledgement"]

T = TypeVar("T")

# By `time.monotonic`.
_deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar(
    "goqueue_deadline", default=None
)


@contextlib.contextmanager
def timeout(seconds: float) -> Iterator[None]:
    """Give the calls in the block this much time together, retries included; then `TimedOut`.

    For `publish`, for administration and for `nack`, `reject` and `extend`. Waiting for messages
    and for acks is not a call: bound it with `asyncio.timeout`. Blocks may be nested; the earliest
    end counts.
    """
    if not math.isfinite(seconds) or seconds <= 0:
        raise ArgumentInvalid(f"a timeout is a positive number of seconds, not {seconds!r}")
    end = time.monotonic() + seconds
    outer = _deadline.get()
    token = _deadline.set(end if outer is None else min(outer, end))
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining_s() -> float | None:
    """How much time the present block has left, not below 0; None outside of one."""
    end = _deadline.get()
    return None if end is None else max(end - time.monotonic(), 0.0)


def background_context() -> contextvars.Context:
    """The present context without a deadline, for a task that outlives the block."""
    context = contextvars.copy_context()
    if _deadline.get() is not None:
        context.run(_deadline.set, None)
    return context


async def wait_for_acknowledgement(sending: Awaitable[Awaitable[T]]) -> T:
    """Send a message and wait for its answer, for as long as the present block allows."""
    left_s = remaining_s()
    if left_s is None:
        return await (await sending)
    try:
        async with asyncio.timeout(left_s):
            return await (await sending)
    except TimedOut:
        raise
    except TimeoutError:
        words = f"the message was not acknowledged within {left_s:.3g} s; it may still be"
        raise TimedOut(words, was_sent=True) from None
