"""What is said of a batch reaches no further than its records, also in a log that was torn once."""

import msgspec
import pytest

from goqueue.log import Log, LogState, Marker, cancellation
from goqueue.log.batch_mark import BatchMark
from goqueue.log.producer_replay import replay
from goqueue.log.producer_state import ProducerState
from goqueue.model import (
    Code,
    Failed,
    LogId,
    Message,
    Offset,
    Refused,
    SegmentFacts,
    Synced,
    Timestamp,
    Truncated,
)
from goqueue.records import build, stamp, walk
from tests.unit.log.plain_fold import LOG, SETTINGS, PlayedLog, now_at, spelled
from tests.unit.log.test_producer_state import mark


def torn_then(*behind: bytes) -> bytes:
    """Three records of a batch of ten in transaction 5, and what was written behind them."""
    played = PlayedLog()
    played.append(mark(producer=1, sequence=0, count=10, transaction=5), count=10)
    data = played.entries[0].data
    torn = data[: walk(data).positions[3]]
    return torn + b"".join(behind)


def at(offset: int, batch: bytearray) -> bytes:
    stamp(batch, offset, 0)
    return bytes(batch)


def marked(offset: int, said: BatchMark) -> bytes:
    played = PlayedLog()
    played.append(said, count=said.count)
    batch = bytearray(played.entries[0].data)
    return at(offset, batch)


def marker(offset: int, producer: int, transaction: int) -> bytes:
    played = PlayedLog()
    played.append(mark(producer=producer, transaction=transaction))
    ending = Marker(producer=producer, epoch=0, transaction=transaction, is_commit=False)
    assert played.end(ending) is not None
    return at(offset, bytearray(played.entries[1].data))


def learned(data: bytes) -> Log:
    columns = walk(data)
    end = Offset(columns.offsets[-1] + 1)
    facts = SegmentFacts(base=Offset(0), end=end, size=len(data), max_timestamp=Timestamp(0))
    log = Log(LOG, SETTINGS, LogState(segments=(facts,)))
    log.replay_producers(data, Offset(0))
    return log


def test_a_batch_that_another_producers_interrupts_is_no_repeat_and_hides_nobody() -> None:
    others = marked(3, mark(producer=2, sequence=0, count=4))
    log = learned(torn_then(others, marker(7, producer=1, transaction=5)))
    log.producers.commit(8)

    assert spelled(log.producers.aborted) == {0, 1, 2}
    assert log.producers.check(mark(producer=1, sequence=0, count=10, transaction=6)) is None
    assert log.producers.check(mark(producer=2, sequence=0, count=4)) is not None


def test_a_batch_that_a_control_record_interrupts_is_no_repeat() -> None:
    other = at(3, build([cancellation(1), Message(value=b"plain")]))
    log = learned(torn_then(other, marker(5, producer=1, transaction=5)))
    log.producers.commit(6)

    assert spelled(log.producers.aborted) == {0, 1, 2}


def test_a_batch_that_the_end_of_the_log_interrupts_is_no_repeat() -> None:
    log = learned(torn_then())

    assert log.producers.check(mark(producer=1, sequence=0, count=10, transaction=5)) is None
    assert log.producers.unstable_from == 0
    others = log.append(build([Message(value=b"plain")]), now_at(1))
    ending = Marker(producer=1, epoch=0, transaction=5, is_commit=False)
    ended = log.end_transaction(ending, now_at(2))
    assert ended is not None
    log.handle(Synced(log=LOG, upto=ended.next), now_at(3))
    assert others.first not in log.producers.aborted
    assert spelled(log.producers.aborted) == {0, 1, 2}


def test_a_batch_of_which_compaction_took_records_is_known_as_a_whole() -> None:
    played = PlayedLog()
    said = mark(producer=1, sequence=0, count=4)
    played.append(said, count=4)
    played.append(mark(producer=2, sequence=0, count=1))
    first, second = (entry.data for entry in played.entries)
    positions = walk(first).positions
    log = learned(first[: positions[1]] + first[positions[2] : positions[3]] + second)

    repeat = log.producers.check(said)
    assert repeat is not None
    assert (repeat.first, repeat.next) == (0, 4)


def test_a_batch_that_a_truncation_cuts_in_its_middle_is_no_repeat() -> None:
    played = PlayedLog()
    said = mark(producer=1, sequence=0, count=10)
    played.append(said, count=10)
    played.sync(10)
    played.log.truncate(Offset(6))
    facts = SegmentFacts(base=Offset(0), end=Offset(6), size=1, max_timestamp=Timestamp(0))
    played.log.handle(Truncated(log=LOG, offset=Offset(6), active=facts), now_at(1))

    assert played.log.producers.check(said) is None


def test_a_retry_of_what_failed_on_its_way_is_told_so_and_not_made_to_wait() -> None:
    log = Log(LogId("orders", 0), SETTINGS, LogState())
    said = mark(producer=1, sequence=0, count=1)
    log.append(build([Message(value=b"v")]), now_at(1), said)
    log.handle(Failed(log=LOG, reason="broken"), now_at(2))

    with pytest.raises(Refused) as refused:
        log.append(build([Message(value=b"v")]), now_at(3), said)
    assert refused.value.code is Code.STORAGE_FAILED


def test_a_statement_from_before_torn_batches_were_known_is_not_believed() -> None:
    state = ProducerState()
    data = torn_then()
    replay(state, data, walk(data), Offset(0))
    stated = state.stated(1, 3)
    old = msgspec.json.decode(
        msgspec.json.encode(msgspec.structs.replace(stated, version=0)), type=type(stated)
    )

    assert not ProducerState().restore(old)
    assert ProducerState().restore(stated)
