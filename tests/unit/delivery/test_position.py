"""The durable place of a group in a partition: floors, counts, and what is stated of them."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery import (
    REASON_BYTES_MAX,
    Checkpoint,
    Position,
    PositionStated,
    cut_reason,
)

OFFSETS = st.integers(0, 20)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("settle"), OFFSETS, st.sets(OFFSETS, max_size=4)),
        st.tuples(st.just("count"), st.integers(1, 4), st.sets(OFFSETS, max_size=4)),
        st.tuples(st.just("release"), st.integers(1, 4), st.sets(OFFSETS, max_size=4)),
        st.tuples(st.just("die"), OFFSETS, st.just(set[int]())),
        st.tuples(st.just("live"), OFFSETS, st.just(set[int]())),
        st.tuples(st.just("record_reason"), OFFSETS, st.just(set[int]())),
    ),
    max_size=30,
)
Step = tuple[str, int, set[int]]


def take(position: Position, step: Step, at: int) -> None:
    kind, number, offsets = step
    match kind:
        case "settle":
            position.settle(number, sorted(offsets), at)
        case "count":
            position.count_delivery(number, position.unsettled(sorted(offsets)))
        case "release":
            position.release_delivery(number, position.unsettled(sorted(offsets)))
        case "die":
            position.begin_dead_lettering(number)
        case "live":
            position.cancel_dead_lettering(number)
        case _:
            position.record_reason(number, f"because of {number}")


@given(STEPS)
def test_the_floor_never_falls_and_counts_fall_only_by_a_release_of_the_lease_that_counted_it(
    steps: list[Step],
) -> None:
    position = Position(0)
    floor = 0
    counts = dict.fromkeys(range(21), 0)
    for at, step in enumerate(steps):
        take(position, step, at)
        assert position.floor >= floor
        floor = position.floor
        for offset, before in counts.items():
            count = position.attempts_of(offset)
            is_released = step[0] == "release" and offset in step[2] and before == step[1]
            assert count >= before - is_released or position.has_settled(offset)
            counts[offset] = count


@given(STEPS)
def test_nothing_is_kept_of_what_is_settled(steps: list[Step]) -> None:
    position = Position(0)
    for at, step in enumerate(steps):
        take(position, step, at)

    for offset in range(30):
        if position.has_settled(offset):
            assert position.attempts_of(offset) == 0
            assert position.reason_of(offset) == ""


def test_a_message_is_dying_until_it_is_settled_by_name_whatever_is_committed() -> None:
    position = Position(0)
    position.begin_dead_lettering(3)
    position.settle(10, [], 1)
    assert position.is_dead_lettering(3)

    position.settle(0, [3], 2)
    assert not position.is_dead_lettering(3)


@given(STEPS, STEPS)
def test_a_position_restored_goes_on_like_the_one_that_was_stated(
    before: list[Step], after: list[Step]
) -> None:
    position, restored = Position(0), Position(99)
    for step in before:
        take(position, step, 7)
    restored.restore(position.stated)
    for step in after:
        take(position, step, 8)
        take(restored, step, 8)

    assert restored.stated == position.stated


@given(STEPS)
def test_a_change_applied_twice_is_the_same_as_once(steps: list[Step]) -> None:
    once, twice = Position(0), Position(0)
    for step in steps:
        take(once, step, 1)
        take(twice, step, 1)
        take(twice, step, 1)

    assert once.stated == twice.stated


def test_messages_that_are_gone_leave_no_counts_behind() -> None:
    position = Position(0)
    position.count_delivery(2, range(4))
    position.settle(4, [3], 1)

    assert position.stated.attempts == []


def test_a_time_never_goes_back() -> None:
    position = Position(0)
    position.settle(1, [], 10)
    position.settle(2, [], 5)

    assert position.updated_at == 10


@given(STEPS, OFFSETS)
def test_a_position_whose_log_lost_its_end_keeps_what_is_below(steps: list[Step], end: int) -> None:
    position, whole = Position(0), Position(0)
    for step in steps:
        take(position, step, 1)
        take(whole, step, 1)
    has_changed = position.cut(end)

    assert has_changed == (position.stated != whole.stated)
    for offset in range(end):
        assert position.has_settled(offset) == whole.has_settled(offset)
        assert position.attempts_of(offset) == whole.attempts_of(offset)
        assert position.is_dead_lettering(offset) == whole.is_dead_lettering(offset)
        assert position.reason_of(offset) == whole.reason_of(offset)
    for offset in range(end, 30):
        assert not position.has_settled(offset)
        assert position.attempts_of(offset) == 0
        assert not position.is_dead_lettering(offset)
        assert position.reason_of(offset) == ""


@given(STEPS, STEPS, st.integers(1, 5), st.data())
def test_pieces_that_are_told_among_changes_amount_to_the_position(
    before: list[Step], during: list[Step], size: int, data: st.DataObject
) -> None:
    position, told, stated = Position(0), Position(0), Position(0)
    for step in before:
        take(position, step, 7)
        take(told, step, 7)
    pieces: list[PositionStated] = []
    rest = position.state(size)
    # What is journaled behind the beginning of the statement: pieces and changes as they come.
    stated.restore(next(rest))
    for step in during:
        take(position, step, 8)
        take(stated, step, 8)
        if data.draw(st.booleans()) and (piece := next(rest, None)) is not None:
            pieces.append(piece)
            stated.add(piece)
    for piece in rest:
        stated.add(piece)

    stated_now, now = stated.stated, position.stated
    assert (stated_now.floor, stated_now.settled) == (now.floor, now.settled)
    assert stated_now.scattered == now.scattered
    assert dict(stated_now.attempts) == dict(now.attempts)
    assert dict(stated_now.reasons) == dict(now.reasons)
    assert all(len(each.attempts) <= size and len(each.reasons) <= size for each in pieces)


@given(STEPS, STEPS, st.integers(1, 5), st.data())
def test_changes_said_again_behind_pieces_change_nothing(
    before: list[Step], during: list[Step], size: int, data: st.DataObject
) -> None:
    position, again = Position(0), Position(0)
    for step in before:
        take(position, step, 7)
    # A snapshot: all its pieces come first, and every change since it was begun comes behind them.
    rest = position.state(size)
    pieces = [next(rest)]
    for step in during:
        take(position, step, 8)
        if data.draw(st.booleans()) and (piece := next(rest, None)) is not None:
            pieces.append(piece)
    pieces.extend(rest)
    again.restore(pieces[0])
    for piece in pieces[1:]:
        again.add(piece)
    for step in during:
        take(again, step, 8)

    assert (again.floor, again.stated.scattered) == (position.floor, position.stated.scattered)
    assert dict(again.stated.attempts) == dict(position.stated.attempts)
    assert dict(again.stated.reasons) == dict(position.stated.reasons)


def test_a_position_with_very_many_counts_is_stated_in_small_pieces() -> None:
    position = Position(0)
    position.count_delivery(3, range(1, 20_000))
    position.settle(0, range(100_000, 2_000_000, 600), 1)
    for offset in range(1, 3000):
        position.record_reason(offset, "\x01" * 5000)

    sizes = [len(msgspec.json.encode(piece)) for piece in position.state()]
    assert max(sizes) < 1024 * 1024
    restored = Position(5)
    first, *others = position.state()
    restored.restore(first)
    for piece in others:
        restored.add(piece)
    assert restored.stated == position.stated


@given(st.text(st.characters(codec="utf-8"), max_size=400))
def test_a_reason_is_cut_between_characters(reason: str) -> None:
    cut = cut_reason(reason)

    assert reason.startswith(cut)
    assert len(cut.encode()) <= REASON_BYTES_MAX
    assert cut == reason or len(cut.encode()) > REASON_BYTES_MAX - 4


def test_only_the_reason_of_the_last_failure_is_kept() -> None:
    position = Position(0)
    position.record_reason(1, "no such customer")
    position.record_reason(1, "")

    assert position.reason_of(1) == ""


@given(STEPS, OFFSETS)
def test_a_floor_that_passes_unnamed_offsets_forgets_their_counts_alone(
    steps: list[Step], floor: int
) -> None:
    position = Position(0)
    for at, step in enumerate(steps):
        take(position, step, at)
    before = {offset: position.attempts_of(offset) for offset in range(30)}
    position.settle(floor, [], at=99)

    for offset, count in before.items():
        assert position.attempts_of(offset) == (0 if offset < position.floor else count)


@given(STEPS, STEPS, STEPS)
def test_a_position_tells_later_what_it_was_at_a_checkpoint(
    before: list[Step], after: list[Step], again: list[Step]
) -> None:
    checkpoint = Checkpoint()
    position = Position(0, checkpoint=checkpoint)
    for number, step in enumerate(before):
        take(position, step, number + 1)
    for steps in (after, again):
        expected = position.stated if position.says_something else None
        checkpoint.take()
        for number, step in enumerate(steps):
            take(position, step, number + 100)
        assert position.stated_at_checkpoint() == expected


def test_a_position_that_is_made_after_a_checkpoint_was_nothing_at_it() -> None:
    checkpoint = Checkpoint()
    checkpoint.take()
    position = Position(0, checkpoint=checkpoint)
    position.settle(5, (), 1)
    assert position.stated_at_checkpoint() is None


def test_what_a_commit_says_is_kept_until_the_position_moves_on() -> None:
    position = Position(0)
    position.settle(5, (), 1)
    position.record_metadata(5, "at five")
    again = Position(0)
    again.restore(position.stated)
    pieced = Position(0)
    for piece in position.state():
        pieced.add(piece)
    assert position.metadata == again.metadata == pieced.metadata == "at five"
    position.record_metadata(4, "a commit that came late")
    assert position.metadata == "at five"
    position.settle(5, (7,), 2)
    assert position.metadata == "at five"
    position.settle(0, (5,), 3)
    assert (position.floor, position.metadata) == (6, "")
