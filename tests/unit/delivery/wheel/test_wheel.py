"""The wheel: when timers fire, what cancelling does, how clocks that jump are followed."""

import tracemalloc
from array import array
from itertools import pairwise

import pytest

from goqueue.delivery.wheel import TICK_NS, WHEEL_REACH_NS, Wheel
from goqueue.delivery.wheel.due_table import BLOCK_SIZE, DueTable
from goqueue.delivery.wheel.sieve import first_pending
from goqueue.model import HOUR, MILLISECOND, SECOND, Timestamp

# In the middle of a tick, and in no ring at the beginning of a turn.
NOW = Timestamp(1_790_000_123 * SECOND + 456_789)

TICK = NOW // TICK_NS

FAR = Timestamp(NOW + 20 * WHEEL_REACH_NS)


def at(tick: int) -> Timestamp:
    """The beginning of a tick, counted from the one that holds NOW."""
    return Timestamp((TICK + tick) * TICK_NS)


def after(delay_ns: int) -> Timestamp:
    return Timestamp(NOW + delay_ns)


def wakes(wheel: Wheel) -> list[tuple[Timestamp, list[int]]]:
    """Advance whenever the wheel asks for it, until nothing is pending."""
    seen: list[tuple[Timestamp, list[int]]] = []
    while (deadline := wheel.next_deadline()) is not None:
        seen.append((deadline, [timer for timer, _ in wheel.advance(deadline)]))
    return seen


def numbers(fired: list[tuple[int, Timestamp]]) -> list[int]:
    return [timer for timer, _ in fired]


# ---- many at once --------------------------------------------------------------------------


def test_many_timers_go_where_each_would_have_gone() -> None:
    delays = [0, 1, 5 * TICK_NS, 300 * TICK_NS, HOUR, 50 * HOUR, 3 * WHEEL_REACH_NS, HOUR, -SECOND]
    together, one_by_one = Wheel(NOW), Wheel(NOW)
    together.insert_all(
        array("q", range(len(delays))), array("q", [after(delay) for delay in delays])
    )
    for timer, delay in enumerate(delays):
        one_by_one.insert(timer, after(delay))

    assert together.page(0, 100) == one_by_one.page(0, 100)
    assert wakes(together) == wakes(one_by_one)


def test_many_timers_may_be_none() -> None:
    wheel = Wheel(NOW)
    wheel.insert_all(array("q"), array("q"))
    assert (len(wheel), wheel.next_deadline()) == (0, None)


@pytest.mark.parametrize("timers", [[1, 7], [1, 1]])
def test_many_timers_with_a_number_that_is_pending_are_a_bug(timers: list[int]) -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, after(SECOND))
    with pytest.raises(AssertionError):
        wheel.insert_all(array("q", timers), array("q", [after(HOUR), after(HOUR)]))


def test_no_dict_of_pending_timers_is_large_enough_to_be_copied_as_a_whole() -> None:
    table = DueTable()
    for first in range(0, 200_000, 1_000):
        timers = array("q", range(first, first + 1_000))
        table.add_all(timers, array("q", [after(HOUR)]) * 1_000)
    for timer in range(200_000, 220_000):
        table.add(timer, after(HOUR))

    assert max(table.block_sizes()) <= BLOCK_SIZE
    assert (len(table), sum(table.block_sizes())) == (220_000, 220_000)


def test_a_block_of_timers_that_are_all_gone_is_gone() -> None:
    table = DueTable()
    table.add_all(array("q", range(BLOCK_SIZE)), array("q", [after(HOUR)]) * BLOCK_SIZE)

    assert all(table.pop(timer) == after(HOUR) for timer in range(BLOCK_SIZE))

    assert (list(table.block_sizes()), len(table), table.pop(5)) == ([], 0, None)


def test_the_first_due_of_many_asks_only_for_timers_that_could_be_the_first() -> None:
    count = 100_000
    dues = array("q", [HOUR + timer for timer in range(count)])
    asked: list[int] = []

    def due_of(timer: int) -> int | None:
        asked.append(timer)
        return None if timer < 3 else HOUR + timer

    assert first_pending(dues, array("q", range(count)), due_of) == HOUR + 3
    assert asked == [0, 1, 2, 3]


