"""Delays against the simplest thing that is right: a dictionary of what waits."""

from array import array

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.delivery import Delays
from goqueue.delivery.delays_copy import DelaysCopy
from goqueue.model import MILLISECOND, SECOND, Offset, Priority, Timestamp
from goqueue.model.requests import DelayState
from tests.examples import examples

BEGIN = 1_700_000_000 * SECOND
TICK_NS = 10 * MILLISECOND
CHOICES = st.integers(0, 1 << 30)


class DelaysMachine(RuleBasedStateMachine):
    """One log that grows; at any time a new `Delays` may take the place of the old one."""

    # How far timers reach: further than anything here is due.
    reach_ns: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.now = BEGIN
        self.delays = Delays(Timestamp(self.now), self.reach_ns)
        self.end = 0
        self.start = 0
        self.waiting: dict[int, int] = {}
        self.leaving: dict[int, int] = {}
        self.over: dict[int, DelayState] = {}
        self.controls: list[int] = []
        self.copy: DelaysCopy | None = None
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("goqueue.delivery.delays_copy.BLOCK_ENTRIES", 3)

    def teardown(self) -> None:
        self.patch.undo()

    def _next(self) -> int:
        self.end += 1
        return self.end - 1

    @rule(after_ns=st.lists(st.integers(-SECOND, 5 * SECOND), max_size=6))
    def add_all(self, after_ns: list[int]) -> None:
        dues = {self._next(): self.now + each for each in after_ns}
        self.waiting.update(dues)
        lanes = array("B", [Priority.NORMAL] * len(dues))
        self.delays.add_all(array("q", dues), array("q", dues.values()), lanes)

    @rule(after_ns=st.integers(-SECOND, 5 * SECOND))
    def add(self, after_ns: int) -> None:
        offset = self._next()
        self.waiting[offset] = self.now + after_ns
        self.delays.add(offset, self.now + after_ns, Priority.NORMAL)

    @rule()
    def publish_plain(self) -> None:
        self._next()

    @rule(ahead_ns=st.integers(-3 * SECOND, 3 * SECOND), limit=st.integers(1, 5))
    def fire(self, ahead_ns: int, limit: int) -> None:
        self.now = max(BEGIN, self.now + ahead_ns)
        tick = self.now // TICK_NS * TICK_NS
        ripe = sorted((due, offset) for offset, due in self.waiting.items() if due <= tick)[:limit]
        assert self.delays.due(Timestamp(self.now), limit) == [offset for _, offset in ripe]
        for due, offset in ripe:
            del self.waiting[offset]
            self.leaving[offset] = due

    @rule(choice=CHOICES)
    def deliver(self, choice: int) -> None:
        if self.leaving:
            offset = list(self.leaving)[choice % len(self.leaving)]
            del self.leaving[offset]
            self.over[offset] = DelayState.DELIVERED
            self.delays.deliver(offset, self._next())

    @rule(choice=CHOICES)
    def stay(self, choice: int) -> None:
        if self.leaving:
            offset = list(self.leaving)[choice % len(self.leaving)]
            self.waiting[offset] = self.leaving.pop(offset)
            self.delays.stay(offset)

    @rule(choice=CHOICES)
    def leave(self, choice: int) -> None:
        known = [*self.waiting, *self.leaving, *self.over]
        if known:
            offset = known[choice % len(known)]
            assert self.delays.leave(offset) == (offset in self.waiting)
            if offset in self.waiting:
                self.leaving[offset] = self.waiting.pop(offset)

    @rule(choice=CHOICES)
    def cancel(self, choice: int) -> None:
        if self.leaving:
            offset = list(self.leaving)[choice % len(self.leaving)]
            del self.leaving[offset]
            self.over[offset] = DelayState.CANCELLED
            self.controls.append(self._next())
            self.delays.cancel(offset, self.end - 1)

    @rule(choice=CHOICES)
    def expire(self, choice: int) -> None:
        if self.leaving:
            offset = list(self.leaving)[choice % len(self.leaving)]
            del self.leaving[offset]
            self.over[offset] = DelayState.EXPIRED
            self.delays.expire(offset)

    @rule(choice=CHOICES)
    def drop(self, choice: int) -> None:
        # Whether or not something there is pending: damage takes it away in spite of that.
        self.start += choice % (self.end - self.start + 1)
        for known in (self.waiting, self.leaving):
            for offset in [offset for offset in known if offset < self.start]:
                del known[offset]
        self.over = {offset: end for offset, end in self.over.items() if offset >= self.start}
        self.controls = [offset for offset in self.controls if offset >= self.start]
        self.delays.drop_below(self.start)

    @rule()
    def restart(self) -> None:
        stated = self.delays.stated(1, self.end)
        self.delays = Delays(Timestamp(self.now), self.reach_ns)
        assert self.delays.restore(stated)
        self.waiting.update(self.leaving)
        self.leaving = {}

    @rule()
    def begin_a_copy(self) -> None:
        self.stated = self.delays.stated(1, 0)
        self.copy = self.delays.begin_copy()

    @rule(blocks=st.integers(1, 30))
    def copy_some(self, blocks: int) -> None:
        if self.copy is None or not self.delays.is_copied_by(self.copy):
            return
        if not all(self.copy.copy_block() for _ in range(blocks)):
            self.delays.end_copy(self.copy)
            assert self.copy.stated(1, 0) == self.stated

    @invariant()
    def knows_what_waits(self) -> None:
        pending = {**self.waiting, **self.leaving}
        assert len(self.delays) == len(pending)
        in_order = sorted(pending, key=lambda offset: (pending[offset], offset))
        assert [offset for _, offset in self.delays.pending(1000)] == in_order
        assert [offset for _, offset in self.delays.pending(2)] == in_order[:2]
        assert self.delays.needed_from() == min(pending, default=None)
        assert self.delays.next_due() == (pending[in_order[0]] if in_order else None)

    @invariant()
    def knows_what_is_over(self) -> None:
        for offset, state in self.over.items():
            found = self.delays.find(offset)
            assert found is not None
            assert found.state is state

    @invariant()
    def knows_what_is_no_message(self) -> None:
        hidden = {*self.waiting, *self.leaving, *self.over, *self.controls}
        middle = (self.start + self.end) // 2
        upto = max(hidden, default=0) + 9
        found = [each for each in range(self.start, upto) if each in self.delays.hidden]
        assert found == sorted(hidden)
        for first, end in ((self.start, middle), (middle, self.end), (self.start, self.end)):
            counted = sum(first <= offset < end for offset in hidden)
            assert self.delays.hidden_within(first, end) == counted
        skipped = self.delays.skip_hidden(Offset(middle))
        assert skipped not in hidden
        assert all(offset in hidden for offset in range(middle, skipped))

    @invariant()
    def wakes_no_later_than_something_is_due(self) -> None:
        deadline = self.delays.next_deadline()
        if self.waiting:
            assert deadline is not None
            assert deadline < min(self.waiting.values()) + TICK_NS
        else:
            assert deadline is None or deadline > 0


TestDelaysMachine = DelaysMachine.TestCase
TestDelaysMachine.settings = settings(
    max_examples=examples(25), stateful_step_count=50, deadline=None
)


class FarDelaysMachine(DelaysMachine):
    """The same where most of what waits is beyond the reach of timers."""

    reach_ns = 2 * SECOND


TestFarDelaysMachine = FarDelaysMachine.TestCase
TestFarDelaysMachine.settings = settings(
    max_examples=examples(50), stateful_step_count=50, deadline=None
)
