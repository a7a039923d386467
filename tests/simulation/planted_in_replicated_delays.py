"""Faults planted into the delayed messages of replicated partitions, one at a time."""

from typing import Any

import msgspec
import pytest

from tests.simulation.planted_patches import Plant, attribute, does_nothing

__all__ = ["PLANTED_IN_LATER_EPOCHS", "PLANTED_IN_REPLICATED_DELAYS"]

_DERIVED = "goqueue.broker.replication.derived_state.DerivedState"
_DELAYED = "goqueue.broker.delayed.delays.DelayedMessages"
_DELAY_LOG = "goqueue.broker.delayed.delay_log"


def fires_though_it_was_deposed(patch: pytest.MonkeyPatch) -> None:
    """It goes on where it was: nothing is taken out, and nobody asks who leads."""
    patch.setattr(f"{_DELAYED}._may_append", lambda *_: True)
    patch.setattr(f"{_DELAYED}.demoted", does_nothing)


def fires_after_its_disk_was_full(patch: pytest.MonkeyPatch) -> None:
    """It resigned, since others have what it lacks; the same offsets get other bytes."""

    def hasty(_: Any, partition: Any) -> bool:
        return partition.leader is not None and partition.leader.is_serving

    patch.setattr(f"{_DELAYED}._may_append", hasty)


def leads_with_the_delays_it_knew_as_a_follower(patch: pytest.MonkeyPatch) -> None:
    """What is behind the high watermark of a follower is not looked at."""
    complete = attribute(f"{_DERIVED}.complete")

    def hasty(derived: Any, partition: Any, now: Any) -> bool:
        fold = partition.fold
        if fold is not None and not fold.is_reading:
            fold.delays_from = max(fold.delays_from, partition.log.end)
        return bool(complete(derived, partition, now))

    patch.setattr(f"{_DERIVED}.complete", hasty)


def fires_again_what_the_last_leader_had_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_DELAY_LOG}._delivered_by", does_nothing)


def forgets_what_the_last_leader_had_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_DELAY_LOG}.cancelled_by", does_nothing)


def never_fires_what_it_had_taken_out_when_it_was_deposed(patch: pytest.MonkeyPatch) -> None:
    def forgetful(delayed: Any, partition: Any, now: Any) -> None:
        delayed.committed(partition, now)
        delayed._pending_appends.forget_logs([partition.log_id])
        delayed._due_batches.pop(partition.log_id, None)

    patch.setattr(f"{_DELAYED}.demoted", forgetful)


def takes_a_firing_for_done_when_it_is_appended(patch: pytest.MonkeyPatch) -> None:
    """What a deposed leader fired may be cut: it takes for done what was not."""
    deliver = attribute(f"{_DELAYED}._deliver")

    def hasty(delayed: Any, batch: Any, partition: Any, delays: Any, now: Any) -> bool:
        has_fired = deliver(delayed, batch, partition, delays, now)
        entries = delayed._pending_appends._entries.get(partition.log_id)
        while has_fired and entries:
            delayed._take_effect(partition, delays, entries.popleft(), now)
        return bool(has_fired)

    patch.setattr(f"{_DELAYED}._deliver", hasty)


def answers_a_cancellation_before_its_commit(patch: pytest.MonkeyPatch) -> None:
    cancel = attribute(f"{_DELAYED}._cancel_pending")

    def hasty(delayed: Any, request: Any, partition: Any, delays: Any, *rest: Any) -> None:
        cancel(delayed, request, partition, delays, *rest)
        delayed._cancels.succeed(partition.log_id, rest[0])

    patch.setattr(f"{_DELAYED}._cancel_pending", hasty)


def says_of_a_log_with_delays_that_it_has_none(patch: pytest.MonkeyPatch) -> None:
    """A node that comes back does not look for them."""
    save = attribute("goqueue.broker.transactions.producer_snapshots.ProducerSnapshots._save")

    def lying(snapshots: Any, partition: Any, topic: int) -> None:
        delays = snapshots._state.delays
        snapshots._state.delays = {}
        save(snapshots, partition, topic)
        snapshots._state.delays = delays

    name = "goqueue.broker.transactions.producer_snapshots.ProducerSnapshots._save"
    patch.setattr(name, lying)
    patch.setattr("goqueue.broker.delayed.delays.DelayedMessages._save", lambda *_: iter(()))


def states_delays_beyond_what_it_knows(patch: pytest.MonkeyPatch) -> None:
    """A snapshot says how far the log is committed, not how far its delays are folded."""
    stated = attribute("goqueue.delivery.delays_copy.DelaysCopy.stated")

    def boastful(copy: Any, topic: int, upto: int) -> Any:
        return msgspec.structs.replace(stated(copy, topic, upto), upto=upto + 3)

    patch.setattr("goqueue.delivery.delays_copy.DelaysCopy.stated", boastful)


def forgets_what_it_appended_when_it_leads_on(patch: pytest.MonkeyPatch) -> None:
    """Its log still holds what it takes for lost, and commits it in the later epoch."""
    demote = attribute("goqueue.broker.partition_events.PartitionEvents._demoted")

    def forgetful(events: Any, partition: Any, now: Any) -> None:
        demote(events, partition, now)
        events._components.delayed_messages.demoted(partition, now)

    patch.setattr("goqueue.broker.partition_events.PartitionEvents._demoted", forgetful)


PLANTED_IN_REPLICATED_DELAYS: tuple[Plant, ...] = (
    fires_though_it_was_deposed,
    fires_after_its_disk_was_full,
    leads_with_the_delays_it_knew_as_a_follower,
    fires_again_what_the_last_leader_had_committed,
    forgets_what_the_last_leader_had_cancelled,
    never_fires_what_it_had_taken_out_when_it_was_deposed,
    takes_a_firing_for_done_when_it_is_appended,
    answers_a_cancellation_before_its_commit,
    says_of_a_log_with_delays_that_it_has_none,
    states_delays_beyond_what_it_knows,
)
# Found where leaders fail, and are not kept from the others.
PLANTED_IN_LATER_EPOCHS: tuple[Plant, ...] = (forgets_what_it_appended_when_it_leads_on,)
