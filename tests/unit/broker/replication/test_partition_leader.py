"""A leader looks after its followers until all of them are in sync."""

import msgspec
import pytest

from goqueue.broker import TurnBudget
from goqueue.broker.cluster.log_leader import KEPT_BYTES_MAX
from goqueue.broker.replication.partition_leader import ClusterView, PartitionLeader
from goqueue.broker.replication.recorded_ends import RecordedEnds
from goqueue.broker.state import NodeState
from goqueue.cluster import IsrMember, PartitionId, PartitionState, Voter
from goqueue.log import Log, LogState, Replica, ReplicaRole
from goqueue.model import (
    SECOND,
    Instant,
    LogAck,
    LogId,
    LogSettings,
    LogSubscription,
    Message,
    Now,
    Offset,
    ReplicaAppend,
    Send,
    Synced,
    Timestamp,
    Write,
)
from goqueue.records import build
from goqueue.tracing import Tracer

LOG = LogId("orders", 0)
NOW = Now(Instant(1), Timestamp(1))


@pytest.fixture
def view() -> ClusterView:
    view = ClusterView(NodeState("a", Tracer(0.0), TurnBudget()))
    view.epochs.update({"a": 1, "b": 2})
    return view


def leader_of(view: ClusterView, *isr: str) -> PartitionLeader:
    log = Log(LOG, LogSettings(), LogState(), Replica(ReplicaRole.FOLLOWER))
    image = PartitionState(("a", "b"), isr, "a", 5, 5)
    return PartitionLeader(
        view, log, PartitionId(1, 0), image=image, minimum=1, is_first=True, now=NOW
    )


def test_a_live_replica_outside_the_isr_is_asked_until_it_joins(view: ClusterView) -> None:
    # Its only acknowledgement may have come before the image showed its run, and did not count.
    assert leader_of(view, "a").needs_attention


def test_a_replica_that_is_not_registered_is_not_waited_for(view: ClusterView) -> None:
    del view.epochs["b"]
    assert not leader_of(view, "a").needs_attention


def test_nothing_is_asked_while_everybody_is_in_sync(view: ClusterView) -> None:
    assert not leader_of(view, "a", "b").needs_attention


def subscribed(leader: PartitionLeader, broker: str, epoch: int, held: int) -> None:
    """A follower agrees with the leader and confirms what it holds."""
    log = leader.log
    who = Voter(broker, f"{broker}-disk")
    leader.subscribed(
        who, LogSubscription(1, 0, leader.epoch, log.start, log.start, 0), NOW.instant
    )
    ack = LogAck(1, 0, leader.epoch, Offset(held), Offset(held))
    leader.acknowledged(who, ack, epoch, NOW.instant)


def appended(leader: PartitionLeader, size: int) -> None:
    leader.begin_epoch(NOW)
    appended = leader.log.append(build([Message(value=b"x" * size)]), NOW)
    (data,) = (each.data for each in appended.effects if isinstance(each, Write))
    leader.appended(appended.first, appended.next, data, NOW.instant)


def test_nothing_is_kept_in_memory_while_no_follower_is_subscribed(view: ClusterView) -> None:
    leader = leader_of(view, "a")
    appended(leader, 1000)
    assert (leader.kept_bytes, view.kept.used) == (0, 0)

    subscribed(leader, "b", 2, 0)
    appended(leader, 1000)
    assert leader.kept_bytes == view.kept.used > 1000

    leader.release()
    assert (leader.kept_bytes, view.kept.used) == (0, 0)


def test_all_led_logs_share_what_may_be_kept_in_memory(view: ClusterView) -> None:
    leader = leader_of(view, "a")
    subscribed(leader, "b", 2, 0)
    view.kept.used = KEPT_BYTES_MAX
    view.state.outbox.drain()

    appended(leader, 1000)

    assert (leader.kept_bytes, view.kept.used) == (0, KEPT_BYTES_MAX)
    sent = [each for each in view.state.outbox.drain() if isinstance(each, Send)]
    assert any(each.data for each in sent)


def test_a_wish_that_the_raised_minimum_forbids_is_given_up(view: ClusterView) -> None:
    del view.epochs["b"]
    leader = leader_of(view, "a", "b")
    wish = leader.wish(NOW.instant, SECOND)
    assert wish is not None
    assert wish.isr == (("a", 1),)

    leader.follow_image(leader.image, 2, NOW.instant)
    assert leader.wish(Instant(5 * SECOND), SECOND) is None


