"""Delayed messages in a cluster: each fires once, whatever fails; and what callers are told."""

import pytest

from goqueue.cluster import PartitionId
from goqueue.model import (
    DELIVER_HEADER,
    MILLISECOND,
    SECOND,
    Code,
    Message,
    Offset,
    Refused,
    RequestId,
)
from goqueue.model.requests import (
    CancelDelayed,
    Command,
    DelayedDescription,
    DelayedList,
    DelayState,
    DelayStatistics,
    DescribeDelays,
    Done,
    FindDelayed,
    ListDelayed,
    Publish,
    Published,
)
from goqueue.records import build
from goqueue.sim.cluster import DelayRun, QuorumSwarm, ReplicationRun, ReplicationSwarm
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.trace import Trace
from tests.examples import IS_EXHAUSTIVE

TOPIC = "orders"
SEEDS = range(25 if IS_EXHAUSTIVE else 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_delays_fire_once_when_leaders_fail_at_the_worst_moments(seed: int) -> None:
    run = DelayRun(seed, Trace())
    run.live()

    assert run.fired_total > 0


@pytest.mark.parametrize("seed", [13, 23])
def test_a_leader_that_leads_on_in_a_later_epoch_keeps_what_is_on_its_way(seed: int) -> None:
    """It forgot messages, deliveries and cancellations that its log still held."""
    DelayRun(seed, Trace(), 20, deposes=False).live()


def test_a_seed_means_the_same_run_every_time() -> None:
    digests = []
    for _ in range(2):
        trace = Trace()
        DelayRun(3, trace).live()
        digests.append(trace.digest)

    assert digests[0] == digests[1]


class QuietCluster:
    """Three brokers whose clocks agree, and a topic of two partitions with three copies."""

    def __init__(self, minimum: int = 2) -> None:
        calm = dict.fromkeys(QuorumSwarm.__struct_fields__[1:], False)
        copies = ReplicationSwarm(
            replicas=3, minimum=minimum, fills=False, deletes=False, small_segments=False
        )
        self.run = ReplicationRun(5, Trace(), swarm=QuorumSwarm(brokers=3, **calm), copies=copies)
        walls = [process.clock.wall(0) for process in self.run.processes]
        for process, wall in zip(self.run.processes, walls, strict=True):
            process.clock.jump(max(walls) - wall)
        self.run.begin()
        self.run.create_topic()
        self.run.advance(2 * SECOND)

    def leader(self, partition: int = 0) -> BrokerMachine:
        for machine in self.run.machines:
            member = machine.node.cluster
            assert member is not None
            for hosted in member.replicas.hosted:
                is_led = member.replicas.role(hosted) == "leader"
                if hosted.where.partition == partition and is_led:
                    return machine
        raise AssertionError("nobody leads")

    def others(self, partition: int = 0) -> list[BrokerMachine]:
        leader = self.leader(partition)
        return [each for each in self.run.machines if each is not leader]

    def where(self, partition: int = 0) -> PartitionId:
        member = self.run.machines[0].node.cluster
        assert member is not None
        return next(
            each.where for each in member.replicas.hosted if each.where.partition == partition
        )

    def ask(self, machine: BrokerMachine, command: Command, wait_ns: int = SECOND) -> object:
        request = machine.ask(command)
        self.run.advance(wait_ns)
        return machine.replies.get(request)

    def delaying(self, machine: BrokerMachine, delay_ns: int, partition: int = 0) -> Publish:
        due = machine.process.now().wall + delay_ns
        headers = ((DELIVER_HEADER, b"%d" % due),)
        message = Message(value=b"later", headers=headers, is_delayed=True)
        return Publish(topic=TOPIC, batch=build([message]), targets=[partition], dues=[due])

    def delay(self, machine: BrokerMachine, delay_ns: int, partition: int = 0) -> Offset:
        published = self.ask(machine, self.delaying(machine, delay_ns, partition))
        assert isinstance(published, Published), published
        (placed,) = published.placed
        assert placed.refused is None
        return placed.first

    def state(self, machine: BrokerMachine, offset: Offset, partition: int = 0) -> DelayState:
        found = self.ask(machine, FindDelayed(topic=TOPIC, partition=partition, offset=offset))
        assert isinstance(found, DelayedDescription), found
        return found.state

    def kill_leader(self) -> None:
        leader = self.leader()
        self.run.kill(leader.process, loses_power=False)
        self.run.advance(6 * SECOND)

    def cut_off(self, machine: BrokerMachine) -> None:
        for process in self.run.processes:
            if process is not machine.process:
                self.run.network.cut(machine.process.address, process.address)
                self.run.network.cut(process.address, machine.process.address)


def cancel(offset: Offset, partition: int = 0) -> CancelDelayed:
    return CancelDelayed(topic=TOPIC, partition=partition, offset=offset)


def test_a_message_fires_though_its_leader_is_lost() -> None:
    cluster = QuietCluster()
    offset = cluster.delay(cluster.others()[0], 4 * SECOND)
    kept = cluster.delay(cluster.others()[0], 3600 * SECOND)
    cluster.kill_leader()

    other = cluster.others()[0]
    assert cluster.state(other, offset) is DelayState.DELIVERED
    assert cluster.state(other, kept) is DelayState.PENDING


def test_what_was_cancelled_or_delivered_under_one_leader_is_so_under_the_next() -> None:
    cluster = QuietCluster()
    other = cluster.others()[0]
    cancelled = cluster.delay(other, 3600 * SECOND)
    delivered = cluster.delay(other, SECOND)
    assert cluster.ask(other, cancel(cancelled)) == Done()
    assert cluster.state(other, delivered) is DelayState.DELIVERED
    cluster.kill_leader()

    other = cluster.others()[0]
    # To cancel again is harmless, and too late is too late.
    assert cluster.ask(other, cancel(cancelled)) == Done()
    late = cluster.ask(other, cancel(delivered))
    assert isinstance(late, Refused)
    assert late.code is Code.ALREADY_DELIVERED
    assert (late.facts.get("delivered_offset") or 0) > delivered


def test_messages_of_several_leaders_are_listed_and_counted_by_any_broker() -> None:
    cluster = QuietCluster()
    asked = cluster.others()[0]
    places = [
        (number, cluster.delay(asked, delay_ns, number))
        for number, delay_ns in ((1, 900 * SECOND), (0, 800 * SECOND), (1, 700 * SECOND))
    ]
    # Each broker answers, whatever it leads itself.
    for machine in cluster.run.machines:
        listed = cluster.ask(machine, ListDelayed(topic=TOPIC, limit=2))
        assert isinstance(listed, DelayedList)
        found = [(each.log.partition, each.offset) for each in listed.messages]
        assert (found, listed.total) == ([places[2], places[1]], 3)
        counts = cluster.ask(machine, DescribeDelays())
        assert isinstance(counts, DelayStatistics)
        assert (counts.pending, counts.by_topic) == (3, {TOPIC: 3})


def test_nobody_cancels_without_the_copies() -> None:
    """A leader that is alone may be deposed: what becomes of its cancellation is not known."""
    cluster = QuietCluster()
    leader = cluster.leader()
    offset = cluster.delay(leader, 3600 * SECOND)
    cluster.cut_off(leader)

    request = leader.ask(cancel(offset))
    cluster.run.advance(4 * SECOND)
    assert request not in leader.replies
    cluster.run.advance(3 * SECOND)
    refused = leader.replies[request]
    assert isinstance(refused, Refused)
    assert refused.code is Code.REPLICATION_FAILED


def test_a_cancellation_is_refused_before_it_is_appended_while_too_few_copies_live() -> None:
    cluster = QuietCluster(minimum=3)
    leader = cluster.leader()
    offset = cluster.delay(leader, 3600 * SECOND)
    missing = cluster.others()[0].process
    cluster.run.kill(missing, loses_power=False)
    cluster.run.advance(6 * SECOND)
    before = end_of(cluster, leader)

    refused = cluster.ask(leader, cancel(offset))
    assert isinstance(refused, Refused)
    assert refused.code is Code.NOT_ENOUGH_REPLICAS
    assert end_of(cluster, leader) == before

    missing.begin()
    cluster.run.advance(6 * SECOND)
    assert cluster.ask(leader, cancel(offset)) == Done()


def test_a_leader_that_may_be_deposed_does_not_say_that_there_is_no_such_message() -> None:
    cluster = QuietCluster()
    leader = cluster.leader()
    missing = FindDelayed(topic=TOPIC, partition=0, offset=Offset(77))
    unknown = cluster.ask(leader, missing)
    assert isinstance(unknown, Refused)
    assert unknown.code is Code.MESSAGE_NOT_FOUND
    cluster.cut_off(leader)
    cluster.run.advance(1200 * MILLISECOND)

    refused = cluster.ask(leader, missing, 3 * SECOND)
    assert isinstance(refused, Refused)
    assert refused.code is Code.LEADER_UNAVAILABLE


def test_nothing_fires_while_too_few_copies_live_and_it_is_made_up_for() -> None:
    cluster = QuietCluster(minimum=2)
    leader = cluster.leader()
    offset = cluster.delay(leader, 8 * SECOND)
    gone = [each.process for each in cluster.others()]
    cluster.run.kill(gone[0], loses_power=False)
    cluster.run.advance(5 * SECOND)
    log = end_of(cluster, leader)
    cluster.run.kill(gone[1], loses_power=False)
    cluster.run.advance(20 * SECOND)
    # One append may have been on its way; it is not tried again and again.
    assert end_of(cluster, leader) <= log + 1

    for process in gone:
        process.begin()
    cluster.run.advance(15 * SECOND)
    assert cluster.state(cluster.others()[0], offset) is DelayState.DELIVERED


def end_of(cluster: QuietCluster, machine: BrokerMachine) -> int:
    member = machine.node.cluster
    assert member is not None
    hosted = member.replicas.hosted.get(cluster.where())
    assert hosted is not None
    assert hosted.partition is not None
    return int(hosted.partition.log.end)


def test_a_deposed_leader_answers_who_waits_for_a_cancellation() -> None:
    cluster = QuietCluster()
    leader = cluster.leader()
    offset = cluster.delay(leader, 3600 * SECOND)
    for other in cluster.others():
        # They hear what it says later than the others have chosen another leader.
        cluster.run.network.cut(leader.process.address, other.process.address)
    request: RequestId = leader.ask(cancel(offset))
    cluster.run.advance(4500 * MILLISECOND)
    cluster.run.network.heal()
    cluster.run.advance(4 * SECOND)

    refused = leader.replies[request]
    assert isinstance(refused, Refused)
    assert refused.code is Code.REPLICATION_FAILED
    assert cluster.state(leader, offset) is DelayState.PENDING
