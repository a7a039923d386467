"""Faults planted into the transactions of a cluster, one at a time."""

from typing import Any

import msgspec
import pytest

from goqueue.model import LogId, Offset
from goqueue.model.requests import Placed, Published
from goqueue.transactions import Outcome
from tests.simulation.planted_patches import Plant, attribute

__all__ = ["PLANTED_IN_CLUSTER_TRANSACTIONS"]

_COORDINATOR = "goqueue.broker.transactions.coordinator.TransactionCoordinator"
_MARKERS = "goqueue.broker.transactions.markers.MarkerWriter"
_COPIES = "goqueue.broker.coordinator.remote_copies.RemoteCopies"
_SERVER = "goqueue.broker.coordinator.remote_copies.CopyServer"
_TRANSACTIONS = "goqueue.transactions.transactions.Transactions"
_ADMISSIONS = "goqueue.broker.cluster.transaction_admissions.TransactionAdmissions"
_REPORTS = "goqueue.broker.cluster.transaction_reports.TransactionReports"


def does_not_journal_participants(patch: pytest.MonkeyPatch) -> None:
    def forgetful(_: Any, transaction: Any, places: Any) -> None:
        for place in places:
            transaction.touches(*place)

    patch.setattr(f"{_COORDINATOR}.add_participants", forgetful)


def skips_markers_where_nothing_was_written(patch: pytest.MonkeyPatch) -> None:
    append = attribute(f"{_SERVER}.append_marker")

    def sparing(server: Any, request: Any, command: Any, now: Any) -> None:
        partition = server._partition(command)
        if partition.log.producers.is_open(command.producer, command.transaction):
            append(server, request, command, now)
        else:
            done = Placed(partition=command.partition, first=Offset(0), count=0)
            published = Published(targets=[], placed=(done,), timestamp=now.wall)
            server._state.outbox.answer(request, published)

    patch.setattr(f"{_SERVER}.append_marker", sparing)


def does_not_send_markers_again_to_a_new_leader(patch: pytest.MonkeyPatch) -> None:
    take = attribute(f"{_COPIES}.take_answer")

    def content(copies: Any, request: Any, reply: Any) -> Any:
        ended = take(copies, request, reply)
        if ended is not None and type(ended.purpose).__name__ == "ForMarker":
            ended.placed = msgspec.structs.replace(ended.placed, refused=None)
        return ended

    patch.setattr(f"{_COPIES}.take_answer", content)


def commits_what_it_does_not_know(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_TRANSACTIONS}.outcome_of", lambda *_: Outcome.COMMITTED)


def sends_markers_before_the_decision_is_committed(patch: pytest.MonkeyPatch) -> None:
    note = attribute(f"{_COORDINATOR}._note_decision")

    def hasty(coordinator: Any, decided: Any, now: Any) -> None:
        note(coordinator, decided, now)
        coordinator.write_markers(decided.key, now)

    patch.setattr(f"{_COORDINATOR}._note_decision", hasty)


def forgets_a_decision_before_all_have_its_marker(patch: pytest.MonkeyPatch) -> None:
    check = attribute(f"{_MARKERS}._check")

    def hasty(writer: Any, current: Any) -> None:
        if current.transaction not in writer._durable and not current.is_complete:
            writer._durable.append(current.transaction)
        check(writer, current)

    patch.setattr(f"{_MARKERS}._check", hasty)


def appends_before_the_partition_is_a_participant(patch: pytest.MonkeyPatch) -> None:
    """The number of a transaction is guessed from the last one that the log knows."""

    def hasty(admissions: Any, stamp: Any, topic: Any, targets: Any, now: Any) -> Any:
        partition = admissions._state.partitions.get(LogId(topic.name, targets[0]))
        writer = partition.log.producers._writers.get(stamp.producer_id)
        number = 1 if writer is None else (writer.transaction or writer.ended + 1)
        return admissions._admitted(stamp, topic, targets, number, now)

    patch.setattr(f"{_ADMISSIONS}._admission", hasty)


def reports_nothing_that_stays_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_REPORTS}._open_in", lambda *_: [])


PLANTED_IN_CLUSTER_TRANSACTIONS: tuple[Plant, ...] = (
    does_not_journal_participants,
    skips_markers_where_nothing_was_written,
    does_not_send_markers_again_to_a_new_leader,
    commits_what_it_does_not_know,
    sends_markers_before_the_decision_is_committed,
    forgets_a_decision_before_all_have_its_marker,
    appends_before_the_partition_is_a_participant,
    reports_nothing_that_stays_open,
)
