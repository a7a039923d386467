"""Redrive: dead letters go back, each once, to where they came from or elsewhere."""

import pytest

from goqueue.model import SECOND, Code, LogId, Refused
from goqueue.model.requests import (
    CreateTopic,
    DeleteTopic,
    DescribeReliability,
    Done,
    Redrive,
    Redriven,
    Reliability,
    TopicConfig,
    TopicDescription,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.groups.shops import headers, joined_shop
from tests.unit.broker.users import (
    ack,
    create,
    join,
    nack,
    poll,
    publish,
    read,
    read_values,
    reject,
    values,
)


def redrive(
    node: DrivenNode, count: int = 1000, to: str | None = None, reason: str | None = None
) -> int:
    command = Redrive(topic="orders", messages_max=count, to_topic=to, reason=reason)
    return node.ask(command, Redriven).moved


def kill(node: DrivenNode, *wanted: str, reason: str = "") -> None:
    """Publish these and reject them."""
    publish(node, *wanted)
    for delivery in poll(node):
        reject(node, delivery, reason)


def test_redriven_dead_letters_come_back_with_counts_that_start_again() -> None:
    node = joined_shop()
    kill(node, "a", "b")
    assert redrive(node) == 2

    again = poll(node)
    assert [(each.value, each.attempt) for each in again] == [(b"a", 1), (b"b", 1)]


def test_each_dead_letter_is_redriven_once() -> None:
    node = joined_shop()
    kill(node, "a", "b")
    assert redrive(node) == 2
    assert redrive(node) == 0
    node.restart()

    assert redrive(node) == 0
    assert read_values(node) == ["a", "b", "a", "b"]


def test_dead_letters_go_back_to_the_partition_they_came_from() -> None:
    node = joined_shop(3)
    publish(node, "a", "b", "c", targets=[2, 0, 1])
    for delivery in poll(node):
        reject(node, delivery)
    redrive(node)

    assert [read_values(node, LogId("orders", n))[1:] for n in range(3)] == [["b"], ["c"], ["a"]]


def test_dead_letters_are_redriven_oldest_first_and_no_more_than_wanted() -> None:
    node = joined_shop(2)
    for number, target in enumerate([1, 0, 1, 0]):
        publish(node, str(number), targets=[target])
        node.advance(SECOND)
        reject(node, poll(node)[0])

    assert redrive(node, count=2) == 2
    assert sorted(values(poll(node))) == ["0", "1"]
    assert redrive(node, count=100) == 2


def test_dead_letters_may_be_redriven_to_another_topic() -> None:
    node = joined_shop(3)
    create(node, "other", partitions=2)
    publish(node, "a", targets=[2])
    reject(node, poll(node)[0])
    assert redrive(node, to="other") == 1

    assert read_values(node, LogId("other", 0)) == ["a"]


@pytest.mark.parametrize(
    ("to", "code"),
    [
        ("absent", Code.TOPIC_NOT_FOUND),
        ("orders.dlq", Code.DEAD_LETTER_LOOP),
        ("__groups", Code.TOPIC_INTERNAL),
    ],
)
def test_dead_letters_cannot_be_redriven_to_what_is_no_proper_target(to: str, code: Code) -> None:
    node = joined_shop()
    kill(node, "a")

    with pytest.raises(Refused) as refused:
        redrive(node, to=to)
    assert refused.value.code is code
    assert redrive(node) == 1


def test_redriving_a_topic_without_dead_letters_moves_nothing() -> None:
    assert redrive(joined_shop()) == 0


@pytest.mark.parametrize("count", [0, -1])
def test_redriving_needs_a_positive_number(count: int) -> None:
    with pytest.raises(Refused) as refused:
        redrive(joined_shop(), count=count)
    assert refused.value.code is Code.REQUEST_INVALID


def test_dead_letters_are_chosen_by_cause_or_by_reason() -> None:
    node = joined_shop(config=TopicConfig(max_deliveries=1))
    publish(node, "a", "b", "c")
    first, second, third = poll(node)
    reject(node, first, "red")
    nack(node, second, reason="blue")
    reject(node, third, "blue")

    assert redrive(node, reason="no such") == 0
    assert redrive(node, reason="max_deliveries") == 1
    assert redrive(node, reason="blue") == 1
    assert redrive(node, reason="rejected") == 1
    assert read_values(node)[3:] == ["b", "c", "a"]


def test_only_dead_letters_of_that_topic_are_redriven_from_a_shared_one() -> None:
    node = joined_shop(config=TopicConfig(dead_letter_topic="graves"))
    create(node, "other", config=TopicConfig(dead_letter_topic="graves"))
    join(node, group="others", topics=("other",))
    publish(node, "theirs", topic="other")
    reject(node, poll(node, group="others")[0])
    kill(node, "mine")

    assert redrive(node) == 1
    assert read_values(node)[1:] == ["mine"]


def test_hops_rise_with_each_death() -> None:
    node = joined_shop()
    kill(node, "a")
    redrive(node)
    reject(node, poll(node)[0])
    said = headers(node, offset=1)

    assert said["goqueue.dlq.hops"] == "2"
    assert said["goqueue.dlq.offset"] == "1"
    assert redrive(node) == 1


def test_dead_letters_that_were_not_redriven_are_counted() -> None:
    node = joined_shop()
    kill(node, "a", "b", "c")
    redrive(node, count=1)

    counted = node.ask(DescribeReliability(), Reliability)
    assert (counted.dead_letters, counted.dead_letters_by_topic) == (2, {"orders.dlq": 2})


def test_two_redrives_at_a_time_move_each_dead_letter_once() -> None:
    node = joined_shop()
    kill(node, "a", "b")
    node.reads_are_late = True
    first = node.begin(Redrive(topic="orders"))
    second = node.begin(Redrive(topic="orders"))
    node.finish_reads()

    moved = [node.reply(each, Redriven).moved for each in (first, second)]
    assert sum(moved) == 2
    assert read_values(node) == ["a", "b", "a", "b"]


def test_a_redrive_whose_target_is_deleted_is_answered_and_keeps_the_dead_letters() -> None:
    node = joined_shop()
    create(node, "other")
    kill(node, "a")
    node.slow_down(LogId("other", 0))
    request = node.begin(Redrive(topic="orders", to_topic="other"))
    assert not node.is_answered(request)
    node.begin(DeleteTopic(name="other"))
    node.speed_up()
    node.advance(3 * SECOND)

    assert node.reply(request, Redriven).moved == 0
    assert redrive(node) == 1


def test_a_redrive_whose_dead_letters_are_deleted_meanwhile_is_answered() -> None:
    node = joined_shop()
    kill(node, "a")
    node.reads_are_late = True
    request = node.begin(Redrive(topic="orders"))
    node.begin(DeleteTopic(name="orders.dlq"))
    node.finish_reads()
    node.advance(3 * SECOND)

    assert node.is_answered(request)


def test_a_message_that_is_no_dead_letter_is_not_redriven() -> None:
    node = joined_shop()
    kill(node, "a")
    publish(node, "stray", topic="orders.dlq")

    assert redrive(node) == 1
    assert redrive(node) == 0
    assert node.ask(DescribeReliability(), Reliability).dead_letters == 1


def test_a_dead_letter_topic_that_was_made_again_starts_without_a_place_for_redrives() -> None:
    node = joined_shop()
    kill(node, "a")
    redrive(node)
    ack(node, *poll(node))
    node.ask(DeleteTopic(name="orders.dlq"), Done)
    node.ask(CreateTopic(name="orders.dlq", partitions=1), TopicDescription)
    kill(node, "b")

    assert redrive(node) == 1
    assert read_values(node) == ["a", "a", "b", "b"]


def test_only_the_dead_letters_that_are_named_go_back() -> None:
    node = joined_shop(partitions=2)
    kill(node, "a", "b", "c", "d")
    by_log = {number: read(node, LogId("orders.dlq", number)) for number in range(2)}
    named = by_log[0][0]
    letters = {0: frozenset({named.offset, 999}), 5: frozenset({0})}

    assert node.ask(Redrive(topic="orders", dead_letters=letters), Redriven).moved == 1
    assert node.ask(Redrive(topic="orders", dead_letters=letters), Redriven).moved == 0
    assert values(poll(node)) == [(named.value or b"").decode()]
    assert node.ask(Redrive(topic="orders", dead_letters={}), Redriven).moved == 0
    assert redrive(node) == 3
