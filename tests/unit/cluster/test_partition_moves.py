"""Partitions move step by step: each follows from the image, and one that is late is nothing."""

import msgspec
import pytest

from goqueue.cluster import (
    MOVES_AT_ONCE,
    BrokerRegistered,
    IsrChanged,
    IsrMember,
    LeaderChange,
    LeadersChanged,
    MetadataChange,
    MetadataImage,
    MoveEnd,
    MoveState,
    MoveStep,
    PartitionId,
    PartitionMove,
    PartitionsAssigned,
    PartitionState,
    ReassignmentCancelled,
    ReassignmentEnded,
    ReassignmentStarted,
    ReplicaAssignment,
    ReplicaMovesBegun,
    TopicDeleted,
    TopicStated,
    begin_moves,
    check_isr_change,
    decide_move,
    unbalanced_partitions,
)
from goqueue.model import Flush
from goqueue.model.requests import TopicConfig

BROKERS = "abcde"
WHERE = PartitionId(1, 0)


class Cluster:
    """An image with one topic whose partitions are on a, b and c, led by a."""

    def __init__(self, partitions: int = 1, *, flush: Flush = Flush.COMMIT) -> None:
        self.image = MetadataImage()
        for name in BROKERS:
            self.apply(BrokerRegistered(broker=name, directory=name, incarnation=1))
        config = TopicConfig(replication_factor=3, flush_policy=flush)
        topic = TopicStated(
            name="orders", number=1, partitions=partitions, config=config, created_at=1
        )
        copies = ReplicaAssignment(("a", "b", "c"), "a")
        self.apply(topic, PartitionsAssigned(topic=1, partitions=(copies,) * partitions))

    def apply(self, *changes: MetadataChange) -> None:
        self.image.apply(changes, self.image.version + 1)

    @property
    def state(self) -> PartitionState:
        found = self.image.table.get(*WHERE)
        assert found is not None
        return found

    def start(self, *new: str, number: int = 1, partitions: int = 1) -> PartitionMove:
        moves = tuple(
            PartitionMove(1, each, "orders", self.state.replicas, new) for each in range(partitions)
        )
        self.apply(
            ReassignmentStarted(
                number=number, moves=moves, bytes_per_second=0, timeout_s=9, started_at=1
            )
        )
        return moves[0]

    def begin(self) -> None:
        self.apply(*begin_moves(self.image.reassignments, self.image.table))

    def join(self, *isr: str) -> None:
        state = self.state
        members = tuple(IsrMember(each, self.image.brokers[each].epoch) for each in isr)
        self.apply(
            IsrChanged(topic=1, partition=0, epoch=state.epoch, version=state.version, isr=members)
        )

    def lead(self, broker: str | None) -> None:
        self.apply(LeadersChanged(changes=(LeaderChange(1, 0, broker),)))

    def end(self, state: MoveState, *, number: int = 1, version: int | None = None) -> None:
        known = self.state.version if version is None else version
        end = MoveEnd(1, 0, known, state)
        self.apply(ReassignmentEnded(number=number, ends=(end,), at=7))

    def next_step(self, *, live: str = BROKERS, minimum: int = 2, ends: bool = False) -> MoveStep:
        found = self.image.reassignments.get(1)
        assert found is not None
        return decide_move(
            found.moves[0],
            self.image.table.get(*WHERE),
            registered=self.image.brokers.keys(),
            live=live,
            minimum=minimum,
            give_up=MoveEnd(1, 0, 0, MoveState.CANCELLED) if ends else None,
        )

    def result(self, number: int = 1) -> MoveState:
        found = self.image.reassignments.get(number)
        assert found is not None
        return found.moves[0].state


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_move_gives_a_partition_to_its_target_once_all_of_it_is_in_sync_and_leads(
    cluster: Cluster,
) -> None:
    cluster.start("d", "b", "e")
    cluster.begin()
    assert cluster.state.learners == ("d", "e")
    assert cluster.state.copies == ("a", "b", "c", "d", "e")
    assert WHERE in cluster.image.table.hosted_by("d")
    assert cluster.next_step() == MoveStep()

    cluster.join("a", "b", "c", "d")
    assert cluster.next_step() == MoveStep()
    cluster.join("a", "b", "c", "d", "e")
    assert cluster.next_step() == MoveStep(leader="d")
    cluster.lead("d")
    step = cluster.next_step()
    assert step.end == MoveEnd(1, 0, cluster.state.version, MoveState.COMPLETED)

    cluster.end(MoveState.COMPLETED)
    assert (cluster.state.replicas, cluster.state.isr) == (("d", "b", "e"), ("d", "b", "e"))
    assert cluster.state.target == ()
    assert WHERE not in cluster.image.table.hosted_by("a")
    assert cluster.image.reassignments.moving == {}


