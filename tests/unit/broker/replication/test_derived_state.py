"""Followers know producers as far as their log is committed, and to its end when they lead."""

import pytest

from goqueue.broker import TurnBudget
from goqueue.broker.delayed.delay_log import delays_snapshot
from goqueue.broker.disk_reads import FoldFetch
from goqueue.broker.partitions import Partition
from goqueue.broker.replication.derived_state import DerivedState
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.producer_snapshots import ProducerSnapshots, producers_snapshot
from goqueue.cluster import PartitionId
from goqueue.log import BatchMark, Log, LogState, Replica, ReplicaRole
from goqueue.model import (
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Save,
    Synced,
    Timestamp,
)
from goqueue.records import build
from goqueue.tracing import Tracer

LOG = LogId("orders", 0)
NOW = Now(Instant(1), Timestamp(1))
WHERE = PartitionId(1, 0)


@pytest.fixture
def state() -> NodeState:
    return NodeState("b", Tracer(0.0), TurnBudget())


@pytest.fixture
def derived(state: NodeState) -> DerivedState:
    return DerivedState(state)


@pytest.fixture
def partition(state: NodeState, derived: DerivedState) -> Partition:
    partition = Partition(LOG, Log(LOG, LogSettings(), LogState(), Replica(ReplicaRole.FOLLOWER)))
    state.partitions.add(partition)
    derived.begin(partition, WHERE)
    return partition


def stored(sequence: int, first: int) -> bytes:
    """A batch of one record of producer 7, as its leader has it."""
    leader = Log(LOG, LogSettings(), LogState())
    for number in range(first):
        leader.append(build([Message(value=b"%d" % number)]), NOW)
    batch = build([Message(value=b"x")])
    mark = BatchMark(producer=7, epoch=0, sequence=sequence, count=1, transaction=0, at=1)
    leader.producers.append(
        BatchMark(producer=7, epoch=0, sequence=0, count=sequence or 1, transaction=0, at=1), 0
    ) if sequence else None
    leader.append(batch, NOW, mark)
    return bytes(batch)


def follow(derived: DerivedState, partition: Partition, sequence: int) -> None:
    """Append the next batch of the leader, and sync it."""
    first = partition.log.end
    data = stored(sequence, int(first))
    appended = partition.log.append_as_follower(data, Offset(first + 1), 3, NOW)
    derived.appended(partition, appended.first, appended.next, data)
    partition.log.handle(Synced(log=LOG, upto=appended.next), NOW)


def test_what_is_not_committed_is_not_known(derived: DerivedState, partition: Partition) -> None:
    follow(derived, partition, 0)
    derived.committed(partition, NOW)

    assert partition.log.producers.stated(1, 1).writers == []


def test_what_is_committed_is_known(derived: DerivedState, partition: Partition) -> None:
    follow(derived, partition, 0)
    partition.log.commit(Offset(1))
    derived.committed(partition, NOW)

    (writer,) = partition.log.producers.stated(1, 1).writers
    assert writer.next_sequence == 1


def test_a_follower_that_is_to_lead_knows_everything(
    derived: DerivedState, partition: Partition
) -> None:
    follow(derived, partition, 0)
    follow(derived, partition, 1)
    partition.log.commit(Offset(1))
    derived.committed(partition, NOW)

    assert derived.complete(partition, NOW)

    (writer,) = partition.log.producers.stated(1, 2).writers
    assert writer.next_sequence == 2
    assert partition.fold is None


def test_what_was_truncated_was_never_known(derived: DerivedState, partition: Partition) -> None:
    follow(derived, partition, 0)
    fold = partition.fold
    assert fold is not None
    partition.log._end = Offset(0)  # noqa: SLF001 - as a truncation leaves it

    assert derived.truncated(partition)

    assert not fold.kept
    assert not fold.kept_bytes


def test_a_leader_that_had_more_than_was_committed_forgets_what_it_knew(
    derived: DerivedState, partition: Partition
) -> None:
    follow(derived, partition, 0)
    assert derived.complete(partition, NOW)

    derived.follow(partition, WHERE)

    assert partition.fold is not None
    assert partition.log.producers.stated(1, 1).writers == []


def test_a_leader_all_of_whose_records_were_committed_keeps_what_it_knew(
    derived: DerivedState, partition: Partition
) -> None:
    follow(derived, partition, 0)
    partition.log.commit(Offset(1))
    assert derived.complete(partition, NOW)

    derived.follow(partition, WHERE)

    assert len(partition.log.producers.stated(1, 1).writers) == 1


def is_known(partition: Partition) -> bool:
    """Whether nothing was passed over."""
    return not partition.lacks_producers


def load_nothing(derived: DerivedState) -> None:
    """There are no snapshots."""
    for name in (producers_snapshot(1, 0), delays_snapshot(1, 0)):
        derived.loaded(name, None, NOW)


def reads(state: NodeState) -> list[FoldFetch]:
    """The pieces that are being read."""
    found = [each for each in state.fetches.values() if isinstance(each, FoldFetch)]
    state.fetches.clear()
    return found


def test_what_could_not_be_read_is_folded_when_it_is_repaired(
    state: NodeState, derived: DerivedState, partition: Partition
) -> None:
    """Else a broker that leads later would take a repeated batch for a new one."""
    follow(derived, partition, 0)
    partition.log.commit(Offset(1))
    derived.begin(partition, WHERE)
    load_nothing(derived)
    derived.committed(partition, NOW)
    (lost,) = reads(state)
    derived.fetched(lost, None, NOW)
    assert not is_known(partition)

    derived.repaired(partition, WHERE)
    load_nothing(derived)
    derived.committed(partition, NOW)
    (again,) = reads(state)
    derived.fetched(again, memoryview(stored(0, 0)), NOW)

    assert is_known(partition)
    assert len(partition.log.producers.stated(1, 1).writers) == 1


def test_no_snapshot_is_kept_of_what_is_not_known_and_of_an_empty_log(
    state: NodeState, derived: DerivedState, partition: Partition
) -> None:
    snapshots = ProducerSnapshots(state)
    state.outbox.drain()
    snapshots._save(partition, 1)  # noqa: SLF001 - when it is due is not what is tested
    follow(derived, partition, 0)
    partition.log.commit(Offset(1))
    derived.committed(partition, NOW)
    partition.lacks_producers = True
    snapshots._save(partition, 1)  # noqa: SLF001 - the same
    assert not any(isinstance(each, Save) for each in state.outbox.drain())

    partition.lacks_producers = False
    snapshots._save(partition, 1)  # noqa: SLF001 - the same

    assert any(isinstance(each, Save) for each in state.outbox.drain())


def test_readers_of_a_copy_see_no_more_than_what_is_folded(
    derived: DerivedState, partition: Partition
) -> None:
    follow(derived, partition, 0)
    log = partition.log
    log.commit(Offset(1))
    assert (log.high_watermark, log.watermarks.stable, log.removable_upto) == (1, 0, 1)

    derived.committed(partition, NOW)
    assert log.watermarks.stable == 1

    follow(derived, partition, 1)
    assert derived.complete(partition, NOW)
    log.commit(Offset(2))
    assert log.watermarks.stable == 2
