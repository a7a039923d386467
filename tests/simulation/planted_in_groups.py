"""Faults planted into the group coordinator of a cluster, one at a time."""

from typing import Any

import pytest

from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_GROUPS"]

_COORDINATOR = "goqueue.broker.coordinator.group_coordinator.GroupCoordinator"
_REPLAY = "goqueue.broker.coordinator.coordinator_replay.CoordinatorReplay"
_JOURNAL = "goqueue.broker.journal.Journal"
_LEASES = "goqueue.broker.groups.leases.PollLeases"
_TRANSACTIONS = "goqueue.broker.transactions.coordinator.TransactionCoordinator"
_STATE = "goqueue.broker.state.NodeState"


def hands_out_leases_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    count = attribute(f"{_LEASES}._count")

    def hasty(leases: Any, *args: Any) -> bool:
        count(leases, *args)
        return False

    patch.setattr(f"{_LEASES}._count", hasty)


def forgets_moves_that_were_begun(patch: pytest.MonkeyPatch) -> None:
    begin = attribute(f"{_COORDINATOR}._begin_serving")

    def forgetful(coordinator: Any, now: Any) -> None:
        coordinator._state.open_moves.clear()
        begin(coordinator, now)

    patch.setattr(f"{_COORDINATOR}._begin_serving", forgetful)


def believes_leases_of_an_earlier_coordinator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_STATE}.lease_epoch", lambda *_: 1)


def counts_no_first_deliveries(patch: pytest.MonkeyPatch) -> None:
    note = attribute(f"{_JOURNAL}.note")

    def silent(journal: Any, changes: Any, then: Any = ()) -> None:
        kept = [each for each in changes if type(each).__name__ != "Delivered" or each.attempt > 1]
        note(journal, kept, then)

    patch.setattr(f"{_JOURNAL}.note", silent)


def serves_before_it_has_read_its_journal(patch: pytest.MonkeyPatch) -> None:
    def hasty(replay: Any) -> None:
        replay.is_over = True

    patch.setattr(f"{_REPLAY}.begin", hasty)


def does_not_abort_copies_of_unknown_outcome(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_TRANSACTIONS}.abort_move", lambda *_: None)


PLANTED_IN_GROUPS: tuple[Plant, ...] = (
    hands_out_leases_before_they_are_committed,
    forgets_moves_that_were_begun,
    believes_leases_of_an_earlier_coordinator,
    counts_no_first_deliveries,
    serves_before_it_has_read_its_journal,
    does_not_abort_copies_of_unknown_outcome,
)
