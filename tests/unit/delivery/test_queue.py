"""The delivery queue: limits, order, and what it forgets; the rest is in the machine beside it."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.delivery import LANES, DeliveryQueue, LeasePart, Position
from goqueue.model import HOUR, Folded, Instant, runs
from goqueue.model.requests import LaneSettings
from goqueue.records import MessageSummary
from tests.unit.delivery.leased import offsets_of, singles


def known(offset: int, key: bytes = b"", size: int = 10) -> MessageSummary:
    return MessageSummary(offset, size, 2, key, b"")


def filled(count: int, *, keeps_key_order: bool = False, key: bytes = b"") -> DeliveryQueue:
    queue = DeliveryQueue(Position(0), keeps_key_order=keeps_key_order)
    queue.learn([known(offset, key) for offset in range(count)], count)
    return queue


def lease(
    queue: DeliveryQueue, count: int = 1000, member: str = "m", serial: int = 1
) -> list[LeasePart]:
    return singles(queue.lease(member, count, 1 << 30, Instant(HOUR), serial))


def test_a_member_holds_at_most_a_thousand() -> None:
    queue = filled(1500)

    assert len(lease(queue)) == 1000
    assert lease(queue) == []
    assert len(lease(queue, member="other", serial=1001)) == 500


@given(st.sets(st.integers(0, 60), min_size=1), st.sets(st.integers(0, 60)), st.booleans())
def test_ranges_and_steps_select_the_messages_of_a_lease_that_they_name(
    leased: set[int], named: set[int], is_whole: bool
) -> None:
    queue = DeliveryQueue(Position(0), keeps_key_order=False)
    queue.learn([known(offset) for offset in sorted(leased)], 61)
    (new,) = queue.lease("m", 100, 1 << 30, Instant(HOUR), 1)
    wanted = sorted(leased if is_whole else named)
    steps = [*wanted[:1], *(after - before for before, after in pairwise(wanted))]

    for form in (Folded(runs(wanted)), Folded(steps=steps), Folded.of(wanted)):
        part = LeasePart(new.lease, new.lease.find(form))
        assert list(part.offsets) == [each for each in wanted if each in leased]


def test_more_is_wanted_only_while_few_are_ready() -> None:
    queue = filled(999)
    assert queue.wanted(2000) is not None
    queue.learn([known(999)], 1000)

    assert queue.wanted(2000) is None
    lease(queue, 1)
    assert queue.wanted(2000) is not None
    assert queue.wanted(1000) is None


def test_a_stuck_key_lets_only_so_many_wait_behind_it() -> None:
    queue = filled(100_001, keeps_key_order=True, key=b"k")

    assert queue.wanted(200_000) is None
    queue.ack(lease(queue))
    assert queue.wanted(200_000) is not None


def test_a_message_that_does_not_fit_is_the_next_to_be_leased() -> None:
    queue = DeliveryQueue(Position(0), keeps_key_order=False)
    queue.learn([known(0, size=5), known(1, size=50), known(2, size=5)], 3)
    first = singles(queue.lease("m", 10, 20, Instant(1), 1))
    second = singles(queue.lease("m", 10, 20, Instant(1), 2))

    assert offsets_of(first) == [0]
    assert offsets_of(second) == [1]


def test_offsets_that_hold_nothing_are_done() -> None:
    queue = DeliveryQueue(Position(2), keeps_key_order=False)
    queue.learn([known(4), known(7)], 10)
    queue.ack(lease(queue))

    assert queue.floor == queue.cursor == 10


def test_what_the_queue_knew_already_is_not_learned_twice() -> None:
    queue = filled(3)
    queue.learn([known(1), known(2), known(3)], 4)

    assert offsets_of(lease(queue)) == [0, 1, 2, 3]


def test_deadlines_of_leases_that_are_over_are_not_kept_for_hours() -> None:
    queue = DeliveryQueue(Position(0), keeps_key_order=False)
    for offset in range(30_000):
        queue.learn([known(offset)], offset + 1)
        queue.ack(lease(queue, serial=offset))
    (held,) = _one_more(queue, 30_000)
    for step in range(30_000):
        queue.extend(held, Instant(2 * HOUR + step))

    assert queue.next_deadline() == 2 * HOUR + 29_999
    assert queue.expire(Instant(2 * HOUR)) == []
    assert offsets_of(queue.expire(Instant(3 * HOUR))) == [30_000]


def _one_more(queue: DeliveryQueue, offset: int) -> list[LeasePart]:
    queue.learn([known(offset)], offset + 1)
    return lease(queue, serial=offset)


def test_what_is_done_before_its_lane_came_to_it_is_not_delivered() -> None:
    queue = DeliveryQueue(Position(0), keeps_key_order=False)
    queue.hide(5)
    queue.settle_dead_letters([7])
    queue.learn([known(offset) for offset in range(10)], 10)

    assert offsets_of(lease(queue)) == [0, 1, 2, 3, 4, 6, 8, 9]


def test_what_was_settled_in_another_life_is_not_delivered_again() -> None:
    position = Position(0)
    position.settle(0, [3, 5, 8], 1)
    queue = DeliveryQueue(position, keeps_key_order=False)
    queue.learn([known(offset) for offset in range(10)], 10)

    assert offsets_of(lease(queue)) == [0, 1, 2, 4, 6, 7, 9]


def test_a_lane_learns_in_passing_more_than_it_asks_for_but_not_without_end() -> None:
    queue = filled(24_000)

    assert queue.wanted(30_000) is None
    queue.learn([known(offset) for offset in range(24_000, 26_000)], 26_000)
    assert len(queue.lanes) == 24_000


def test_a_lease_that_is_nearly_over_keeps_little_in_memory() -> None:
    queue = filled(3000)
    first = queue.lease("m", 1000, 1 << 30, Instant(HOUR), 1)[0].lease
    second = queue.lease("n", 1000, 1 << 30, Instant(HOUR), 2)[0].lease
    queue.ack([LeasePart(first, first.select([(1, 500), (501, 1000)]))])
    queue.ack([LeasePart(second, second.select([(1000, 1600)]))])
    queue.extend(LeasePart(first, first.select([(500, 501)])), Instant(2 * HOUR))

    queue.lease("o", 10, 1 << 30, Instant(HOUR), 3)

    assert [len(first.messages), len(second.messages)] == [2, 1000]
    assert first.offsets == [0, 500]
    assert (queue.load_of("m"), queue.load_of("n")) == (2, 400)
    assert offsets_of(queue.expire(Instant(HOUR))) == [0, *range(1600, 2000), *range(2000, 2010)]
    # It is no longer known by what it began with.
    assert len(first.folded) == 2
    kept = queue.find_lease(1, Folded.of([500]))
    assert kept is not None
    assert list(queue.ack([kept])) == [500]


@given(
    st.lists(st.integers(0, LANES - 1), min_size=1, max_size=60),
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
)
@example([1, 0, 3, 2], [3])
def test_a_lease_of_several_lanes_has_its_messages_by_offset(
    lanes: list[int], counts: list[int]
) -> None:
    messages = [MessageSummary(at, 10 + at, lane, b"", b"") for at, lane in enumerate(lanes)]
    queue = DeliveryQueue(Position(0), keeps_key_order=False, lanes=LaneSettings(weights=(1,) * 5))
    queue.learn(messages, len(messages))
    left = list(range(len(messages)))

    for serial, count in enumerate(counts):
        for new in queue.lease(f"m{serial}", count, 1 << 30, Instant(HOUR), serial):
            offsets = sorted(new.offsets)
            assert list(new.lease.offsets) == offsets
            assert isinstance(new.lease.offsets, range) == (
                offsets[-1] - offsets[0] + 1 == len(offsets)
            )
            assert new.lease.size == sum(10 + offset for offset in offsets)
            assert [each.offset for each in new.lease.messages] == offsets
            left = [each for each in left if each not in offsets]
    assert len(left) == max(0, len(messages) - sum(counts))
