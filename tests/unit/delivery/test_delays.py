"""The delayed messages of one partition, as its log tells of them."""

from array import array
from collections.abc import Iterator

import msgspec
import pytest

from goqueue.delivery import Delayed, Delays, DelaysStated, decode_in_steps
from goqueue.model import SECOND, Offset, Priority, Timestamp
from goqueue.model.requests import DelayState

NOW = Timestamp(1_700_000_000 * SECOND)


def due_in(seconds: int) -> int:
    return NOW + seconds * SECOND


def delays(*seconds: int, first: int = 0) -> Delays:
    """Messages at neighbouring offsets, due in so many seconds."""
    made = Delays(NOW)
    for place, each in enumerate(seconds):
        made.add(first + place, due_in(each), Priority.NORMAL)
    return made


def after(seconds: int) -> Timestamp:
    return Timestamp(due_in(seconds))


def state_of(made: Delays, offset: int) -> DelayState | None:
    found = made.find(offset)
    return None if found is None else found.state


def offsets(made: Delays, count: int = 1000) -> list[int]:
    return [offset for _, offset in made.pending(count)]


def restored(stated: DelaysStated) -> Delays:
    made = Delays(NOW)
    assert made.restore(stated)
    return made


def added(made: Delays, *wanted: tuple[int, int, Priority]) -> None:
    """Offset, seconds and priority of messages that are committed together."""
    made.add_all(
        array("q", [offset for offset, _, _ in wanted]),
        array("q", [due_in(seconds) for _, seconds, _ in wanted]),
        array("B", [priority for _, _, priority in wanted]),
    )


@pytest.mark.parametrize("lanes", [[Priority.LOW] * 3, [Priority.LOW, Priority.HIGH, Priority.LOW]])
def test_messages_committed_together_are_as_if_each_was_added(lanes: list[Priority]) -> None:
    wanted = list(zip((3, 4, 9), (7, 5, 6), lanes, strict=True))
    together, one_by_one = delays(1), delays(1)
    added(together, *wanted)
    for offset, seconds, priority in wanted:
        one_by_one.add(offset, due_in(seconds), priority)

    assert together.stated(1, 10) == one_by_one.stated(1, 10)
    assert offsets(together) == offsets(one_by_one) == [0, 4, 9, 3]
    assert [together.find(offset) for offset in range(10)] == [
        one_by_one.find(offset) for offset in range(10)
    ]


def test_what_is_known_already_is_not_added_again() -> None:
    made = delays(5, 6)
    added(made, (0, 1, Priority.HIGH), (1, 1, Priority.HIGH), (2, 7, Priority.HIGH))
    assert offsets(made) == [0, 1, 2]
    assert made.due(after(4), 10) == []
    added(made, (1, 1, Priority.HIGH), (2, 1, Priority.HIGH))
    added(made)
    assert (len(made), offsets(made)) == (3, [0, 1, 2])


def test_a_message_is_pending_until_its_delivery_is_in_the_log() -> None:
    made = delays(5)
    assert made.due(after(4), 10) == []
    assert made.due(after(5), 10) == [0]
    assert (len(made), state_of(made, 0)) == (1, DelayState.PENDING)
    made.deliver(0, 1)

    assert (len(made), made.delivered_count) == (0, 1)
    assert made.find(0) == Delayed(
        offset=Offset(0),
        due=after(5),
        priority=Priority.NORMAL,
        state=DelayState.DELIVERED,
        delivered_offset=Offset(1),
    )


def test_what_is_on_its_way_does_not_fire_again() -> None:
    made = delays(1, 1, 2)
    assert made.due(after(1), 1) == [0]
    assert made.due(after(9), 10) == [1, 2]
    assert made.due(after(99), 10) == []
    assert made.next_deadline() is None


def test_messages_fire_by_due_time_and_those_due_together_by_offset() -> None:
    made = delays(3, 1, 2, 1)

    assert made.due(after(9), 10) == [1, 3, 2, 0]


