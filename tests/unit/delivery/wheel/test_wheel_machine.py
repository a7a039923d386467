"""The wheel against a list that is sorted whenever somebody asks."""

from array import array

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.delivery.wheel import TICK_NS, WHEEL_REACH_NS, Timer, Wheel
from goqueue.model import Timestamp
from tests.examples import examples

EPOCH = 1_790_000_000 * 1_000_000_000

NUMBERS = st.integers(0, 30)

LIMITS = st.none() | st.integers(0, 5)

# Near the borders of the rings as well as anywhere in them; beyond the reach; overdue.
BORDERS = st.sampled_from([0, 1 << 8, 1 << 14, 1 << 20, 1 << 26])

SPANS = st.one_of(
    st.integers(0, 5 * TICK_NS),
    st.integers(0, 600 * TICK_NS),
    st.integers(0, TICK_NS << 15),
    st.integers(0, TICK_NS << 21),
    st.integers(0, 3 * WHEEL_REACH_NS),
    st.builds(
        lambda border, ticks, rest: max(0, (border + ticks) * TICK_NS + rest),
        BORDERS,
        st.integers(-2, 2),
        st.integers(-1, 1),
    ),
)


class WheelMachine(RuleBasedStateMachine):
    """One wheel, a clock that jumps, and what is pending."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: dict[int, int] = {}
        self.is_drained = True

    @initialize(begin=SPANS)
    def start(self, begin: int) -> None:
        self.now = EPOCH + begin
        self.wheel = Wheel(Timestamp(self.now))

    def in_order(self) -> list[Timer]:
        order = sorted((due, timer) for timer, due in self.pending.items())
        return [(timer, Timestamp(due)) for due, timer in order]

    def advance(self, limit: int | None = None) -> None:
        is_over = self.now // TICK_NS
        due = [timer for timer in self.in_order() if -(-timer[1] // TICK_NS) <= is_over]
        fired = self.wheel.advance(Timestamp(self.now), limit)
        while limit is not None and self.wheel.is_opening and len(fired) < limit:
            fired += self.wheel.advance(Timestamp(self.now), limit - len(fired))
        assert fired == due[:limit]
        for timer, _ in due[:limit]:
            del self.pending[timer]
        # A wheel that was stopped by the limit asks to be called again, were it in vain.
        self.is_drained = limit is None or len(due) < limit

    @rule(timer=NUMBERS, delay=SPANS, is_overdue=st.sampled_from([False, False, False, True]))
    def insert(self, timer: int, delay: int, is_overdue: bool) -> None:
        if timer not in self.pending:
            due = self.now - delay if is_overdue else self.now + delay
            self.wheel.insert(timer, Timestamp(due))
            self.pending[timer] = due
            self.is_drained = False

    @rule(first=st.integers(100, 110), delay=SPANS, count=st.integers(1, 20))
    def insert_many_close_together(self, first: int, delay: int, count: int) -> None:
        for timer in range(first, first + count):
            if timer not in self.pending:
                self.pending[timer] = self.now + delay + timer % 3
                self.wheel.insert(timer, Timestamp(self.pending[timer]))
                self.is_drained = False

    @rule(delays=st.lists(SPANS, max_size=12), is_overdue=st.booleans())
    def insert_all(self, delays: list[int], is_overdue: bool) -> None:
        """Some of them are due already, some share a bucket, in no order."""
        sign = -1 if is_overdue else 1
        free = [timer for timer in range(200, 212) if timer not in self.pending]
        dues = [self.now + sign * delay for delay in delays[: len(free)]]
        timers = free[: len(dues)]
        self.wheel.insert_all(array("q", timers), array("q", dues))
        self.pending.update(zip(timers, dues, strict=True))
        self.is_drained = self.is_drained and not dues

    @rule(timer=NUMBERS | st.integers(100, 130) | st.integers(200, 212))
    def cancel(self, timer: int) -> None:
        assert self.wheel.cancel(timer) == (self.pending.pop(timer, None) is not None)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def cancel_and_insert_again(self, data: st.DataObject) -> None:
        timer = data.draw(st.sampled_from(sorted(self.pending)))
        assert self.wheel.cancel(timer)
        self.pending[timer] += data.draw(st.sampled_from([0, 0, 1, TICK_NS, -TICK_NS]))
        self.wheel.insert(timer, Timestamp(self.pending[timer]))
        self.is_drained = False

    @rule(span=SPANS, limit=LIMITS)
    def time_passes(self, span: int, limit: int | None) -> None:
        self.now += span
        self.advance(limit)

    @rule(span=SPANS, limit=LIMITS)
    def the_clock_goes_back(self, span: int, limit: int | None) -> None:
        self.now = max(0, self.now - span)
        self.advance(limit)

    @rule(span=SPANS)
    def the_clock_goes_back_and_forth(self, span: int) -> None:
        self.now -= span
        self.advance()
        self.now += span
        self.advance()

    @precondition(lambda self: self.pending)
    @rule(limit=LIMITS)
    def sleep_until_the_deadline(self, limit: int | None) -> None:
        deadline = self.wheel.next_deadline()
        assert deadline is not None
        self.now = max(self.now, deadline)
        self.advance(limit)

    @precondition(lambda self: self.pending)
    @rule()
    def sleep_until_something_fires(self) -> None:
        first = self.in_order()[0][1]
        expected = max(self.now, -(-first // TICK_NS) * TICK_NS)
        count = len(self.pending)
        for _ in range(5):
            deadline = self.wheel.next_deadline()
            assert deadline is not None
            self.now = max(self.now, deadline)
            self.advance()
            if len(self.pending) < count:
                break
        # Never more wakes than rings, and one where the wheel was last told an earlier time.
        assert len(self.pending) < count
        assert self.now == expected

    @rule(skip=st.integers(0, 12), limit=st.integers(0, 12))
    def look(self, skip: int, limit: int) -> None:
        assert self.wheel.page(skip, limit) == self.in_order()[skip : skip + limit]

    @invariant()
    def the_same_timers_are_pending(self) -> None:
        assert len(self.wheel) == len(self.pending)
        for timer in range(31):
            assert self.wheel.due_of(timer) == self.pending.get(timer)

    @invariant()
    def the_deadline_is_not_late_and_does_not_spin(self) -> None:
        deadline = self.wheel.next_deadline()
        if not self.pending:
            assert deadline is None or self.wheel.is_opening
            return
        assert deadline is not None
        first = self.in_order()[0][1]
        assert deadline <= -(-first // TICK_NS) * TICK_NS
        assert deadline > self.now or not self.is_drained

    def teardown(self) -> None:
        if self.pending:
            self.now = max(self.now, *self.pending.values()) + TICK_NS
            self.advance()
            assert not self.pending


class SlowWheelMachine(WheelMachine):
    """Buckets are opened two timers at a time, and anything may happen in between."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("goqueue.delivery.wheel.wheel.POURED_AT_ONCE", 2)

    @rule(span=SPANS, limit=st.integers(1, 8))
    def advance_once(self, span: int, limit: int) -> None:
        self.now += span
        due = [timer for timer in self.in_order() if -(-timer[1] // TICK_NS) <= self.now // TICK_NS]
        fired = self.wheel.advance(Timestamp(self.now), limit)
        assert fired == due[: len(fired)]
        assert self.wheel.is_opening or fired == due[:limit]
        for timer, _ in fired:
            del self.pending[timer]
        self.is_drained = False

    @invariant()
    def the_first_due_is_known(self) -> None:
        assert self.wheel.next_due() == min(self.pending.values(), default=None)

    def teardown(self) -> None:
        super().teardown()
        self.patch.undo()


TestWheel = WheelMachine.TestCase
TestSlowWheel = SlowWheelMachine.TestCase

TestWheel.settings = settings(max_examples=examples(100), stateful_step_count=40)
TestSlowWheel.settings = settings(max_examples=examples(100), stateful_step_count=40)
