"""Defects that the node once had, at sizes and times that nobody had tried, planted back.

Each comes with the habits of the worlds that meet it (`habits`): hundreds of messages at once,
disks that tear at pages, clocks that are put weeks away.
"""

from typing import Any

import msgspec
import pytest

from goqueue.broker import TurnBudget
from goqueue.delivery import DeliveryQueue
from goqueue.sim.node import NodeSwarm
from tests.simulation.planted_patches import JOURNAL, Plant, attribute, does_nothing

__all__ = ["PLANTED_IN_LIMITS", "with_habits"]

_UNBOUNDED = 1 << 30
_PRODUCER_STATE = "goqueue.log.producer_state.ProducerState"
_SETTLING = "goqueue.broker.groups.acks.Acks"
_MOVE_QUEUE = "goqueue.broker.groups.move_queue.MoveQueue"


def with_habits(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Let every world have these."""
    with_extremes = NodeSwarm.with_extremes

    def accustomed(swarm: NodeSwarm, random: Any) -> NodeSwarm:
        habits = dict.fromkeys(names, True)
        if "masses" in names:
            habits["large_fields"] = False
        return msgspec.structs.replace(with_extremes(swarm, random), **habits)

    patch.setattr(NodeSwarm, "with_extremes", accustomed)


# What is acknowledged


def keeps_half_of_a_torn_batch(patch: pytest.MonkeyPatch) -> None:
    with_habits(patch, "page_tears", "idempotence", "transactions", "crash_inside")
    # Group commits write many batches at once, so few tears meet one: copies of large messages.
    with_habits(patch, "large_values", "copying")
    patch.setattr("goqueue.storage.log_opener.unfinished_batch", does_nothing)
    patch.setattr(f"{_PRODUCER_STATE}.interrupt", does_nothing)


def forgets_producers_when_the_clock_is_put(patch: pytest.MonkeyPatch) -> None:
    with_habits(patch, "week_jumps", "clock_jumps", "idempotence")
    patch.setattr(f"{_PRODUCER_STATE}._time", lambda _, at: at)


def counts_a_release_as_a_delivery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_SETTLING}._uncount", does_nothing)


# Turns without a bound


def does_all_that_is_due_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    with_habits(patch, "masses")
    patch.setattr(TurnBudget, "is_spent", False)
    patch.setattr(TurnBudget, "left", _UNBOUNDED)


def ends_all_leases_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    with_habits(patch, "masses")
    expire = DeliveryQueue.expire
    patch.setattr(DeliveryQueue, "expire", lambda queue, now, _: expire(queue, now))


def moves_all_letters_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    with_habits(patch, "masses", "redrives")
    take: Any = attribute(f"{_MOVE_QUEUE}.pop_batch")
    patch.setattr(f"{_MOVE_QUEUE}.pop_batch", lambda lane, _: take(lane, _UNBOUNDED))


def writes_a_journal_again_in_one_turn(patch: pytest.MonkeyPatch) -> None:
    with_habits(patch, "masses", "full_disk")
    expire: Any = attribute(f"{JOURNAL}.expire")
    patch.setattr(
        f"{JOURNAL}.expire", lambda journal, now, _: expire(journal, now, TurnBudget(_UNBOUNDED))
    )


PLANTED_IN_LIMITS: tuple[Plant, ...] = (
    keeps_half_of_a_torn_batch,
    forgets_producers_when_the_clock_is_put,
    counts_a_release_as_a_delivery,
    does_all_that_is_due_in_one_turn,
    ends_all_leases_in_one_turn,
    moves_all_letters_in_one_turn,
    writes_a_journal_again_in_one_turn,
)
