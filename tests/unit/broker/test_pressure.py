"""A node under pressure: little space, a slow disk, many who wait."""

import errno

import pytest

from goqueue.model import SECOND, Code, Damaged, LogId, Message, Offset, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    Beat,
    CommitOffsets,
    CreateTopic,
    Heartbeat,
    Offsets,
    Publish,
    Published,
    TopicDescription,
    lease_of,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ORDERS,
    ack,
    begin_poll,
    committed,
    create,
    join,
    nack,
    poll,
    polled,
    publish,
    read_values,
    values,
)

GROUPS = LogId("__groups", 0)


def shop(*wanted: str, reserve_bytes: int = 0) -> DrivenNode:
    node = DrivenNode(reserve_bytes=reserve_bytes)
    create(node)
    join(node, session_ns=600 * SECOND)
    if wanted:
        publish(node, *wanted)
    return node


def test_at_the_reserve_nothing_is_published_while_reads_and_acks_still_work() -> None:
    node = shop("a", "b", "c", reserve_bytes=100_000)
    node.files.faults.room = 10
    assert publish(node, "d").placed[0].refused is Code.STORAGE_FULL

    first, second, third = poll(node)
    assert [each.code for each in ack(node, first)] == [None]
    assert nack(node, second, delay_ns=0).dead_letter_topic is None
    assert read_values(node) == ["a", "b", "c"]
    assert committed(node) == 1
    join(node, client="c2", session_ns=600 * SECOND)
    node.restart()
    assert committed(node) == 1
    assert third.value == b"c"


def test_a_journal_that_cannot_keep_up_refuses_more_and_forgets_nothing() -> None:
    node = shop(*["x"] * 100)
    node.slow_down(GROUPS)
    requests = []
    refusals = 0
    for number in range(4200):
        command = CommitOffsets(
            group="shop", offsets={ORDERS: Offset(number % 101)}, member_id="c1-c100"
        )
        request = node.begin(command)
        if node.is_answered(request):
            with pytest.raises(Refused) as refused:
                node.reply(request, Offsets)
            assert refused.value.code is Code.LOG_BUSY
            refusals += 1
        else:
            requests.append(request)
    assert refusals > 0
    node.speed_up()

    assert all(node.reply(request, Offsets).group == "shop" for request in requests)
    assert committed(node) == 100


def test_what_a_full_disk_took_from_a_journal_is_written_again_in_bounded_turns() -> None:
    node = DrivenNode(budget_units=20)
    create(node)
    join(node, session_ns=600 * SECOND)
    publish(node, *["x"] * 200)
    held = poll(node, count=200)
    node.slow_down(GROUPS)
    requests = [node.begin(Ack(leases=(lease_of(each.receipt),))) for each in held]
    node.files.faults.room = 0
    node.speed_up()
    assert not any(node.is_answered(request) for request in requests)
    node.files.faults.room = None
    node.turn_units_max = 0

    node.advance(2 * SECOND)

    assert all(node.is_answered(request) for request in requests)
    # Answers to commands that one sync commits together leave together.
    assert 0 < node.turn_units_max < 60
    node.restart()
    assert committed(node) == 200


def test_damage_in_a_journal_holds_up_no_ack_and_stops_no_node() -> None:
    node = shop("a", "b")
    first, second = poll(node)
    node.slow_down(GROUPS)
    before = node.begin(Ack(leases=(lease_of(first.receipt),)))
    node.take(
        Damaged(
            log=GROUPS,
            segment=Offset(0),
            position=0,
            first=Offset(0),
            below=Offset(1),
            reason="a flipped bit",
        )
    )
    behind = node.begin(Ack(leases=(lease_of(second.receipt),)))
    node.speed_up()
    node.advance(2 * SECOND)

    assert node.is_answered(before)
    assert node.is_answered(behind)


def test_a_journal_that_failed_refuses_what_comes_before_the_process_ends() -> None:
    node = shop("a", "b")
    first, second = poll(node)
    node.files.faults.broken[("sync", "__groups/0/00000000000000000000.log")] = errno.EIO
    node.begin(Ack(leases=(lease_of(first.receipt),)))
    assert len(node.halts) == 1

    late = node.begin(Ack(leases=(lease_of(second.receipt),)))
    node.advance(3 * SECOND)
    assert not node.is_answered(late)


def test_what_one_turn_decided_is_seen_by_nobody_before_it_is_durable() -> None:
    node = shop("a")
    (first,) = poll(node)
    node.slow_down(GROUPS)
    acking = node.begin(Ack(leases=(lease_of(first.receipt),)))
    beating = node.begin(Heartbeat(group="shop", member_id="c1-c100", generation=1))
    assert not node.is_answered(acking)
    node.speed_up()

    assert node.reply(acking, Acked).settlements[0].code is None
    assert node.reply(beating, Beat).generation == 1


def test_a_redelivery_waits_until_its_count_is_durable() -> None:
    node = shop("a")
    nack(node, poll(node)[0], delay_ns=0)
    node.slow_down(GROUPS)
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    node.speed_up()

    assert polled(node, waiting) == ["a"]


def test_a_first_delivery_does_not_wait_for_its_count() -> None:
    node = shop("a")
    node.slow_down(GROUPS)

    assert values(poll(node)) == ["a"]


def test_topics_cannot_be_made_while_the_disk_is_full_and_can_be_afterwards() -> None:
    node = shop()
    node.files.faults.room = 0
    making = node.begin(CreateTopic(name="more", partitions=1))
    node.advance(SECOND)
    node.files.faults.room = None
    node.advance(5 * SECOND)

    assert node.is_answered(making)
    try:
        node.reply(making, TopicDescription)
    except Refused:
        create(node, "more")
    publish(node, "a", topic="more")
    assert read_values(node, LogId("more", 0)) == ["a"]


def test_publishes_of_many_callers_share_what_the_disk_does() -> None:
    node = shop()
    node.slow_down(ORDERS)
    requests = [
        node.begin(Publish(topic="orders", batch=build([Message(value=b"x")]))) for _ in range(50)
    ]
    before = node.files.faults.count("sync", "orders/0/00000000000000000000.log")
    node.speed_up()

    firsts = [node.reply(request, Published).placed[0].first for request in requests]
    assert firsts == list(range(50))
    assert node.files.faults.count("sync", "orders/0/00000000000000000000.log") == before + 1
