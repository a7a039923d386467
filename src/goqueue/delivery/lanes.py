"""Ready messages by priority, and whose turn it is: deficit round robin over five lanes.

In each round a lane may hand out as many messages as its weight, critical first; what it does not
use it loses when it is empty, so an idle lane saves nothing up. A lane that was not served for a
while although it had something is served before all others, one message at a time.

Within a lane messages go by offset: what comes back is handed out before what is new.

Invariant: a message is in its lane exactly once, and every message that is put in comes out.
Cost: O(1) per message; O(log n) for those that come back.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import msgspec

from goqueue.delivery.key_order import Known
from goqueue.model import SECOND, Instant

__all__ = ["LANES", "LaneSettings", "Lanes"]

LANES = 5


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How lanes share what is handed out."""

    weights: tuple[int, ...] = (50, 25, 15, 7, 3)
    boost_ns: int = 30 * SECOND


class _Lane:
    """One priority."""

    __slots__ = ("credit", "dequeued", "enqueued", "fresh", "returned", "served_at", "waiting_from")

    def __init__(self) -> None:
        self.fresh: deque[Known] = deque()
        self.returned: list[Known] = []
        self.credit = 0
        self.served_at: Instant | None = None
        # Since when it has had something to hand out without being served.
        self.waiting_from: Instant | None = None
        self.enqueued = 0
        self.dequeued = 0

    def __len__(self) -> int:
        return len(self.fresh) + len(self.returned)

    def pop(self) -> Known:
        if not self.returned:
            return self.fresh.popleft()
        if self.fresh and self.fresh[0] < self.returned[0]:
            return self.fresh.popleft()
        return heappop(self.returned)


class Lanes:
    """What one group may be handed from one partition."""

    def __init__(self, settings: LaneSettings | None = None) -> None:
        self._settings = settings or LaneSettings()
        self._lanes = tuple(_Lane() for _ in range(LANES))
        self._turn = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Known]:
        for lane in self._lanes:
            yield from lane.fresh
            yield from lane.returned

    def ready(self, lane: int) -> int:
        """How many messages of a lane are ready."""
        return len(self._lanes[lane])

    # Putting in

    def put(self, message: Known, now: Instant) -> None:
        """A message that was never handed out; per lane they come in the order of offsets."""
        lane = self._lanes[message[2]]
        if not len(lane):
            lane.waiting_from = now
        lane.fresh.append(message)
        lane.enqueued += 1
        self._count += 1

    def put_back(self, message: Known, now: Instant) -> None:
        """A message that was handed out, or overtaken, before."""
        lane = self._lanes[message[2]]
        if not len(lane):
            lane.waiting_from = now
        heappush(lane.returned, message)
        self._count += 1

    # Taking out

    def take(self, count_max: int, bytes_max: int, now: Instant) -> list[Known]:
        """The next messages in turn; the first of them even if it is larger than allowed."""
        taken: list[Known] = []
        while self._count and len(taken) < count_max:
            index = self._overdue(now)
            if index is None:
                break
            bytes_max = self._serve(index, 1, bytes_max, taken, now)
            if bytes_max <= 0:
                return taken
        while self._count and len(taken) < count_max and bytes_max > 0:
            lane = self._lanes[self._turn]
            if lane.credit > 0 and len(lane):
                share = min(lane.credit, count_max - len(taken))
                before = len(taken)
                bytes_max = self._serve(self._turn, share, bytes_max, taken, now)
                lane.credit = lane.credit - (len(taken) - before) if len(lane) else 0
            else:
                self._pass_turn()
        return taken

    def _serve(
        self, index: int, count: int, bytes_max: int, taken: list[Known], now: Instant
    ) -> int:
        """Hand out up to `count` messages of one lane; the bytes that are left, 0 for none."""
        lane = self._lanes[index]
        before = len(taken)
        while count and len(lane):
            message = lane.pop()
            if taken and message[1] > bytes_max:
                heappush(lane.returned, message)
                bytes_max = 0
                break
            bytes_max -= message[1]
            taken.append(message)
            count -= 1
        served = len(taken) - before
        if served:
            lane.dequeued += served
            lane.served_at = now
            lane.waiting_from = now if len(lane) else None
            self._count -= served
        return max(0, bytes_max)

    def _pass_turn(self) -> None:
        """The next lane; after the last a new round begins, in which each may use its weight."""
        self._turn += 1
        if self._turn == LANES:
            self._turn = 0
            for lane, weight in zip(self._lanes, self._settings.weights, strict=True):
                lane.credit = weight if len(lane) else 0

    def _overdue(self, now: Instant) -> int | None:
        """The lane that has waited longest, if that is too long."""
        limit = now - self._settings.boost_ns
        longest: int | None = None
        for index, lane in enumerate(self._lanes):
            since = lane.waiting_from
            if since is not None and since <= limit:
                limit, longest = since, index
        return longest

    # Forgetting

    def keep_from(self, offset: int) -> list[Known]:
        """Drop every message below `offset`; those that were dropped."""
        dropped: list[Known] = []
        for lane in self._lanes:
            if not len(lane):
                continue
            gone = [each for each in (*lane.fresh, *lane.returned) if each[0] < offset]
            if gone:
                lane.fresh = deque(each for each in lane.fresh if each[0] >= offset)
                lane.returned = [each for each in lane.returned if each[0] >= offset]
                heapify(lane.returned)
                dropped += gone
        self._count -= len(dropped)
        return dropped

    def clear(self) -> list[Known]:
        """Drop every message; those that were dropped."""
        return self.keep_from(1 << 63)
