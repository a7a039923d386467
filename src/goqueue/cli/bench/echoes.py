"""Messages that come back: each knows when it was due and who sent it.

Invariant: a message counts once, when it is first heard; one that is never heard is a failure.
"""

import asyncio
import struct
import time

from goqueue.cli.bench.plan import Plan
from goqueue.cli.bench.report import Measurement
from goqueue.client.consuming import Replay

__all__ = ["Echoes"]

# Whose run, which message, when it was due.
_HEAD = struct.Struct(">8sQQ")


class Echoes:
    """What was sent and is not yet heard; `run_id` tells our messages from those of others."""

    def __init__(self, plan: Plan, run_id: bytes) -> None:
        self._run_id = run_id
        self._padding = bytes(max(plan.size - _HEAD.size, 0))
        self._sent = 0
        self._unheard: set[int] = set()
        self._all_heard = asyncio.Event()
        self._is_over = False
        self._heard = Measurement()

    def next_value(self, due_ns: int) -> bytes:
        """The value of a message that is about to be sent."""
        number = self._sent
        self._sent += 1
        self._unheard.add(number)
        return _HEAD.pack(self._run_id, number, due_ns) + self._padding

    async def listen(self, replay: Replay) -> None:
        """Hear messages until cancelled."""
        while messages := await replay.take():
            now = time.monotonic_ns()
            for message in messages:
                self._hear(message.value or b"", now)
            if self._is_over and not self._unheard:
                self._all_heard.set()

    async def wait_for_all(self, timeout_s: float) -> None:
        """Nothing more is sent: wait until all was heard, but not for ever."""
        self._is_over = True
        if not self._unheard:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_heard.wait()
        except TimeoutError:
            # What is still unheard is a failure, and is counted as one.
            return

    def result(self, published: Measurement) -> Measurement:
        """What was heard, with the failures of both ways."""
        # A batch that failed may have been heard all the same: then it did not fail.
        lost = len(self._unheard)
        for reason, count in published.reasons.items():
            told = min(count, lost)
            if told:
                self._heard.note_failed(told, reason)
                lost -= told
        if lost:
            self._heard.note_failed(lost, "published and not heard in time")
        return self._heard

    def _hear(self, value: bytes, now_ns: int) -> None:
        if len(value) < _HEAD.size:
            return
        run_id, number, due_ns = _HEAD.unpack_from(value)
        if run_id != self._run_id:
            return
        if number not in self._unheard:
            self._heard.duplicates += 1
            return
        self._unheard.discard(number)
        self._heard.note(1, len(value), now_ns - due_ns)
