"""Faults planted into producers and transactions, one at a time, for the simulator to find."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest

from goqueue.log import Log, OffsetRanges
from goqueue.log.producer_state import (
    PartitionProducer,
    ProducerState,
    Repeat,
    TransactionEnd,
)
from goqueue.model import Code, Refused
from goqueue.model.requests import CommitGroup
from goqueue.transactions import Outcome, Transactions
from tests.simulation.planted_patches import JOURNAL, Plant, attribute, does_nothing, forget

__all__ = ["PLANTED_IN_TRANSACTIONS"]

_COORDINATOR = "goqueue.broker.transactions.coordinator.TransactionCoordinator"
_PROGRESS = "goqueue.broker.transactions.progress.TransactionProgress"
_MARKERS = "goqueue.broker.transactions.markers.MarkerWriter"
_MOVING = "goqueue.broker.groups.dead_letter_mover.DeadLetterMover"


# Decisions


def writes_markers_before_the_decision_is_durable(patch: pytest.MonkeyPatch) -> None:
    note, flush = attribute(f"{JOURNAL}.note"), attribute(f"{JOURNAL}.flush")

    def hasty_note(journal: Any, changes: Any, then: Any = ()) -> None:
        then = list(then)
        early = [each for each in then if type(each).__name__ == "WriteMarkers"]
        journal.__dict__.setdefault("early", []).extend(early)
        note(journal, changes, [each for each in then if each not in early])

    def hasty_flush(journal: Any, now: Any) -> Any:
        return flush(journal, now) + journal.__dict__.pop("early", [])

    patch.setattr(f"{JOURNAL}.note", hasty_note)
    patch.setattr(f"{JOURNAL}.flush", hasty_flush)


def forgets_decisions(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "Decided")


def forgets_that_transactions_began(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "Begun")


def commits_without_what_is_on_its_way(patch: pytest.MonkeyPatch) -> None:
    end = attribute(f"{_COORDINATOR}.end")

    def hasty(coordinator: Any, request: Any, command: Any, now: Any) -> None:
        producer = coordinator._state.transactions.producers.get(command.owner.producer_id)
        current = None if producer is None else producer.current
        if current is None:
            end(coordinator, request, command, now)
            return
        in_flight, current.in_flight = current.in_flight, 0
        try:
            end(coordinator, request, command, now)
        finally:
            current.in_flight = in_flight

    patch.setattr(f"{_COORDINATOR}.end", hasty)


def commits_what_timed_out(patch: pytest.MonkeyPatch) -> None:
    decide = attribute(f"{_COORDINATOR}._decide")

    def lenient(coordinator: Any, transaction: Any, outcome: Outcome, now: Any) -> None:
        is_late = outcome is Outcome.TIMED_OUT
        decide(coordinator, transaction, Outcome.COMMITTED if is_late else outcome, now)

    patch.setattr(f"{_COORDINATOR}._decide", lenient)


def lets_transactions_run_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_COORDINATOR}.expire", does_nothing)


def forgets_decisions_whose_markers_may_be_lost(patch: pytest.MonkeyPatch) -> None:
    def trusting(writer: Any, current: Any, log: Any, _: Any) -> None:
        writer._remove(current, log)

    patch.setattr(f"{_MARKERS}._committed", trusting)


def marks_only_the_first_partition(patch: pytest.MonkeyPatch) -> None:
    mark = attribute(f"{_MARKERS}._append")

    def lazy(marking: Any, current: Any, log: Any, now: Any) -> None:
        if log == next(iter(current.missing)):
            mark(marking, current, log, now)
        else:
            current.missing.pop(log, None)

    patch.setattr(f"{_MARKERS}._append", lazy)


# Groups of transactions


def commits_a_group_one_by_one(patch: pytest.MonkeyPatch) -> None:
    commit = attribute(f"{_COORDINATOR}.commit_group")
    finish = attribute(f"{_COORDINATOR}.finish_turn")

    def first(coordinator: Any, request: Any, command: CommitGroup, now: Any) -> None:
        ids = command.transaction_ids
        for identity in ids:
            if not coordinator._state.transactions.has_key(command.key):
                coordinator._state.transactions.find_prepared(identity)
        one = msgspec.structs.replace(command, transaction_ids=ids[:1])
        commit(coordinator, request, one, now)
        coordinator.__dict__.setdefault("rest", []).extend(ids[1:])

    def then(coordinator: Any, now: Any) -> None:
        finish(coordinator, now)
        rest = coordinator.__dict__.get("rest", [])
        if rest and coordinator._state.journals.of_groups.is_quiet:
            with suppress(Refused):
                transaction = coordinator._state.transactions.find_prepared(rest.pop(0))
                coordinator._decide(transaction, Outcome.COMMITTED, now)

    patch.setattr(f"{_COORDINATOR}.commit_group", first)
    patch.setattr(f"{_COORDINATOR}.finish_turn", then)


def forgets_keys(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "KeyKept")


def leaves_newcomers_under_an_old_key_prepared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_COORDINATOR}._abort_newcomers", lambda *_: [])


# Zombies


def publishes_for_a_fenced_producer(patch: pytest.MonkeyPatch) -> None:
    admit = Transactions.admit

    def trusting(transactions: Transactions, stamp: Any, *rest: Any) -> Any:
        producer = transactions.producers.get(stamp.producer_id)
        if producer is not None:
            stamp = msgspec.structs.replace(stamp, epoch=producer.epoch)
        return admit(transactions, stamp, *rest)

    patch.setattr(Transactions, "admit", trusting)


def gives_an_epoch_twice(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "ProducerStated")


def leaves_the_transaction_of_the_fenced_open(patch: pytest.MonkeyPatch) -> None:
    decide = attribute(f"{_COORDINATOR}._decide")

    def lenient(coordinator: Any, transaction: Any, outcome: Outcome, now: Any) -> None:
        if outcome is not Outcome.FENCED:
            decide(coordinator, transaction, outcome, now)

    patch.setattr(f"{_COORDINATOR}._decide", lenient)


def takes_messages_into_what_is_prepared(patch: pytest.MonkeyPatch) -> None:
    def generous(_: Transactions, producer: Any) -> Any:
        if producer.current is None:
            raise Refused(Code.TRANSACTION_STATE_INVALID)
        return producer.current

    patch.setattr(Transactions, "writable", generous)


# Sequences


def forgets_the_window_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    replay = Log.replay_producers

    def forgetful(log: Any, *arguments: Any) -> None:
        replay(log, *arguments)
        for writer in log.producers._writers.values():
            writer.batches.clear()

    patch.setattr(Log, "replay_producers", forgetful)


def forgets_producers_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "replay_producers", does_nothing)


def answers_a_repeat_with_another_offset(patch: pytest.MonkeyPatch) -> None:
    check = PartitionProducer.check

    def vague(writer: PartitionProducer, mark: Any) -> Any:
        repeat = check(writer, mark)
        if repeat is None:
            return None
        first, following, *_ = writer.batches[-1][2], writer.batches[-1][2] + mark.count
        return Repeat(first, following)  # type: ignore[arg-type]  # plain numbers do

    patch.setattr(PartitionProducer, "check", vague)


def takes_whatever_sequence_comes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionProducer, "check", lambda *_: None)


def keeps_sequences_of_what_a_full_disk_took_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionProducer, "take_back", does_nothing)


# What readers see


def forgets_what_was_aborted_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    replay = Log.replay_producers

    def forgetful(log: Any, *arguments: Any) -> None:
        replay(log, *arguments)
        log.producers._aborted = OffsetRanges()

    patch.setattr(Log, "replay_producers", forgetful)


def passes_transactions_that_a_restart_found_open(patch: pytest.MonkeyPatch) -> None:
    replay = Log.replay_producers

    def blind(log: Any, *arguments: Any) -> None:
        replay(log, *arguments)
        log.producers._open.clear()
        log._watermarks.hold_stable_at(None)

    patch.setattr(Log, "replay_producers", blind)


def shows_what_is_not_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "unstable_from", property(lambda _: None))


def delivers_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    def careless(ending: TransactionEnd, hidden: OffsetRanges, _: OffsetRanges) -> None:
        hidden.add(ending.marker, ending.marker + 1)

    patch.setattr(TransactionEnd, "hide", careless)


# Progress


def settles_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    apply = attribute(f"{_PROGRESS}.apply")

    def hasty(progress: Any, change: Any, at: Any) -> None:
        apply(progress, change, at)
        position = None
        if type(change).__name__ == "ProgressAdded":
            position = progress._held_position(change)
        if position is not None:
            offsets = [at for first, end in change.offsets for at in range(first, end)]
            position.settle(change.floor, offsets, at)

    patch.setattr(f"{_PROGRESS}.apply", hasty)


def forgets_progress_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    forget(patch, "ProgressAdded")


def settles_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outcome, "is_commit", property(lambda outcome: outcome != "orphaned"))


def hands_out_what_a_transaction_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.delivery.queue.DeliveryQueue.hold", does_nothing)


# Dead letters


def forgets_that_a_letter_counts(patch: pytest.MonkeyPatch) -> None:
    note = attribute(f"{JOURNAL}.note")

    def forgetful(journal: Any, changes: Any, then: Any = ()) -> None:
        kept = [each for each in changes if getattr(each, "producer", 1) > 0]
        note(journal, kept, then)

    patch.setattr(f"{JOURNAL}.note", forgetful)


def settles_before_the_letter_is_there(patch: pytest.MonkeyPatch) -> None:
    fetch = attribute(f"{_MOVING}._fetch")

    def hasty(moving: Any, batch: Any, source: Any, now: Any) -> None:
        moving._state.journals.of_groups.note(moving._settle(batch.route, batch.moves, now))
        fetch(moving, batch, source, now)

    patch.setattr(f"{_MOVING}._fetch", hasty)


PLANTED_IN_TRANSACTIONS: tuple[Plant, ...] = (
    writes_markers_before_the_decision_is_durable,
    forgets_decisions,
    forgets_that_transactions_began,
    commits_without_what_is_on_its_way,
    commits_what_timed_out,
    lets_transactions_run_for_ever,
    forgets_decisions_whose_markers_may_be_lost,
    marks_only_the_first_partition,
    commits_a_group_one_by_one,
    forgets_keys,
    leaves_newcomers_under_an_old_key_prepared,
    publishes_for_a_fenced_producer,
    gives_an_epoch_twice,
    leaves_the_transaction_of_the_fenced_open,
    takes_messages_into_what_is_prepared,
    forgets_the_window_at_a_restart,
    forgets_producers_at_a_restart,
    answers_a_repeat_with_another_offset,
    takes_whatever_sequence_comes,
    keeps_sequences_of_what_a_full_disk_took_back,
    forgets_what_was_aborted_at_a_restart,
    passes_transactions_that_a_restart_found_open,
    shows_what_is_not_stable,
    delivers_what_was_aborted,
    settles_before_the_commit,
    forgets_progress_at_a_restart,
    settles_what_was_aborted,
    hands_out_what_a_transaction_holds,
    forgets_that_a_letter_counts,
    settles_before_the_letter_is_there,
)
