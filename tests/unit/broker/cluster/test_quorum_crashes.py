"""The crash points of the quorum: a broker ends between two steps, and starts on its disk."""

import msgspec
import pytest

from goqueue.broker.cluster.partition_controller import PartitionController
from goqueue.cluster import (
    BrokerRegistered,
    MetadataChange,
    PartitionsAssigned,
    ReplicaAssignment,
    TopicStated,
)
from goqueue.model import (
    METADATA_REPLICA,
    SECOND,
    Instant,
    LogEnd,
    Offset,
    VoteReply,
    VoteRequest,
    WatermarkAdvanced,
)
from goqueue.model.requests import TopicConfig
from tests.unit.broker.cluster.metadata_bench import Bench, BenchBroker


def formed() -> Bench:
    bench = Bench("abc")
    bench.elect("a", "bc")
    bench.exchange("abc", 1000)
    return bench


def propose(broker: BenchBroker, change: MetadataChange) -> None:
    broker.metadata.propose([change], [], broker.now)
    broker.carry_out()


def registered(name: str) -> BrokerRegistered:
    return BrokerRegistered(broker=name, directory=f"{name}-disk", incarnation=1)


def ask_vote(bench: Bench, voter: str, candidate: str, term: int) -> list[VoteReply]:
    """Ask for a vote, and see what leaves."""
    request = VoteRequest(term=term, log=LogEnd(9, 99), is_transfer=True)
    broker = bench.brokers[voter]
    broker.metadata.handle_vote(bench.brokers[candidate].me, request, broker.now)
    broker.carry_out()
    return [each for each in bench.sent(voter, candidate) if isinstance(each, VoteReply)]


def continue_with(bench: Bench, leader: str, others: str) -> list[list[str]]:
    """Another leader decides, and all follow it; the registered brokers that each knows."""
    bench.elect(leader, others)
    for _ in range(3):
        bench.beat(leader)
        bench.exchange("abc", 2000)
    images = [broker.metadata.image.stated() for broker in bench.brokers.values()]
    assert images == [images[0]] * 3
    return [list(broker.metadata.image.brokers) for broker in bench.brokers.values()]


def test_a_crash_before_a_vote_is_synced_leaves_no_vote_and_nobody_heard_of_it() -> None:
    bench = Bench("abc")
    bench.brokers["b"].is_state_held = True
    assert ask_vote(bench, "b", "a", term=7) == []

    assert bench.crash("b").metadata.election.term == 0
    (reply,) = ask_vote(bench, "b", "c", term=7)
    assert reply.is_granted


def test_a_crash_after_a_vote_is_synced_and_before_it_is_granted_keeps_the_vote() -> None:
    bench = Bench("abc")
    (lost,) = ask_vote(bench, "b", "a", term=7)
    assert lost.is_granted

    assert bench.crash("b").metadata.election.term == 7
    (other,) = ask_vote(bench, "b", "c", term=7)
    assert not other.is_granted
    (same,) = ask_vote(bench, "b", "a", term=7)
    assert same.is_granted


def test_a_crash_before_a_raised_term_is_synced_announces_nothing() -> None:
    bench = formed()
    voter = bench.brokers["b"]
    voter.is_state_held = True
    leader = WatermarkAdvanced(
        log=METADATA_REPLICA,
        epoch=8,
        committed=Offset(0),
        start=Offset(0),
        sent=Offset(0),
        asked=Instant(1),
        lineage=voter.metadata.lineage,
    )
    voter.metadata.handle_replica(bench.brokers["c"].me, leader, (), voter.now)
    voter.carry_out()

    assert voter.metadata.election.term == 8
    assert bench.sent("b", "c") == []
    assert bench.crash("b").metadata.election.term == 1


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_crash_between_an_append_and_its_majority_commits_it_everywhere_or_nowhere(
    is_synced: bool,
) -> None:
    bench = formed()
    leader = bench.brokers["a"]
    leader.is_disk_held = not is_synced
    propose(leader, registered("x"))
    bench.crash("a")

    assert continue_with(bench, "b", "c") == [[]] * 3


