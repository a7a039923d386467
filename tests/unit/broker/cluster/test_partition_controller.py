"""What the controller decides about partitions: who is removed, and who leads in doubt."""

import msgspec
import pytest

from goqueue.broker.cluster.partition_controller import PartitionController
from goqueue.broker.journal import JOURNAL_SETTINGS, Journal, JournalLimits
from goqueue.broker.journal_changes import TopicChange
from goqueue.cluster import (
    BrokerFenced,
    BrokerRegistered,
    IsrChanged,
    IsrMember,
    LeaderChange,
    LeadersChanged,
    MetadataChange,
    PartitionId,
    PartitionsAssigned,
    ReplicaAssignment,
    ReplicasLost,
    TopicStated,
    UncleanLeaderElected,
)
from goqueue.log import Log, LogState
from goqueue.model import (
    LOCAL,
    SECOND,
    Answer,
    Code,
    Flush,
    Instant,
    LogId,
    Now,
    Refused,
    ReportLogEnds,
    ReportLostReplicas,
    RequestId,
    Timestamp,
    Write,
)
from goqueue.model.requests import ElectLeader, LeaderElected, TopicConfig
from tests.unit.broker.cluster.metadata_bench import Bench

WHERE = PartitionId(1, 0)
NOW = Now(Instant(20 * SECOND), Timestamp(1))
LATER = Now(Instant(NOW.instant + 31 * SECOND), Timestamp(1))


class _Cluster:
    """A controller of three brokers with one topic, whose image the test writes by hand."""

    def __init__(self, flush: Flush = Flush.INTERVAL) -> None:
        bench = Bench("abc")
        bench.elect("a", "bc")
        bench.exchange("abc", 1000)
        broker = bench.brokers["a"]
        self.state = broker.state
        topics = Log(LogId("__topics", 0), JOURNAL_SETTINGS, LogState())
        decoder = msgspec.json.Decoder(list[TopicChange])
        self.journal = Journal(topics, decoder, broker.state.outbox, JournalLimits())
        self.state.journals.open_topics(self.journal)
        self.image = broker.metadata.image
        self.controller = PartitionController(broker.state, broker.metadata)
        for name in "abc":
            self.apply(_registered(name, 1, is_clean=True))
        config = TopicConfig(replication_factor=3, flush_policy=flush)
        topic = TopicStated(name="orders", number=1, partitions=2, config=config, created_at=1)
        copies = ReplicaAssignment(("a", "b", "c"), "a")
        self.apply(topic, PartitionsAssigned(topic=1, partitions=(copies, copies)))

    def apply(self, *changes: MetadataChange) -> None:
        self.image.apply(changes, self.image.version + 1)

    def crash(self, *names: str) -> None:
        """Brokers begin anew after a crash, and what they led has no leader."""
        for name in names:
            self.apply(_registered(name, 2, is_clean=False))
        led = tuple(LeaderChange(1, partition, None) for partition in range(2))
        self.apply(LeadersChanged(changes=led))

    def report(self, name: str, last: int, end: int, *, version: int | None = None) -> None:
        state = self.image.table.get(1, 0)
        assert state is not None
        log = (1, 0, state.version if version is None else version, last, end)
        epoch = self.image.brokers[name].epoch
        self.controller.want(name, ReportLogEnds(broker_epoch=epoch, logs=(log,)))

    def decide(self, now: Now = NOW) -> list[MetadataChange]:
        return self.controller.decide([], [], now)

    def elected(self, now: Now = NOW) -> list[str]:
        return [each.leader for each in self.decide(now) if isinstance(each, UncleanLeaderElected)]


def _registered(name: str, incarnation: int, *, is_clean: bool) -> BrokerRegistered:
    return BrokerRegistered(
        broker=name, directory=f"{name}-disk", incarnation=incarnation, is_clean=is_clean
    )


