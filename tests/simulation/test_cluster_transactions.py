"""Transactions of a cluster, step by step: what outlives coordinators and leaders."""

from typing import TypeVar

import pytest

from goqueue.model import MILLISECOND, SECOND, Code, LogId, Message, Offset, Refused, RequestId
from goqueue.model.requests import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    Command,
    CommitGroup,
    CreateTopic,
    DescribeOffsets,
    DescribeTransaction,
    Done,
    EndTransaction,
    GroupCommitted,
    HeartbeatProducer,
    InitProducer,
    Isolation,
    Join,
    Joined,
    Leased,
    ListTransactions,
    Offsets,
    Owner,
    Poll,
    PrepareTransaction,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    Read,
    Records,
    Reply,
    TopicConfig,
    TransactionBegan,
    TransactionDescription,
    TransactionEnded,
    TransactionList,
    TransactionPrepared,
    TransactionState,
    receipt_of,
)
from goqueue.records import Flag, build, decode, walk
from goqueue.sim import Trace
from goqueue.sim.cluster import BrokerMachine, QuorumSwarm, ReplicationRun, ReplicationSwarm

TOPIC = "bills"
NAME = "worker-1"
CALM = QuorumSwarm(
    brokers=3,
    **dict.fromkeys(
        (each for each in QuorumSwarm.__struct_fields__ if each not in {"brokers", "full_disks"}),
        False,
    ),
)
R = TypeVar("R", bound=Reply)


class CalmCluster:
    """Three brokers on whole disks and a quick network, with an empty topic of two partitions."""

    def __init__(self, copies: int = 3) -> None:
        swarm = ReplicationSwarm(
            replicas=3, minimum=2, fills=False, deletes=False, small_segments=False
        )
        self.run = ReplicationRun(1, Trace(), swarm=CALM, copies=swarm)
        self.run.begin()
        self.run.create_topic()
        config = TopicConfig(replication_factor=copies, min_insync_replicas=min(2, copies))
        created = self.try_to_ask(CreateTopic(name=TOPIC, partitions=2, config=config))
        assert not isinstance(created, Refused), created
        self.run.advance(2 * SECOND)
        self.owner = self.init()

    def try_to_ask(self, command: Command, broker: int = 0) -> Reply | Refused:
        """The answer of one of the brokers that live."""
        return self.wait(*self.begin(command, broker))

    def begin(self, command: Command, broker: int = 0) -> tuple[BrokerMachine, RequestId]:
        machine = self.run.machines[broker]
        return machine, machine.ask(command)

    def wait(self, machine: BrokerMachine, request: RequestId) -> Reply | Refused:
        for _ in range(800):
            if request in machine.replies:
                return machine.replies.pop(request)
            self.run.advance(20 * MILLISECOND)
        raise AssertionError("no answer")

    def ask(self, command: Command, kind: type[R], broker: int = 0) -> R:
        reply = self.try_to_ask(command, broker)
        assert isinstance(reply, kind), reply
        return reply

    def refused(self, command: Command, broker: int = 0) -> Code:
        reply = self.try_to_ask(command, broker)
        assert isinstance(reply, Refused), reply
        return reply.code

    def init(self, name: str = NAME, timeout_ns: int = 60 * SECOND) -> Owner:
        command = InitProducer(transactional_id=name, timeout_ns=timeout_ns)
        granted = self.ask(command, ProducerGranted, broker=1)
        return Owner(producer_id=granted.producer_id, epoch=granted.epoch, transactional_id=name)

    def open(self, broker: int = 0) -> str:
        return self.ask(BeginTransaction(owner=self.owner), TransactionBegan, broker).transaction_id

    def publishing(
        self,
        value: str,
        partition: int = 0,
        sequence: int | None = None,
        owner: Owner | None = None,
    ) -> Publish:
        who = owner or self.owner
        stamp = ProducerStamp(producer_id=who.producer_id, epoch=who.epoch, sequence=sequence)
        batch = build([Message(value=value.encode())])
        return Publish(topic=TOPIC, batch=batch, targets=[partition], producer=stamp)

    def publish(
        self, value: str, partition: int = 0, sequence: int | None = None, broker: int = 0
    ) -> Offset:
        placed = self.ask(self.publishing(value, partition, sequence), Published, broker).placed[0]
        assert placed.refused is None, placed
        return placed.first

    def end(self, *, is_commit: bool, broker: int = 0) -> None:
        command = EndTransaction(owner=self.owner, is_commit=is_commit)
        assert self.ask(command, TransactionEnded, broker).is_commit is is_commit

    def read(self, partition: int = 0) -> list[str]:
        """What readers of committed messages see."""
        values: list[str] = []
        offset = 0
        while True:
            command = Read(
                topic=TOPIC,
                partition=partition,
                offset=Offset(offset),
                bytes_max=1 << 20,
                isolation=Isolation.READ_COMMITTED,
            )
            records = self.ask(command, Records)
            if not records.data:
                return values
            for piece in records.data:
                columns = walk(piece)
                for position, flags in zip(columns.positions, columns.flags, strict=True):
                    record = decode(piece, position)
                    is_hidden = any(a <= record.offset < b for a, b in records.aborted)
                    if not flags & Flag.CONTROL and not is_hidden:
                        values.append((record.value or b"").decode())
            offset = records.upto

    def coordinator(self) -> BrokerMachine:
        (found,) = (
            each
            for each in self.run.machines
            if each.node.coordinators is not None and each.node.coordinators.current is not None
        )
        return found

    def leader(self, partition: int = 0) -> BrokerMachine:
        member = self.run.machines[0].node.cluster
        assert member is not None
        image = member.replicas.image
        topic = image.topic(TOPIC)
        assert topic is not None
        state = image.partition(topic.number, partition)
        assert state is not None
        return next(each for each in self.run.machines if each.process.name == state.leader)

    def lose(self, machine: BrokerMachine) -> None:
        """Take its power, and let others take over."""
        self.run.kill(machine.process, loses_power=True)
        self.run.advance(6 * SECOND)


