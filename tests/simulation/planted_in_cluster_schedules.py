"""Faults planted into the schedules of a cluster, one at a time."""

from typing import Any

import pytest

from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_CLUSTER_SCHEDULES"]

_TRANSACTIONS = "goqueue.broker.transactions.coordinator.TransactionCoordinator"
_COPIES = "goqueue.broker.coordinator.remote_copies.RemoteCopies"


def decides_a_tick_without_what_it_ticked(patch: pytest.MonkeyPatch) -> None:
    decide = attribute(f"{_TRANSACTIONS}.decide_move")

    def forgetful(
        coordinator: Any, move: int, outcome: Any, place: Any, journal: Any, changes: Any
    ) -> None:
        kept = [each for each in changes if type(each).__name__ != "ScheduleTicked"]
        decide(coordinator, move, outcome, place, journal, kept)

    patch.setattr(f"{_TRANSACTIONS}.decide_move", forgetful)


def sends_copies_before_it_is_known_that_a_tick_has_begun(patch: pytest.MonkeyPatch) -> None:
    append = attribute(f"{_COPIES}.append")

    def hasty(copies: Any, log: Any, batch: Any, mark: Any, publication: Any, now: Any) -> None:
        append(copies, log, batch, mark, publication, now)
        (move,) = list(copies._announced)[-1:]
        command, waiting = copies._announced[move]
        copies._asked[copies._forward(command, log, now)] = waiting
        copies._state.open_moves.pop(move, None)
        journal = copies._state.journals.of_groups
        journal._noted = [each for each in journal._noted if type(each).__name__ != "MoveBegun"]

    patch.setattr(f"{_COPIES}.append", hasty)
    patch.setattr(f"{_COPIES}.announced", lambda copies, move, _: copies._announced.pop(move))


PLANTED_IN_CLUSTER_SCHEDULES: tuple[Plant, ...] = (
    decides_a_tick_without_what_it_ticked,
    sends_copies_before_it_is_known_that_a_tick_has_begun,
)
