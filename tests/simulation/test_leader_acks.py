"""`acks=leader` in a cluster: answered from the own disk, by a leader that is sure to lead."""

from goqueue.cluster import PartitionId
from goqueue.model import MILLISECOND, SECOND, Code, Message, RequestId
from goqueue.model.requests import Acks, Publish, Published
from goqueue.records import build
from goqueue.sim.cluster import QuorumSwarm, ReplicationRun, ReplicationSwarm
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.trace import Trace


def begun() -> tuple[ReplicationRun, BrokerMachine]:
    """A quiet cluster with a topic of three copies, and the leader of its first partition."""
    calm = dict.fromkeys(QuorumSwarm.__struct_fields__[1:], False)
    copies = ReplicationSwarm(
        replicas=3, minimum=2, fills=False, deletes=False, small_segments=False
    )
    run = ReplicationRun(5, Trace(), swarm=QuorumSwarm(brokers=3, **calm), copies=copies)
    run.begin()
    run.create_topic()
    run.advance(2 * SECOND)
    state = run.checks.newest(first_partition(run))
    assert state is not None
    return run, next(each for each in run.machines if each.process.name == state.leader)


def first_partition(run: ReplicationRun) -> PartitionId:
    member = run.machines[0].node.cluster
    assert member is not None
    return next(each.where for each in member.replicas.hosted if each.where.partition == 0)


def publish(machine: BrokerMachine) -> RequestId:
    batch = build([Message(value=b"x")])
    return machine.ask(Publish(topic="orders", batch=batch, targets=[0], acks=Acks.LEADER))


def refusal(machine: BrokerMachine, request: RequestId) -> Code | None:
    published = machine.replies[request]
    assert isinstance(published, Published)
    (placed,) = published.placed
    return placed.refused


def test_a_leader_that_is_followed_answers_from_its_own_disk() -> None:
    run, leader = begun()
    for machine in run.machines:
        if machine is not leader:
            # Whoever needs the copies waits for these disks.
            slow = 20 * SECOND
            machine.weather = type(machine.weather)(delay_ns_max=slow, slow_ns_max=slow)
    request = publish(leader)
    run.advance(500 * MILLISECOND)
    assert refusal(leader, request) is None


def test_a_leader_that_nobody_confirmed_for_a_second_does_not_answer() -> None:
    run, leader = begun()
    assert refusal_after(run, leader, publish(leader)) is None
    for process in run.processes:
        if process.name != leader.process.name:
            run.network.cut(leader.process.address, process.address)
            run.network.cut(process.address, leader.process.address)
    run.advance(1100 * MILLISECOND)

    # It does not know yet whether another broker leads: nobody may hear that this is kept.
    request = publish(leader)
    run.advance(SECOND)
    assert request not in leader.replies
    run.advance(6 * SECOND)
    assert refusal(leader, request) is Code.REPLICATION_FAILED


def refusal_after(run: ReplicationRun, machine: BrokerMachine, request: RequestId) -> Code | None:
    run.advance(SECOND)
    return refusal(machine, request)