def test_no_timer_of_a_bucket_may_be_pending() -> None:
    assert first_pending(array("q", [5, 4]), array("q", [1, 2]), lambda _: None) == -1
    assert first_pending(array("q"), array("q"), None) == -1
    assert first_pending(array("q", [5, 4]), array("q", [1, 2]), None) == 4


def test_the_first_due_is_known_while_a_timer_before_it_is_cancelled() -> None:
    wheel = Wheel(NOW)
    for timer in range(10):
        wheel.insert(timer, after(HOUR + timer))
    wheel.cancel(0)
    wheel.cancel(1)
    assert wheel.next_due() == after(HOUR + 2)


@pytest.mark.parametrize("cancelled", [0, 3])
def test_a_large_bucket_is_opened_in_steps_and_nothing_fires_before_the_first(
    cancelled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.delivery.wheel.wheel.POURED_AT_ONCE", 10)
    wheel = Wheel(NOW)
    begin = Timestamp(((TICK >> 20) + 3 << 20) * TICK_NS)
    dues = array("q", [begin + SECOND - timer for timer in range(100)])
    wheel.insert_all(array("q", range(100)), dues)
    for timer in range(cancelled):
        wheel.cancel(timer)
    now = Timestamp(begin + (TICK_NS << 20))

    steps = [wheel.advance(now, 100) for _ in range(9)]
    assert steps == [[]] * 9
    # Looked at again at once, and what was cancelled meanwhile does not fire.
    assert wheel.next_deadline() == 0
    wheel.cancel(98)
    fired = wheel.advance(now, 100)
    assert numbers(fired) == [99, *range(97, cancelled - 1, -1)]
    assert wheel.next_deadline() is None


# ---- when timers fire ----------------------------------------------------------------------


def test_the_wheel_reaches_671088_seconds_and_640_milliseconds() -> None:
    assert WHEEL_REACH_NS == 671_088_640 * MILLISECOND
    assert WHEEL_REACH_NS == 256 * 64 * 64 * 64 * TICK_NS


def test_a_timer_fires_with_the_first_tick_at_or_after_its_time() -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, Timestamp(at(5) + 1))

    assert wheel.advance(at(5)) == []
    assert wheel.advance(Timestamp(at(6) - 1)) == []
    assert wheel.advance(at(6)) == [(7, at(5) + 1)]
    assert len(wheel) == 0


def test_a_timer_that_is_due_on_a_tick_fires_on_that_tick() -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, at(5))

    assert wheel.advance(Timestamp(at(5) - 1)) == []
    assert wheel.advance(at(5)) == [(7, at(5))]


@pytest.mark.parametrize("delay_ns", [1, MILLISECOND, 9 * MILLISECOND])
def test_less_than_a_tick_fires_on_the_next_tick(delay_ns: int) -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, after(delay_ns))

    assert wheel.advance(after(delay_ns)) == []
    assert wheel.advance(at(1)) == [(7, after(delay_ns))]


@pytest.mark.parametrize("late_ns", [TICK_NS, HOUR, NOW, NOW + 1])
def test_what_is_due_already_fires_at_once(late_ns: int) -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, after(-late_ns))

    deadline = wheel.next_deadline()
    assert deadline is not None
    assert deadline <= NOW
    assert wheel.advance(NOW) == [(7, NOW - late_ns)]


BORDERS = [border + step for border in (1 << 8, 1 << 14, 1 << 20, 1 << 26) for step in (-1, 0, 1)]


@pytest.mark.parametrize("ticks", [1, 2, *BORDERS])
@pytest.mark.parametrize("begin", [TICK, TICK | 255, (TICK >> 20) << 20, TICK | (1 << 20) - 1])
def test_a_timer_of_every_ring_fires_at_its_own_tick(ticks: int, begin: int) -> None:
    wheel = Wheel(Timestamp(begin * TICK_NS + 3))
    wheel.insert(7, Timestamp((begin + ticks) * TICK_NS - 2))

    seen = wakes(wheel)
    assert seen[-1] == ((begin + ticks) * TICK_NS, [7])
    # At most once per ring on the way down.
    assert len(seen) <= 4