def test_replicas_do_not_change_while_one_of_the_target_is_not_in_sync(cluster: Cluster) -> None:
    cluster.start("a", "b", "d")
    cluster.begin()
    cluster.end(MoveState.COMPLETED)

    assert cluster.state.replicas == ("a", "b", "c")
    assert cluster.result() is MoveState.BEGUN


def test_an_end_that_another_change_of_the_partition_overtook_does_nothing(
    cluster: Cluster,
) -> None:
    cluster.start("a", "b", "d")
    cluster.begin()
    cluster.join("a", "b", "c", "d")
    known = cluster.state.version
    cluster.join("a", "b", "c")

    for state in (MoveState.COMPLETED, MoveState.CANCELLED):
        cluster.end(state, version=known)
        assert cluster.state.target == ("a", "b", "d")
        assert cluster.result() is MoveState.BEGUN


def test_a_cancelled_move_leaves_the_replicas_as_they_were(cluster: Cluster) -> None:
    cluster.start("a", "d", "e")
    cluster.begin()
    cluster.join("a", "b", "c", "d")
    cluster.apply(ReassignmentCancelled(number=1, at=5))
    cluster.end(MoveState.CANCELLED)

    assert (cluster.state.replicas, cluster.state.isr) == (("a", "b", "c"), ("a", "b", "c"))
    assert cluster.state.copies == ("a", "b", "c")
    assert WHERE not in cluster.image.table.hosted_by("d")


def test_a_learner_that_leads_when_its_move_is_cancelled_leads_no_more(cluster: Cluster) -> None:
    cluster.start("d", "b", "c")
    cluster.begin()
    cluster.join("a", "b", "c", "d")
    cluster.lead("d")
    cluster.end(MoveState.CANCELLED)

    assert cluster.state.leader is None
    assert cluster.state.epoch == cluster.image.version
    assert WHERE in cluster.image.table.led_by(None)


def test_a_learner_that_leads_hands_over_before_its_move_is_given_up(cluster: Cluster) -> None:
    cluster.start("d", "b", "c")
    cluster.begin()
    cluster.join("a", "b", "c", "d")
    cluster.lead("d")
    assert cluster.next_step(ends=True) == MoveStep(leader="a")

    cluster.lead("a")
    assert cluster.next_step(ends=True).end is not None


def test_a_move_is_not_given_up_while_its_learners_hold_the_minimum(cluster: Cluster) -> None:
    cluster.start("a", "d", "e")
    cluster.begin()
    cluster.join("a", "b", "c", "d")
    cluster.join("a", "d")
    assert cluster.next_step(ends=True) == MoveStep()

    cluster.join("a", "b", "d")
    assert cluster.next_step(ends=True).end is not None


def test_a_move_waits_for_a_member_of_its_target_that_does_not_live(cluster: Cluster) -> None:
    cluster.start("a", "b", "d")
    cluster.begin()
    cluster.join("a", "b", "c", "d")

    assert cluster.next_step(live="abc") == MoveStep()


def test_a_move_to_fewer_replicas_than_the_minimum_waits(cluster: Cluster) -> None:
    cluster.start("a")
    cluster.begin()
    assert cluster.next_step(minimum=2) == MoveStep()
    assert cluster.next_step(minimum=1).end is not None


def test_a_move_to_a_forgotten_node_fails(cluster: Cluster) -> None:
    move = cluster.start("a", "b", "z")
    step = decide_move(
        move, cluster.state, registered=BROKERS, live=BROKERS, minimum=2, give_up=None
    )
    assert step.end is not None
    assert step.end.state is MoveState.FAILED
    assert "z" in step.end.reason


def test_a_move_of_a_deleted_topic_fails_and_ends(cluster: Cluster) -> None:
    cluster.start("a", "b", "d")
    cluster.begin()
    cluster.apply(TopicDeleted(name="orders", number=1))
    end = cluster.next_step().end
    assert end is not None
    cluster.apply(ReassignmentEnded(number=1, ends=(end,), at=7))

    assert cluster.result() is MoveState.FAILED
    assert cluster.image.reassignments.running == []