def test_a_crash_between_a_majority_and_the_apply_loses_nothing() -> None:
    bench = formed()
    propose(bench.brokers["a"], registered("x"))
    bench.exchange("ab", 1000)
    assert list(bench.brokers["a"].metadata.image.brokers) == ["x"]
    bench.crash("a")

    assert not bench.brokers["c"].metadata.image.brokers, "it was not told"
    assert continue_with(bench, "b", "c") == [["x"]] * 3


@pytest.mark.parametrize("reached", ["", "b"])
def test_a_crash_around_a_statement_of_the_image_keeps_the_image(reached: str) -> None:
    bench = formed()
    leader = bench.brokers["a"]
    propose(leader, registered("x"))
    bench.exchange("abc", 1000)
    bench.beat("a")
    bench.exchange("abc", 1000)

    propose(leader, leader.metadata.image.stated())
    if reached:
        bench.exchange(f"a{reached}", 1000)
    bench.crash("a")

    assert continue_with(bench, "b", "c") == [["x"]] * 3


def test_a_crash_between_a_log_reset_and_the_first_append_begins_at_the_leaders_start() -> None:
    bench = formed()
    leader = bench.brokers["a"]
    for name in "xyz":
        propose(leader, registered(name))
        bench.exchange("ab", 1000)
    propose(leader, leader.metadata.image.stated())
    bench.exchange("ab", 1000)
    start = leader.log.start
    assert start > 0, "what is before the statement is gone"
    bench.drop()
    late = bench.brokers["c"]
    for _ in range(5):
        bench.beat("a")
        # Message by message, until its log was reset.
        while late.log.start < start and bench.deliver_next("ac"):
            pass
    assert not late.metadata.image.brokers
    bench.crash("c")

    assert bench.brokers["c"].log.start == start
    assert continue_with(bench, "b", "c") == [["x", "y", "z"]] * 3


@pytest.mark.parametrize("has_second", [False, True])
def test_a_crash_between_the_first_record_of_a_cluster_and_its_commit_leaves_one_cluster(
    has_second: bool,
) -> None:
    bench = Bench("abc")
    bench.elect("a", "bc")
    if has_second:
        while not bench.brokers["b"].metadata.lineage:
            bench.deliver_next("ab")
    assert not bench.brokers["c"].metadata.image.cluster_id
    bench.crash("a")
    bench.now_ns += 10 * SECOND

    continue_with(bench, "b", "c")
    clusters = {broker.metadata.image.cluster_id for broker in bench.brokers.values()}
    assert len(clusters) == 1
    assert clusters != {""}


@pytest.mark.parametrize("reached", ["", "b", "bc"])
def test_a_crash_between_a_registration_and_the_end_of_leaderships_finds_both_or_neither(
    reached: str,
) -> None:
    """They are one record: a broker that begins anew leads nothing, whoever is controller then."""
    bench = formed()
    leader = bench.brokers["a"]
    for name in "abc":
        propose(leader, registered(name))
        bench.exchange("abc", 1000)
    topic = TopicStated(name="t", number=1, partitions=1, config=TopicConfig(), created_at=1)
    led = PartitionsAssigned(topic=1, partitions=(ReplicaAssignment(("b", "c"), "b"),))
    leader.metadata.propose([topic, led], [], leader.now)
    leader.carry_out()
    bench.exchange("abc", 1000)
    anew = msgspec.structs.replace(registered("b"), incarnation=2)
    ended = PartitionController(leader.state, leader.metadata).decide([anew], [], leader.now)

    leader.metadata.propose([anew, *ended], [], leader.now)
    leader.carry_out()
    bench.exchange(f"a{reached}", 1000)
    bench.crash("a")

    continue_with(bench, "b", "c")
    for broker in bench.brokers.values():
        image = broker.metadata.image
        state = image.table.get(1, 0)
        assert state is not None
        is_anew = image.brokers["b"].registration.incarnation == 2
        assert is_anew == bool(reached)
        assert state.leader == ("c" if is_anew else "b")
