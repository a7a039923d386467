"""Faults planted into replicated partitions that only a failover at the worst moment shows."""

from typing import Any

import msgspec
import pytest

from goqueue.broker.partitions import FoldState
from goqueue.cluster import PartitionId, UncleanLeaderElected
from goqueue.model import Offset
from tests.simulation.planted_patches import Plant, attribute, does_nothing

__all__ = ["PLANTED_IN_FAILOVERS", "PLANTED_IN_ROT"]

_LEADER = "goqueue.broker.replication.partition_leader.PartitionLeader"
_FOLLOWER = "goqueue.broker.replication.partition_follower.PartitionFollower"
_LOG_FOLLOWER = "goqueue.broker.cluster.log_follower.LogFollower"
_REPLICAS = "goqueue.broker.replication.replicas.Replicas"
_DERIVED = "goqueue.broker.replication.derived_state.DerivedState"
_CONTROLLER = "goqueue.broker.cluster.partition_controller.PartitionController"


def truncates_to_the_leaders_end_of_an_epoch(patch: pytest.MonkeyPatch) -> None:
    """Where its own records of that epoch end earlier, a later epoch is left (KIP-279)."""
    diverged = attribute(f"{_LOG_FOLLOWER}.diverged")

    def careless(follower: Any, message: Any) -> Any:
        epochs = follower._log.epochs
        end_of = type(epochs).end_of
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                type(epochs), "end_of", lambda each, epoch, end: (end_of(each, epoch, end), end)
            )
            return diverged(follower, message)

    patch.setattr(f"{_LOG_FOLLOWER}.diverged", careless)


def truncates_to_its_own_end_of_an_epoch(patch: pytest.MonkeyPatch) -> None:
    """Where its leader's records of that epoch end earlier, the rest of its own is left."""
    diverged = attribute(f"{_LOG_FOLLOWER}.diverged")

    def careless(follower: Any, message: Any) -> Any:
        further = msgspec.structs.replace(message, end=follower._log.end)
        return diverged(follower, further)

    patch.setattr(f"{_LOG_FOLLOWER}.diverged", careless)


def takes_what_an_earlier_run_held_for_this_one(patch: pytest.MonkeyPatch) -> None:
    def trusting(leader: Any, broker: str) -> int:
        if broker == leader._me:
            return int(leader._epochs.get(broker, 0))
        is_in_sync = leader._progress[broker].may_join(leader._log.high_watermark)
        return int(leader._epochs.get(broker, 0)) if is_in_sync else 0

    patch.setattr(f"{_LEADER}._epoch_in_sync", trusting)


def forgets_a_high_watermark_that_comes_early(patch: pytest.MonkeyPatch) -> None:
    """Trap 9: what is not durable when it is said to be committed is not committed later."""
    commit = attribute("goqueue.log.Log.commit")

    def forgetful(log: Any, upto: Any) -> Any:
        return commit(log, min(upto, max(log.high_watermark, log.confirmed)))

    patch.setattr("goqueue.log.Log.commit", forgetful)
    synced = attribute(f"{_FOLLOWER}.synced")

    def silent(follower: Any) -> None:
        apply = follower._apply_commit
        follower._apply_commit = lambda: None
        synced(follower)
        follower._apply_commit = apply

    patch.setattr(f"{_FOLLOWER}.synced", silent)


def keeps_producer_state_after_losing_its_leadership(patch: pytest.MonkeyPatch) -> None:
    def follow(derived: Any, partition: Any, _where: Any) -> None:
        if partition.fold is None:
            end = partition.log.end
            derived._runs += 1
            partition.fold = FoldState(end, end, derived._runs)

    truncated = attribute(f"{_DERIVED}.truncated")

    def kept(derived: Any, partition: Any) -> bool:
        truncated(derived, partition)
        if partition.fold is not None:
            partition.fold.folded = min(partition.fold.folded, partition.log.end)
        return True

    patch.setattr(f"{_DERIVED}.follow", follow)
    patch.setattr(f"{_DERIVED}.truncated", kept)
    patch.setattr("goqueue.log.producer_state.ProducerState.take_back", lambda *_: None)


def elects_uncleanly_by_itself(patch: pytest.MonkeyPatch) -> None:
    elect = attribute(f"{_CONTROLLER}._elect")

    def hasty(controller: Any, live: Any, keeping: Any) -> list[Any]:
        changes: list[Any] = elect(controller, live, keeping)
        table = controller._metadata.image.table
        for where in table.led_by(None) if not changes else ():
            state = table.get(*where)
            able = [each for each in state.replicas if each in live and each not in state.isr]
            if able and not any(each in live for each in state.isr):
                changes.append(
                    UncleanLeaderElected(
                        topic=where.topic, partition=where.partition, leader=able[0]
                    )
                )
        return changes

    patch.setattr(f"{_CONTROLLER}._elect", hasty)