def test_a_message_that_stays_fires_again_in_its_place() -> None:
    made = delays(1, 2)
    assert made.due(after(2), 10) == [0, 1]
    made.stay(1)
    made.stay(0)
    made.stay(0)

    assert made.due(after(2), 10) == [0, 1]


def test_a_message_that_was_delivered_does_not_stay() -> None:
    made = delays(1)
    made.due(after(1), 10)
    made.deliver(0, 1)
    made.stay(0)

    assert made.due(after(9), 10) == []
    assert len(made) == 0


def test_a_message_leaves_once() -> None:
    made = delays(1)
    assert made.leave(0)
    assert not made.leave(0)
    assert not made.leave(7)
    assert made.is_leaving(0)
    assert made.due(after(9), 10) == []
    made.cancel(0, 1)

    assert not made.is_leaving(0)
    assert state_of(made, 0) is DelayState.CANCELLED
    assert made.cancelled_count == 1


def test_the_first_end_counts() -> None:
    made = delays(1, 1)
    made.deliver(0, 2)
    made.cancel(0, 3)
    made.deliver(0, 4)
    made.cancel(1, 5)
    made.deliver(1, 6)
    made.expire(1)

    assert [state_of(made, 0), state_of(made, 1)] == [DelayState.DELIVERED, DelayState.CANCELLED]
    assert (made.delivered_count, made.cancelled_count) == (1, 1)
    found = made.find(0)
    assert found is not None
    assert found.delivered_offset == 2


def test_ends_of_messages_that_nobody_knows_change_nothing() -> None:
    made = delays(1)
    made.deliver(7, 8)
    made.cancel(9, 10)
    made.expire(11)

    assert (len(made), made.delivered_count, made.cancelled_count) == (1, 0, 0)


def test_a_record_that_is_added_twice_counts_once() -> None:
    made = delays(1, 2)
    made.add(1, due_in(9), Priority.HIGH)
    made.add(0, due_in(9), Priority.HIGH)

    assert len(made) == 2
    assert made.due(after(2), 10) == [0, 1]


@pytest.mark.parametrize("priority", list(Priority))
def test_priorities_are_kept_whatever_becomes_of_a_message(priority: Priority) -> None:
    made = Delays(NOW)
    for offset in range(4):
        made.add(offset, due_in(1), priority)
    made.deliver(0, 1 << 59)
    made.cancel(1, 5)
    made.expire(2)
    made = restored(made.stated(1, 9))

    found = [each for each in map(made.find, range(4)) if each is not None]
    assert [each.priority for each in found] == [priority] * 4
    assert [each.state for each in found] == [
        DelayState.DELIVERED,
        DelayState.CANCELLED,
        DelayState.EXPIRED,
        DelayState.PENDING,
    ]
    assert found[0].delivered_offset == 1 << 59


def test_a_page_shows_what_waits_and_what_is_on_its_way_by_due_time() -> None:
    made = delays(1, 4, 2, 3)
    made.due(after(1), 10)
    made.leave(1)

    assert offsets(made) == [0, 2, 3, 1]
    assert offsets(made, 2) == [0, 2]
    assert made.next_due() == after(1)


def test_what_is_no_message_is_counted_within_any_range() -> None:
    made = delays(1, 1, first=3)
    made.pass_control(6)
    made.cancel(4, 8)
    made.pass_control(8)

    assert made.hidden_within(0, 100) == 4
    assert [made.hidden_within(n, n + 1) for n in range(3, 10)] == [1, 1, 0, 1, 0, 1, 0]
    assert made.hidden_within(5, 5) == made.hidden_within(9, 3) == 0
    assert [offset for offset in range(4, 20) if offset in made.hidden] == [4, 6, 8]


def test_skipping_what_is_no_message_ends_at_the_first_that_may_be_one() -> None:
    made = delays(1, 1)
    made.cancel(0, 2)
    made.add(3, due_in(1), Priority.NORMAL)
    made.cancel(1, 4)
    made.add(6, due_in(1), Priority.NORMAL)

    skipped = [made.skip_hidden(Offset(n)) for n in range(8)]
    assert skipped == [5, 5, 5, 5, 5, 5, 7, 7]


