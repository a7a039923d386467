"""Workers that publish batches, each to a partition of its own, one request at a time."""

import asyncio
import time
from collections.abc import Callable

from goqueue.cli.asking import Stop
from goqueue.cli.bench.plan import SECOND_NS, Pace, Plan
from goqueue.cli.bench.report import Measurement
from goqueue.client import GoQueueError
from goqueue.client.producing import Gathering, Producer

__all__ = ["Publisher", "gathering"]

# Below what a server takes in one request, unless it was told otherwise.
_REQUEST_BYTES = 8 * 1024 * 1024

_PAUSE_S = 0.05

# Given the moment that the batch was due, the value of the next message.
Values = Callable[[int], bytes]


def gathering(plan: Plan) -> Gathering:
    """A batch leaves as soon as it is whole, and is not sent twice: a failure is a failure."""
    return Gathering(
        messages=plan.batch,
        messages_max=plan.batch,
        size_bytes=_REQUEST_BYTES,
        size_bytes_max=_REQUEST_BYTES,
        repeats=False,
    )


class Publisher:
    """One worker."""

    def __init__(
        self, producer: Producer, partition: int, plan: Plan, values: Values, measured: Measurement
    ) -> None:
        self._producer = producer
        self._partition = partition
        self._plan = plan
        self._values = values
        self._measured = measured

    async def run(self, pace: Pace, ends_ns: int, stop: Stop) -> None:
        """Publish until the time is up."""
        while not stop.is_asked:
            now = time.monotonic_ns()
            due = pace.due_ns(now)
            if max(due, now) >= ends_ns:
                return
            if due > now:
                await asyncio.sleep((due - now) / SECOND_NS)
            await self._publish(due)

    async def _publish(self, due_ns: int) -> None:
        plan = self._plan
        octets = 0
        try:
            receipts = []
            for _ in range(plan.batch):
                value = self._values(due_ns)
                octets += len(value)
                receipts.append(
                    await self._producer.send(plan.topic, value, partition=self._partition)
                )
            for receipt in receipts:
                await receipt
        except GoQueueError as error:
            self._measured.note_failed(plan.batch, str(error))
            # What is refused at once is refused again at once: count it, but do not spin.
            await asyncio.sleep(_PAUSE_S)
        else:
            self._measured.note(plan.batch, octets, time.monotonic_ns() - due_ns)
