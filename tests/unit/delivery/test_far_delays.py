"""Messages that are due in months: no timer before they come near, and never late for it."""

from array import array
from random import Random

from goqueue.delivery import WHEEL_REACH_NS, Delays
from goqueue.model import HOUR, SECOND, Priority, Timestamp
from goqueue.model.requests import DelayState

NOW = Timestamp(1_700_000_000 * SECOND)
DAY = 24 * HOUR


def _many(dues: list[int]) -> Delays:
    delays = Delays(NOW)
    lanes = array("B", [Priority.NORMAL] * len(dues))
    delays.add_all(array("q", range(len(dues))), array("q", dues), lanes)
    return delays


def _fire_all(delays: Delays, now: int) -> tuple[list[int], int]:
    """What is due, however often one has to ask, and how often that was."""
    fired: list[int] = []
    asked = 0
    while True:
        asked += 1
        found = delays.due(Timestamp(now), 1000)
        fired += found
        deadline = delays.next_deadline()
        if not found and (deadline is None or deadline > now):
            return fired, asked


def test_only_what_is_near_has_a_timer() -> None:
    delays = _many([NOW + DAY, NOW + 200 * DAY, NOW + 300 * DAY])

    assert len(delays) == 3
    assert delays.far_count == 2
    assert delays.next_due() == NOW + DAY


def test_a_year_goes_by_in_steps_and_every_message_comes_in_time() -> None:
    chance = Random(3)
    dues = [NOW + chance.randrange(366 * DAY) for _ in range(5000)]
    delays = _many(dues)
    fired: list[int] = []
    now = int(NOW)
    steps = 0
    while (deadline := delays.next_deadline()) is not None:
        now = max(now, deadline)
        found = delays.due(Timestamp(now), 1000)
        assert all(dues[offset] <= now for offset in found)
        fired += found
        steps += 1

    assert fired == sorted(range(len(dues)), key=lambda offset: (dues[offset], offset))
    # Each block is looked through some hundred times a year, and each timer fires once.
    assert steps < 5 * len(dues)


def test_after_a_long_absence_the_order_is_kept_and_the_work_is_bounded() -> None:
    chance = Random(4)
    dues = [NOW + WHEEL_REACH_NS + chance.randrange(300 * DAY) for _ in range(20_000)]
    delays = _many(dues)
    assert delays.far_count == len(dues)
    assert delays.due(Timestamp(NOW + 366 * DAY), 1000) == []
    fired, asked = _fire_all(delays, NOW + 366 * DAY)

    assert fired == sorted(range(len(dues)), key=lambda offset: (dues[offset], offset))
    assert asked < 40


def test_a_far_message_can_be_cancelled_and_stays_after_a_refusal() -> None:
    delays = _many([NOW + 100 * DAY, NOW + 200 * DAY])
    assert delays.leave(0)
    assert not delays.leave(0)
    delays.stay(0)
    assert delays.next_due() == NOW + 100 * DAY
    assert delays.leave(0)
    delays.cancel(0, 2)

    assert len(delays) == 1
    assert delays.next_due() == NOW + 200 * DAY
    found = delays.find(0)
    assert found is not None
    assert found.state is DelayState.CANCELLED
    assert _fire_all(delays, NOW + 150 * DAY)[0] == []
    assert _fire_all(delays, NOW + 200 * DAY)[0] == [1]


def test_a_snapshot_brings_far_messages_back_without_timers() -> None:
    stated = _many([NOW + DAY, NOW + 300 * DAY]).stated(1, 2)
    delays = Delays(NOW)
    assert delays.restore(stated)

    assert (len(delays), delays.far_count) == (2, 1)


def test_what_is_dropped_from_the_log_is_forgotten() -> None:
    delays = _many([NOW + 300 * DAY] * 3000)
    delays.drop_below(2000)

    assert delays.far_count == len(delays) == 1000
    assert _fire_all(delays, NOW + 300 * DAY)[0] == list(range(2000, 3000))