def test_the_first_pending_message_is_needed_also_while_it_is_on_its_way() -> None:
    made = delays(1, 5, 3)
    assert made.needed_from() == 0
    made.due(after(1), 10)
    assert made.needed_from() == 0
    made.deliver(0, 3)
    assert made.needed_from() == 1
    made.cancel(1, 4)
    assert made.needed_from() == 2
    made.expire(2)
    assert made.needed_from() is None
    made.add(9, due_in(1), Priority.NORMAL)
    assert made.needed_from() == 9


def test_a_delivered_message_is_needed_until_its_delivery_cannot_be_lost() -> None:
    made = delays(1, 1, 9)
    made.deliver(0, 3)
    made.cancel(2, 4)
    made.deliver(1, 5)
    assert made.needed_from(3) == 0
    assert made.needed_from(4) == 1
    assert made.needed_from(5) == 1
    assert made.needed_from(6) is None
    assert made.needed_from() is None


def test_what_is_below_the_start_of_the_log_is_forgotten() -> None:
    made = delays(1, 1, 5, first=10)
    made.due(after(1), 10)
    made.deliver(10, 13)
    made.cancel(11, 14)
    made.drop_below(12)
    assert [state_of(made, n) for n in (10, 11)] == [None, None]
    assert made.hidden_within(0, 100) == 2
    assert made.needed_from() == 12
    made.drop_below(12)
    made.drop_below(15)
    assert made.hidden_within(0, 100) == 0


def test_a_pending_message_below_the_start_of_the_log_is_gone_altogether() -> None:
    made = delays(1, 2, 3, 4)
    made.due(after(1), 10)
    made.leave(1)
    made.drop_below(3)

    assert len(made) == 1
    assert offsets(made) == [3]
    made.stay(0)
    made.stay(1)
    assert made.due(after(99), 10) == [3]
    assert made.needed_from() == 3


def test_a_snapshot_says_all_of_it() -> None:
    made = delays(1, 2, 3, 4)
    made.due(after(1), 10)
    made.deliver(0, 4)
    made.cancel(1, 5)
    made.leave(2)
    again = restored(made.stated(7, 6))

    assert [again.find(n) for n in range(5)] == [made.find(n) for n in range(5)]
    assert (again.delivered_count, again.cancelled_count, len(again)) == (1, 1, 2)
    assert again.hidden_within(0, 9) == made.hidden_within(0, 9)
    # What was on its way is not in the log yet: it waits.
    assert not again.is_leaving(2)
    assert again.due(after(9), 10) == [2, 3]
    assert again.needed_from() == 2


def test_changes_are_counted_from_one_snapshot_to_the_next() -> None:
    made = delays(1, 2)
    assert made.changes == 2
    made.stated(1, 2)
    assert made.changes == 0
    made.cancel(0, 2)
    assert made.changes == 1
    assert restored(made.stated(1, 3)).changes == 0


def test_a_statement_that_is_copied_in_steps_says_what_was_true_when_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.delivery.delays_copy.BLOCK_ENTRIES", 3)
    made = delays(*range(1, 9))
    before = made.stated(1, 8)
    copy = made.begin_copy()
    made.cancel(0, 8)
    assert copy.copy_block()
    made.cancel(7, 9)
    made.add(10, due_in(3), Priority.HIGH)
    steps = 1
    while copy.copy_block():
        steps += 1
    made.cancel(4, 11)

    made.end_copy(copy)
    assert copy.stated(1, 8) == before
    # Three columns of three blocks each: no step copies more than one of them.
    assert steps == 9
    # The next statement has what changed since the copy began.
    assert made.changes == 4


def test_a_copy_is_abandoned_when_entries_before_it_are_dropped() -> None:
    made = delays(1, 2, 3)
    copy = made.begin_copy()
    made.drop_below(1)
    assert not made.is_copied_by(copy)
    assert made.changes == 3


def test_a_snapshot_of_an_older_version_has_columns_of_one_piece() -> None:
    stated = delays(1, 2).stated(1, 2)
    assert isinstance(stated.offsets, tuple)
    columns = {name: b"".join(getattr(stated, name)) for name in ("offsets", "dues", "outcomes")}
    older = msgspec.structs.replace(stated, controls=b"", **columns)
    assert restored(older).stated(1, 2) == stated


