"""What the nodes of a cluster count, each and all together."""

from collections import defaultdict

import pytest

from goqueue.metrics import Histogram
from goqueue.model import SECOND, Message
from goqueue.model.requests import (
    Ack,
    Acked,
    CreateTopic,
    Join,
    Joined,
    Leased,
    LeaseOffsets,
    Poll,
    Publish,
    Published,
    Reject,
    Returned,
    TopicConfig,
    TopicDescription,
    receipt_of,
)
from goqueue.records import build
from goqueue.sim.cluster import BrokerMachine
from tests.simulation.calm_cluster import CalmCluster

TOPIC = "orders"
GROUP = "billing"
NAME = "t"
JOIN = Join(group=GROUP, client_id="c", topics=(TOPIC,), token=NAME)
# Values of the labels, and the node that says it.
Samples = dict[tuple[str, ...], float]


class MeasuredCluster(CalmCluster):
    """Three nodes with a topic that all of them keep."""

    def __init__(self) -> None:
        super().__init__(3)
        config = TopicConfig(replication_factor=3, min_insync_replicas=2, max_deliveries=1)
        self.ask(CreateTopic(name=TOPIC, partitions=3, config=config), TopicDescription)

    def publish(self, count: int) -> None:
        for number in range(count):
            batch = build([Message(value=b"%d" % number)])
            self.ask(Publish(topic=TOPIC, batch=batch, targets=[number % 3]), Published)

    def samples(self, name: str, machine: BrokerMachine) -> Samples:
        """The samples of one family of one node; of a histogram the number of observations."""
        found: Samples = {}
        for family in machine.node.metrics():
            # One after the other, as in a scrape: some make samples for those that follow.
            for sample in list(family.samples):
                if sample is not None and family.name == f"goqueue_{name}":
                    labels, value = sample
                    key = labels if isinstance(labels, tuple) else _read(labels)
                    found[key] = value.count if isinstance(value, Histogram) else value
        return found

    def sums(self, name: str) -> Samples:
        """The same over all nodes that live."""
        total: Samples = defaultdict(float)
        for machine in self.run.machines:
            for labels, value in self.samples(name, machine).items():
                total[labels] += value
        return {labels: value for labels, value in total.items() if value}


def _read(labels: str) -> tuple[str, ...]:
    return tuple(each.split('"')[1] for each in labels.split(","))


@pytest.fixture
def cluster() -> MeasuredCluster:
    return MeasuredCluster()


def poll_through(cluster: MeasuredCluster, machine: BrokerMachine, member: Joined) -> Leased:
    command = Poll(group=GROUP, member_id=member.member_id, messages_max=1, wait_ns=SECOND)
    leased = cluster.try_to_ask(command, machine)
    assert isinstance(leased, Leased), leased
    return leased


def receipt(leased: Leased) -> tuple[str, int]:
    lease = leased.partitions[0].leases[0]
    return lease.handle, lease.offsets[0]


def test_what_groups_do_is_counted_once_whichever_node_they_ask(cluster: MeasuredCluster) -> None:
    cluster.publish(6)
    member = cluster.ask(JOIN, Joined)
    leased = [poll_through(cluster, machine, member) for machine in cluster.run.machines]
    handle, offset = receipt(leased[0])
    cluster.ask(Ack(leases=(LeaseOffsets(handle, ((offset, offset + 1),)),)), Acked)
    cluster.ask(Reject(receipt=receipt_of(*receipt(leased[1]))), Returned)
    cluster.run.advance(SECOND)

    pair = (TOPIC, GROUP)
    assert cluster.sums("broker_messages_published_total") == {(TOPIC,): 6}
    assert cluster.sums("broker_messages_consumed_total") == {pair: 3}
    assert cluster.sums("broker_messages_acked_total") == {pair: 1}
    assert cluster.sums("broker_messages_in_flight") == {pair: 1}
    assert cluster.sums("consumer_lag") == {pair: 4}
    assert cluster.sums("consumer_polls_total") == {(GROUP,): 3}
    assert cluster.sums("consumer_group_joins_total") == {(GROUP,): 1}
    assert cluster.sums("consumer_group_members") == {(GROUP,): 1}
    assert cluster.sums("broker_dead_letters") == {(f"{TOPIC}.dlq",): 1}


