"""Checkers of what was sent: each finds its anomaly, and is content without it."""

from goqueue.sim.history import Gone, Lost
from goqueue.sim.history.sends import (
    aborted_reads,
    duplicates,
    failed_reads,
    fenced_appends,
    inconsistent_offsets,
    lost_writes,
    nonmonotonic_sends,
    nonmonotonic_sends_within,
    repeated_sequences,
    unseen,
)
from tests.unit.sim.history.told import LOG, Told


def test_a_write_is_lost_when_only_later_ones_are_ever_seen() -> None:
    told = Told()
    told.wrote(1, 0)
    told.wrote(2, 1)
    told.polled((1, 2), first=1)

    assert list(lost_writes(told.evidence)) == ["1 at t#1-0:0 was never seen, t#1-0:1 was"]


def test_a_write_behind_all_that_was_seen_is_not_lost_yet() -> None:
    told = Told()
    told.wrote(1, 0)
    told.wrote(2, 1)
    told.polled((0, 1))

    assert not list(lost_writes(told.evidence))


def test_a_part_of_a_committed_transaction_can_be_lost() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.committed(7)
    told.wrote(2, 2)
    told.polled((2, 2), first=2)

    assert list(lost_writes(told.evidence))


def test_a_part_of_an_aborted_transaction_is_not_lost() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.aborted(7)
    told.wrote(2, 2)
    told.polled((2, 2), first=2)

    assert not list(lost_writes(told.evidence))


def test_what_was_acknowledged_and_is_not_there_in_the_end_is_unseen() -> None:
    told = Told()
    told.wrote(1, 0)
    told.wrote(2, 1)
    told.polled((0, 1), (1, 2))
    told.ended_with((0, 1))

    assert list(unseen(told.evidence)) == ["reader-2 sees None instead of 2 at t#1-0:1"]


def test_nothing_is_unseen_when_every_final_reader_sees_everything() -> None:
    told = Told()
    told.wrote(1, 0)
    told.wrote(2, 1)
    told.ended_with((0, 1), (1, 2))
    told.ended_with((0, 1), (1, 2))

    assert not list(unseen(told.evidence))


def test_a_second_final_reader_that_sees_less_is_found() -> None:
    told = Told()
    told.wrote(1, 0)
    told.ended_with((0, 1))
    told.ended_with()

    assert list(unseen(told.evidence))


def test_what_a_log_was_allowed_to_lose_is_not_unseen() -> None:
    told = Told()
    told.wrote(1, 0)
    told.wrote(2, 1)
    told.note(Lost(log=LOG, end=1))
    told.ended_with((0, 1))

    assert not list(unseen(told.evidence))


def test_what_went_with_its_topic_is_not_unseen() -> None:
    told = Told()
    told.wrote(1, 0)
    told.note(Gone(log=LOG))
    told.ended_with()

    assert not list(unseen(told.evidence))


def test_a_refused_value_that_anybody_sees_is_found() -> None:
    told = Told()
    told.failed(1, told.sent(1))
    told.polled((0, 1), is_committed=False)

    assert list(failed_reads(told.evidence))


def test_a_value_refused_once_and_taken_by_a_retry_may_be_seen() -> None:
    told = Told()
    told.failed(1, told.sent(1))
    told.wrote(1, 0)
    told.polled((0, 1))

    assert not list(failed_reads(told.evidence))


def test_a_value_whose_first_answer_was_lost_may_be_seen_though_the_retry_was_refused() -> None:
    told = Told()
    told.sent(1)
    told.failed(1, told.sent(1))
    told.polled((0, 1))

    assert not list(failed_reads(told.evidence))


def test_a_committed_read_of_an_aborted_value_is_found() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.aborted(7)
    told.polled((0, 1))

    assert list(aborted_reads(told.evidence))


def test_a_committed_read_of_what_nobody_asked_to_commit_is_found() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.delivered(0, 1)

    assert list(aborted_reads(told.evidence))


def test_an_uncommitted_read_may_see_aborted_values() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.aborted(7)
    told.polled((0, 1), is_committed=False)

    assert not list(aborted_reads(told.evidence))


def test_a_commit_whose_answer_was_lost_may_be_seen() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 0, transaction=7)
    told.asked_to_commit(7)
    told.polled((0, 1))

    assert not list(aborted_reads(told.evidence))


def test_two_values_at_one_offset_are_found() -> None:
    told = Told()
    told.wrote(1, 0)
    told.polled((0, 2))

    assert list(inconsistent_offsets(told.evidence))


def test_an_offset_that_was_lost_may_hold_another_value_afterwards() -> None:
    told = Told()
    told.wrote(1, 0)
    told.note(Lost(log=LOG, end=0))
    told.wrote(2, 0)

    assert not list(inconsistent_offsets(told.evidence))


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    told = Told()
    told.wrote(1, 0)
    told.polled((0, 1), (3, 1))

    assert list(duplicates(told.evidence))


def test_one_value_seen_often_at_its_place_is_no_duplicate() -> None:
    told = Told()
    told.wrote(1, 0)
    told.polled((0, 1))
    told.polled((0, 1))

    assert not list(duplicates(told.evidence))


def test_one_sequence_at_two_offsets_is_found() -> None:
    told = Told()
    told.wrote(1, 0, sequence=4)
    told.wrote(2, 1, sequence=4)

    assert list(repeated_sequences(told.evidence))


def test_the_same_sequence_of_another_epoch_or_log_is_another() -> None:
    told = Told()
    told.wrote(1, 0, sequence=4, process="1/0")
    told.wrote(2, 1, sequence=4, process="1/1")
    told.wrote(3, 1, sequence=4, process="1/0", log="t#1-1")

    assert not list(repeated_sequences(told.evidence))


def test_what_a_fenced_producer_sent_is_found_where_anybody_sees_it() -> None:
    told = Told()
    told.fenced("1/0")
    told.sent(1, process="1/0")
    told.polled((0, 1), is_committed=False)

    assert list(fenced_appends(told.evidence))


def test_what_was_sent_before_the_fence_may_be_there() -> None:
    told = Told()
    told.sent(1, process="1/0")
    told.fenced("1/0")
    told.sent(1, process="1/0")
    told.polled((0, 1))

    assert not list(fenced_appends(told.evidence))


def test_a_send_that_stands_before_what_was_answered_before_it_is_found() -> None:
    told = Told()
    told.wrote(1, 5)
    told.wrote(2, 3)

    assert list(nonmonotonic_sends(told.evidence))


def test_sends_that_were_on_their_way_together_may_stand_in_any_order() -> None:
    told = Told()
    first, second = told.sent(1), told.sent(2)
    told.taken(2, 3, second)
    told.taken(1, 5, first)

    assert not list(nonmonotonic_sends(told.evidence))


def test_sends_of_two_processes_may_stand_in_any_order() -> None:
    told = Told()
    told.wrote(1, 5, process="1/0")
    told.wrote(2, 3, process="2/0")

    assert not list(nonmonotonic_sends(told.evidence))


def test_within_a_transaction_sends_go_forward_whoever_sends() -> None:
    told = Told()
    told.began(7)
    told.wrote(1, 5, process="1/0", transaction=7)
    told.wrote(2, 3, process="2/0", transaction=7)

    assert list(nonmonotonic_sends_within(told.evidence))


def test_two_transactions_may_interleave() -> None:
    told = Told()
    told.began(7)
    told.began(8)
    told.wrote(1, 5, transaction=7)
    told.wrote(2, 3, transaction=8)

    assert not list(nonmonotonic_sends_within(told.evidence))
