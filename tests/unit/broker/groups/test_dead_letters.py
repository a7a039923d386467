"""Dead letters: who dies of what, what a letter says, and that each is written once."""

import re

import pytest

from goqueue.model import SECOND, Code, LogId, Message, Offset, Refused
from goqueue.model.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteTopic,
    DescribeTopic,
    Done,
    Nack,
    Offsets,
    PositionsReset,
    Publish,
    Published,
    Reject,
    ResetOffsets,
    Returned,
    Strategy,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build
from tests.unit.broker.groups.shops import headers, joined_shop
from tests.unit.broker.users import (
    LETTERS,
    ORDERS,
    ack_code,
    committed,
    create,
    join,
    letters,
    nack,
    poll,
    publish,
    read,
    read_values,
    reject,
    values,
)


def test_a_rejected_message_is_a_dead_letter_and_settled_at_once() -> None:
    node = joined_shop()
    publish(node, "a", "b")
    first, _ = poll(node)
    returned = reject(node, first, "broken")

    assert returned.dead_letter_topic == "orders.dlq"
    assert (returned.log, returned.offset) == (ORDERS, 0)
    assert letters(node) == ["a"]
    assert committed(node) == 1


def test_a_dead_letter_keeps_all_of_its_message_and_says_where_it_comes_from() -> None:
    node = joined_shop(3)
    message = Message(
        key=b"k", value=b"v", priority=0, headers=(("mine", b"1"), ("goqueue.other", b"2"))
    )
    node.ask(Publish(topic="orders", batch=build([message]), targets=[2]), Published)
    node.advance(1_500_000_000)
    reject(node, poll(node)[0], "broken")

    (letter,) = read(node, LogId("orders.dlq", 2))
    assert (letter.key, letter.value, letter.priority) == (b"k", b"v", 0)
    headers = {name: value.decode() for name, value in letter.headers}
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", headers.pop("traceparent"))
    assert headers == {
        "mine": "1",
        "goqueue.other": "2",
        "goqueue.dlq.topic": "orders",
        "goqueue.dlq.partition": "2",
        "goqueue.dlq.offset": "0",
        "goqueue.dlq.group": "shop",
        "goqueue.dlq.deliveries": "1",
        "goqueue.dlq.hops": "1",
        "goqueue.dlq.time": "2023-11-14T22:13:21.5Z",
        "goqueue.dlq.cause": "rejected",
        "goqueue.dlq.reason": "broken",
    }


def test_the_third_nack_sends_a_message_to_the_dead_letters() -> None:
    node = joined_shop()
    publish(node, "a")
    for _ in range(2):
        assert nack(node, poll(node)[0], delay_ns=0).dead_letter_topic is None
    returned = nack(node, poll(node)[0], reason="give up")

    assert (returned.dead_letter_topic, returned.visible_at) == ("orders.dlq", None)
    assert returned.attempt == 3
    said = headers(node)
    assert (said["goqueue.dlq.cause"], said["goqueue.dlq.reason"]) == ("max_deliveries", "give up")
    assert said["goqueue.dlq.deliveries"] == "3"
    assert poll(node) == []


def test_the_third_lease_that_runs_out_sends_a_message_to_the_dead_letters() -> None:
    node = joined_shop(config=TopicConfig(visibility_ns=SECOND))
    publish(node, "a")
    for _ in range(3):
        assert values(poll(node)) == ["a"]
        node.advance(SECOND)

    assert letters(node) == ["a"]
    assert "goqueue.dlq.reason" not in headers(node)
    assert committed(node) == 1


