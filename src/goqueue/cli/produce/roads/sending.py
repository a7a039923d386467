"""Messages through the SDK's producer: records in their stored form, many requests at a time."""

import contextlib
from collections import deque

from goqueue.cli.asking import describe
from goqueue.cli.produce.draft import Draft
from goqueue.cli.produce.roads.tally import Tally
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.client.producing import Producer, Receipt
from goqueue.model import Priority

__all__ = ["Sending"]

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
