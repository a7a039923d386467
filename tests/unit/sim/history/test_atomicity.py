"""Checkers of transactions: each finds its anomaly, and is content without it."""

import pytest

from goqueue.sim import Violation
from goqueue.sim.history import CHECKERS, Died, Drained, Ended, Grouped, Lost, Stood, judge
from goqueue.sim.history.atomicity import (
    copied_twice,
    delivered_while_held,
    passed_while_open,
    torn_groups,
    torn_progress,
    torn_transactions,
    uncopied,
    wrong_stands,
)
from tests.unit.sim.history.told import LOG, Told

_SOURCE = f"{LOG}:0=1"


def _two_parts() -> Told:
    """A transaction with a part in each of two logs, whose commit was asked for."""
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.wrote(2, 0, transaction=7, log="t#1-1")
    told.asked_to_commit(7)
    return told


def test_a_transaction_of_which_only_one_part_is_there_is_found() -> None:
    told = _two_parts()
    told.ended_with((0, 1))
    told.ended_with(log="t#1-1")

    assert list(torn_transactions(told.evidence)) == ["reader-2 sees parts of transaction 7, not 2"]


def test_a_transaction_that_is_there_in_whole_is_not_torn() -> None:
    told = _two_parts()
    told.ended_with((0, 1))
    told.ended_with((0, 2), log="t#1-1")

    assert not list(torn_transactions(told.evidence))


def test_a_transaction_of_which_nothing_is_there_is_not_torn() -> None:
    told = _two_parts()
    told.ended_with()
    told.ended_with(log="t#1-1")

    assert not list(torn_transactions(told.evidence))


def test_a_part_that_a_log_was_allowed_to_lose_tears_nothing() -> None:
    told = _two_parts()
    told.note(Lost(log="t#1-1", end=0))
    told.ended_with((0, 1))
    told.ended_with(log="t#1-1")

    assert not list(torn_transactions(told.evidence))


def _pair() -> Told:
    """Two transactions that one decision was asked for, without an answer."""
    told = Told()
    for number in (7, 8):
        told.began(number, process=f"{number}/0")
        told.wrote(number, number, transaction=number, process=f"{number}/0")
    told.note(Grouped(transactions=(7, 8)))
    return told


def test_one_of_a_group_without_the_other_is_found() -> None:
    told = _pair()
    told.ended_with((7, 7))

    assert list(torn_groups(told.evidence))


def test_a_group_of_which_all_or_none_was_committed_is_whole() -> None:
    both, none = _pair(), _pair()
    both.ended_with((7, 7), (8, 8))
    none.ended_with()

    assert not list(torn_groups(both.evidence))
    assert not list(torn_groups(none.evidence))


def test_one_that_was_also_asked_to_be_committed_alone_may_differ_from_its_group() -> None:
    told = _pair()
    told.asked_to_commit(7)
    told.ended_with((7, 7))

    assert not list(torn_groups(told.evidence))


def _worker(*, is_committed: bool | None) -> Told:
    """A worker that writes a value and settles offset 3 of its group in one transaction."""
    told = Told()
    told.began(7)
    told.delivered(3, 9)
    told.wrote(1, 0, transaction=7, log="out#1-0")
    told.added(7, offsets=(3,))
    if is_committed is None:
        told.asked_to_commit(7)
    elif is_committed:
        told.committed(7)
    else:
        told.aborted(7)
    return told


def test_a_message_that_comes_again_although_its_transaction_committed_is_found() -> None:
    told = _worker(is_committed=None)
    told.ended_with((0, 1), log="out#1-0")
    told.delivered(3, 9)

    assert list(torn_progress(told.evidence)) == [f"g got {LOG}:3 again after 7"]


def test_a_message_comes_again_after_an_abort() -> None:
    told = _worker(is_committed=False)
    told.delivered(3, 9)

    assert not list(torn_progress(told.evidence))


def test_a_message_comes_again_when_neither_copy_nor_progress_was_committed() -> None:
    told = _worker(is_committed=None)
    told.delivered(3, 9)
    told.ended_with(log="out#1-0")

    assert not list(torn_progress(told.evidence))


def test_a_message_that_comes_while_its_transaction_is_open_is_found() -> None:
    told = Told()
    told.began(7)
    told.added(7, offsets=(3,))
    told.delivered(3, 9)
    told.committed(7)

    assert list(delivered_while_held(told.evidence))


def test_a_message_that_comes_when_its_transaction_may_be_over_is_in_order() -> None:
    told = Told()
    told.began(7)
    told.added(7, offsets=(3,))
    told.delivered(3, 9)
    told.note(Ended(transaction=7, is_commit=False))

    assert not list(delivered_while_held(told.evidence))