def test_a_lease_that_runs_out_after_a_nack_says_what_the_nack_said() -> None:
    node = joined_shop(config=TopicConfig(visibility_ns=SECOND, max_deliveries=2))
    publish(node, "a")
    nack(node, poll(node)[0], delay_ns=0, reason="no luck")
    poll(node)
    node.advance(SECOND)

    assert headers(node)["goqueue.dlq.reason"] == "no luck"


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_counts_of_deliveries_survive_a_restart(without_snapshots: bool) -> None:
    node = joined_shop()
    publish(node, "a")
    nack(node, poll(node)[0], delay_ns=0)
    nack(node, poll(node)[0], delay_ns=0)
    node.stop()
    node.restart(without_snapshots=without_snapshots)
    (third,) = poll(node)
    assert third.attempt == 3
    nack(node, third)

    assert letters(node) == ["a"]


def test_the_dead_letter_topic_has_as_many_partitions_and_is_kept_for_two_weeks() -> None:
    node = joined_shop(3)
    publish(node, "a")
    reject(node, poll(node)[0])

    described = node.ask(DescribeTopic(name="orders.dlq"), TopicDescription)
    assert len(described.offsets) == 3
    assert described.config.retention_hours == 336


def test_dead_letters_go_to_the_topic_that_was_chosen() -> None:
    node = joined_shop(3, TopicConfig(dead_letter_topic="graves"))
    create(node, "graves", partitions=2)
    publish(node, "a", "b", "c", targets=[0, 1, 2])
    for delivery in poll(node):
        assert reject(node, delivery).dead_letter_topic == "graves"

    assert [read_values(node, LogId("graves", n)) for n in range(2)] == [["a", "c"], ["b"]]


def test_a_dead_letter_topic_is_read_like_any_other_and_keeps_its_own() -> None:
    node = joined_shop()
    publish(node, "a")
    reject(node, poll(node)[0])
    join(node, group="doctors", topics=("orders.dlq",), session_ns=600 * SECOND)
    for attempt in range(1, 6):
        (letter,) = poll(node, group="doctors")
        assert letter.attempt == attempt
        nack(node, letter, delay_ns=0)

    (letter,) = poll(node, group="doctors")
    with pytest.raises(Refused) as refused:
        reject(node, letter)
    assert refused.value.code is Code.DEAD_LETTER_LOOP
    assert ack_code(node, letter) is None


def test_a_reject_is_answered_when_the_dead_letter_is_there_and_the_message_settled() -> None:
    node = joined_shop()
    create(node, "orders.dlq")
    publish(node, "a")
    (first,) = poll(node)
    node.slow_down(LETTERS)
    request = node.begin(Reject(receipt=first.receipt))
    assert not node.is_answered(request)
    assert poll(node) == []
    node.speed_up()

    assert node.reply(request, Returned).dead_letter_topic == "orders.dlq"


def test_a_full_disk_delays_a_dead_letter_and_loses_nothing() -> None:
    node = joined_shop()
    create(node, "orders.dlq")
    publish(node, "a" * 3000)
    (first,) = poll(node)
    node.files.faults.room = 2500
    request = node.begin(Reject(receipt=first.receipt))
    node.advance(3 * SECOND)
    assert not node.is_answered(request)
    assert letters(node) == []
    node.files.faults.room = None
    node.advance(2 * SECOND)

    assert node.reply(request, Returned).dead_letter_topic == "orders.dlq"
    assert letters(node) == ["a" * 3000]


def test_a_reason_of_any_length_is_cut_and_not_refused() -> None:
    node = joined_shop()
    publish(node, "a")
    reject(node, poll(node)[0], "é" * 100_000)

    said = headers(node)["goqueue.dlq.reason"]
    assert 0 < len(said.encode()) <= 4096
    assert set(said) == {"é"}


def test_a_message_that_dies_while_its_dead_letter_topic_is_deleted_gets_a_new_one() -> None:
    node = joined_shop()
    create(node, "orders.dlq")
    publish(node, "a")
    (first,) = poll(node)
    node.slow_down(LETTERS)
    request = node.begin(Reject(receipt=first.receipt))
    node.begin(DeleteTopic(name="orders.dlq"))
    node.speed_up()
    node.advance(3 * SECOND)

    assert node.reply(request, Returned).dead_letter_topic == "orders.dlq"
    assert letters(node) == ["a"]


