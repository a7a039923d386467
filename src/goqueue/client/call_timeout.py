"""`with goqueue.timeout(2.0):` bounds the calls in a block, with and without await.

Owns the deadline of the present context. A call reads it when it begins; background tasks of a
connection never do, whoever's call started them.

Cost: one look-up of a context variable for each request.
"""

import contextlib
import contextvars
import math
import time
from collections.abc import Iterator

from goqueue.client.errors import ArgumentInvalid

__all__ = ["background_context", "remaining_s", "timeout"]

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