def test_cascading_computes_the_remainder_of_each_timer_again() -> None:
    # All of them share one bucket of the coarsest ring, then fewer and fewer.
    begin = Timestamp(((TICK >> 20) + 3 << 20) * TICK_NS)
    rests = [0, 1, 10 * MILLISECOND, 2 * SECOND, 3 * SECOND, 170 * SECOND, HOUR, 2 * HOUR]
    wheel = Wheel(NOW)
    for timer, rest in enumerate(rests):
        wheel.insert(timer, Timestamp(begin + rest))

    fired = {timer: moment for moment, timers in wakes(wheel) for timer in timers}
    for timer, rest in enumerate(rests):
        assert 0 <= fired[timer] - (begin + rest) < TICK_NS


def test_timers_fire_in_order_of_due_time_and_then_of_number() -> None:
    wheel = Wheel(NOW)
    for timer, due in ((4, 300), (9, 100), (1, 300), (8, 100), (2, 200)):
        wheel.insert(timer, after(due * SECOND))

    assert numbers(wheel.advance(after(HOUR))) == [8, 9, 2, 1, 4]


def test_after_a_long_pause_everything_overdue_fires_and_nothing_else() -> None:
    wheel = Wheel(NOW)
    delays = [2**power * MILLISECOND for power in range(30)]
    for timer, delay in enumerate(delays):
        wheel.insert(timer, after(delay))

    assert numbers(wheel.advance(after(HOUR))) == [
        timer for timer, delay in enumerate(delays) if delay < HOUR
    ]
    assert numbers(wheel.advance(FAR)) == [
        timer for timer, delay in enumerate(delays) if delay >= HOUR
    ]


def test_a_pending_number_cannot_be_inserted_again() -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, after(SECOND))
    with pytest.raises(AssertionError):
        wheel.insert(7, after(HOUR))
    assert wheel.due_of(7) == after(SECOND)


def test_a_number_that_does_not_fit_leaves_no_trace() -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, after(SECOND))
    with pytest.raises(OverflowError):
        wheel.insert(1 << 63, after(SECOND))
    with pytest.raises(AssertionError):
        wheel.insert(8, Timestamp(1 << 63))
    assert wheel.advance(FAR) == [(7, after(SECOND))]


# ---- cancelling ----------------------------------------------------------------------------


def test_a_cancelled_timer_never_fires_and_cancel_says_that_it_was_in_time() -> None:
    wheel = Wheel(NOW)
    for timer in range(6):
        wheel.insert(timer, after(10**timer * 10 * MILLISECOND))

    assert [wheel.cancel(timer) for timer in (1, 3, 5)] == [True, True, True]
    assert wheel.due_of(3) is None
    assert numbers(wheel.advance(FAR)) == [0, 2, 4]


def test_cancel_says_that_it_was_too_late() -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, after(SECOND))
    wheel.insert(8, after(SECOND))
    assert wheel.cancel(8)
    wheel.advance(after(2 * SECOND))

    assert not wheel.cancel(7)
    assert not wheel.cancel(8)
    assert not wheel.cancel(9)


def test_cancelling_from_inside_a_firing_bucket_never_loses_the_rest_of_it() -> None:
    wheel = Wheel(NOW)
    for timer in range(10):
        wheel.insert(timer, after(SECOND))

    fired = wheel.advance(after(2 * SECOND), limit=3)
    assert numbers(fired) == [0, 1, 2]
    assert wheel.cancel(3)
    assert wheel.cancel(8)
    assert not wheel.cancel(1)
    wheel.insert(20, after(SECOND))
    fired = wheel.advance(after(2 * SECOND), limit=2)
    assert numbers(fired) == [4, 5]
    assert numbers(wheel.advance(after(2 * SECOND))) == [6, 7, 9, 20]
    assert wheel.next_deadline() is None


def test_what_the_limit_left_over_asks_to_be_fired_at_once() -> None:
    wheel = Wheel(NOW)
    for timer in range(4):
        wheel.insert(timer, after(timer * HOUR))
    later = after(3 * HOUR + SECOND)

    assert wheel.advance(later, limit=0) == []
    assert numbers(wheel.advance(later, limit=2)) == [0, 1]
    deadline = wheel.next_deadline()
    assert deadline is not None
    assert deadline <= later
    assert numbers(wheel.advance(later, limit=99)) == [2, 3]


