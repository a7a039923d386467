"""Ready messages by priority, and whose turn it is: deficit round robin over five lanes.

In each round a lane may hand out as many messages as its weight, critical first, also if they
come while the round runs; a round ends when no lane that has something may hand out more, so an
idle lane saves nothing up. A lane that was not served for a while although it had something is
served before all others, one message at a time.

Within a lane messages go by offset: what comes back is handed out before what is new.

Invariant: a message is in its lane exactly once, and every message that is put in comes out.
Cost: O(1) per message; O(log n) for those that come back.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import msgspec

from goqueue.model import Instant
from goqueue.model.requests import LaneSettings
from goqueue.records import MessageSummary

__all__ = ["LANES", "LaneFacts", "Lanes", "Taken"]

LANES = 5
# Places at the beginning of a list whose messages were taken are given back when there are so many.
_PASSED_MAX = 4096

_size_of = attrgetter("size")
_priority_of = attrgetter("priority")


class _Lane:
    """One priority."""

    __slots__ = (
        "credit",
        "dequeued",
        "enqueued",
        "fresh",
        "left",
        "passed",
        "returned",
        "served_at",
        "waited_ns",
        "waiting_from",
    )

    def __init__(self) -> None:
        # From `passed` on; None while there is nothing: a node may have hundreds of thousands of
        # lanes.
        self.fresh: list[MessageSummary] | None = None
        self.passed = 0
        self.returned: list[MessageSummary] = []
        self.credit = 0
        self.served_at: Instant | None = None
        # Since when it has had something to hand out without being served.
        self.waiting_from: Instant | None = None
        self.enqueued = 0
        self.dequeued = 0
        # How many were left when somebody took some: from then on they wait, until the next time.
        self.left = 0
        self.waited_ns = 0

    def __len__(self) -> int:
        return len(self.returned) + (len(self.fresh) - self.passed if self.fresh else 0)

    def __iter__(self) -> Iterator[MessageSummary]:
        yield from self.unpassed()
        yield from self.returned

    def unpassed(self) -> Sequence[MessageSummary]:
        """What was never handed out."""
        return self.fresh[self.passed :] if self.fresh else ()

    def extend(self, messages: Iterable[MessageSummary]) -> None:
        """Messages that were never handed out, in order, after all others."""
        if self.fresh is None:
            self.fresh = list(messages)
        else:
            self.fresh.extend(messages)

    @property
    def _is_returned_next(self) -> bool:
        fresh, returned = self.fresh, self.returned
        return not fresh or bool(returned and returned[0].offset < fresh[self.passed].offset)

    def next_size(self) -> int:
        """The size of the message that comes next."""
        if self._is_returned_next:
            return self.returned[0].size
        assert self.fresh is not None, "there is something to hand out"
        return self.fresh[self.passed].size

    def pop(self) -> MessageSummary:
        if self._is_returned_next:
            return heappop(self.returned)
        assert self.fresh is not None, "there is something to hand out"
        message = self.fresh[self.passed]
        self.pass_over(1)
        return message

    def pop_run(self, count: int, bytes_max: int) -> list[MessageSummary]:
        """The next messages, as many as fit of those that were never handed out."""
        assert self.fresh is not None, "there is something to hand out"
        run = self.fresh[self.passed : self.passed + count]
        sizes = list(map(_size_of, run))
        if sum(sizes) > bytes_max:
            run = run[: bisect_right(list(accumulate(sizes)), bytes_max)]
        self.pass_over(len(run))
        return run

    def pass_over(self, count: int) -> None:
        """The next so many messages that were never handed out are handed out."""
        assert self.fresh is not None, "there was something to hand out"
        self.passed += count
        if self.passed == len(self.fresh):
            self.fresh, self.passed = None, 0
        elif self.passed > _PASSED_MAX:
            del self.fresh[: self.passed]
            self.passed = 0


class LaneFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One lane: what it holds, and what went in and out in this life, redeliveries included.

    `waited_ns` is the sum over all messages; a message waits from when somebody came and did not
    take it.
    """

    ready: int
    enqueued: int
    dequeued: int
    waited_ns: int
    served_at: Instant | None
    waiting_from: Instant | None


class Taken(NamedTuple):
    """Messages in the order in which they are handed out, and whether their offsets rise."""

    messages: list[MessageSummary]
    is_rising: bool


