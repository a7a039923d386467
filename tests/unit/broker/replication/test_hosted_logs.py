"""Logs are opened, made and removed as the image says, and never taken for another topic's."""

import pytest

from goqueue.broker import TurnBudget
from goqueue.broker.replication.hosted_logs import HostedLogs
from goqueue.broker.replication.recorded_ends import RecordedEnds
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    MetadataImage,
    PartitionId,
    PartitionsAssigned,
    ReplicaAssignment,
    TopicStated,
)
from goqueue.log import LogState
from goqueue.model import (
    Delete,
    LogId,
    Offset,
    Open,
    ReplicaLost,
    Report,
    Reshape,
    SegmentFacts,
    Sweep,
    Timestamp,
)
from goqueue.model.requests import TopicConfig
from goqueue.tracing import Tracer

LOG = LogId("orders", 0)
WHERE = PartitionId(1, 0)


def stated(number: int = 1) -> TopicStated:
    return TopicStated(
        name="orders", number=number, partitions=1, config=TopicConfig(), created_at=1
    )


def held(epoch: int) -> LogState:
    """A log with three records that were written in this epoch."""
    facts = SegmentFacts(base=Offset(0), end=Offset(3), size=99, max_timestamp=Timestamp(1))
    return LogState(segments=(facts,), epochs=((epoch, 0),))


@pytest.fixture
def state() -> NodeState:
    state = NodeState("a", Tracer(0.0), TurnBudget())
    state.catalog.apply(stated())
    return state


class NotedEnds(RecordedEnds):
    """Notes that a journal brought."""

    def __init__(self, noted: int) -> None:
        super().__init__()
        self._durable = {WHERE: Offset(noted)}


@pytest.fixture
def hosted(state: NodeState) -> HostedLogs:
    return HostedLogs(state, RecordedEnds())


def test_a_log_that_is_shorter_than_its_note_is_lost_and_says_so(state: NodeState) -> None:
    hosted = HostedLogs(state, NotedEnds(4))
    hosted.host(WHERE, "orders")
    state.outbox.drain()

    assert hosted.opened(LOG, held(5), created=5) is None

    (report,) = state.outbox.drain()
    assert report == Report(report=ReplicaLost(topic="orders", partition=0, end=3, noted=4))
    (damaged,) = state.storage.damaged()
    assert (damaged.log, damaged.first, damaged.below) == (LOG, 3, 4)
    found = hosted.find(LOG)
    assert found is not None
    assert found.partition is None


def test_a_log_that_vanished_is_lost_and_not_empty(state: NodeState) -> None:
    hosted = HostedLogs(state, NotedEnds(1))
    hosted.host(WHERE, "orders")
    assert hosted.opened(LOG, LogState(), created=5) is None


def test_a_lost_log_goes_on_with_what_is_left_once_nobody_counts_on_it(state: NodeState) -> None:
    hosted = HostedLogs(state, NotedEnds(4))
    hosted.host(WHERE, "orders")
    hosted.opened(LOG, held(5), created=5)
    found = hosted.find(LOG)
    assert found is not None

    hosted.restore(found)

    assert found.lost is None
    assert found.partition is not None
    assert found.partition.log.end == 3
    assert state.storage.damaged() == ()


def test_a_log_with_all_that_was_noted_is_whole(state: NodeState) -> None:
    hosted = HostedLogs(state, NotedEnds(3))
    hosted.host(WHERE, "orders")
    assert hosted.opened(LOG, held(5), created=5) is not None


def test_a_lost_log_of_a_deleted_topic_is_removed(state: NodeState) -> None:
    hosted = HostedLogs(state, NotedEnds(4))
    hosted.host(WHERE, "orders")
    hosted.opened(LOG, held(5), created=5)
    state.outbox.drain()

    hosted.drop(WHERE)

    assert list(state.outbox.drain()) == [Reshape(log=LOG, change=Delete())]
    assert state.storage.damaged() == ()