def truncates_for_a_late_answer(patch: pytest.MonkeyPatch) -> None:
    """Trap 38: what was acknowledged since the question is cut."""
    diverged = attribute(f"{_LOG_FOLLOWER}.diverged")

    def hasty(follower: Any, message: Any) -> Any:
        log = follower._log
        follower._agrees = False
        same = msgspec.structs.replace(
            message, subscribed_last=log.last_epoch, subscribed_end=log.end
        )
        return diverged(follower, same)

    patch.setattr(f"{_LOG_FOLLOWER}.diverged", hasty)


def forgets_a_join_of_unknown_outcome(patch: pytest.MonkeyPatch) -> None:
    """Trap 41: it commits later, and its member was not waited for meanwhile."""
    wish = attribute(f"{_LEADER}.wish")

    def forgetful(leader: Any, now: Any, repeat_ns: int) -> Any:
        if leader._wish is not None and now - leader._wished_at >= repeat_ns:
            leader._wish, leader._joining = None, ()
            return None
        return wish(leader, now, repeat_ns)

    patch.setattr(f"{_LEADER}.wish", forgetful)


def lets_a_follower_join_by_the_high_watermark_alone(patch: pytest.MonkeyPatch) -> None:
    """Trap 40 (KAFKA-7128): a new leader knows less to be committed than there is."""

    def hasty(progress: Any, high_watermark: Any) -> bool:
        return progress.join_at is not None and progress.held >= high_watermark

    patch.setattr("goqueue.cluster.isr_rules.FollowerProgress.may_join", hasty)


def waits_for_a_join_that_can_never_commit(patch: pytest.MonkeyPatch) -> None:
    """Trap 41: its member began anew, and the high watermark stops."""

    def stubborn(leader: Any, image: Any, minimum: int, now: Any) -> Any:
        if image.version != leader._image.version:
            leader._wish, leader._joining = None, ()
        leader._image = image
        leader._minimum = minimum
        leader._follow_copies(now)
        return leader.advance()

    patch.setattr(f"{_LEADER}.follow_image", stubborn)


def begins_an_empty_log_without_saying_in_which_epoch(patch: pytest.MonkeyPatch) -> None:
    """Trap 42: two leaders wrote a first record, and nothing tells them apart."""
    begin = attribute(f"{_LEADER}.begin_epoch")

    def silent(leader: Any, now: Any) -> None:
        if leader._epoch_first is None and leader._log.end == 0:
            leader._epoch_first = Offset(-1)
            return
        begin(leader, now)

    patch.setattr(f"{_LEADER}.begin_epoch", silent)


def counts_what_was_confirmed_in_another_epoch(patch: pytest.MonkeyPatch) -> None:
    """A confirmation that comes late names an end that its sender has cut since."""
    leader_at = attribute(f"{_REPLICAS}._leader_at")
    acknowledged = attribute(f"{_LEADER}.acknowledged")

    def any_epoch(replicas: Any, topic: int, partition: int, epoch: int) -> Any:
        hosted = replicas.hosted.get(PartitionId(topic, partition))
        leader = None if hosted is None else hosted.leader
        return leader_at(replicas, topic, partition, epoch if leader is None else leader.epoch)

    def trusting(leader: Any, who: Any, ack: Any, broker_epoch: int, now: Any) -> None:
        same = msgspec.structs.replace(ack, epoch=leader.epoch)
        acknowledged(leader, who, same, broker_epoch, now)

    patch.setattr(f"{_REPLICAS}._leader_at", any_epoch)
    patch.setattr(f"{_LEADER}.acknowledged", trusting)


def forgets_a_high_watermark_that_comes_with_records_it_has(patch: pytest.MonkeyPatch) -> None:
    """The answer to a late question is taken for a repair, and nothing else is heard of it."""
    take = attribute(f"{_FOLLOWER}.take_repair")

    def deaf(follower: Any, message: Any, data: Any) -> bool:
        commit, follower.commit = follower.commit, does_nothing
        try:
            return bool(take(follower, message, data))
        finally:
            follower.commit = commit

    patch.setattr(f"{_FOLLOWER}.take_repair", deaf)


def serves_damaged_copies_as_good_ones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.storage.segment.segment_file.SegmentFile._check_sums", does_nothing)


PLANTED_IN_ROT: tuple[Plant, ...] = (serves_damaged_copies_as_good_ones,)

PLANTED_IN_FAILOVERS: tuple[Plant, ...] = (
    truncates_to_the_leaders_end_of_an_epoch,
    truncates_to_its_own_end_of_an_epoch,
    takes_what_an_earlier_run_held_for_this_one,
    forgets_a_high_watermark_that_comes_early,
    keeps_producer_state_after_losing_its_leadership,
    elects_uncleanly_by_itself,
    truncates_for_a_late_answer,
    forgets_a_join_of_unknown_outcome,
    lets_a_follower_join_by_the_high_watermark_alone,
    waits_for_a_join_that_can_never_commit,
    begins_an_empty_log_without_saying_in_which_epoch,
    counts_what_was_confirmed_in_another_epoch,
    forgets_a_high_watermark_that_comes_with_records_it_has,
)
