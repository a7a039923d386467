"""Checkers of what readers were shown: each finds its anomaly, and is content without it."""

from goqueue.sim.history import Lost
from goqueue.sim.history.polls import (
    nonmonotonic_polls,
    nonmonotonic_polls_within,
    precommitted_reads,
    skipping_polls,
    skipping_polls_within,
    unstable_reads,
)
from tests.unit.sim.history.told import LOG, Told


def test_an_answer_that_goes_backwards_is_found() -> None:
    told = Told()
    told.polled((3, 1), (2, 2), upto=4)

    assert list(nonmonotonic_polls_within(told.evidence))


def test_an_answer_from_before_the_offset_that_was_asked_for_is_found() -> None:
    told = Told()
    told.polled((3, 1), first=4, upto=5)

    assert list(nonmonotonic_polls_within(told.evidence))


def test_an_answer_with_gaps_where_nothing_stands_is_in_order() -> None:
    told = Told()
    told.polled((1, 1), (5, 2))

    assert not list(nonmonotonic_polls_within(told.evidence))


def test_an_answer_without_a_value_that_another_reader_sees_there_is_found() -> None:
    told = Told()
    told.polled((0, 1), (1, 2), (2, 3))
    told.polled((0, 1), (2, 3))

    assert list(skipping_polls_within(told.evidence)) == ["reader-2 was not shown 2 at t#1-0:1"]


def test_an_answer_that_ends_earlier_skips_nothing() -> None:
    told = Told()
    told.polled((0, 1), (1, 2))
    told.polled((0, 1))

    assert not list(skipping_polls_within(told.evidence))


def test_an_uncommitted_value_is_not_skipped_by_a_reader_of_committed_ones() -> None:
    told = Told()
    told.polled((0, 1), (1, 2), is_committed=False)
    told.polled((0, 1), upto=2)

    assert not list(skipping_polls_within(told.evidence))


def test_a_reader_that_is_shown_again_what_it_was_shown_is_found() -> None:
    told = Told()
    told.polled((0, 1), (1, 2), reader="f")
    told.polled((1, 2), first=1, reader="f")

    assert list(nonmonotonic_polls(told.evidence))


def test_two_readers_may_be_shown_the_same() -> None:
    told = Told()
    told.polled((0, 1), (1, 2), reader="f")
    told.polled((1, 2), first=1, reader="g")

    assert not list(nonmonotonic_polls(told.evidence))


def test_a_reader_of_a_log_that_lost_its_end_begins_anew_there() -> None:
    told = Told()
    told.polled((0, 1), (1, 2), reader="f")
    told.note(Lost(log=LOG, end=1))
    told.polled((1, 3), first=2, upto=3, reader="f")

    assert not list(nonmonotonic_polls(told.evidence))


def test_a_reader_that_goes_past_a_value_between_two_answers_is_found() -> None:
    told = Told()
    told.polled((0, 1), reader="f")
    told.polled((2, 3), first=2, reader="f")
    told.polled((0, 1), (1, 2), (2, 3))

    assert list(skipping_polls(told.evidence)) == ["f went past 2 at t#1-0:1"]


def test_a_reader_that_goes_past_what_is_no_message_skips_nothing() -> None:
    told = Told()
    told.polled((0, 1), reader="f")
    told.polled((2, 3), first=2, reader="f")

    assert not list(skipping_polls(told.evidence))


def test_a_value_that_is_shown_before_anybody_asked_for_a_commit_is_found() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.polled((0, 1))
    told.committed(7)

    assert list(precommitted_reads(told.evidence))


def test_a_value_that_is_shown_while_the_commit_is_on_its_way_is_in_order() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.asked_to_commit(7)
    told.polled((0, 1))

    assert not list(precommitted_reads(told.evidence))


def test_a_reader_of_everything_may_see_open_transactions() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.polled((0, 1), is_committed=False)
    told.committed(7)

    assert not list(precommitted_reads(told.evidence))


def test_a_committed_read_behind_the_last_stable_offset_is_found() -> None:
    told = Told()
    told.polled((0, 1), (1, 2), stable=1)

    assert list(unstable_reads(told.evidence))


def test_an_uncommitted_read_goes_behind_the_last_stable_offset() -> None:
    told = Told()
    told.polled((0, 1), (1, 2), stable=1, is_committed=False)

    assert not list(unstable_reads(told.evidence))