class Lanes:
    """What one group may be handed from one partition."""

    def __init__(self, settings: LaneSettings | None = None) -> None:
        self._settings = settings or LaneSettings()
        self._lanes = tuple(_Lane() for _ in range(LANES))
        self._count = 0
        self._taken_at = Instant(0)

    def weigh(self, settings: LaneSettings) -> None:
        """Other shares, from now on."""
        if settings == self._settings:
            return
        self._settings = settings
        for lane, weight in zip(self._lanes, settings.weights, strict=True):
            lane.credit = min(lane.credit, weight)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[MessageSummary]:
        for lane in self._lanes:
            yield from lane

    def ready(self, lane: int) -> int:
        """How many messages of a lane are ready."""
        return len(self._lanes[lane])

    def facts(self, lane: int) -> LaneFacts:
        of_lane = self._lanes[lane]
        return LaneFacts(
            ready=len(of_lane),
            enqueued=of_lane.enqueued,
            dequeued=of_lane.dequeued,
            waited_ns=of_lane.waited_ns,
            served_at=of_lane.served_at,
            waiting_from=of_lane.waiting_from,
        )

    # Putting in

    def put(self, message: MessageSummary) -> None:
        """A message that was never handed out; per lane they come in the order of offsets."""
        self._put(message.priority, (message,))

    def put_all(self, messages: Sequence[MessageSummary]) -> None:
        """Messages that were never handed out; per lane they come in the order of offsets."""
        priorities = dict.fromkeys(map(_priority_of, messages))
        if len(priorities) == 1:
            self._put(next(iter(priorities)), messages)
            return
        piles: tuple[list[MessageSummary], ...] = tuple([] for _ in self._lanes)
        for message in messages:
            piles[message.priority].append(message)
        for index, pile in enumerate(piles):
            if pile:
                self._put(index, pile)

    def _put(self, index: int, messages: Sequence[MessageSummary]) -> None:
        lane = self._lanes[index]
        lane.extend(messages)
        lane.enqueued += len(messages)
        self._count += len(messages)

    def put_back(self, message: MessageSummary) -> None:
        """A message that was handed out, or overtaken, before."""
        lane = self._lanes[message.priority]
        heappush(lane.returned, message)
        lane.enqueued += 1
        self._count += 1

    # Taking out

    def take(self, count_max: int, bytes_max: int, now: Instant) -> Taken:
        """The next messages in turn; the first of them even if it is larger than allowed."""
        self._measure_waiting(now)
        has_overdue = self._overdue(now) is not None
        if not has_overdue:
            rounds = self._take_rounds(count_max, bytes_max, now)
            if rounds is not None:
                return rounds
        taken: list[MessageSummary] = []
        served: set[int] = set()
        while self._count and len(taken) < count_max and (bytes_max > 0 or not taken):
            # Nobody becomes overdue meanwhile: the time stands still here.
            overdue = self._overdue(now) if has_overdue else None
            if overdue is not None:
                served.add(overdue)
                bytes_max = self._serve(overdue, 1, bytes_max, taken, now)
                continue
            has_overdue = False
            index = self._first_in_turn()
            served.add(index)
            lane = self._lanes[index]
            before = len(taken)
            # A lane that is alone gets one round after the other.
            share = count_max - before
            if len(lane) < self._count:
                share = min(share, lane.credit)
            bytes_max = self._serve(index, share, bytes_max, taken, now)
            self._charge(index, len(taken) - before)
        for lane in self._lanes:
            lane.left = len(lane) if lane.fresh or lane.returned else 0
        return Taken(taken, len(served) <= 1)

    def _take_rounds(self, count_max: int, bytes_max: int, now: Instant) -> Taken | None:
        """What `take` hands out if nobody is overdue, nothing was returned and all of it fits.

        None if one of these does not hold. The runs of a lane in one round are short, so what a run
        costs is what matters: nothing is changed before the last of them is known.
        """
        weights = self._settings.weights
        lanes = [(index, lane) for index, lane in enumerate(self._lanes) if lane.fresh]
        if len(lanes) < 2 or any(lane.returned for lane in self._lanes):
            return None
        left_in_round = [lane.credit for lane in self._lanes]
        places = [lane.passed for lane in self._lanes]
        taken: list[MessageSummary] = []
        wanted = min(count_max, self._count)
        while wanted:
            is_over = True
            for index, lane in lanes:
                assert lane.fresh is not None
                if left_in_round[index] <= 0 or places[index] == len(lane.fresh):
                    continue
                run = lane.fresh[places[index] : places[index] + min(left_in_round[index], wanted)]
                taken += run
                left_in_round[index] -= len(run)
                places[index] += len(run)
                wanted -= len(run)
                is_over = False
                if not wanted:
                    break
            if is_over:
                left_in_round = list(weights)
        if sum(map(_size_of, taken)) > bytes_max:
            return None
        moved = sum(place > lane.passed for place, lane in zip(places, self._lanes, strict=True))
        self._hand_out(places, left_in_round, now)
        return Taken(taken, moved <= 1)

    def _hand_out(self, places: list[int], left_in_round: list[int], now: Instant) -> None:
        """Lanes are passed up to these places, and may hand out so many more in this round."""
        for lane, place, credit in zip(self._lanes, places, left_in_round, strict=True):
            count = place - lane.passed
            lane.credit = credit
            if count:
                lane.pass_over(count)
                lane.dequeued += count
                lane.served_at = now
                lane.waiting_from = now if lane.fresh else None
                self._count -= count
            lane.left = len(lane)

    def _first_in_turn(self) -> int:
        """The most critical lane that has something and may hand it out in this round."""
        for index, lane in enumerate(self._lanes):
            if lane.credit > 0 and (lane.fresh or lane.returned):
                return index
        self._begin_round()
        return next(index for index, lane in enumerate(self._lanes) if len(lane))

    def _begin_round(self) -> None:
        for lane, weight in zip(self._lanes, self._settings.weights, strict=True):
            lane.credit = weight

    def _charge(self, index: int, served: int) -> None:
        """A lane has handed out so many messages, also over several rounds."""
        lane = self._lanes[index]
        if served > lane.credit:
            # Of the last round that was begun.
            served = (served - lane.credit - 1) % self._settings.weights[index] + 1
            self._begin_round()
        lane.credit -= served

    def _measure_waiting(self, now: Instant) -> None:
        """From now on, at the latest, lanes that have something wait for their turn."""
        elapsed = max(0, now - self._taken_at)
        self._taken_at = now
        for lane in self._lanes:
            if not lane.fresh and not lane.returned:
                lane.waiting_from = None
                continue
            ready = len(lane)
            lane.waited_ns += min(ready, lane.left) * elapsed
            if lane.waiting_from is None:
                lane.waiting_from = now

    def _serve(
        self, index: int, count: int, bytes_max: int, taken: list[MessageSummary], now: Instant
    ) -> int:
        """Hand out up to `count` messages of one lane; the bytes that are left, 0 for none."""
        lane = self._lanes[index]
        before = len(taken)
        while count and len(lane):
            if not lane.returned:
                run = lane.pop_run(count, bytes_max)
                bytes_max -= sum(map(_size_of, run))
                count -= len(run)
                taken += run
                if not count or not lane.fresh:
                    break
            if not taken or lane.next_size() <= bytes_max:
                message = lane.pop()
                bytes_max -= message.size
                count -= 1
                taken.append(message)
            else:
                bytes_max = 0
                break
        served = len(taken) - before
        if served:
            lane.dequeued += served
            lane.served_at = now
            lane.waiting_from = now if len(lane) else None
            self._count -= served
        return max(0, bytes_max)

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

    def keep_from(self, offset: int) -> list[MessageSummary]:
        """Drop every message below `offset`; those that were dropped."""
        dropped: list[MessageSummary] = []
        for lane in self._lanes:
            if not len(lane):
                continue
            gone = [each for each in lane if each.offset < offset]
            if gone:
                kept = [each for each in lane.unpassed() if each.offset >= offset]
                lane.fresh, lane.passed = kept or None, 0
                lane.returned = [each for each in lane.returned if each.offset >= offset]
                heapify(lane.returned)
                dropped += gone
                if not len(lane):
                    lane.waiting_from = None
        self._count -= len(dropped)
        return dropped

    def clear(self) -> list[MessageSummary]:
        """Drop every message; those that were dropped."""
        return self.keep_from(1 << 63)
