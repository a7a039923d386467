"""The metadata log of several brokers, step by step."""

import pytest

from goqueue.broker.cluster.cluster_config import METADATA_LOG, ClusterConfig
from goqueue.broker.cluster.quorum_metadata import QuorumMetadata
from goqueue.cluster import (
    BrokerAddresses,
    BrokerRegistered,
    MetadataChange,
    Role,
    Voters,
    VotersChanged,
)
from goqueue.model import (
    SECOND,
    Answer,
    Code,
    Filled,
    Offset,
    Refused,
    RequestId,
    Send,
    WatermarkAdvanced,
)
from goqueue.model.requests import Done
from tests.simulation.planted_in_quorum import counts_a_majority_of_an_older_term
from tests.unit.broker.cluster.metadata_bench import Bench, BenchBroker


def registered(name: str) -> BrokerRegistered:
    return BrokerRegistered(broker=name, directory=f"{name}-disk", incarnation=1)


def propose(broker: BenchBroker, change: MetadataChange) -> None:
    answer = Answer(request=RequestId(1), reply=Done())
    broker.metadata.propose([change], [answer], broker.now)
    broker.carry_out()


def formed(names: str = "abc") -> Bench:
    bench = Bench(names)
    bench.elect("a", names[1:])
    bench.exchange(names, 1000)
    return bench


def test_brokers_elect_a_leader_and_all_apply_the_first_record() -> None:
    bench = formed()

    images = [broker.metadata.image.stated() for broker in bench.brokers.values()]
    assert images[0].cluster_id == "a-disk-1"
    assert images[0].version == 2
    assert images == [images[0]] * 3


def test_a_proposal_is_answered_when_a_majority_has_synced_it() -> None:
    bench = formed()
    leader, other = bench.brokers["a"], bench.brokers["b"]
    other.is_disk_held = True

    propose(leader, registered("a"))
    bench.exchange("ab", 1000)
    assert not leader.answers
    assert leader.metadata.image.version == 2

    other.release_disk()
    bench.exchange("ab", 1000)
    assert [answer.reply for answer in leader.answers] == [Done()]
    assert list(leader.metadata.image.brokers) == list(other.metadata.image.brokers) == ["a"]


def test_a_proposal_of_a_leader_that_steps_down_has_an_unknown_outcome() -> None:
    bench = formed()
    leader = bench.brokers["a"]
    propose(leader, registered("a"))
    bench.now_ns += 10 * SECOND

    leader.wake()

    assert leader.metadata.election.role is not Role.LEADER
    (answer,) = leader.answers
    assert isinstance(answer.reply, Refused)
    assert answer.reply.code is Code.REPLICATION_FAILED


def test_a_proposal_of_voters_that_ends_leadership_at_once_has_an_unknown_outcome() -> None:
    bench = formed()
    old = bench.brokers["a"]
    voters = tuple(broker.me for broker in bench.brokers.values())
    # Nobody was heard for long, and the deadline that says so was not looked at yet.
    bench.now_ns += 10 * SECOND
    propose(old, VotersChanged(new=voters[:2], old=voters))
    assert old.metadata.election.role is not Role.LEADER
    bench.drop()

    bench.elect("b", "c")
    bench.beat("b")
    bench.exchange("abc", 1000)

    # Another record took its place.
    assert old.metadata.image.version >= 3
    (answer,) = old.answers
    assert isinstance(answer.reply, Refused)
    assert answer.reply.code is Code.REPLICATION_FAILED


def test_only_the_controller_proposes() -> None:
    bench = formed()
    follower = bench.brokers["b"]
    with pytest.raises(AssertionError, match="only the controller"):
        propose(follower, registered("b"))


def test_a_heartbeat_that_comes_again_does_not_keep_voters_loyal_to_a_leader_that_is_gone() -> None:
    """Messages that a network repeats for seconds held up the next election by as much."""
    bench = formed()
    bench.beat("a")
    (beat,) = (each for each in bench.sent("a", "b") if isinstance(each, WatermarkAdvanced))
    bench.exchange("abc", 1000)
    leader, voter = bench.brokers["a"], bench.brokers["b"]
    before = voter.metadata.election.next_deadline()

    bench.now_ns += SECOND // 4
    voter.receive(leader.me, Send(broker="b", message=beat))
    assert voter.metadata.election.next_deadline() == before

    bench.beat("a")
    bench.exchange("abc", 1000)
    assert voter.metadata.election.next_deadline() > before