@pytest.mark.parametrize(
    "wrong",
    [
        {"offsets": (b"1234567", b"1")},
        {"offsets": b"1234567"},
        {"dues": b""},
        {"outcomes": bytes(24)},
        {"controls": b"1"},
        {"offsets": bytes(16)},
        {"dues": b"\xff" * 16},
    ],
)
def test_a_statement_that_makes_no_sense_is_refused_and_changes_nothing(
    wrong: dict[str, object],
) -> None:
    stated = msgspec.structs.replace(delays(1, 2).stated(1, 2), **wrong)
    made = Delays(NOW)

    assert not made.restore(stated)
    assert len(made) == 0
    made.add(0, due_in(1), Priority.NORMAL)
    assert offsets(made) == [0]


def test_a_snapshot_is_restored_in_steps_of_a_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = delays(*range(1, 9), 3_000_000, 2, first=5)
    before.cancel(6, 15)
    before.deliver(7, 16)
    stated = before.stated(1, 17)
    monkeypatch.setattr("goqueue.delivery.delays._RESTORED_AT_ONCE", 3)
    made = Delays(NOW)

    steps = list(made.restore_in_steps(stated))

    # Ten entries are checked, and then taken in.
    assert steps == [3] * 8
    assert made.stated(1, 17) == stated
    assert made.pending(20) == before.pending(20)
    assert (made.delivered_count, made.cancelled_count, made.far_count) == (1, 1, 1)
    assert not made.hidden.missing([5, 14, 15])


def decoded(data: bytes) -> tuple[DelaysStated | None, int]:
    """What a snapshot says, and in how many steps it was decoded."""
    found: list[DelaysStated | None] = []

    def steps() -> Iterator[int]:
        found.append((yield from decode_in_steps(data)))

    count = sum(1 for _ in steps())
    return found[0], count


def test_a_snapshot_is_decoded_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.delivery.delays_copy.BLOCK_ENTRIES", 3)
    made = delays(*range(1, 9))
    made.cancel(0, 8)
    stated = made.stated(1, 9)

    # Three columns of three blocks each, and one of one.
    assert decoded(msgspec.json.encode(stated)) == (stated, 10)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"topic":1,"upto":2,"offsets":["x"],"dues":[],"outcomes":[],"controls":[]}',
        b'{"topic":1,"upto":2,"offsets":[7],"dues":[],"outcomes":[],"controls":[]}',
        b'{"topic":1,"upto":2,"offsets":null,"dues":[],"outcomes":[],"controls":[]}',
        b'{"topic":1,"upto":2,"offsets":[],"dues":[],"outcomes":[],"controls":[]',
    ],
)
def test_bytes_that_are_no_snapshot_are_decoded_as_nothing(data: bytes) -> None:
    assert decoded(data)[0] is None


def test_a_snapshot_of_one_piece_is_decoded_too() -> None:
    stated = delays(1, 2).stated(1, 2)
    columns = {name: b"".join(getattr(stated, name)) for name in ("offsets", "dues", "outcomes")}
    older = msgspec.structs.replace(stated, controls=b"", **columns)

    found, _ = decoded(msgspec.json.encode(older))

    assert found is not None
    assert restored(found).stated(1, 2) == stated


def test_a_snapshot_whose_blocks_do_not_follow_each_other_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.delivery.delays._RESTORED_AT_ONCE", 2)
    stated = delays(1, 2, 3).stated(1, 3)
    offsets_of = array("q", (4, 5, 5)).tobytes()
    made = Delays(NOW)

    assert not made.restore(msgspec.structs.replace(stated, offsets=offsets_of))
    assert len(made) == 0


def test_a_clock_that_went_back_lets_messages_wait_again() -> None:
    made = delays(10)
    assert made.due(after(5), 10) == []
    assert made.due(after(-1000), 10) == []
    assert made.due(after(9), 10) == []
    assert made.due(after(10), 10) == [0]
