"""A worker that reads a topic from its beginning to where it ended, or until the time is up."""

import asyncio
import time

from goqueue.cli.asking import Stop
from goqueue.cli.bench.plan import SECOND_NS, Plan
from goqueue.cli.bench.report import Measurement
from goqueue.client import GoQueueError
from goqueue.client.consuming import Replay

__all__ = ["read_through"]


async def read_through(
    replay: Replay, total: int, plan: Plan, measured: Measurement, stop: Stop
) -> None:
    """Read `total` messages; what is read per second is held to the rate of the plan."""
    share = None if plan.rate is None else plan.rate / plan.concurrency
    count = 0
    started = time.monotonic_ns()
    try:
        async with asyncio.timeout(plan.duration_s):
            while count < total and not stop.is_asked:
                asked = time.monotonic_ns()
                messages = await replay.take(min(plan.batch, total - count))
                octets = sum(len(message.value or b"") for message in messages)
                measured.note(len(messages), octets, time.monotonic_ns() - asked)
                count += len(messages)
                if share is not None:
                    ahead_s = count / share - (time.monotonic_ns() - started) / SECOND_NS
                    await asyncio.sleep(max(ahead_s, 0))
    except TimeoutError:
        # The time is up, which is how a measurement ends.
        return
    except GoQueueError as error:
        measured.note_failed(total - count, str(error))