def test_all_lost_copies_that_a_broker_reports_in_several_messages_leave_their_isrs() -> None:
    cluster = _Cluster()
    epoch = cluster.image.brokers["b"].epoch
    for partition in range(2):
        lost = ReportLostReplicas(broker_epoch=epoch, partitions=((1, partition),))
        cluster.controller.want("b", lost)

    expected = ReplicasLost(broker="b", epoch=epoch, partitions=((1, 0), (1, 1)))
    assert cluster.decide() == [expected]


def test_lost_copies_of_an_earlier_run_do_not_count_for_a_later_one() -> None:
    cluster = _Cluster()
    epoch = cluster.image.brokers["b"].epoch
    for number in (epoch - 1, epoch, epoch - 1):
        lost = ReportLostReplicas(broker_epoch=number, partitions=((1, number - epoch + 1),))
        cluster.controller.want("b", lost)

    expected = ReplicasLost(broker="b", epoch=epoch, partitions=((1, 1),))
    assert cluster.decide() == [expected]


def test_whoever_led_before_it_registers_is_replaced_though_a_copy_was_lost_meanwhile() -> None:
    """The image shows it as live afterwards, and nobody else would be looked for."""
    cluster = _Cluster()
    epoch = cluster.image.brokers["b"].epoch
    cluster.controller.want("b", ReportLostReplicas(broker_epoch=epoch, partitions=((1, 0),)))

    record = [_registered("a", 2, is_clean=True)]
    (change,) = cluster.controller.decide(record, [], NOW)
    assert isinstance(change, LeadersChanged)
    assert "a" not in {each.leader for each in change.changes}

    cluster.apply(*record, change)
    assert cluster.decide() == [ReplicasLost(broker="b", epoch=epoch, partitions=((1, 0),))]


def test_a_member_that_crashed_does_not_lead_while_another_lives() -> None:
    cluster = _Cluster()
    cluster.crash("a", "b")

    (change,) = cluster.decide()
    assert isinstance(change, LeadersChanged)
    assert {each.leader for each in change.changes} == {"c"}


def test_after_a_crash_of_all_the_furthest_leads_once_all_have_said_how_far_they_are() -> None:
    cluster = _Cluster()
    cluster.crash("a", "b", "c")
    cluster.report("a", 3, 10)
    cluster.report("c", 3, 12)
    assert cluster.elected() == []

    cluster.report("b", 2, 90)
    assert cluster.elected() == ["c"]


def test_after_half_a_minute_the_furthest_of_those_that_are_there_leads() -> None:
    cluster = _Cluster()
    cluster.crash("a", "b", "c")
    cluster.apply(BrokerFenced(broker="c", epoch=cluster.image.brokers["c"].epoch))
    cluster.report("a", 3, 10)
    cluster.report("b", 3, 9)
    assert cluster.elected() == []

    assert cluster.elected(LATER) == ["a"]


def test_a_member_that_is_sure_to_have_all_leads_before_the_furthest() -> None:
    cluster = _Cluster()
    cluster.crash("a", "b")
    cluster.report("a", 3, 10)

    assert cluster.elected(LATER) == []


@pytest.mark.parametrize("is_anew", [True, False], ids=["of an earlier run", "of another version"])
def test_a_report_counts_for_one_run_and_one_version(is_anew: bool) -> None:
    cluster = _Cluster()
    cluster.crash("a", "b", "c")
    state = cluster.image.table.get(1, 0)
    assert state is not None
    for name in "abc":
        cluster.report(name, 3, 10, version=state.version - (not is_anew))
    if is_anew:
        for name in "abc":
            cluster.apply(_registered(name, 3, is_clean=True))

    assert cluster.elected(LATER) == []


def test_where_records_are_synced_first_a_crash_leaves_no_doubt() -> None:
    cluster = _Cluster(Flush.COMMIT)
    cluster.crash("a", "b", "c")

    (change,) = cluster.decide()
    assert isinstance(change, LeadersChanged)
    assert {each.leader for each in change.changes} == {"a"}