def test_a_move_that_a_crash_cut_short_can_be_made_again_to_a_target_that_was_made_again() -> None:
    node = joined_shop()
    create(node, "orders.dlq")
    publish(node, "x", "y", topic="orders.dlq")
    publish(node, "a")
    (first,) = poll(node)
    node.slow_down(LETTERS)
    node.begin(Reject(receipt=first.receipt))
    node.begin(DeleteTopic(name="orders.dlq"))
    node.speed_up()
    node.slow_down(LETTERS)
    node.advance(2 * SECOND)
    node.restart()
    node.advance(5 * SECOND)

    assert letters(node) == []
    (again,) = poll(node)
    assert again.attempt == 2
    node.ask(Reject(receipt=again.receipt), Returned)
    assert letters(node) == ["a"]
    assert committed(node) == 1


def test_a_dying_message_is_forgotten_with_its_topic() -> None:
    node = joined_shop()
    create(node, "orders.dlq")
    publish(node, "a")
    (first,) = poll(node)
    node.slow_down(LETTERS)
    request = node.begin(Reject(receipt=first.receipt))
    node.ask(DeleteTopic(name="orders"), Done)
    node.speed_up()
    node.advance(3 * SECOND)

    assert node.is_answered(request)
    create(node)
    publish(node, "new")
    assert values(poll(node)) == ["new"]


def test_a_dying_message_is_forgotten_with_its_group() -> None:
    node = joined_shop()
    create(node, "orders.dlq")
    publish(node, "a")
    (first,) = poll(node)
    node.slow_down(LETTERS)
    request = node.begin(Reject(receipt=first.receipt))
    node.ask(DeleteGroup(group="shop"), Done)
    node.speed_up()
    node.advance(3 * SECOND)

    assert node.is_answered(request)
    join(node)
    assert values(poll(node)) == ["a"]


def test_a_reset_while_a_message_dies_delivers_it_again_and_the_dead_letter_settles_nothing() -> (
    None
):
    node = joined_shop()
    create(node, "orders.dlq")
    publish(node, "a")
    (first,) = poll(node)
    node.slow_down(LETTERS)
    node.begin(Reject(receipt=first.receipt))
    node.ask(ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST), PositionsReset)
    node.speed_up()

    (again,) = poll(node)
    assert (again.value, again.attempt) == (b"a", 1)
    assert committed(node) == 0
    assert ack_code(node, again) is None
    assert committed(node) == 1


def test_a_commit_over_a_dying_message_keeps_its_dead_letter() -> None:
    node = joined_shop()
    create(node, "orders.dlq")
    publish(node, "a", "b")
    first, _ = poll(node)
    node.slow_down(LETTERS)
    request = node.begin(Reject(receipt=first.receipt))
    command = CommitOffsets(group="shop", offsets={ORDERS: Offset(2)}, member_id="c1-c100")
    node.ask(command, Offsets)
    node.speed_up()

    assert node.is_answered(request)
    assert letters(node) == ["a"]
    assert committed(node) == 2


def test_two_groups_may_each_have_a_dead_letter_of_one_message() -> None:
    node = joined_shop()
    join(node, group="audit", client="a1")
    publish(node, "a")
    reject(node, poll(node)[0])
    reject(node, poll(node, group="audit", client="a1")[0])

    groups = [dict(letter.headers)["goqueue.dlq.group"] for letter in read(node, LETTERS)]
    assert groups == [b"shop", b"audit"]


def test_a_nack_of_the_last_delivery_waits_for_its_dead_letter() -> None:
    node = joined_shop(config=TopicConfig(max_deliveries=1))
    create(node, "orders.dlq")
    publish(node, "a")
    (first,) = poll(node)
    node.slow_down(LETTERS)
    request = node.begin(Nack(receipt=first.receipt))
    assert not node.is_answered(request)
    node.speed_up()

    assert node.reply(request, Returned).dead_letter_topic == "orders.dlq"
