"""Groups of a cluster, step by step: what outlives the coordinator, and what ends with it."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from goqueue.model import MILLISECOND, SECOND, Code, Offset, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    Command,
    CommitOffsets,
    DescribeOffsets,
    DescribeTopic,
    Join,
    Joined,
    Leased,
    LeaseOffsets,
    Nack,
    Offsets,
    Poll,
    Redrive,
    Redriven,
    Reject,
    Reply,
    Returned,
    TopicDescription,
    receipt_of,
)
from goqueue.sim import Trace
from goqueue.sim.cluster import (
    BrokerMachine,
    GroupRun,
    QuorumSwarm,
    ReplicationRun,
    ReplicationSwarm,
)
from tests.simulation.replays import named_when_it_fails

TOPIC = "orders"
GROUP = "workers"
NAME = "t"
CALM = QuorumSwarm(
    brokers=3,
    **dict.fromkeys(
        (each for each in QuorumSwarm.__struct_fields__ if each not in {"brokers", "full_disks"}),
        False,
    ),
)
R = TypeVar("R", bound=Reply)


class CalmCluster:
    """Three brokers on whole disks and a quick network, with a topic and messages in it."""

    def __init__(self) -> None:
        copies = ReplicationSwarm(
            replicas=3, minimum=2, fills=False, deletes=False, small_segments=False
        )
        self.run = ReplicationRun(1, Trace(), swarm=CALM, copies=copies)
        self.run.begin()
        self.run.create_topic()
        self.run.begin_publishing()
        self.run.advance(2 * SECOND)

    def try_to_ask(self, command: Command, broker: int = 0) -> Reply | Refused:
        """The answer of one of the brokers that live."""
        machine = self.run.machines[broker]
        request = machine.ask(command)
        for _ in range(400):
            if request in machine.replies:
                return machine.replies.pop(request)
            self.run.advance(20 * MILLISECOND)
        raise AssertionError(f"no answer to {command}")

    def ask(self, command: Command, kind: type[R], broker: int = 0) -> R:
        reply = self.try_to_ask(command, broker)
        assert isinstance(reply, kind), reply
        return reply

    def join(self) -> Joined:
        return self.ask(Join(group=GROUP, client_id="c", topics=(TOPIC,), token=NAME), Joined)

    def poll(self, member: Joined, count: int = 3) -> Leased:
        command = Poll(group=GROUP, member_id=member.member_id, messages_max=count, wait_ns=SECOND)
        leased = self.ask(command, Leased, broker=1)
        assert leased.partitions, "there are messages"
        return leased

    @property
    def coordinator(self) -> BrokerMachine:
        (found,) = (
            each
            for each in self.run.machines
            if each.node.coordinators is not None and each.node.coordinators.current is not None
        )
        return found

    def lose_coordinator(self) -> None:
        """Take its power, and let another one take over."""
        self.run.kill(self.coordinator.process, loses_power=True)
        self.run.advance(6 * SECOND)
        assert len(self.run.machines) == 2


def first_of(leased: Leased) -> tuple[str, int, int]:
    """Handle, offset and delivery count of the first message that was leased."""
    run = leased.partitions[0].leases[0]
    return run.handle, run.offsets[0], run.attempt


def acking(handle: str, offset: int) -> Ack:
    return Ack(leases=(LeaseOffsets(handle, ((offset, offset + 1),)),))


@pytest.fixture(scope="module")
def calm() -> Callable[[], CalmCluster]:
    return CalmCluster


def test_a_lease_ends_with_its_coordinator_and_its_receipt_is_stale(
    calm: Callable[[], CalmCluster],
) -> None:
    cluster = calm()
    handle, offset, _ = first_of(cluster.poll(cluster.join()))
    cluster.lose_coordinator()

    (settlement,) = cluster.ask(acking(handle, offset), Acked).settlements
    assert [each.code for each in settlement.refused] == [Code.RECEIPT_STALE]


def test_what_was_settled_may_be_acked_again_at_the_next_coordinator(
    calm: Callable[[], CalmCluster],
) -> None:
    cluster = calm()
    handle, offset, _ = first_of(cluster.poll(cluster.join()))
    cluster.ask(acking(handle, offset), Acked)
    cluster.lose_coordinator()

    (settlement,) = cluster.ask(acking(handle, offset), Acked).settlements
    assert (settlement.count, settlement.refused) == (1, ())


def test_members_and_delivery_counts_outlive_the_coordinator(
    calm: Callable[[], CalmCluster],
) -> None:
    cluster = calm()
    member = cluster.join()
    before = cluster.poll(member, count=1000)
    cluster.lose_coordinator()
    after = cluster.poll(member, count=1000)

    log = after.partitions[0].log
    (same,) = (each for each in before.partitions if each.log == log)
    counted = {offset: attempt for offset, attempt, _ in same}
    again = {offset: attempt for offset, attempt, _ in after.partitions[0]}
    assert {each: again[each] for each in counted} == dict.fromkeys(counted, 2)


def test_a_committed_offset_outlives_the_coordinator(calm: Callable[[], CalmCluster]) -> None:
    cluster = calm()
    member = cluster.join()
    log = member.assigned[0]
    commit = CommitOffsets(
        group=GROUP,
        offsets={log: Offset(3)},
        member_id=member.member_id,
        generation=member.generation,
    )
    cluster.ask(commit, Offsets, broker=1)
    cluster.lose_coordinator()

    assert cluster.ask(DescribeOffsets(group=GROUP), Offsets).offsets[log] == 3


def test_a_rejected_message_is_a_dead_letter_that_can_be_redriven(
    calm: Callable[[], CalmCluster],
) -> None:
    cluster = calm()
    handle, offset, _ = first_of(cluster.poll(cluster.join()))
    reject = Reject(receipt=receipt_of(handle, offset), reason="bad")
    returned = cluster.ask(reject, Returned, broker=1)
    assert returned.dead_letter_topic == f"{TOPIC}.dlq"
    cluster.lose_coordinator()

    described = cluster.ask(DescribeTopic(name=f"{TOPIC}.dlq"), TopicDescription)
    assert described.total_messages == 1
    assert cluster.ask(Redrive(topic=TOPIC), Redriven, broker=1).moved == 1
    assert cluster.ask(Redrive(topic=TOPIC), Redriven).moved == 0


def test_a_nacked_message_is_delivered_again_with_a_higher_count(
    calm: Callable[[], CalmCluster],
) -> None:
    cluster = calm()
    member = cluster.join()
    handle, offset, attempt = first_of(cluster.poll(member, count=1))
    cluster.ask(Nack(receipt=receipt_of(handle, offset), delay_ns=0), Returned, broker=1)

    assert attempt == 1
    delivered = [cluster.poll(member, count=1) for _ in range(2)]
    counts = {first_of(each)[1:] for each in delivered if first_of(each)[1] == offset}
    assert (offset, 2) in counts


# 20: a dead-letter topic that was created while a broker was away had no copy at the coordinator.
# 2012: a message whose three deliveries were all lost is a dead letter that nobody saw.
@pytest.mark.parametrize("seed", [1, 20, 2012])
def test_a_seed_that_found_something_finds_nothing_more(seed: int) -> None:
    with named_when_it_fails("groups", seed):
        run = GroupRun(seed, Trace())
        run.live()
    assert run.truths[GROUP].acked_total > 0