def test_an_only_copy_leads_after_a_crash_without_an_unclean_election() -> None:
    cluster = _Cluster()
    config = TopicConfig(replication_factor=1, flush_policy=Flush.INTERVAL)
    topic = TopicStated(name="alone", number=2, partitions=1, config=config, created_at=1)
    copies = (ReplicaAssignment(("b",), "b"),)
    cluster.apply(topic, PartitionsAssigned(topic=2, partitions=copies))
    cluster.apply(_registered("b", 2, is_clean=False))
    cluster.apply(LeadersChanged(changes=(LeaderChange(2, 0, None),)))

    changes = cluster.decide()

    elected = [each for each in changes if isinstance(each, LeadersChanged)]
    assert [each.changes for each in elected] == [(LeaderChange(2, 0, "b"),)]
    assert not [each for each in changes if isinstance(each, UncleanLeaderElected)]


def _fence(cluster: _Cluster, *names: str) -> None:
    for name in names:
        cluster.apply(BrokerFenced(broker=name, epoch=cluster.image.brokers[name].epoch))


def _answers(cluster: _Cluster, leader: str) -> list[object]:
    """What an operator who elects a leader is told, and what is decided."""
    cluster.controller.elect_unclean(RequestId(1), WHERE, leader)
    answers: list[Answer] = []
    changes = cluster.controller.decide([], answers, NOW)
    refused = [each.reply for each in cluster.state.outbox.drain() if isinstance(each, Answer)]
    unclean = [each for each in changes if isinstance(each, UncleanLeaderElected)]
    return [*refused, *(each.reply for each in answers), *unclean]


@pytest.mark.parametrize("leader", ["c", ""])
def test_an_operator_elects_a_copy_when_nobody_in_sync_lives(leader: str) -> None:
    cluster = _Cluster(Flush.COMMIT)
    members = (IsrMember("a", 1), IsrMember("b", 1))
    state = cluster.image.table.get(*WHERE)
    assert state is not None
    cluster.apply(
        IsrChanged(topic=1, partition=0, epoch=state.epoch, version=state.version, isr=members)
    )
    _fence(cluster, "a", "b")

    elected = UncleanLeaderElected(topic=1, partition=0, leader="c")
    assert _answers(cluster, leader) == [LeaderElected(node="c"), elected]


def test_an_unclean_election_of_an_operator_is_in_the_audit_log() -> None:
    cluster = _Cluster(Flush.COMMIT)
    state = cluster.image.table.get(*WHERE)
    assert state is not None
    members = (IsrMember("a", 1),)
    cluster.apply(
        IsrChanged(topic=1, partition=0, epoch=state.epoch, version=state.version, isr=members)
    )
    elect = ElectLeader(topic="orders", partition=0, node="c")
    audit = cluster.state.audit
    audit.expect(RequestId(1), LOCAL, elect, NOW)
    (refusal,) = _answers(cluster, "c")
    assert isinstance(refusal, Refused)
    assert cluster.journal.noted == 0, "a refused command has no record"

    _fence(cluster, "a")
    audit.expect(RequestId(1), LOCAL, elect, NOW)
    _answers(cluster, "c")

    cluster.journal.flush(NOW)
    written = [each for each in cluster.state.outbox.drain() if isinstance(each, Write)]
    (text,) = (bytes(each.data) for each in written)
    for part in (b'"partition.elect"', b'"partition:orders-0"', b'"leader"', b'"c"'):
        assert part in text


def test_an_operator_elects_nobody_while_a_copy_in_sync_lives() -> None:
    cluster = _Cluster(Flush.COMMIT)
    _fence(cluster, "a")

    (refusal,) = _answers(cluster, "b")
    assert isinstance(refusal, Refused)
    assert (refusal.code, refusal.facts["node"]) == (Code.NODE_ALIVE, "b")


def test_an_operator_elects_nobody_that_is_gone_or_has_no_copy() -> None:
    cluster = _Cluster(Flush.COMMIT)
    _fence(cluster, "a", "b", "c")

    (refusal,) = _answers(cluster, "b")
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.LEADER_UNAVAILABLE
    with pytest.raises(Refused) as refused:
        cluster.controller.elect_unclean(RequestId(1), WHERE, "d")
    assert refused.value.code is Code.NODE_NOT_FOUND
