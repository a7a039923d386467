"""Groups read topics of which their coordinator's node keeps no replica, step by step."""

from collections.abc import Callable

import pytest

from goqueue.broker import HostedLog
from goqueue.model import SECOND, LogId, Message, Offset, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    CommitOffsets,
    CreateTopic,
    DeleteRecords,
    DeleteTopic,
    DescribeLag,
    DescribeTopic,
    Join,
    Joined,
    Lag,
    Leased,
    LeaseOffsets,
    Offsets,
    Poll,
    Publish,
    Published,
    RecordsDeleted,
    Start,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build, decode, walk
from goqueue.sim import Trace
from goqueue.sim.cluster import BrokerMachine, ObserverRun
from tests.simulation.calm_cluster import CalmCluster
from tests.simulation.replays import named_when_it_fails

TOPIC = "thin"
GROUP = "workers"
NAME = "t"


class ThinCluster(CalmCluster):
    """Five brokers, and a topic that few of them keep."""

    def create(self, partitions: int = 5, copies: int = 1) -> None:
        config = TopicConfig(replication_factor=copies, min_insync_replicas=1)
        created = CreateTopic(name=TOPIC, partitions=partitions, config=config)
        assert not isinstance(self.try_to_ask(created), Refused)
        self.run.advance(SECOND)

    def publish(self, *values: bytes) -> None:
        for number, value in enumerate(values):
            batch = build([Message(value=value)])
            self.ask(Publish(topic=TOPIC, batch=batch, targets=[number % 5]), Published)

    def join(self, start: Start = Start.EARLIEST) -> Joined:
        command = Join(group=GROUP, client_id="c", topics=(TOPIC,), token=NAME, start=start)
        return self.ask(command, Joined)

    def read_all(self, member: Joined, count: int) -> list[bytes]:
        """Poll and ack until there are so many messages."""
        values: list[bytes] = []
        poll = Poll(group=GROUP, member_id=member.member_id, messages_max=9, wait_ns=SECOND)
        for _ in range(30):
            leased = self.ask(poll, Leased)
            for each in leased.partitions:
                for data in each.data or self._bytes_of(each.log, [run[0] for run in each]):
                    values += [decode(data, at).value or b"" for at in walk(data).positions]
                ends = LeaseOffsets(
                    each.leases[0].handle,
                    tuple((offset, offset + 1) for offset in each.leases[0].offsets),
                )
                self.ask(Ack(leases=(ends,)), Acked)
            if len(values) >= count:
                break
        return sorted(values)

    def _bytes_of(self, log: LogId, offsets: list[int]) -> list[memoryview]:
        raise AssertionError(f"{log} {offsets}: a lease comes with its records")

    def observed(self, machine: BrokerMachine) -> list[HostedLog]:
        member = machine.node.cluster
        assert member is not None
        return [each for each in member.replicas.hosted.observed if each.log_id.topic == TOPIC]


@pytest.fixture(scope="module")
def calm() -> Callable[[], ThinCluster]:
    return ThinCluster


def values(prefix: str, count: int = 5) -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


def test_a_group_reads_partitions_that_its_coordinator_does_not_keep(
    calm: Callable[[], ThinCluster],
) -> None:
    cluster = calm()
    cluster.create()
    cluster.publish(*values("m"))

    assert cluster.read_all(cluster.join(), 5) == values("m")
    assert len(cluster.observed(cluster.coordinator)) == 4
    others = [each for each in cluster.run.machines if each is not cluster.coordinator]
    assert not any(map(cluster.observed, others))
    for hosted in cluster.observed(cluster.coordinator):
        member = cluster.coordinator.node.cluster
        assert member is not None
        state = member.replicas.image.table.get(*hosted.where)
        assert state is not None
        assert cluster.coordinator.process.name not in (*state.replicas, *state.isr)


def test_the_next_coordinator_reads_on_and_the_last_one_drops_its_copies(
    calm: Callable[[], ThinCluster],
) -> None:
    cluster = calm()
    cluster.create(copies=2)
    cluster.publish(*values("m"))
    member = cluster.join()
    assert cluster.read_all(member, 5) == values("m")
    lost = cluster.lose_coordinator()
    cluster.publish(*values("n"))

    assert cluster.read_all(member, 5) == values("n")
    lost.process.begin()
    cluster.run.advance(8 * SECOND)
    (again,) = (each for each in cluster.run.machines if each.process is lost.process)
    assert again is not cluster.coordinator
    assert cluster.observed(again) == []
    kept = {path.split("/")[2] for path in again.disk.files.paths() if f"/{TOPIC}/" in path}
    assert len(kept) < 5, "the files of copies that were observed are gone"


def test_a_topic_that_is_made_again_is_read_from_its_beginning_and_nothing_of_the_old(
    calm: Callable[[], ThinCluster],
) -> None:
    cluster = calm()
    cluster.create()
    cluster.publish(*values("old"), *values("older"))
    assert len(cluster.read_all(cluster.join(), 10)) == 10

    assert not isinstance(cluster.try_to_ask(DeleteTopic(name=TOPIC)), Refused)
    cluster.run.advance(SECOND)
    cluster.create()
    cluster.publish(*values("new"))
    assert cluster.read_all(cluster.join(), 5) == values("new")


def test_an_observer_begins_where_the_leader_begins(calm: Callable[[], ThinCluster]) -> None:
    cluster = calm()
    cluster.create()
    cluster.publish(*values("a"), *values("b"), *values("c"))
    before = {number: Offset(1) for number in range(5)}
    cluster.ask(DeleteRecords(topic=TOPIC, before=before), RecordsDeleted)

    member = cluster.join()
    assert cluster.read_all(member, 10) == values("b") + values("c")
    cluster.ask(
        DeleteRecords(topic=TOPIC, before=dict.fromkeys(range(5), Offset(2))), RecordsDeleted
    )
    cluster.run.advance(3 * SECOND)
    starts = [
        each.partition.log.start for each in cluster.observed(cluster.coordinator) if each.partition
    ]
    assert starts == [2, 2, 2, 2]


def test_a_group_that_begins_with_the_latest_waits_for_the_copy(
    calm: Callable[[], ThinCluster],
) -> None:
    """A copy that is empty yet would say that the end is at the beginning."""
    cluster = calm()
    cluster.create()
    cluster.publish(*values("before"))
    member = cluster.join(Start.LATEST)
    cluster.publish(*values("after"))

    assert cluster.read_all(member, 5) == values("after")


def test_offsets_are_committed_and_lag_is_counted_where_there_is_no_replica(
    calm: Callable[[], ThinCluster],
) -> None:
    cluster = calm()
    cluster.create()
    cluster.publish(*values("m"))
    offsets = {LogId(TOPIC, number): Offset(1) for number in range(3)}
    committed = cluster.ask(CommitOffsets(group="readers", offsets=offsets), Offsets)
    assert committed.offsets == offsets

    lag = cluster.ask(DescribeLag(group="readers"), Lag)
    assert sorted(each.lag for each in lag.partitions) == [0, 0, 0, 1, 1]
    described = cluster.ask(DescribeTopic(name=TOPIC), TopicDescription)
    assert described.total_messages == 5


@pytest.mark.parametrize("seed", [4])
def test_a_seed_finds_that_observers_have_what_is_committed(seed: int) -> None:
    with named_when_it_fails("observers", seed):
        run = ObserverRun(seed, Trace())
        run.live()
    assert run.observed_total > 0
