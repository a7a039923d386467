"""Faults planted into the group coordinator of a cluster, one at a time."""

from typing import Any

import pytest

from goqueue.model import Code, Refused
from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_GROUPS"]

_COORDINATOR = "goqueue.broker.coordinator.group_coordinator.GroupCoordinator"
_COORDINATORS = "goqueue.broker.coordinator.coordinators.Coordinators"
_REPLAY = "goqueue.broker.coordinator.coordinator_replay.CoordinatorReplay"
_SERVER = "goqueue.broker.coordinator.remote_copies.CopyServer"
_REMOTE = "goqueue.broker.coordinator.remote_copies"
_JOURNAL = "goqueue.broker.journal.Journal"
_LEASES = "goqueue.broker.groups.leases.PollLeases"
_MOVER = "goqueue.broker.groups.dead_letter_mover.DeadLetterMover"
_MARKERS = "goqueue.broker.transactions.markers.MarkerWriter"
_STATE = "goqueue.broker.state.NodeState"


def hands_out_leases_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    count = attribute(f"{_LEASES}._count")

    def hasty(leases: Any, *args: Any) -> bool:
        count(leases, *args)
        return False

    patch.setattr(f"{_LEASES}._count", hasty)


def answers_without_proof_that_it_leads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_JOURNAL}.prove", lambda _: None)


def takes_copies_of_a_deposed_coordinator(patch: pytest.MonkeyPatch) -> None:
    def lenient(server: Any, command: Any) -> Any:
        topic = server._state.catalog.get(command.topic)
        if topic is None:
            raise Refused(Code.LEADER_UNAVAILABLE)
        return server._state.partition(topic, command.partition)

    patch.setattr(f"{_SERVER}._partition", lenient)


def forgets_moves_that_were_begun(patch: pytest.MonkeyPatch) -> None:
    begin = attribute(f"{_COORDINATOR}._begin_serving")

    def forgetful(coordinator: Any, now: Any) -> None:
        coordinator._state.open_moves.clear()
        begin(coordinator, now)

    patch.setattr(f"{_COORDINATOR}._begin_serving", forgetful)


def sends_a_marker_once(patch: pytest.MonkeyPatch) -> None:
    def give_up(writer: Any, current: Any, log: Any, *_: Any) -> None:
        writer._remove(current, log)

    patch.setattr(f"{_MARKERS}._refused", give_up)


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


def does_not_recognise_copies_that_come_twice(patch: pytest.MonkeyPatch) -> None:
    mark = attribute(f"{_REMOTE}.BatchMark")

    def unnumbered(**fields: Any) -> Any:
        return mark(**{**fields, "sequence": -1})

    patch.setattr(f"{_REMOTE}.BatchMark", unnumbered)


def does_not_abort_copies_of_unknown_outcome(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_MOVER}._abort", lambda *_: None)


def goes_on_when_another_one_coordinates(patch: pytest.MonkeyPatch) -> None:
    follow = attribute(f"{_COORDINATORS}._follow_role")

    def stubborn(coordinators: Any) -> None:
        if coordinators._current is None:
            follow(coordinators)

    patch.setattr(f"{_COORDINATORS}._follow_role", stubborn)


PLANTED_IN_GROUPS: tuple[Plant, ...] = (
    hands_out_leases_before_they_are_committed,
    answers_without_proof_that_it_leads,
    takes_copies_of_a_deposed_coordinator,
    forgets_moves_that_were_begun,
    sends_a_marker_once,
    believes_leases_of_an_earlier_coordinator,
    counts_no_first_deliveries,
    serves_before_it_has_read_its_journal,
    does_not_recognise_copies_that_come_twice,
    does_not_abort_copies_of_unknown_outcome,
    goes_on_when_another_one_coordinates,
)
