"""Partitions move between brokers, step by step, and brokers fail at each of the steps."""

from collections.abc import Callable

import pytest

from goqueue.cluster import PartitionState
from goqueue.model import MILLISECOND, SECOND, Code, LogId, Message, Refused
from goqueue.model.requests import (
    CancelReassignment,
    CreateTopic,
    DeleteTopic,
    LeaderElected,
    ListReassignments,
    Publish,
    Published,
    ReassignmentDescription,
    ReassignmentList,
    StartReassignment,
    TopicConfig,
    TransferLeader,
    WantedMove,
)
from goqueue.records import Flag, build, decode, walk
from goqueue.sim import Trace
from goqueue.sim.cluster import BrokerMachine, ReassignmentRun
from goqueue.storage import log_directory
from tests.simulation.calm_cluster import CalmCluster
from tests.simulation.replays import named_when_it_fails

TOPIC = "orders"
LOG = LogId(TOPIC, 0)
OLD = ("broker-0", "broker-1", "broker-2")
NEW = ("broker-3", "broker-1", "broker-4")


class MovingCluster(CalmCluster):
    """Five brokers, and a partition on the first three."""

    def __init__(self) -> None:
        super().__init__()
        config = TopicConfig(replication_factor=3, min_insync_replicas=2)
        created = CreateTopic(name=TOPIC, partitions=1, config=config)
        assert not isinstance(self.try_to_ask(created), Refused)
        self.run.advance(SECOND)
        self.values: list[bytes] = []
        if self.state.replicas != OLD:
            self.start(*OLD)
            self.wait_until(lambda: self.state.replicas == OLD and not self.state.target)

    @property
    def state(self) -> PartitionState:
        """The partition in the newest image."""
        images = [
            machine.node.cluster.metadata.image
            for machine in self.run.machines
            if machine.node.cluster is not None and machine.node.cluster.metadata is not None
        ]
        image = max(images, key=lambda each: each.version)
        topic = image.topic(TOPIC)
        assert topic is not None
        found = image.partition(topic.number, 0)
        assert found is not None
        return found

    def start(self, *replicas: str, rate: int = 0, timeout_s: int = 3600) -> str:
        command = StartReassignment(
            moves=(WantedMove(TOPIC, 0, replicas),), bytes_per_second=rate, timeout_s=timeout_s
        )
        return self.ask(command, ReassignmentDescription).id

    def describe(self, name: str) -> ReassignmentDescription:
        (found,) = self.ask(ListReassignments(id=name), ReassignmentList).reassignments
        return found

    def wait_until(self, holds: Callable[[], bool]) -> None:
        for _ in range(4_000):
            if holds():
                return
            self.run.advance(5 * MILLISECOND)
        raise AssertionError(f"it never came about: {self.state}")

    def publish(self, count: int, size: int = 8) -> None:
        for _ in range(count):
            value = f"{len(self.values)}".encode().ljust(size)
            batch = build([Message(value=value)])
            self.ask(Publish(topic=TOPIC, batch=batch, targets=[0]), Published)
            self.values.append(value)

    def read(self) -> list[bytes]:
        """The committed messages, which all replicas have."""
        self.run.advance(SECOND)
        found = [self._committed(self.machine(each)) for each in self.state.replicas]
        assert all(each == found[0] for each in found)
        return found[0]

    def _committed(self, machine: BrokerMachine) -> list[bytes]:
        member = machine.node.cluster
        hosted = None if member is None else member.replicas.hosted.find(LOG)
        assert hosted is not None
        assert hosted.partition is not None
        log, values = hosted.partition.log, []
        offset = log.start
        while (wanted := log.read(offset, 1 << 20)) is not None:
            data = machine.storage.read(wanted)
            records = [decode(data, at) for at in walk(data).positions]
            values += [each.value or b"" for each in records if not each.flags & Flag.CONTROL]
            offset = wanted.below
        return values

    def machine(self, name: str) -> BrokerMachine:
        (found,) = (each for each in self.run.machines if each.process.name == name)
        return found

    def keepers(self) -> set[str]:
        """The brokers that have files of the partition."""
        directory = f"{log_directory(LOG)}/"
        return {
            name
            for name, disk in self.run.disks.items()
            if any(each.startswith(directory) for each in disk.files.paths())
        }


@pytest.fixture
def cluster() -> MovingCluster:
    return MovingCluster()


