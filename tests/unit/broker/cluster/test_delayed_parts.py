"""Questions about delayed messages in a cluster: who is asked, and what the answers add up to."""

import msgspec
import pytest

from goqueue.broker.cluster.delayed_parts import MERGED_MAX, split_by_leaders
from goqueue.broker.cluster.forward_parts import Outcome, Part, Request
from goqueue.model import LOCAL, Code, Instant, LogId, Offset, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    CancelDelayed,
    Command,
    DelayedDescription,
    DelayedList,
    DelayState,
    DelayStatistics,
    DescribeDelays,
    FindDelayed,
    ListDelayed,
)
from tests.unit.broker.cluster.forward_bench import TOPIC, ForwardBench

NOT_FOUND = Refused(Code.MESSAGE_NOT_FOUND, offset=Offset(4))
LATER = Refused(Code.LEADER_UNAVAILABLE)


def log(partition: int) -> LogId:
    return LogId(TOPIC, partition)


def waiting(partition: int, offset: int, due: int) -> DelayedDescription:
    return DelayedDescription(
        log=log(partition),
        offset=Offset(offset),
        due=Timestamp(due),
        time_remaining_ns=1,
        priority=2,
        state=DelayState.PENDING,
    )


def listed(*messages: DelayedDescription, total: int | None = None) -> DelayedList:
    count = len(messages) if total is None else total
    return DelayedList(topic=TOPIC, messages=messages, total=count)


def answer(bench: ForwardBench, command: Command, *outcomes: Outcome) -> Outcome | None:
    """What a broker answers when the leaders answer in this order."""
    assert isinstance(command, ListDelayed | FindDelayed | DescribeDelays | CancelDelayed)
    split = split_by_leaders(command, bench["a"].routes)
    whole = Request(RequestId(1), command, LOCAL, split.gather, Instant(0))
    parts = [Part(whole, each, log, is_repeatable=True) for log, each in split.parts.items()]
    whole.parts.update(dict.fromkeys(parts))
    answered = None
    for part, outcome in zip(parts, outcomes, strict=False):
        del whole.parts[part]
        answered = split.gather.add(part, outcome)
        if answered is not None:
            break
    return answered


@pytest.fixture
def bench() -> ForwardBench:
    return ForwardBench()


def test_each_leader_is_asked_for_what_the_page_may_need_of_its_partitions(
    bench: ForwardBench,
) -> None:
    bench.elect(2, "a")
    command = ListDelayed(topic=TOPIC, limit=10, skip=5)

    parts = split_by_leaders(command, bench["a"].routes).parts

    asked = ListDelayed(topic=TOPIC, limit=15, skip=0)
    assert parts == {
        log(0): msgspec.structs.replace(asked, only=(0, 2)),
        log(1): msgspec.structs.replace(asked, only=(1,)),
    }


def test_a_single_leader_answers_any_page_itself(bench: ForwardBench) -> None:
    for number in range(3):
        bench.elect(number, "b")
    command = ListDelayed(topic=TOPIC, limit=10, skip=50 * MERGED_MAX)

    parts = split_by_leaders(command, bench["a"].routes).parts

    assert parts == {log(0): msgspec.structs.replace(command, only=(0, 1, 2))}


def test_a_page_far_back_of_several_leaders_is_refused(bench: ForwardBench) -> None:
    command = ListDelayed(topic=TOPIC, limit=1, skip=MERGED_MAX)

    with pytest.raises(Refused) as refused:
        split_by_leaders(command, bench["a"].routes)
    assert refused.value.code is Code.REQUEST_INVALID
    assert refused.value.facts["field"] == "skip"
    split_by_leaders(msgspec.structs.replace(command, skip=MERGED_MAX - 1), bench["a"].routes)


def test_the_pages_of_all_leaders_are_merged_by_due_time_and_place(bench: ForwardBench) -> None:
    first = listed(waiting(0, 9, 10), waiting(0, 3, 30), total=7)
    second = listed(waiting(1, 2, 10), waiting(1, 1, 20))
    third = listed()

    found = answer(bench, ListDelayed(topic=TOPIC, limit=2, skip=1), first, second, third)

    assert found == listed(waiting(1, 2, 10), waiting(1, 1, 20), total=9)


def test_a_list_without_one_of_the_leaders_is_no_list(bench: ForwardBench) -> None:
    assert answer(bench, ListDelayed(topic=TOPIC), listed(), LATER) is LATER


def test_a_message_is_looked_for_in_all_partitions_and_found_in_the_first(
    bench: ForwardBench,
) -> None:
    command = FindDelayed(topic=TOPIC, offset=Offset(4))
    one, two = waiting(1, 4, 10), waiting(2, 4, 5)

    assert answer(bench, command, NOT_FOUND, one, two) == one
    missing = answer(bench, command, NOT_FOUND, NOT_FOUND, NOT_FOUND)
    assert isinstance(missing, Refused)
    assert missing.code is Code.MESSAGE_NOT_FOUND
    # Somebody who was not asked may have it.
    assert answer(bench, command, one, LATER) is LATER


@pytest.mark.parametrize(
    "command",
    [
        FindDelayed(topic=TOPIC, partition=1, offset=Offset(4)),
        CancelDelayed(topic=TOPIC, partition=1, offset=Offset(4)),
    ],
)
def test_what_is_about_one_partition_goes_to_its_leader_as_it_is(
    bench: ForwardBench, command: FindDelayed | CancelDelayed
) -> None:
    split = split_by_leaders(command, bench["a"].routes)
    assert split.parts == {log(1): command}


@pytest.mark.parametrize(
    "command",
    [
        ListDelayed(topic="unknown"),
        FindDelayed(topic="unknown", offset=Offset(4)),
        CancelDelayed(topic=TOPIC, partition=3, offset=Offset(4)),
    ],
)
def test_nobody_is_asked_about_what_does_not_exist(
    bench: ForwardBench, command: ListDelayed | FindDelayed | CancelDelayed
) -> None:
    assert not split_by_leaders(command, bench["a"].routes).parts


def described(node: str, pending: int, average: int, averaged: int) -> DelayStatistics:
    return DelayStatistics(
        pending=pending,
        delivered=1,
        cancelled=2,
        average_delay_ns=average,
        by_topic={TOPIC: pending},
        next_due=Timestamp(100 - pending),
        averaged=averaged,
        node=node,
    )


def test_statistics_are_summed_over_all_leaders(bench: ForwardBench) -> None:
    bench.elect(1, None)
    split = split_by_leaders(DescribeDelays(), bench["a"].routes)
    # One partition of each leader, and one that nobody leads: without it there is no sum.
    assert list(split.parts) == [log(0), log(2), log(1)]

    found = answer(
        bench,
        DescribeDelays(),
        described("a", 3, 10, 1),
        described("b", 5, 40, 2),
        # It took over from another one in between, so it is asked twice.
        described("b", 5, 40, 2),
    )

    assert found == DelayStatistics(
        pending=8,
        delivered=2,
        cancelled=4,
        average_delay_ns=30,
        by_topic={TOPIC: 8},
        next_due=Timestamp(95),
        averaged=3,
    )
    assert answer(bench, DescribeDelays(), LATER) is LATER