def test_a_wish_by_which_somebody_joins_is_kept_when_the_minimum_is_raised(
    view: ClusterView,
) -> None:
    """It may have committed: whoever joined by it counts until the image says otherwise."""
    leader = leader_of(view, "a")
    subscribed(leader, "b", 2, 0)
    assert leader.wish(NOW.instant, SECOND) is not None

    leader.follow_image(leader.image, 3, NOW.instant)
    repeated = leader.wish(Instant(5 * SECOND), SECOND)
    assert repeated is not None
    assert repeated.isr == (("a", 1), ("b", 2))


def test_whoever_may_have_joined_may_lead_already(view: ClusterView) -> None:
    """Its joining was asked for; whether it is committed, and who leads since, is not known."""
    leader = leader_of(view, "a")
    subscribed(leader, "b", 2, 0)
    assert leader.is_confirmed(Instant(5 * SECOND))

    assert leader.wish(NOW.instant, SECOND) is not None
    assert not leader.is_confirmed(Instant(5 * SECOND))


def test_a_member_in_doubt_is_stated_anew_once_its_run_is_in_sync(view: ClusterView) -> None:
    leader = leader_of(view, "a", "b")
    doubted = msgspec.structs.replace(leader.image, unsure=(IsrMember("b", 2),), version=6)
    leader.follow_image(doubted, 1, NOW.instant)
    assert leader.wish(NOW.instant, SECOND) is None

    subscribed(leader, "b", 2, 0)
    wish = leader.wish(NOW.instant, SECOND)
    assert wish is not None
    assert wish.isr == (("a", 1), ("b", 2))


def test_a_member_that_was_not_found_in_sync_is_not_stated_as_such(view: ClusterView) -> None:
    """Its new run is registered, but nobody knows what it holds."""
    view.epochs["c"] = 7
    log = Log(LOG, LogSettings(), LogState(), Replica(ReplicaRole.FOLLOWER))
    image = PartitionState(("a", "b", "c"), ("a", "c"), "a", 5, 5)
    leader = PartitionLeader(
        view, log, PartitionId(1, 0), image=image, minimum=1, is_first=True, now=NOW
    )
    subscribed(leader, "b", 2, 0)

    wish = leader.wish(NOW.instant, SECOND)
    assert wish is not None
    assert wish.isr == (("a", 1), ("c", 0), ("b", 2))


def only_copy(view: ClusterView) -> PartitionLeader:
    """A leader that keeps the only copy."""
    log = Log(LOG, LogSettings(), LogState(), Replica(ReplicaRole.FOLLOWER))
    image = PartitionState(("a",), ("a",), "a", 5, 5)
    return PartitionLeader(
        view, log, PartitionId(1, 0), image=image, minimum=1, is_first=True, now=NOW
    )


def sent_to(view: ClusterView, broker: str) -> list[tuple[int, int]]:
    """The ranges of offsets that a broker was sent."""
    messages = [
        each.message
        for each in view.state.outbox.drain()
        if isinstance(each, Send) and each.broker == broker
    ]
    appends = [each for each in messages if isinstance(each, ReplicaAppend)]
    return [(each.first, each.next) for each in appends if each.next > each.first]


def synced(leader: PartitionLeader) -> None:
    """All that was written is durable, and so what the leader alone commits."""
    end = leader.log.end
    leader.log.handle(Synced(log=LOG, upto=end), NOW)
    leader.advance()
    leader.send_committed(NOW.instant)


class Noted(RecordedEnds):
    """Notes that say all that has to be noted."""

    def may_confirm(self, _where: PartitionId, _log: Log) -> bool:
        return True


def test_an_observer_is_sent_a_batch_when_it_is_committed_and_not_before(view: ClusterView) -> None:
    view.ends = Noted()
    leader = only_copy(view)
    subscribed(leader, "observer", 9, 0)
    appended(leader, 10)
    assert sent_to(view, "observer") == []

    synced(leader)
    assert sent_to(view, "observer") == [(0, 1)]


def test_an_observer_delays_no_commit_and_is_no_follower(view: ClusterView) -> None:
    leader = only_copy(view)
    subscribed(leader, "observer", 9, 0)
    assert leader.progress("observer") is None
    assert not leader.has_followers
    assert list(leader.lags()) == []
    assert leader.wish(NOW.instant, SECOND) is None


def test_an_observer_of_an_earlier_coordinator_is_sent_nothing_more(view: ClusterView) -> None:
    leader = only_copy(view)
    subscribed(leader, "observer", 9, 0)
    leader.keep_observer("another")
    assert not leader.has_observers
    appended(leader, 10)
    assert leader.kept_bytes == 0


def test_what_a_full_disk_takes_back_is_not_kept_for_an_observer(view: ClusterView) -> None:
    leader = only_copy(view)
    subscribed(leader, "observer", 9, 0)
    appended(leader, 10)
    assert leader.kept_bytes > 0
    leader.take_back(Offset(0))
    assert (leader.kept_bytes, view.kept.used) == (0, 0)