@pytest.fixture
def cluster() -> CalmCluster:
    return CalmCluster()


def test_readers_see_all_of_a_transaction_once_it_is_committed_through_any_node(
    cluster: CalmCluster,
) -> None:
    cluster.open(broker=1)
    cluster.publish("a", 0, broker=2)
    cluster.publish("b", 1, broker=0)
    assert cluster.read(0) == cluster.read(1) == []
    cluster.end(is_commit=True, broker=1)
    assert (cluster.read(0), cluster.read(1)) == (["a"], ["b"])


def test_an_aborted_transaction_is_seen_by_nobody_and_its_producer_begins_again(
    cluster: CalmCluster,
) -> None:
    cluster.open()
    cluster.publish("never")
    cluster.end(is_commit=False, broker=2)
    cluster.open()
    cluster.publish("again")
    cluster.end(is_commit=True)
    assert cluster.read() == ["again"]


@pytest.mark.parametrize("who", ["coordinator", "leader"])
def test_an_open_transaction_outlives_the_loss_of_a_node(cluster: CalmCluster, who: str) -> None:
    cluster.open()
    cluster.publish("a", 0, sequence=0)
    cluster.lose(cluster.coordinator() if who == "coordinator" else cluster.leader())

    assert cluster.read() == []
    assert cluster.publish("a", 0, sequence=0) == 0, "the batch is recognised"
    cluster.publish("b", 0, sequence=1)
    cluster.publish("c", 1)
    cluster.end(is_commit=True, broker=1)
    assert (cluster.read(0), cluster.read(1)) == (["a", "b"], ["c"])