def test_a_partition_moves_with_all_its_messages_and_the_old_copies_go(
    cluster: MovingCluster,
) -> None:
    cluster.publish(20)
    name = cluster.start(*NEW)
    assert cluster.describe(name).state in {"pending", "in_progress"}
    cluster.publish(5)
    cluster.wait_until(lambda: cluster.state.replicas == NEW)
    cluster.publish(5)

    assert cluster.read() == cluster.values
    assert cluster.state.leader in NEW
    cluster.run.advance(SECOND)
    assert cluster.keepers() == set(NEW)
    found = cluster.describe(name)
    (moved,) = found.partitions
    assert (found.state, moved.state, moved.catchup_percent) == ("completed", "completed", 100)
    assert moved.bytes_transferred >= 20 * 8
    assert found.completed_at is not None


def test_a_throttled_move_says_how_far_it_is_and_is_cancelled(cluster: MovingCluster) -> None:
    cluster.publish(40, size=10_000)
    name = cluster.start(*NEW, rate=65_536)
    cluster.wait_until(lambda: cluster.describe(name).partitions[0].bytes_transferred > 100_000)
    (moving,) = cluster.describe(name).partitions
    assert moving.state == "in_progress"
    assert 0 < moving.catchup_percent < 100

    cancelled = cluster.ask(CancelReassignment(id=name), ReassignmentDescription)
    assert cancelled.state == "cancelled"
    assert cluster.state.copies == OLD
    cluster.run.advance(SECOND)
    assert cluster.keepers() == set(OLD)
    assert cluster.read() == cluster.values


def test_a_move_that_takes_too_long_fails_and_leaves_the_partition(cluster: MovingCluster) -> None:
    cluster.publish(40, size=10_000)
    name = cluster.start(*NEW, rate=10_000, timeout_s=2)
    cluster.wait_until(lambda: cluster.describe(name).state == "failed")

    assert cluster.state.copies == OLD
    assert "2 s" in cluster.describe(name).error


@pytest.mark.parametrize("victim", ["learner", "leader", "controller"])
@pytest.mark.parametrize("point", ["target committed", "learner made", "joined", "switched"])
def test_a_move_survives_a_crash_at_each_of_its_steps(
    cluster: MovingCluster, point: str, victim: str
) -> None:
    cluster.publish(10)
    cluster.start(*NEW)
    reached: dict[str, Callable[[], bool]] = {
        "target committed": lambda: bool(cluster.state.target),
        "learner made": lambda: "broker-3" in cluster.keepers(),
        "joined": lambda: "broker-3" in cluster.state.isr,
        "switched": lambda: cluster.state.replicas == NEW,
    }
    cluster.wait_until(reached[point])
    names = {
        "learner": "broker-3",
        "leader": cluster.state.leader,
        "controller": _controller(cluster),
    }
    process = cluster.machine(names[victim] or "broker-0").process
    cluster.run.kill(process, loses_power=True)
    cluster.run.advance(4 * SECOND)
    process.begin()
    cluster.wait_until(lambda: cluster.state.replicas == NEW and set(cluster.state.isr) == set(NEW))

    cluster.publish(3)
    assert cluster.read() == cluster.values
    cluster.wait_until(lambda: cluster.keepers() == set(NEW))


def _controller(cluster: MovingCluster) -> str:
    (found,) = (
        each.process.name
        for each in cluster.run.machines
        if each.node.cluster is not None
        and each.node.cluster.metadata is not None
        and each.node.cluster.metadata.is_controller
    )
    return found


def test_an_old_replica_that_was_away_removes_its_copy_when_it_is_back(
    cluster: MovingCluster,
) -> None:
    cluster.publish(10)
    away = cluster.machine("broker-2").process
    cluster.run.kill(away, loses_power=False)
    cluster.start(*NEW)
    cluster.wait_until(lambda: cluster.state.replicas == NEW)
    assert "broker-2" in cluster.keepers()

    away.begin()
    cluster.wait_until(lambda: cluster.keepers() == set(NEW))


def test_a_partition_that_moves_away_and_back_is_whole(cluster: MovingCluster) -> None:
    cluster.publish(10)
    for replicas in (("broker-0", "broker-1"), OLD, ("broker-1", "broker-0"), OLD):
        cluster.start(*replicas)
        cluster.wait_until(lambda wanted=replicas: cluster.state.replicas == wanted)  # type: ignore[misc]  # bound now
        cluster.publish(3)
    assert cluster.read() == cluster.values
    cluster.run.advance(SECOND)
    assert cluster.keepers() == set(OLD)