def _stream(floor: int) -> Told:
    """A group that a committed transaction has put behind offset 1, said to stand elsewhere."""
    told = Told()
    told.polled((0, 1), (1, 2), (2, 3), (4, 5))
    told.began(7)
    told.added(7, floor=2)
    told.committed(7)
    told.note(Stood(group="g", log=LOG, floor=floor))
    return told


@pytest.mark.parametrize("floor", [0, 2])
def test_a_group_stands_where_a_transaction_may_have_put_it(floor: int) -> None:
    assert not list(wrong_stands(_stream(floor).evidence))


@pytest.mark.parametrize("floor", [1, 3])
def test_a_group_that_stands_where_nobody_has_put_it_is_found(floor: int) -> None:
    assert list(wrong_stands(_stream(floor).evidence))


def test_a_group_may_pass_what_is_no_message() -> None:
    told = Told()
    told.polled((0, 1), (4, 5))
    told.began(7)
    told.added(7, floor=1)
    told.committed(7)
    told.note(Stood(group="g", log=LOG, floor=4))

    assert not list(wrong_stands(told.evidence))


def test_a_group_that_goes_back_is_found() -> None:
    told = _stream(2)
    told.note(Stood(group="g", log=LOG, floor=0))

    assert list(wrong_stands(told.evidence))


def test_progress_of_an_aborted_transaction_that_took_effect_is_found() -> None:
    told = Told()
    told.polled((0, 1), (1, 2))
    told.began(7)
    told.added(7, floor=2)
    told.aborted(7)
    told.note(Stood(group="g", log=LOG, floor=2))

    assert list(wrong_stands(told.evidence))


def test_a_last_stable_offset_behind_an_open_transaction_is_found() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 4, transaction=7)
    told.polled(stable=5)
    told.wrote(2, 6, transaction=7)

    assert list(passed_while_open(told.evidence))


def test_the_last_stable_offset_stops_at_an_open_transaction_and_passes_an_ended_one() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 4, transaction=7)
    told.polled(stable=4)
    told.committed(7)
    told.polled(stable=6)

    assert not list(passed_while_open(told.evidence))


def test_a_transaction_that_may_have_timed_out_holds_nothing() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 4, transaction=7)
    told.polled(stable=6)

    assert not list(passed_while_open(told.evidence))


def test_two_committed_copies_of_one_message_are_found() -> None:
    told = Told()
    told.copied(_SOURCE, 5)
    told.copied(_SOURCE, 6)
    told.polled((0, 5), (1, 6), log="out#1-0")

    assert list(copied_twice(told.evidence))


def test_one_committed_copy_among_several_attempts_is_right() -> None:
    told = Told()
    told.copied(_SOURCE, 5)
    told.copied(_SOURCE, 6)
    told.polled((0, 5), (1, 6), log="out#1-0", is_committed=False)
    told.polled((1, 6), log="out#1-0", first=1)

    assert not list(copied_twice(told.evidence))


def test_what_was_lost_and_came_again_may_be_copied_again() -> None:
    told = Told()
    told.copied(_SOURCE, 5)
    told.note(Lost(log=LOG, end=0))
    told.copied(_SOURCE, 6)
    told.polled((0, 5), (1, 6), log="out#1-0")

    assert not list(copied_twice(told.evidence))


def test_a_message_without_a_copy_is_found_when_its_group_is_done() -> None:
    told = Told()
    told.note(Drained(group="g", log=LOG))
    told.ended_with((0, 1))

    assert list(uncopied(told.evidence)) == [f"g has no copy of 1 at {LOG}:0"]


def test_a_message_that_is_copied_or_dead_needs_nothing_more() -> None:
    copied, dead = Told(), Told()
    for told in (copied, dead):
        told.note(Drained(group="g", log=LOG))
        told.ended_with((0, 1))
    copied.copied(_SOURCE, 5)
    copied.polled((0, 5), log="out#1-0")
    dead.note(Died(group="g", source=_SOURCE))

    assert not list(uncopied(copied.evidence))
    assert not list(uncopied(dead.evidence))


def test_a_history_without_anomalies_passes_every_checker() -> None:
    told = _worker(is_committed=True)
    told.ended_with((0, 1), log="out#1-0")

    judge(told.events)

    assert len(CHECKERS) >= 20


def test_the_verdict_names_the_anomaly() -> None:
    told = Told()
    told.wrote(1, 0)
    told.ended_with()

    with pytest.raises(Violation, match="unseen"):
        judge(told.events)