@pytest.mark.parametrize("who", ["coordinator", "leader"])
def test_an_end_that_was_under_way_when_a_node_was_lost_has_one_outcome(
    cluster: CalmCluster, who: str
) -> None:
    cluster.open()
    cluster.publish("a", 0)
    cluster.publish("b", 1)
    lost = cluster.coordinator() if who == "coordinator" else cluster.leader()
    asked = next(each for each in cluster.run.machines if each is not lost)
    end = EndTransaction(owner=cluster.owner, is_commit=True)
    request = asked.ask(end)
    cluster.run.advance(3 * MILLISECOND)
    cluster.run.kill(lost.process, loses_power=True)

    reply = cluster.wait(asked, request)
    if isinstance(reply, Refused):
        assert reply.code.is_retriable
        reply = cluster.try_to_ask(end)
    assert reply == TransactionEnded(is_commit=True)
    assert (cluster.read(0), cluster.read(1)) == (["a"], ["b"])


def test_a_partition_is_a_participant_before_anything_is_written_there(
    cluster: CalmCluster,
) -> None:
    transaction = cluster.open()
    log = LogId(TOPIC, 1)
    cluster.ask(AddPartition(owner=cluster.owner, log=log), Done, broker=1)
    cluster.publish("a", 0)
    cluster.lose(cluster.coordinator())

    described = cluster.ask(
        DescribeTransaction(transaction_id=transaction), TransactionDescription, broker=1
    )
    assert described.partitions == (LogId(TOPIC, 0), log)
    assert described.state is TransactionState.ONGOING
    listed = cluster.ask(ListTransactions(), TransactionList)
    assert [each.transaction_id for each in listed.transactions] == [transaction]


def test_a_late_batch_does_not_open_an_ended_transaction_where_it_wrote_nothing(
    cluster: CalmCluster,
) -> None:
    cluster.open()
    cluster.ask(AddPartition(owner=cluster.owner, log=LogId(TOPIC, 1)), Done)
    cluster.publish("a", 0)
    cluster.end(is_commit=True)
    member = cluster.leader(1).node.cluster
    assert member is not None
    hosted = member.replicas.hosted.find(LogId(TOPIC, 1))
    assert hosted is not None
    assert hosted.partition is not None
    assert hosted.partition.log.producers.has_ended(cluster.owner.producer_id, 1)
    assert cluster.refused(cluster.publishing("late", 1)) is Code.TRANSACTION_STATE_INVALID
    assert cluster.read(1) == []


def test_a_new_holder_of_the_transactional_id_fences_the_old_one_everywhere(
    cluster: CalmCluster,
) -> None:
    cluster.open()
    cluster.publish("a", 0)
    newer = cluster.init()

    assert newer.epoch == cluster.owner.epoch + 1
    assert cluster.refused(cluster.publishing("zombie", 0), broker=2) is Code.PRODUCER_FENCED
    assert cluster.refused(cluster.publishing("zombie", 1), broker=2) is Code.PRODUCER_FENCED
    end = EndTransaction(owner=cluster.owner, is_commit=True)
    assert cluster.refused(end) is Code.PRODUCER_FENCED
    assert cluster.read() == []


def test_a_silent_producer_loses_its_transaction_and_one_that_publishes_does_not(
    cluster: CalmCluster,
) -> None:
    silent, cluster.owner = cluster.owner, cluster.init("worker-2")
    first = cluster.owner
    cluster.owner = silent
    cluster.open()
    cluster.publish("silent", 1)
    cluster.owner = first
    cluster.open()
    for number in range(12):
        cluster.publish(f"{number}", 0)
        cluster.run.advance(4 * SECOND)
    cluster.end(is_commit=True)
    assert len(cluster.read(0)) == 12
    lost = EndTransaction(owner=silent, is_commit=True)
    assert cluster.refused(lost) is Code.TRANSACTION_TIMEOUT
    assert cluster.read(1) == []


def test_a_heartbeat_of_a_fenced_producer_is_refused_also_after_the_coordinator_is_lost(
    cluster: CalmCluster,
) -> None:
    old = cluster.owner
    newer = cluster.init()
    cluster.lose(cluster.coordinator())

    beat = HeartbeatProducer(producer_id=old.producer_id, epoch=old.epoch)
    assert cluster.refused(beat) is Code.PRODUCER_FENCED
    cluster.ask(HeartbeatProducer(producer_id=newer.producer_id, epoch=newer.epoch), Done)


