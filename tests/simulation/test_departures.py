"""A broker is told to stop: others lead first what it leads, and publishers hear nothing of it."""

from collections.abc import Callable

import pytest

from goqueue.cluster import BrokerState
from goqueue.model import MILLISECOND, SECOND, Message, Refused, RequestId
from goqueue.model.requests import CheckHealth, NodeHealth, Publish, Published
from goqueue.records import build
from goqueue.sim.cluster import BrokerMachine, ClusterProcess
from tests.simulation.test_reassignments import OLD, TOPIC, MovingCluster

# What a broker may take that hands over what it leads, and one that cannot.
_QUICK_NS = 500 * MILLISECOND
_BOUND_NS = 8 * SECOND


class LeavingCluster(MovingCluster):
    """Publishers ask one broker each, and never twice."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[BrokerMachine, RequestId]] = []

    @property
    def leader(self) -> BrokerMachine:
        assert self.state.leader is not None
        return self.machine(self.state.leader)

    @property
    def controller(self) -> BrokerMachine:
        (found,) = (
            each
            for each in self.run.machines
            if each.node.cluster is not None
            and each.node.cluster.metadata is not None
            and each.node.cluster.metadata.is_controller
        )
        return found

    def publish_at(self, machine: BrokerMachine) -> None:
        batch = build([Message(value=b"%d" % len(self.requests))])
        asked = machine.ask(Publish(topic=TOPIC, batch=batch, targets=[0]))
        self.requests.append((machine, asked))

    def publish_while(self, holds: Callable[[], bool], bound_ns: int) -> int:
        """Publish at all brokers until something is no more so; how long that took."""
        for waited in range(0, bound_ns, 2 * MILLISECOND):
            if not holds():
                return waited
            for machine in self.run.machines:
                if machine.node.cluster is not None and not machine.node.cluster.departure.is_over:
                    self.publish_at(machine)
            self.run.advance(2 * MILLISECOND)
        raise AssertionError(f"it lasts too long: {self.state}")

    def replies(self) -> list[object]:
        self.run.advance(3 * SECOND)
        return [machine.replies.get(request) for machine, request in self.requests]

    def end(self, machine: BrokerMachine) -> ClusterProcess:
        """Stop a broker that has left."""
        machine.stop()
        self.run.advance(100 * MILLISECOND)
        self.run.kill(machine.process, loses_power=False)
        return machine.process

    def state_of(self, name: str) -> BrokerState:
        (image, *_) = (
            each.node.cluster.metadata.image
            for each in self.run.machines
            if each.node.cluster is not None and each.node.cluster.metadata is not None
        )
        return image.brokers[name].state


@pytest.fixture
def cluster() -> LeavingCluster:
    return LeavingCluster()


@pytest.mark.parametrize("role", ["leader", "follower", "controller"])
def test_a_broker_leaves_under_load_and_no_publish_is_refused(
    cluster: LeavingCluster, role: str
) -> None:
    leader = cluster.leader.process.name
    leaving = {
        "leader": cluster.leader,
        "follower": cluster.machine(next(each for each in OLD if each != leader)),
        "controller": cluster.controller,
    }[role]
    name = leaving.process.name

    leaving.leave()
    cluster.publish_while(lambda: not leaving.node.may_stop, _QUICK_NS)

    assert cluster.state_of(name) is BrokerState.LEAVING
    assert cluster.state.leader != name
    assert set(cluster.state.isr) == {*OLD} - {name}
    cluster.end(leaving)
    replies = cluster.replies()
    assert all(isinstance(each, Published) for each in replies), replies


def test_a_broker_that_left_comes_back_and_is_in_sync_again(cluster: LeavingCluster) -> None:
    cluster.publish(5)
    leaving = cluster.leader
    leaving.leave()
    cluster.wait_until(lambda: leaving.node.may_stop)
    process = cluster.end(leaving)
    cluster.publish(5)

    process.begin()
    cluster.wait_until(lambda: set(cluster.state.isr) == set(OLD))
    assert cluster.state_of(process.name) is BrokerState.ACTIVE
    assert cluster.read() == cluster.values


def test_a_broker_that_leaves_says_so_and_takes_no_new_callers(cluster: LeavingCluster) -> None:
    leaving = cluster.leader
    leaving.leave()
    health = leaving.replies[leaving.ask(CheckHealth())]
    assert isinstance(health, NodeHealth)
    assert health.not_ready == "stopping"

    cluster.wait_until(lambda: leaving.node.may_stop)
    cluster.publish_at(leaving)
    (reply,) = cluster.replies()
    assert isinstance(reply, Refused)
    assert (reply.code.value, reply.code.is_retriable) == ("broker_unavailable", True)


def test_a_broker_hands_over_nothing_to_those_who_leave_too(cluster: LeavingCluster) -> None:
    first, second = (cluster.machine(name) for name in OLD[:2])
    first.leave()
    second.leave()
    cluster.wait_until(lambda: first.node.may_stop and second.node.may_stop)
    assert cluster.state.leader == OLD[2]


def test_a_broker_that_nobody_can_replace_stops_within_its_bound(cluster: LeavingCluster) -> None:
    leaving = cluster.leader
    for machine in cluster.run.machines:
        if machine is not leaving:
            cluster.run.kill(machine.process, loses_power=True)
    leaving.leave()
    began = cluster.run.time.now_ns
    cluster.wait_until(lambda: leaving.node.may_stop)
    assert cluster.run.time.now_ns - began < _BOUND_NS


def test_the_controller_dies_while_a_broker_leaves(cluster: LeavingCluster) -> None:
    leaving = next(each for each in map(cluster.machine, OLD) if each is not cluster.controller)
    cluster.publish(3)
    leaving.leave()
    cluster.run.kill(cluster.controller.process, loses_power=True)
    cluster.publish_while(lambda: not leaving.node.may_stop, _BOUND_NS)
    cluster.end(leaving)
    cluster.run.advance(4 * SECOND)
    assert cluster.state.leader not in {None, leaving.process.name}
    cluster.publish(3)