def test_what_a_pause_made_due_is_cancelled_in_time_while_its_coarse_bucket_fires() -> None:
    wheel = Wheel(NOW)
    begin = Timestamp(((TICK >> 20) + 3 << 20) * TICK_NS)
    for timer in range(10):
        wheel.insert(timer, Timestamp(begin + timer * 100 * SECOND))
    much_later = Timestamp(begin + 10 * HOUR)

    assert numbers(wheel.advance(much_later, limit=2)) == [0, 1]
    assert wheel.cancel(5)
    assert wheel.cancel(9)
    assert numbers(wheel.advance(much_later)) == [2, 3, 4, 6, 7, 8]


@pytest.mark.parametrize("second_ns", [SECOND, SECOND + 1, HOUR, MILLISECOND, -SECOND])
@pytest.mark.parametrize("first_ns", [SECOND, 5 * HOUR, -SECOND])
def test_a_number_that_is_used_again_fires_once_and_at_its_new_time(
    first_ns: int, second_ns: int
) -> None:
    wheel = Wheel(NOW)
    # Company, so that the cancelled one is not swept out at once.
    for timer in range(10):
        wheel.insert(timer, after(first_ns))
    assert wheel.cancel(7)
    wheel.insert(7, after(second_ns))

    assert wheel.due_of(7) == after(second_ns)
    assert numbers(wheel.page(0, 99)).count(7) == 1
    fired = wheel.advance(FAR)
    assert fired == sorted(fired, key=lambda timer: (timer[1], timer[0]))
    assert [due for timer, due in fired if timer == 7] == [after(second_ns)]
    assert len(fired) == 10


def test_cancelled_timers_do_not_pile_up() -> None:
    wheel = Wheel(NOW)
    wheel.insert(0, after(HOUR))
    tracemalloc.start()
    for timer in range(1, 20_001):
        wheel.insert(timer, after(HOUR + timer % 7 * MILLISECOND))
        assert wheel.cancel(timer)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size < 20_000
    assert numbers(wheel.page(0, 9)) == [0]


def test_when_everything_is_cancelled_the_wheel_asks_for_nothing() -> None:
    wheel = Wheel(NOW)
    for timer in range(100):
        wheel.insert(timer, after(timer * timer * SECOND))
    for timer in range(100):
        assert wheel.cancel(timer)

    assert wheel.next_deadline() is None
    assert wheel.page(0, 10) == []
    assert len(wheel) == 0


# ---- clocks that jump ----------------------------------------------------------------------

JUMPS = [TICK_NS, SECOND, 3 * SECOND, 200 * SECOND, 4 * HOUR, 300 * HOUR, 9_000 * HOUR]


@pytest.mark.parametrize("jump_ns", JUMPS)
def test_when_the_clock_goes_back_nothing_fires_early_and_nothing_is_lost(jump_ns: int) -> None:
    wheel = Wheel(NOW)
    delays = [2**power * MILLISECOND for power in range(30)]
    for timer, delay in enumerate(delays):
        wheel.insert(timer, after(delay))

    assert wheel.advance(after(-jump_ns)) == []
    assert len(wheel) == len(delays)
    fired = {timer: moment for moment, timers in wakes(wheel) for timer in timers}
    for timer, delay in enumerate(delays):
        assert 0 <= fired[timer] - after(delay) < TICK_NS


@pytest.mark.parametrize("jump_ns", JUMPS)
def test_timers_inserted_after_the_clock_went_back_fire_by_the_new_clock(jump_ns: int) -> None:
    wheel = Wheel(NOW)
    wheel.insert(1, after(SECOND))
    wheel.advance(after(-jump_ns))
    wheel.insert(2, after(-jump_ns + 20 * MILLISECOND))
    wheel.insert(3, after(5 * SECOND))

    assert wheel.advance(after(-jump_ns + 10 * MILLISECOND)) == []
    assert numbers(wheel.advance(after(-jump_ns + 30 * MILLISECOND))) == [2]
    assert numbers(wheel.advance(after(2 * SECOND))) == [1]
    assert numbers(wheel.advance(after(6 * SECOND))) == [3]