def test_a_topic_that_is_deleted_while_it_moves_ends_its_move(cluster: MovingCluster) -> None:
    cluster.publish(40, size=10_000)
    name = cluster.start(*NEW, rate=10_000)
    assert not isinstance(cluster.try_to_ask(DeleteTopic(name=TOPIC)), Refused)
    cluster.run.advance(SECOND)

    found = cluster.describe(name)
    assert (found.state, found.error) == ("failed", "the topic was deleted")
    assert cluster.keepers() == set()


@pytest.mark.parametrize(
    ("move", "code"),
    [
        (WantedMove("absent", 0, OLD), Code.TOPIC_NOT_FOUND),
        (WantedMove(TOPIC, 7, OLD), Code.PARTITION_NOT_FOUND),
        (WantedMove(TOPIC, 0, ("broker-0", "stranger")), Code.NODE_NOT_FOUND),
        (WantedMove(TOPIC, 0, ("broker-0", "broker-0")), Code.REQUEST_INVALID),
        (WantedMove(TOPIC, 0, ("broker-0",)), Code.REQUEST_INVALID),
        (WantedMove(TOPIC, 0, ()), Code.REQUEST_INVALID),
    ],
)
def test_an_impossible_move_is_refused(
    cluster: MovingCluster, move: WantedMove, code: Code
) -> None:
    refused = cluster.try_to_ask(StartReassignment(moves=(move,)))
    assert isinstance(refused, Refused)
    assert refused.code is code


def test_a_partition_that_moves_is_not_moved_again_until_that_is_over(
    cluster: MovingCluster,
) -> None:
    cluster.publish(40, size=10_000)
    name = cluster.start(*NEW, rate=10_000)
    again = StartReassignment(moves=(WantedMove(TOPIC, 0, OLD),))
    refused = cluster.try_to_ask(again)
    assert isinstance(refused, Refused)
    assert refused.code is Code.LOG_BUSY

    cluster.ask(CancelReassignment(id=name), ReassignmentDescription)
    assert not isinstance(cluster.try_to_ask(again), Refused)
    unknown = cluster.try_to_ask(CancelReassignment(id="r-99"))
    assert isinstance(unknown, Refused)
    assert unknown.code is Code.REASSIGNMENT_NOT_FOUND


def test_leadership_passes_to_a_replica_on_request_and_publishers_only_wait(
    cluster: MovingCluster,
) -> None:
    leader, requests = cluster.state.leader, []

    def publish(count: int) -> None:
        for number in range(count):
            machine = cluster.run.machines[number % 5]
            batch = build([Message(value=b"%d" % number)])
            requests.append((machine, machine.ask(Publish(topic=TOPIC, batch=batch, targets=[0]))))
            cluster.run.advance(3 * MILLISECOND)

    publish(10)
    operator = cluster.run.machines[4]
    asked = operator.ask(TransferLeader(topic=TOPIC, partition=0, node="broker-2"))
    publish(20)
    cluster.run.advance(3 * SECOND)

    assert leader != "broker-2"
    assert operator.replies[asked] == LeaderElected(node="broker-2")
    assert cluster.state.leader == "broker-2"
    replies = [machine.replies.get(request) for machine, request in requests]
    assert all(isinstance(each, Published) for each in replies), replies


def test_a_replica_that_is_not_in_sync_does_not_lead_on_request(cluster: MovingCluster) -> None:
    for node, code in (("broker-4", Code.NODE_NOT_FOUND), ("broker-2", Code.LEADER_UNAVAILABLE)):
        cluster.run.kill(cluster.machine(node).process, loses_power=False)
        cluster.run.advance(4 * SECOND)
        refused = cluster.try_to_ask(TransferLeader(topic=TOPIC, partition=0, node=node))
        assert isinstance(refused, Refused)
        assert refused.code is code


@pytest.mark.parametrize("seed", [2, 33, 5000150, 8000295])
def test_a_seed_finds_nothing_lost_and_nothing_left_behind(seed: int) -> None:
    with named_when_it_fails("reassignments", seed):
        run = ReassignmentRun(seed, Trace())
        run.live()
    assert run.completed_total > 0