def test_a_record_that_no_majority_had_is_replaced_by_the_next_leader() -> None:
    bench = formed()
    old = bench.brokers["a"]
    propose(old, registered("a"))
    bench.drop()

    new = bench.elect("b", "c")
    bench.beat("b")
    bench.exchange("bc", 1000)
    propose(new, registered("b"))
    bench.exchange("bc", 1000)
    bench.beat("b")
    bench.exchange("abc", 1000)

    assert old.metadata.image.stated() == new.metadata.image.stated()
    assert list(old.metadata.image.brokers) == ["b"]
    assert old.log.epochs.history == new.log.epochs.history


def test_a_leader_that_hands_over_is_followed_at_once() -> None:
    bench = formed()
    old = bench.brokers["a"]
    before = bench.now_ns

    old.metadata.resign(old.now)
    old.carry_out()
    bench.exchange("abc", 1000)

    leaders = [name for name, each in bench.brokers.items() if each.metadata.is_controller]
    assert leaders in (["b"], ["c"])
    assert bench.now_ns == before


def play_figure_8(bench: Bench) -> None:
    """Raft's figure 8: a record of term 1 is on three of five disks, and is replaced nonetheless.

    a leads term 1 and its record reaches only b; e leads term 2 and reaches nobody; a leads again
    and copies its old record to c; e leads again, and its log is the later one.
    """
    first, last = bench.brokers["a"], bench.brokers["e"]
    base = first.metadata.image.version
    propose(first, registered("a"))
    bench.exchange("ab", 1000)
    assert first.metadata.image.version == base, "two of five are no majority"
    bench.drop()

    bench.elect("e", "cd")
    bench.drop()

    first.is_disk_held = True
    bench.elect("a", "bc")
    bench.drop()
    bench.beat("a")
    bench.exchange("abc", 1000)
    bench.drop()
    held = [bench.brokers[name].log.watermarks.durable for name in "abc"]
    assert held == [base + 1] * 3, "a majority has the record of the older term"
    assert first.metadata.image.version == base, "and it is not committed"
    assert not first.metadata.is_controller

    bench.elect("e", "cd")
    bench.drop()
    bench.beat("e")
    bench.exchange("bcde", 2000)
    assert last.metadata.is_controller
    assert not last.metadata.image.brokers
    images = [bench.brokers[name].metadata.image.stated() for name in "bcde"]
    assert images == [images[0]] * 4


def test_a_majority_that_holds_a_record_of_an_older_term_commits_nothing() -> None:
    play_figure_8(formed("abcde"))


def test_figure_8_finds_a_leader_that_counts_the_majority_of_an_older_term(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = formed("abcde")
    counts_a_majority_of_an_older_term(monkeypatch)

    with pytest.raises(AssertionError, match="and it is not committed"):
        play_figure_8(bench)


def test_what_an_older_term_wrote_is_committed_with_the_first_record_of_the_own() -> None:
    bench = formed()
    old, new = bench.brokers["a"], bench.brokers["b"]
    new.is_disk_held = True
    propose(old, registered("a"))
    bench.exchange("ab", 1000)
    new.release_disk()
    bench.drop()
    assert not old.metadata.image.brokers

    bench.elect("b", "c")
    bench.beat("b")
    bench.exchange("abc", 1000)

    images = [broker.metadata.image for broker in bench.brokers.values()]
    assert [list(image.brokers) for image in images] == [["a"]] * 3


def test_nothing_of_an_older_leader_is_taken_after_a_vote_for_another() -> None:
    """The vote was given on the log as it was: a record on top of it would be acknowledged to the
    older leader, committed there, and be missing in the log of the one that was voted for.
    """
    bench = formed()
    old, voter = bench.brokers["a"], bench.brokers["b"]
    propose(old, registered("a"))
    end = voter.log.end
    bench.elect("c", "b")
    assert voter.metadata.election.term == 2

    bench.exchange("ab", 1000)

    assert voter.log.end == end
    assert not old.answers


def test_a_leader_whose_first_records_find_no_space_gives_up_although_it_knows_no_voters() -> None:
    bench = Bench("abc")
    leader = bench.brokers["a"]
    leader.is_disk_held = True
    bench.elect("a", "bc")
    leader.metadata.form(Voters(()), leader.now)

    full = Filled(log=METADATA_LOG, offset=Offset(0), segment=Offset(0))
    leader.metadata.handle_disk(full, leader.now)

    assert leader.metadata.epoch_leader is None
    assert not leader.metadata.lineage
    assert leader.metadata.election.voters == Voters(())


def test_a_log_that_grew_over_many_starts_is_stated_anew() -> None:
    bench = formed()
    leader = bench.brokers["a"]
    config = ClusterConfig(
        directory=leader.me.directory,
        addresses=BrokerAddresses(peers="a:7000"),
        peers=(),
        restate_bytes=leader.log.size,
    )
    assert not leader.metadata.wants_statement

    restarted = QuorumMetadata(
        leader.state, config, leader.own, log=leader.log, records=(), now=leader.now
    )

    assert restarted.wants_statement