def test_a_log_that_the_image_names_is_opened_and_the_rest_moves_away(
    state: NodeState, hosted: HostedLogs
) -> None:
    image = MetadataImage()
    assigned = PartitionsAssigned(topic=1, partitions=(ReplicaAssignment(("a",), "a"),))
    image.apply([stated(), assigned], 5)

    hosted.begin(image, ("__topics",))

    sweep, opening = state.outbox.drain()
    assert isinstance(sweep, Sweep)
    assert sweep.topics == ("__topics", "orders")
    assert isinstance(opening, Open)
    assert opening.log == LOG


def test_a_log_of_its_topic_is_kept_with_its_records(state: NodeState, hosted: HostedLogs) -> None:
    hosted.host(WHERE, "orders")

    opened = hosted.opened(LOG, held(epoch=5), created=5)

    assert opened is not None
    assert opened.partition is not None
    assert opened.partition.log.end == 3
    assert state.partitions.get(LOG) is opened.partition


def test_the_log_of_a_deleted_topic_of_the_same_name_is_removed_before_a_new_one_is_made(
    state: NodeState, hosted: HostedLogs
) -> None:
    hosted.host(WHERE, "orders")
    state.outbox.drain()

    assert hosted.opened(LOG, held(epoch=4), created=5) is None

    (removal,) = state.outbox.drain()
    assert isinstance(removal, Reshape)
    assert isinstance(removal.change, Delete)
    hosted.removed(LOG)
    (opening,) = state.outbox.drain()
    assert isinstance(opening, Open)
    assert hosted.opened(LOG, LogState(), created=5) is not None


def test_a_log_without_known_epochs_is_never_taken_for_an_old_one(hosted: HostedLogs) -> None:
    hosted.host(WHERE, "orders")
    facts = SegmentFacts(base=Offset(0), end=Offset(3), size=99, max_timestamp=Timestamp(1))

    assert hosted.opened(LOG, LogState(segments=(facts,)), created=5) is not None


def test_a_log_whose_topic_was_deleted_while_it_was_opened_is_removed(
    state: NodeState, hosted: HostedLogs
) -> None:
    hosted.host(WHERE, "orders")
    assert hosted.drop(WHERE) is None
    state.outbox.drain()

    assert hosted.opened(LOG, LogState(), created=None) is None

    (removal,) = state.outbox.drain()
    assert isinstance(removal, Reshape)


def test_a_topic_that_is_created_again_while_its_log_is_opened_uses_that(
    state: NodeState, hosted: HostedLogs
) -> None:
    hosted.host(WHERE, "orders")
    hosted.drop(WHERE)
    state.catalog.apply(stated(number=2))
    state.outbox.drain()

    hosted.host(PartitionId(2, 0), "orders")

    assert state.outbox.drain() == []
    opened = hosted.opened(LOG, LogState(), created=7)
    assert opened is not None
    assert opened.where == PartitionId(2, 0)


def test_a_log_is_deleted_with_its_topic(state: NodeState, hosted: HostedLogs) -> None:
    hosted.host(WHERE, "orders")
    opened = hosted.opened(LOG, LogState(), created=5)
    state.outbox.drain()

    assert hosted.drop(WHERE) is opened

    (removal,) = state.outbox.drain()
    assert isinstance(removal, Reshape)
    assert isinstance(removal.change, Delete)
    assert hosted.get(WHERE) is None


def image_of(*replicas: str) -> MetadataImage:
    """An image in which these brokers keep the only partition."""
    image = MetadataImage()
    image.table.apply(stated(), 5)
    assigned = PartitionsAssigned(topic=1, partitions=(ReplicaAssignment(replicas, replicas[0]),))
    image.table.apply(assigned, 5)
    return image


def test_a_copy_that_was_only_observed_is_deleted_at_the_next_start(state: NodeState) -> None:
    hosted = HostedLogs(state, NotedEnds(4))
    hosted.begin(image_of("b"), ())
    sweep, removed = state.outbox.drain()
    assert sweep == Sweep(topics=("orders",))
    assert removed == Reshape(log=LOG, change=Delete())


def test_a_replica_is_no_observer_any_more(hosted: HostedLogs) -> None:
    hosted.host(WHERE, "orders", is_observed=True)
    assert [each.where for each in hosted.observed] == [WHERE]
    hosted.host(WHERE, "orders")
    assert hosted.observed == []
    hosted.host(WHERE, "orders", is_observed=True)
    assert hosted.observed == []