def test_groups_are_counted_where_they_are_coordinated_and_nowhere_else(
    cluster: MeasuredCluster,
) -> None:
    cluster.publish(3)
    member = cluster.ask(JOIN, Joined)
    poll_through(cluster, cluster.coordinator, member)
    lost = cluster.coordinator
    assert cluster.samples("consumer_polls_total", lost) == {(GROUP,): 1}
    cluster.lose_coordinator()

    (name,) = {each.process.name for each in [cluster.coordinator]}
    for machine in cluster.run.machines:
        members = cluster.samples("consumer_group_members", machine)
        assert members == ({(GROUP,): 1} if machine.process.name == name else {})
    assert cluster.sums("consumer_lag") == {(TOPIC, GROUP): 3}


def test_nodes_measure_each_other_by_what_they_say(cluster: MeasuredCluster) -> None:
    cluster.run.advance(5 * SECOND)

    for machine in cluster.run.machines:
        others = {(each.process.name,) for each in cluster.run.machines if each is not machine}
        heard = cluster.samples("cluster_heartbeats_received_total", machine)
        assert set(heard) == others
        assert min(heard.values()) >= 10
        assert set(cluster.samples("cluster_heartbeats_missed_total", machine).values()) == {0}
        assert set(cluster.samples("cluster_clock_offset_seconds", machine)) == others
        # All nodes answer the controller, and it alone.
        is_controller = cluster.samples("cluster_is_controller", machine)[()]
        answered = cluster.samples("cluster_inter_broker_latency_seconds", machine)
        assert set(answered) == (others if is_controller else set())
        assert min(answered.values(), default=10) >= 10


def test_a_lost_node_is_detected_once_and_misses_heartbeats(cluster: MeasuredCluster) -> None:
    lost = cluster.run.machines[0].process
    cluster.run.kill(lost, loses_power=True)
    cluster.run.advance(12 * SECOND)

    for machine in cluster.run.machines:
        assert cluster.samples("cluster_failure_detections_total", machine)[lost.name,] == 1
        assert cluster.samples("cluster_heartbeats_missed_total", machine)[lost.name,] >= 15
        states = cluster.samples("cluster_node_state", machine)
        assert [
            state for (name, state), is_so in states.items() if name == lost.name and is_so
        ] == ["dead"]


def test_leaders_time_their_followers_and_their_elections(cluster: MeasuredCluster) -> None:
    cluster.publish(30)
    names = {each.process.name for each in cluster.run.machines}
    times = cluster.sums("cluster_fetch_latency_seconds")
    assert {name for (name,) in times} == names
    assert cluster.sums("cluster_high_watermark")[TOPIC,] == 30
    assert cluster.sums("cluster_leader_election_latency_seconds").get((TOPIC,)) is None

    cluster.run.kill(cluster.run.machines[0].process, loses_power=True)
    cluster.run.advance(5 * SECOND)

    elections = cluster.sums("cluster_leader_elections_total")
    timed = cluster.sums("cluster_leader_election_latency_seconds")
    assert timed[TOPIC,] == sum(count for (topic, _), count in elections.items() if topic == TOPIC)


def test_the_controller_has_an_age_while_there_is_one(cluster: MeasuredCluster) -> None:
    machine = cluster.run.machines[2]
    before = cluster.samples("cluster_controller_age_seconds", machine)[()]
    cluster.run.advance(3 * SECOND)
    assert cluster.samples("cluster_controller_age_seconds", machine)[()] >= before + 2.5

    for each in [each for each in cluster.run.machines if each is not machine]:
        cluster.run.kill(each.process, loses_power=True)
    cluster.run.advance(10 * SECOND)

    assert cluster.samples("cluster_controller_age_seconds", machine) == {}