def test_a_later_reassignment_goes_on_when_an_earlier_one_of_the_partition_ends() -> None:
    """The earlier one still names the partition that it moved."""
    cluster = Cluster(partitions=2)
    cluster.start("b", "a", "c", partitions=2)
    cluster.begin()
    cluster.lead("b")
    cluster.end(MoveState.COMPLETED)
    cluster.start("a", "b", "c", number=2)
    end = MoveEnd(1, 1, 0, MoveState.CANCELLED)
    state = cluster.image.table.get(1, 1)
    assert state is not None
    end = msgspec.structs.replace(end, version=state.version)
    cluster.apply(ReassignmentEnded(number=1, ends=(end,), at=7))

    assert cluster.image.reassignments.moving == {WHERE: 2}


def test_a_partition_is_in_one_running_reassignment(cluster: Cluster) -> None:
    cluster.start("a", "b", "d")
    cluster.start("a", "b", "e", number=2)

    assert cluster.image.reassignments.get(2) is None


def test_so_many_moves_are_under_way_and_the_others_wait() -> None:
    cluster = Cluster(partitions=MOVES_AT_ONCE + 3)
    cluster.start("a", "b", "d", partitions=MOVES_AT_ONCE + 3)
    cluster.begin()
    assert begin_moves(cluster.image.reassignments, cluster.image.table) == []
    assert cluster.image.table.get(1, MOVES_AT_ONCE - 1) != cluster.image.table.get(
        1, MOVES_AT_ONCE
    )

    cluster.end(MoveState.CANCELLED)
    (begun,) = begin_moves(cluster.image.reassignments, cluster.image.table)
    assert begun == ReplicaMovesBegun(number=1, partitions=((1, MOVES_AT_ONCE),))


def test_a_copy_that_comes_back_is_another_one_than_before(cluster: Cluster) -> None:
    assert cluster.state.added_at("c") == 0
    cluster.start("a", "b")
    cluster.begin()
    cluster.end(MoveState.COMPLETED)
    cluster.start("a", "b", "c", number=2)
    cluster.begin()

    assert cluster.state.added_at("c") == cluster.image.version
    assert cluster.state.added_at("b") == 0


def test_a_learner_may_join_an_isr_and_nobody_else_may(cluster: Cluster) -> None:
    cluster.start("a", "b", "d")
    cluster.begin()
    epochs = {name: each.epoch for name, each in cluster.image.brokers.items()}

    def wish(joining: str) -> IsrChanged:
        members = tuple(IsrMember(each, epochs[each]) for each in ("a", "b", "c", joining))
        state = cluster.state
        return IsrChanged(
            topic=1, partition=0, epoch=state.epoch, version=state.version, isr=members
        )

    assert check_isr_change(wish("d"), cluster.image.table, epochs, 2)
    assert not check_isr_change(wish("e"), cluster.image.table, epochs, 2)


def test_the_only_replica_is_in_doubt_after_a_crash_while_a_learner_may_have_more() -> None:
    cluster = Cluster(flush=Flush.INTERVAL)
    cluster.start("a")
    cluster.begin()
    cluster.end(MoveState.COMPLETED)
    cluster.apply(BrokerRegistered(broker="a", directory="a", incarnation=2))
    assert not cluster.state.is_unsure("a")
    cluster.start("a", "d", number=2)
    cluster.begin()
    cluster.apply(BrokerRegistered(broker="a", directory="a", incarnation=3))
    assert cluster.state.is_unsure("a")


def test_a_statement_has_what_moves_and_what_moved(cluster: Cluster) -> None:
    cluster.start("a", "b", "d")
    cluster.begin()
    other = MetadataImage()
    other.apply([cluster.image.stated()], cluster.image.version + 1)

    assert other.table.get(*WHERE) == cluster.state
    assert list(other.reassignments) == list(cluster.image.reassignments)
    assert other.reassignments.moving == cluster.image.reassignments.moving
    assert other.reassignments.next_number == 2


def test_what_another_replica_leads_goes_back_to_the_preferred_one_that_is_able(
    cluster: Cluster,
) -> None:
    table = cluster.image.table
    assert list(unbalanced_partitions(table, BROKERS)) == []
    cluster.lead("b")
    assert list(unbalanced_partitions(table, BROKERS)) == [(WHERE, "a")]
    assert list(unbalanced_partitions(table, "bc")) == []
    cluster.start("d", "b", "c")
    cluster.begin()
    assert list(unbalanced_partitions(table, BROKERS)) == []
