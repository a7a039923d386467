"""Which producers a log remembers and for how long, and what it keeps for open transactions."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.log import BatchMark, Log, LogState, Marker, restored, restored_by
from goqueue.log.producer_state import ProducersStated, ProducerState, Repeat
from goqueue.model import (
    HOUR,
    SECOND,
    Code,
    Drop,
    Effect,
    Message,
    Offset,
    Refused,
    Reshape,
    Synced,
)
from goqueue.records import build, decode
from tests.examples import examples
from tests.unit.log.plain_fold import LOG, SETTINGS, PlainFold, PlayedLog, now_at, spelled
from tests.unit.log.test_producer_history import STEPS, History

WRITERS_MAX = 10_000


def mark(
    producer: int = 1,
    sequence: int = -1,
    count: int = 1,
    transaction: int = 0,
    at: int = 0,
    epoch: int = 0,
) -> BatchMark:
    return BatchMark(
        producer=producer,
        epoch=epoch,
        sequence=sequence,
        count=count,
        transaction=transaction,
        at=at,
    )


def refusal(state: ProducerState, wanted: BatchMark) -> Refused:
    with pytest.raises(Refused) as refused:
        state.check(wanted)
    return refused.value


def written(*batches: BatchMark) -> ProducerState:
    """These batches, one behind the other, all committed."""
    state = ProducerState()
    offset = 0
    for each in batches:
        assert state.check(each) is None
        state.append(each, offset)
        offset += each.count
        state.commit(offset)
    return state


def held_at(state: ProducerState) -> int | None:
    return state.unstable_from


def crowded(at: Callable[[int], int]) -> ProducerState:
    """As many producers as there may be."""
    state = ProducerState()
    for producer in range(1, WRITERS_MAX + 1):
        state.append(mark(producer, 0, at=at(producer)), producer)
    state.commit(WRITERS_MAX + 1)
    return state


# Sequences


def test_each_of_the_last_five_batches_is_known_again_and_the_sixth_is_not() -> None:
    state = written(*(mark(sequence=10 * n, count=10) for n in range(7)))

    for number in range(2, 7):
        found = state.check(mark(sequence=10 * number, count=10))
        assert found == Repeat(Offset(10 * number), Offset(10 * number + 10))
    for number in (0, 1):
        refused = refusal(state, mark(sequence=10 * number, count=10))
        assert refused.code is Code.SEQUENCE_OUT_OF_ORDER
        assert refused.facts["expected"] == 70


@pytest.mark.parametrize(("sequence", "count"), [(5, 2), (4, 1), (3, 2), (0, 6), (9, 1), (7, 1)])
def test_a_batch_that_overlaps_or_leaves_a_gap_is_refused_with_what_is_expected(
    sequence: int, count: int
) -> None:
    state = written(mark(sequence=0, count=3), mark(sequence=3, count=3))
    expected = 6

    refused = refusal(state, mark(sequence=sequence, count=count))

    assert refused.code is Code.SEQUENCE_OUT_OF_ORDER
    assert refused.facts["expected"] == expected


def test_a_new_epoch_counts_from_zero_and_the_older_is_fenced() -> None:
    state = written(mark(sequence=0, count=3))

    assert refusal(state, mark(sequence=3, epoch=1)).facts["expected"] == 0
    assert state.check(mark(sequence=0, epoch=1)) is None
    state.append(mark(sequence=0, epoch=1), 3)
    assert refusal(state, mark(sequence=3)).code is Code.PRODUCER_FENCED
    assert refusal(state, mark()).code is Code.PRODUCER_FENCED


def test_a_late_message_of_an_ended_transaction_is_refused_whoever_ended_it() -> None:
    state = written(mark(transaction=4))
    state.end(1, 0, 4, 1, is_commit=True)

    for transaction in (1, 3, 4):
        refused = refusal(state, mark(transaction=transaction))
        assert refused.code is Code.TRANSACTION_STATE_INVALID
    assert state.check(mark(transaction=5)) is None


def test_a_message_of_the_next_transaction_is_refused_while_one_is_open() -> None:
    state = written(mark(transaction=4))

    assert refusal(state, mark(transaction=5)).code is Code.TRANSACTION_STATE_INVALID
    assert state.check(mark(transaction=4)) is None


def test_seven_batches_on_their_way_that_a_full_disk_takes_back_never_were() -> None:
    played = PlayedLog()
    for sequence in range(7):
        played.append(mark(sequence=sequence))

    played.take_back(0)

    assert played.append(mark(sequence=0)).first == 0
    assert played.append(mark(sequence=1)).first == 1


def test_batches_that_left_the_window_for_some_that_were_taken_back_are_known_again() -> None:
    played = PlayedLog()
    for sequence in range(5):
        played.append(mark(sequence=sequence))
    played.sync(5)
    for sequence in range(5, 8):
        played.append(mark(sequence=sequence))

    played.take_back(5)

    assert played.append(mark(sequence=0)).is_repeat
    assert not played.append(mark(sequence=5)).is_repeat


# Forgetting


def test_a_clock_that_is_put_forward_by_weeks_forgets_nobody() -> None:
    state = written(mark(sequence=0, count=3, at=7))
    later = 7 + 21 * 24 * HOUR
    assert state.check(mark(sequence=0, count=3, at=later)) is not None
    state.append(mark(2, sequence=0, at=later), 3)
    assert state.check(mark(sequence=0, count=3, at=later + 1)) is not None
    again = ProducerState()
    again.restore(stated(state, 4))

    assert again.check(mark(sequence=0, count=3, at=later + 1)) is not None
    assert dict(again.heard)[2] == later


def test_a_producer_is_forgotten_after_a_day_of_silence_and_begins_at_zero() -> None:
    state = written(mark(sequence=0, count=3, at=7))
    # Time passes with what others write.
    for hour in range(1, 25):
        state.append(mark(2, sequence=hour - 1, at=7 + hour * HOUR), 2 + hour)
    last = 7 + 24 * HOUR

    assert state.check(mark(sequence=3, at=last)) is None
    assert state.check(mark(sequence=0, count=3, at=last)) is not None
    refused = refusal(state, mark(sequence=3, at=last + 1))
    assert (refused.code, refused.facts["expected"]) == (Code.SEQUENCE_OUT_OF_ORDER, 0)
    assert state.check(mark(sequence=0, at=last + 1)) is None


def test_a_day_of_silence_makes_nobody_forget_an_open_transaction() -> None:
    state = written(mark(transaction=1))

    state.append(mark(2, at=100 * HOUR), 1)

    assert state.is_open(1, 1)
    assert held_at(state) == 0
    assert refusal(state, mark(transaction=2, at=100 * HOUR)).code is (
        Code.TRANSACTION_STATE_INVALID
    )


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_producer_is_not_forgotten_between_its_marker_and_the_commit_of_it(
    is_commit: bool,
) -> None:
    state = written(mark(transaction=1))
    state.end(1, 0, 1, 1, is_commit=is_commit)

    state.append(mark(2, at=25 * HOUR), 2)

    assert held_at(state) == 0
    assert [ending.transaction for ending in state.commit(3)] == [1]
    assert held_at(state) is None
    assert spelled(state.aborted) == (set() if is_commit else {0})


def test_the_cap_forgets_nobody_whose_marker_is_on_its_way() -> None:
    state = ProducerState()
    state.append(mark(1, transaction=1), 0)
    for producer in range(2, WRITERS_MAX + 1):
        state.append(mark(producer, 0), producer)
    state.commit(WRITERS_MAX + 1)
    state.end(1, 0, 1, WRITERS_MAX + 1, is_commit=True)

    newcomer = mark(WRITERS_MAX + 1, 0, at=61 * SECOND)
    assert state.check(newcomer) is None
    state.append(newcomer, WRITERS_MAX + 2)

    assert [ending.transaction for ending in state.commit(WRITERS_MAX + 3)] == [1]
    assert held_at(state) is None
    assert len(state) == WRITERS_MAX


def test_one_more_than_the_cap_is_refused_while_all_were_there_a_minute_ago() -> None:
    state = crowded(at=lambda _: 0)

    refused = refusal(state, mark(WRITERS_MAX + 1, 0, at=60 * SECOND))

    assert refused.code is Code.QUOTA_EXCEEDED
    assert refused.facts["limit"] == WRITERS_MAX
    assert state.check(mark(WRITERS_MAX, 1, at=60 * SECOND)) is None


def test_one_more_than_the_cap_takes_the_place_of_the_one_silent_longest() -> None:
    state = crowded(at=lambda producer: producer)
    # The first has written again, so the second is silent longest.
    state.append(mark(1, 1, at=WRITERS_MAX), WRITERS_MAX + 1)
    newcomer = mark(WRITERS_MAX + 1, 0, at=61 * SECOND)

    assert state.check(newcomer) is None
    state.append(newcomer, WRITERS_MAX + 2)

    assert len(state) == WRITERS_MAX
    assert refusal(state, mark(2, 1, at=61 * SECOND)).facts["expected"] == 0
    assert state.check(mark(1, 2, at=61 * SECOND)) is None
    assert state.check(mark(3, 1, at=61 * SECOND)) is None


@pytest.fixture
def _few_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.log.producer_state._WRITERS_MAX", 4)


@pytest.mark.usefixtures("_few_writers")
def test_one_that_has_ended_its_transaction_is_evicted_before_those_that_wrote_later() -> None:
    state = written(mark(1, transaction=1, at=1), *(mark(n, 0, at=n) for n in (2, 3, 4)))
    late = 61 * SECOND
    # It is looked for while the transaction is open: the second is silent longest then.
    assert state.check(mark(5, 0, at=late)) is None
    state.end(1, 0, 1, 4, is_commit=True)
    state.commit(5)
    state.append(mark(5, 0, at=late), 5)

    assert sorted(producer for producer, _ in state.heard) == [2, 3, 4, 5]


@pytest.mark.usefixtures("_few_writers")
@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["write", "open", "end"])), max_size=40)
)
def test_whoever_is_evicted_was_silent_longest_of_those_without_a_transaction(
    steps: list[tuple[int, str]],
) -> None:
    state = ProducerState()
    wrote: dict[int, int] = {}
    opened: dict[int, int] = {}
    for number, (producer, step) in enumerate(steps, 1):
        at, offset = number * 61 * SECOND, number
        if step == "end" and producer in opened:
            state.end(producer, 0, opened.pop(producer), offset, is_commit=True)
            state.commit(offset + 1)
        elif step != "end":
            transaction = opened.get(producer, number if step == "open" else 0)
            batch = mark(producer, transaction=transaction, at=at)
            idle = [each for each in wrote if each not in opened]
            is_full = producer not in wrote and len(wrote) == 4
            if is_full and not idle:
                assert refusal(state, batch).code is Code.QUOTA_EXCEEDED
                continue
            state.check(batch)
            if is_full:
                del wrote[min(idle, key=wrote.__getitem__)]
            wrote[producer] = at
            if transaction:
                opened[producer] = transaction
            state.append(batch, offset)
            state.commit(offset + 1)
        assert sorted(producer for producer, _ in state.heard) == sorted(wrote)


def test_a_wall_clock_that_jumps_back_makes_nobody_forgotten() -> None:
    state = written(mark(sequence=0, at=48 * HOUR), mark(2, sequence=0, at=SECOND))

    assert state.check(mark(sequence=1, at=SECOND)) is None
    state.append(mark(sequence=1, at=SECOND), 2)
    assert state.check(mark(sequence=2, at=49 * HOUR)) is None


# Statements


def stated(state: ProducerState, upto: int) -> ProducersStated:
    """What a snapshot would hold, over its way to the disk and back."""
    data = msgspec.json.encode(state.stated(3, upto))
    return msgspec.json.decode(data, type=ProducersStated)


@settings(max_examples=examples(20))
@given(STEPS, st.integers(0, 59))
def test_a_statement_and_the_records_behind_it_say_what_all_records_say(
    steps: list[tuple[str, int, int, int]], cut: int
) -> None:
    history = History()
    statement = stated(ProducerState(), 0)
    for number, step in enumerate(steps):
        history.step(*step)
        end = int(history.played.log.end)
        if number <= cut and end == history.played.committed:
            statement = stated(history.played.log.producers, end)

    restored = ProducerState()
    assert restored.restore(statement)
    found = history.played.replayed(statement.upto, onto=restored)
    whole = history.played.replayed()

    assert sorted(found.open) == sorted(whole.open)
    assert found.unstable_from == whole.unstable_from
    assert spelled(found.aborted) == spelled(whole.aborted)
    assert spelled(found.hidden) == spelled(whole.hidden)
    end = int(history.played.log.end)
    history.check_same(found, PlainFold(history.played.entries, end), "restored")


def test_a_statement_made_before_a_marker_is_committed_says_that_it_is() -> None:
    state = written(mark(transaction=1, count=2))
    state.end(1, 0, 1, 2, is_commit=False)

    restored = ProducerState()
    assert restored.restore(stated(state, 3))

    assert held_at(restored) is None
    assert spelled(restored.aborted) == {0, 1}
    assert spelled(state.aborted) == set(), "those who read now do not know it yet"


@pytest.mark.parametrize(
    "damage",
    [
        {"aborted": (b"12345678", b"")},
        {"hidden": (b"1234567", b"1234567")},
        {"aborted": ((5).to_bytes(8, "little"), (5).to_bytes(8, "little"))},
    ],
)
def test_a_statement_that_makes_no_sense_changes_nothing(damage: dict[str, object]) -> None:
    state = written(mark(transaction=1, count=2))
    state.end(1, 0, 1, 2, is_commit=False)
    state.commit(3)
    broken = msgspec.structs.replace(stated(state, 3), **damage)

    restored = ProducerState()
    assert not restored.restore(broken)

    assert len(restored) == 0
    assert spelled(restored.hidden) == spelled(restored.aborted) == set()


def test_a_statement_of_an_open_transaction_that_wrote_nothing_is_not_believed() -> None:
    state = written(mark(transaction=1, count=2))
    statement = stated(state, 2)
    broken = [msgspec.structs.replace(each, ranges=[]) for each in statement.writers]

    restored = ProducerState()
    assert not restored.restore(msgspec.structs.replace(statement, writers=broken))

    assert held_at(restored) is None


SMALL = msgspec.structs.replace(SETTINGS, segment_bytes=300, retention_ns=HOUR)


class Kept:
    """A log of small segments, each of which is outlived after an hour."""

    def __init__(self) -> None:
        self.log = Log(LOG, SMALL, LogState())

    def write(self, transaction: int = 0, producer: int = 1) -> Offset:
        mark = BatchMark(
            producer=producer, epoch=0, sequence=-1, count=1, transaction=transaction, at=0
        )
        batch = build([Message(value=bytes(66))])
        appended = self.log.append(batch, now_at(0), mark if transaction else None)
        self.log.handle(Synced(log=LOG, upto=appended.next), now_at(0))
        return appended.first

    def end(self, *, is_commit: bool) -> None:
        marker = Marker(producer=1, epoch=0, transaction=1, is_commit=is_commit)
        appended = self.log.end_transaction(marker, now_at(0))
        assert appended is not None
        self.log.handle(Synced(log=LOG, upto=appended.next), now_at(0))

    def maintain(self) -> list[Effect]:
        return self.log.maintain(now_at(5 * HOUR))


def drops(effects: list[Effect]) -> list[int]:
    changes = [effect.change for effect in effects if isinstance(effect, Reshape)]
    return [int(change.start) for change in changes if isinstance(change, Drop)]


def test_retention_takes_nothing_from_the_first_open_transaction_on() -> None:
    kept = Kept()
    for _ in range(7):
        kept.write()
    first = kept.write(transaction=1)
    for _ in range(9):
        kept.write()

    effects = kept.maintain()

    assert drops(effects)
    assert kept.log.start <= first
    assert kept.maintain() == []
    assert kept.log.watermarks.stable == first


def test_retention_takes_aborted_records_and_what_is_known_of_them() -> None:
    kept = Kept()
    kept.write(transaction=1)
    for _ in range(9):
        kept.write()
    kept.end(is_commit=False)
    assert spelled(kept.log.producers.aborted) == {0}
    assert spelled(kept.log.producers.hidden) == {0, 10}
    for _ in range(5):
        kept.write()

    assert drops(kept.maintain())

    assert kept.log.start > 10
    assert spelled(kept.log.producers.aborted) == spelled(kept.log.producers.hidden) == set()


def test_a_transaction_may_end_after_everything_before_it_was_taken() -> None:
    kept = Kept()
    for _ in range(7):
        kept.write()
    first = kept.write(transaction=1)
    kept.maintain()
    kept.end(is_commit=False)

    assert spelled(kept.log.producers.aborted) == {int(first)}
    assert kept.log.watermarks.stable == kept.log.end


# Records of a backup


def test_a_restored_log_forgets_its_producers_and_ends_what_they_left_open() -> None:
    state = written(mark(1, sequence=0), mark(2, transaction=7), mark(3, transaction=8))
    state.commit(3)
    state.forget_all(3, [(3, 8)])
    assert len(state) == 0
    assert state.unstable_from is None
    assert state.aborted.within(0, 10) == ((1, 2),)
    assert state.hidden.within(0, 10) == ((1, 2), (3, 4))
    # The first batch of another producer with the same number is no repeat.
    assert state.check(mark(1, sequence=0)) is None
    assert state.check(mark(2, transaction=1)) is None


def test_the_state_behind_a_backup_is_stated_and_restored() -> None:
    state = written(mark(1, transaction=7))
    state.forget_all(1, [])
    again = ProducerState()
    assert again.restore(state.stated(1, 2))
    assert list(again.aborted) == [(0, 1)]
    assert len(again) == 0


@pytest.mark.parametrize("value", [b"", b"[]", b'{"committed":[[1]]}', b'{"committed":"x"}', b"{"])
def test_a_record_that_only_looks_like_the_end_of_a_backup_ends_nothing(value: bytes) -> None:
    record = decode(restored(5, 1, ((1, 2),)))
    assert restored_by(record) is not None
    assert restored_by(msgspec.structs.replace(record, value=value)) is None
    assert restored_by(msgspec.structs.replace(record, flags=0)) is None


# Markers where a transaction wrote nothing


def ended(transaction: int = 3, epoch: int = 0) -> ProducerState:
    """A marker of a transaction that wrote nothing here, committed."""
    state = ProducerState()
    state.end(1, epoch, transaction, 5, is_commit=True)
    state.commit(6)
    return state


def test_a_late_batch_does_not_open_a_transaction_whose_marker_came_where_it_wrote_nothing() -> (
    None
):
    state = ended()

    assert state.has_ended(1, 3)
    assert refusal(state, mark(transaction=3)).code is Code.TRANSACTION_STATE_INVALID
    assert state.check(mark(transaction=4)) is None
    assert 5 in state.hidden


def test_a_marker_that_came_where_nothing_was_written_fences_the_older_epoch() -> None:
    state = ended(epoch=2)

    assert refusal(state, mark(transaction=4, epoch=1)).code is Code.PRODUCER_FENCED


def test_a_marker_that_is_taken_back_has_ended_nothing() -> None:
    state = ProducerState()
    state.end(1, 0, 3, 5, is_commit=True)
    assert not state.has_ended(1, 3)
    state.take_back(5)

    assert state.check(mark(transaction=3)) is None


def test_a_repeated_marker_of_an_older_transaction_leaves_the_open_one_alone() -> None:
    state = written(mark(transaction=3))
    state.end(1, 0, 3, 1, is_commit=True)
    state.commit(2)
    state.append(mark(transaction=4), 2)
    state.end(1, 0, 3, 3, is_commit=True)
    state.commit(4)

    assert state.open_number(1, 0) == 4
    assert held_at(state) == 2


def test_the_open_transaction_of_a_producer_is_that_of_its_newest_epoch() -> None:
    state = written(mark(transaction=3, epoch=1))

    assert state.open_number(1, 1) == 3
    assert state.open_number(1, 0) is None
    assert state.open_number(2, 1) is None


def test_a_producer_of_the_broker_is_not_stated_once_its_marker_is_written() -> None:
    """Whoever restores the statement sees no marker of it, and would keep it for ever."""
    state = ProducerState()
    state.append(msgspec.structs.replace(mark(transaction=1), producer=-10), 0)
    assert [each.producer for each in state.stated(1, 1).writers] == [-10]
    state.end(-10, 0, 1, 1, is_commit=True)

    stated = state.stated(1, 2)
    assert stated.writers == []
    restored = ProducerState()
    assert restored.restore(stated)
    assert len(restored) == 0