def test_what_was_due_before_the_clock_went_back_waits_again() -> None:
    wheel = Wheel(NOW)
    for timer in range(5):
        wheel.insert(timer, after(SECOND))
    assert numbers(wheel.advance(after(2 * SECOND), limit=2)) == [0, 1]

    assert wheel.advance(NOW) == []
    assert wheel.cancel(3)
    assert wheel.next_deadline() == at(100) + TICK_NS
    assert numbers(wheel.advance(after(2 * SECOND))) == [2, 4]


def test_a_timer_beyond_the_reach_is_kept_and_fires_on_time() -> None:
    wheel = Wheel(NOW)
    wheel.insert(1, after(WHEEL_REACH_NS))
    wheel.insert(2, after(10 * WHEEL_REACH_NS))
    wheel.insert(3, after(2 * WHEEL_REACH_NS))

    assert numbers(wheel.page(0, 9)) == [1, 3, 2]
    seen = [(timer, moment) for moment, timers in wakes(wheel) for timer in timers]
    assert numbers(seen) == [1, 3, 2]
    for (_, moment), turns in zip(seen, (1, 2, 10), strict=True):
        assert 0 <= moment - after(turns * WHEEL_REACH_NS) < TICK_NS


# ---- looking ahead -------------------------------------------------------------------------


def test_an_idle_wheel_sleeps_until_a_bucket_begins() -> None:
    wheel = Wheel(NOW)
    assert wheel.next_deadline() is None
    wheel.insert(1, after(100 * HOUR))

    seen = wakes(wheel)
    assert seen[0][0] > after(90 * HOUR)
    assert [timers for _, timers in seen] == [[]] * (len(seen) - 1) + [[1]]
    assert all(earlier < later for (earlier, _), (later, _) in pairwise(seen))


def test_a_timer_of_the_finest_ring_wakes_exactly_at_its_tick() -> None:
    begin = (TICK >> 8) << 8
    wheel = Wheel(Timestamp(begin * TICK_NS))
    wheel.insert(1, Timestamp((begin + 255) * TICK_NS))
    wheel.insert(2, Timestamp((begin + 200) * TICK_NS - 1))

    assert wakes(wheel) == [((begin + 200) * TICK_NS, [2]), ((begin + 255) * TICK_NS, [1])]


def test_asking_for_the_deadline_passes_over_the_cancelled() -> None:
    wheel = Wheel(NOW)
    wheel.insert(1, after(-SECOND))
    wheel.insert(2, after(30 * MILLISECOND))
    wheel.insert(3, after(30 * HOUR))
    assert wheel.cancel(1)
    assert wheel.cancel(2)

    deadline = wheel.next_deadline()
    assert deadline is not None
    assert deadline > after(20 * HOUR)


def test_a_page_shows_pending_timers_in_the_order_in_which_they_will_fire() -> None:
    wheel = Wheel(NOW)
    delays = [(timer * 7919) % 1009 for timer in range(1000)]
    for timer, delay in enumerate(delays):
        wheel.insert(timer, after((delay - 5) ** 3 * MILLISECOND))
    for timer in range(0, 1000, 3):
        assert wheel.cancel(timer)
    order = sorted((timer for timer in range(1000) if timer % 3), key=lambda timer: delays[timer])

    for skip in (0, 1, 5, 100, 333, 660, 666, 700):
        assert numbers(wheel.page(skip, 7)) == order[skip : skip + 7]
    assert wheel.page(3, 0) == []
    assert numbers(wheel.page(0, 5000)) == order
    assert numbers(wheel.advance(FAR)) == order


def test_a_page_of_one_crowded_bucket_is_in_order_near_its_beginning_and_deep_inside() -> None:
    wheel = Wheel(NOW)
    for timer in range(2000):
        wheel.insert(timer, after(50 * HOUR - timer * MILLISECOND))

    assert numbers(wheel.page(0, 3)) == [1999, 1998, 1997]
    assert numbers(wheel.page(1500, 3)) == [499, 498, 497]
