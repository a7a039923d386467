"""Messages that transactions hold, as one queue has them."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery import DeliveryQueue, LeasePart, Position
from goqueue.delivery.position import TransactionHolds
from goqueue.model import Folded, Instant, TransactionKey
from goqueue.model.requests import LaneSettings
from goqueue.records import MessageSummary
from tests.unit.delivery.leased import offsets_of, singles

HOLDER = TransactionKey(1, 1)
OTHER = TransactionKey(2, 1)


def queue_of(position: Position, *, keeps_key_order: bool = False) -> DeliveryQueue:
    return DeliveryQueue(position, keeps_key_order=keeps_key_order, lanes=LaneSettings())


def message(offset: int, key: bytes = b"", lane: int = 2) -> MessageSummary:
    return MessageSummary(offset, 10, lane, key, b"")


def handed(queue: DeliveryQueue, member: str = "m", deadline: int = 100) -> list[int]:
    return offsets_of(singles(queue.lease(member, 1000, 1 << 30, Instant(deadline), 1)))


def found_at(queue: DeliveryQueue, offset: int, serial: int) -> LeasePart:
    found = queue.find_lease(serial, Folded.of([offset]))
    assert found is not None
    return found


# TransactionHolds


@given(
    st.lists(
        st.tuples(
            st.sampled_from([HOLDER, OTHER]),
            st.booleans(),
            st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=4),
        ),
        max_size=12,
    )
)
def test_pins_hold_what_was_added_until_their_holder_is_removed(
    steps: list[tuple[TransactionKey, bool, list[tuple[int, int]]]],
) -> None:
    pins = TransactionHolds()
    held: dict[TransactionKey, set[int]] = {}
    for holder, is_removed, ranges in steps:
        if is_removed:
            pins.remove(holder)
            held.pop(holder, None)
        else:
            pins.add(holder, [(first, first + size) for first, size in ranges])
            mine = held.setdefault(holder, set())
            mine.update(offset for first, size in ranges for offset in range(first, first + size))
        for offset in range(45):
            assert (offset in pins) == any(offset in each for each in held.values())


# A queue


def test_what_is_pinned_before_it_is_learned_is_ready_after_the_release() -> None:
    position = Position(0)
    position.holds.add(HOLDER, [(1, 3)])
    queue = queue_of(position)
    queue.learn([message(offset) for offset in range(5)], 5)
    assert handed(queue) == [0, 3, 4]

    position.holds.remove(HOLDER)
    queue.release_held(range(10))

    assert handed(queue) == [1, 2]


def test_what_a_commit_settles_before_it_is_learned_is_never_handed_out() -> None:
    position = Position(0)
    position.holds.add(HOLDER, [(7, 8)])
    queue = queue_of(position)
    queue.learn([message(offset) for offset in range(5)], 5)

    position.holds.remove(HOLDER)
    position.settle(0, [7], 0)
    queue.ack_held([7])
    queue.learn([message(offset) for offset in range(5, 10)], 10)

    assert handed(queue) == [0, 1, 2, 3, 4, 5, 6, 8, 9]


def test_a_lease_that_is_released_runs_on_and_is_counted_as_its_members() -> None:
    position = Position(0)
    queue = queue_of(position)
    queue.learn([message(0)], 1)
    (held,) = singles(queue.lease("m", 10, 100, Instant(50), 7))
    position.holds.add(HOLDER, [(0, 1)])
    queue.hold(held)
    assert (queue.in_flight, queue.load_of("m"), queue.next_deadline()) == (0, 0, None)
    assert offsets_of([found_at(queue, 0, 7)]) == []
    assert queue.expire(Instant(60)) == []

    position.holds.remove(HOLDER)
    queue.release_held(range(10))

    assert offsets_of([found_at(queue, 0, 7)]) == [0]
    assert (queue.in_flight, queue.load_of("m"), queue.next_deadline()) == (1, 1, 50)
    assert offsets_of(queue.expire(Instant(60))) == [0]
    queue.release(held)
    assert handed(queue) == [0]


def test_what_others_hold_is_not_released() -> None:
    position = Position(0)
    position.holds.add(HOLDER, [(0, 3)])
    position.holds.add(OTHER, [(2, 4)])
    queue = queue_of(position)
    queue.learn([message(offset) for offset in range(5)], 5)
    assert handed(queue) == [4]

    position.holds.remove(HOLDER)
    queue.release_held(range(10))

    assert handed(queue) == [0, 1]


def test_what_rests_or_is_given_back_below_a_held_floor_is_handed_to_nobody() -> None:
    position = Position(0)
    queue = queue_of(position)
    queue.learn([message(offset) for offset in range(4)], 4)
    leased = singles(queue.lease("m", 3, 1 << 30, Instant(100), 1))
    queue.nack(leased[0], Instant(10))
    position.holds.add(HOLDER, [(0, 3)])
    queue.hold_below(3)
    queue.release(leased[1])
    assert queue.release_member("m") == 1
    queue.expire(Instant(20))
    assert handed(queue) == [3]

    position.holds.remove(HOLDER)
    queue.release_held(range(10))

    assert handed(queue) == [0, 1, 2]


def test_what_is_pinned_survives_learning_again() -> None:
    position = Position(0)
    queue = queue_of(position)
    queue.learn([message(offset) for offset in range(4)], 4)
    (leased,) = singles(queue.lease("m", 1, 1 << 30, Instant(100), 1))
    position.holds.add(HOLDER, [(0, 1)])
    queue.hold(leased)

    queue.relearn()
    queue.learn([message(offset) for offset in range(int(queue.cursor), 4)], 4)

    assert handed(queue) == [1, 2, 3]
    position.holds.remove(HOLDER)
    queue.ack_held([0])
    assert queue.floor == 1


def test_a_key_goes_on_behind_what_a_commit_settles() -> None:
    position = Position(0)
    queue = queue_of(position, keeps_key_order=True)
    queue.learn(
        [message(0, key=b"k"), message(1, key=b"k"), message(2, key=b"j"), message(3, key=b"k")], 4
    )
    (leased,) = singles(queue.lease("m", 1, 1 << 30, Instant(100), 1))
    position.holds.add(HOLDER, [(0, 1)])
    queue.hold(leased)
    assert handed(queue) == [2]

    position.holds.remove(HOLDER)
    queue.ack_held([0])

    assert handed(queue) == [1]


def test_a_floor_passes_over_what_is_pinned_in_the_order_of_keys() -> None:
    position = Position(0)
    position.holds.add(HOLDER, [(0, 2)])
    queue = queue_of(position, keeps_key_order=True)
    queue.learn([message(offset, key=b"k") for offset in range(4)], 4)
    assert handed(queue) == []

    position.holds.remove(HOLDER)
    queue.ack_held([])
    queue.settle_below(2)

    assert handed(queue) == [2]
