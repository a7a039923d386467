"""What a follower does with what its leader says, and when."""

import pytest

from goqueue.broker import TurnBudget
from goqueue.broker.replication.partition_follower import PartitionFollower
from goqueue.broker.replication.partition_leader import ClusterView
from goqueue.broker.state import NodeState
from goqueue.cluster import PartitionId, PartitionState, Voter
from goqueue.log import Log, LogState, Replica, ReplicaRole
from goqueue.model import (
    Instant,
    LogId,
    LogsAcknowledged,
    LogSettings,
    LogsSubscribed,
    LogWatermark,
    Message,
    Now,
    Offset,
    ReplicaAppend,
    ReplicaKind,
    ReplicaLog,
    Send,
    Synced,
    Timestamp,
    Write,
)
from goqueue.records import Buffer, build
from goqueue.tracing import Tracer

LOG = LogId("orders", 0)
NOW = Now(Instant(1), Timestamp(1))
EPOCH = 5


class _Follower:
    """Broker b, which follows a in epoch 5."""

    def __init__(self) -> None:
        self.state = NodeState("b", Tracer(0.0), TurnBudget())
        view = ClusterView(self.state)
        self.streams = view.streams
        self.log = Log(LOG, LogSettings(), LogState(), Replica(ReplicaRole.FOLLOWER))
        self.follower = PartitionFollower(
            self.state,
            self.log,
            PartitionId(1, 0),
            Voter("a", "a-disk"),
            view=view,
            image=PartitionState(("a", "b"), ("a", "b"), "a", EPOCH, EPOCH),
        )

    def subscriptions(self) -> int:
        """How often the follower has asked its leader since the last call, in different turns."""
        self.streams.flush(2, NOW.instant)
        sent = [each.message for each in self.state.outbox.drain() if isinstance(each, Send)]
        return sum(isinstance(each, LogsSubscribed) for each in sent)

    def hear(self, committed: int = 0, start: int = 0, sent: int = 0) -> None:
        news = LogWatermark(1, 0, EPOCH, Offset(committed), Offset(start), Offset(sent))
        self.follower.advanced(news, Instant(2))

    def append(self, data: Buffer, following: int, *, committed: int, start: int) -> None:
        message = ReplicaAppend(
            log=ReplicaLog(ReplicaKind.DATA, 1, 0),
            epoch=EPOCH,
            before=0,
            wrote=EPOCH,
            first=Offset(0),
            next=Offset(following),
            committed=Offset(committed),
            start=Offset(start),
            asked=Instant(2),
        )
        attached = (data,) if len(data) else ()
        if not self.follower.take_repair(message, attached):
            self.follower.append(message, attached, NOW)

    def sync(self, upto: int) -> None:
        self.log.handle(Synced(log=LOG, upto=Offset(upto)), NOW)
        self.follower.synced()


@pytest.fixture
def stored() -> Buffer:
    """Three records as a leader writes them."""
    leader = Log(LOG, LogSettings(), LogState())
    appended = leader.append(build([Message(value=b"x")] * 3), NOW)
    (data,) = (each.data for each in appended.effects if isinstance(each, Write))
    return data


def test_a_leader_that_did_not_lead_yet_when_it_was_asked_is_asked_again_at_once() -> None:
    follower = _Follower()
    follower.follower.subscribe("")
    assert follower.subscriptions() == 1

    follower.hear()
    assert follower.subscriptions() == 1


def test_a_leader_that_was_heard_is_not_asked_again_while_its_answer_may_be_on_its_way() -> None:
    follower = _Follower()
    follower.hear()
    follower.subscriptions()

    follower.hear(sent=3)
    assert follower.subscriptions() == 0


def test_a_follower_that_agrees_does_not_ask_when_it_hears_of_the_leader(stored: Buffer) -> None:
    follower = _Follower()
    follower.append(stored, 3, committed=0, start=0)

    follower.hear(sent=3)
    assert follower.subscriptions() == 0


def test_a_start_that_was_heard_during_an_own_sync_is_taken_over_after_it(stored: Buffer) -> None:
    """Nothing may be deleted that is not committed here, and the leader says it only once."""
    follower = _Follower()
    follower.append(stored, 3, committed=3, start=2)
    assert follower.log.start == 0

    follower.sync(3)
    assert follower.log.start == 2


def test_a_high_watermark_is_heard_also_with_an_answer_that_comes_too_late(stored: Buffer) -> None:
    """A follower asked, and got what was on its way before the answer: it hears it only there."""
    follower = _Follower()
    follower.append(stored, 3, committed=0, start=0)
    follower.sync(3)

    follower.append(b"", 0, committed=3, start=0)

    assert follower.log.high_watermark == 3


def test_a_high_watermark_is_heard_also_with_records_that_are_here_already(stored: Buffer) -> None:
    """The answer to a late question: the leader says it with them, and not again."""
    follower = _Follower()
    follower.append(stored, 3, committed=0, start=0)
    follower.sync(3)

    follower.append(stored, 3, committed=3, start=0)

    assert follower.log.high_watermark == 3


def test_a_follower_confirms_as_written_only_what_its_disk_has(stored: Buffer) -> None:
    """With `flush=interval` that is acknowledged, and a full disk would take it back."""
    follower = _Follower()
    follower.append(stored, 3, committed=0, start=0)
    follower.hear()
    follower.streams.flush(2, NOW.instant)

    sent = [each.message for each in follower.state.outbox.drain() if isinstance(each, Send)]
    acks = [ack for each in sent if isinstance(each, LogsAcknowledged) for ack in each.logs]
    assert acks
    assert {ack.written for ack in acks} == {0}