def test_prepared_transactions_are_committed_by_one_decision_after_the_coordinator_is_lost(
    cluster: CalmCluster,
) -> None:
    owners = [cluster.owner, cluster.init("worker-2")]
    prepared = []
    for number, owner in enumerate(owners):
        cluster.owner = owner
        cluster.open()
        cluster.publish(f"{number}", number)
        reply = cluster.ask(PrepareTransaction(owner=owner), TransactionPrepared, broker=1)
        prepared.append(reply.transaction_id)
        assert (
            cluster.refused(cluster.publishing("more", 1 - number))
            is Code.TRANSACTION_STATE_INVALID
        )
    cluster.lose(cluster.coordinator())

    group = CommitGroup(key="batch-1", transaction_ids=tuple(prepared))
    assert not cluster.ask(group, GroupCommitted, broker=1).is_repeat
    assert (cluster.read(0), cluster.read(1)) == (["0"], ["1"])
    assert cluster.ask(group, GroupCommitted).is_repeat


def test_a_commit_waits_for_what_was_published_through_the_same_node(
    cluster: CalmCluster,
) -> None:
    cluster.open()
    asked = [cluster.begin(cluster.publishing(f"{n}", n % 2, n // 2), 1) for n in range(8)]
    end = cluster.begin(EndTransaction(owner=cluster.owner, is_commit=True), 1)
    late = cluster.begin(cluster.publishing("late"), 1)

    assert cluster.wait(*end) == TransactionEnded(is_commit=True)
    assert all(isinstance(cluster.wait(*each), Published) for each in asked)
    refused = cluster.wait(*late)
    assert isinstance(refused, Refused)
    assert refused.code is Code.TRANSACTION_STATE_INVALID
    assert (cluster.read(0), cluster.read(1)) == (["0", "2", "4", "6"], ["1", "3", "5", "7"])


def test_offsets_and_acks_take_effect_with_the_transaction_over_the_loss_of_the_coordinator(
    cluster: CalmCluster,
) -> None:
    cluster.open()
    for number in range(3):
        cluster.publish(f"{number}", 0)
    cluster.end(is_commit=True)
    join = Join(group="copies", client_id="c", topics=(TOPIC,), token="t")  # noqa: S106 - names the join
    member = cluster.ask(join, Joined)
    poll = Poll(group="copies", member_id=member.member_id, messages_max=2, wait_ns=SECOND)
    (lease,) = cluster.ask(poll, Leased, broker=1).partitions[0].leases

    cluster.open()
    receipts = tuple(receipt_of(lease.handle, offset) for offset in lease.offsets)
    adding = AddOffsets(owner=cluster.owner, group="copies", receipts=receipts)
    cluster.ask(adding, Done, broker=2)
    cluster.lose(cluster.coordinator())
    log = LogId(TOPIC, 0)
    asking = DescribeOffsets(group="copies", topic=TOPIC)
    assert cluster.ask(asking, Offsets).offsets.get(log, 0) == 0
    cluster.end(is_commit=True)
    assert cluster.ask(asking, Offsets).offsets[log] == 2


def test_a_transaction_may_write_to_partitions_without_a_copy_at_the_coordinator() -> None:
    cluster = CalmCluster(copies=1)
    cluster.open()
    cluster.publish("a", 0)
    cluster.publish("b", 1)
    cluster.end(is_commit=True)
    assert (cluster.read(0), cluster.read(1)) == (["a"], ["b"])


def test_ids_of_both_kinds_of_producers_never_meet(cluster: CalmCluster) -> None:
    plain = cluster.ask(InitProducer(), ProducerGranted)
    assert plain.producer_id < 1 << 40 <= cluster.owner.producer_id
    unknown = Owner(producer_id=(1 << 40) + 999, epoch=0, transactional_id="x")
    assert cluster.refused(cluster.publishing("a", owner=unknown)) is Code.PRODUCER_NOT_FOUND
