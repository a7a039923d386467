"""Dead letters and schemas: what died is kept, and only what conforms is put back."""

import pytest

from goqueue.model import Code, DeadLettersRefused, LogId
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
from tests.unit.broker.groups.shops import joined_shop
from tests.unit.broker.users import (
    LETTERS,
    create,
    letters,
    poll,
    publish,
    read,
    read_values,
    reject,
    values,
)
from tests.unit.broker.validating import begin_validation, register


def _number(each: int) -> str:
    return f'{{"id": {each}}}'


def _shop(*wanted: str) -> DrivenNode:
    """Dead letters of a topic that validates since they died."""
    node = joined_shop()
    publish(node, *wanted)
    while found := poll(node):
        for delivery in found:
            reject(node, delivery)
    register(node)
    begin_validation(node)
    return node


def _redrive(node: DrivenNode, count: int = 1000, to: str | None = None) -> Redriven:
    return node.ask(Redrive(topic="orders", messages_max=count, to_topic=to), Redriven)


def _kept(node: DrivenNode) -> int:
    return node.ask(DescribeReliability(), Reliability).dead_letters


def test_a_dead_letter_whose_value_is_refused_stays_and_is_counted_with_its_reason() -> None:
    node = _shop(_number(1), "bad", _number(2), "[]")
    redriven = _redrive(node)
    assert (redriven.moved, redriven.refused) == (2, 2)
    first = redriven.first_refused
    assert first is not None
    assert first.log == LETTERS
    assert read(node, LETTERS, first.offset)[0].value == b"bad"
    assert first.code is Code.SCHEMA_VIOLATION
    assert "not JSON" in first.reason
    assert values(poll(node)) == [_number(1), _number(2)]
    assert _kept(node) == 2
    [told] = [each for each in node.reports if isinstance(each, DeadLettersRefused)]
    assert (told.topic, told.dead_letter_topic, told.count) == ("orders", "orders.dlq", 2)


def test_a_refused_dead_letter_is_not_tried_again_by_itself_but_by_the_next_redrive() -> None:
    node = _shop("[]", _number(1))
    assert _redrive(node).moved == 1
    node.restart()
    again = _redrive(node)
    assert (again.moved, again.refused) == (0, 1)
    register(node, True)
    assert _redrive(node).moved == 1
    assert _redrive(node) == Redriven(moved=0)
    assert read_values(node)[2:] == [_number(1), "[]"]


def test_refused_dead_letters_take_nobodys_place_among_those_that_are_wanted() -> None:
    node = _shop(*["bad"] * 5, _number(1), _number(2))
    redriven = _redrive(node, count=1)
    assert (redriven.moved, redriven.refused) == (1, 5)
    assert _redrive(node, count=1).moved == 1
    assert _redrive(node, count=1).moved == 0


def test_another_topic_refuses_by_its_own_subject() -> None:
    node = _shop("text", _number(1))
    create(node, "texts", config=TopicConfig(schema_validation=True))
    assert _redrive(node, to="texts").refused == 2
    register(node, {"type": "array"}, "texts")
    assert _redrive(node, to="texts").refused == 2
    register(node, True, "texts")
    redriven = _redrive(node, to="texts")
    assert (redriven.moved, redriven.refused) == (1, 1)
    create(node, "anything")
    assert _redrive(node, to="anything").moved == 1


@pytest.mark.parametrize("units", [0, 1])
def test_a_large_redrive_is_validated_over_many_turns_and_nothing_is_lost(units: int) -> None:
    wanted = [_number(each) if each % 3 else "bad" * 20 for each in range(1500)]
    node = _shop(*wanted)
    node.turn_units_max = units
    redriven = _redrive(node, count=10_000)
    assert (redriven.moved, redriven.refused) == (1000, 500)
    assert read_values(node)[1500:] == [each for each in wanted if not each.startswith("bad")]
    assert _kept(node) == 500


def test_a_message_dies_into_a_dead_letter_topic_that_would_refuse_it() -> None:
    """What died is never lost for what it holds; publishers are refused as everywhere."""
    node = joined_shop()
    create(node, "orders.dlq", config=TopicConfig(schema_validation=True))
    register(node, subject="orders.dlq")
    publish(node, "bad")
    reject(node, poll(node)[0])
    assert letters(node) == ["bad"]
    assert publish(node, "bad", topic="orders.dlq").violations[0].code is Code.SCHEMA_VIOLATION
    assert _redrive(node).moved == 1
    assert read_values(node, LogId("orders", 0)) == ["bad", "bad"]


@pytest.mark.parametrize("topic", ["orders", "orders.dlq"])
def test_a_redrive_is_answered_if_a_topic_is_deleted_while_its_letters_are_validated(
    topic: str,
) -> None:
    node = _shop(_number(1), "bad")
    node.hold_checks()
    redriven = node.begin(Redrive(topic="orders"))
    assert not node.is_answered(redriven)
    node.ask(DeleteTopic(name=topic), Done)
    node.release_checks()
    assert node.reply(redriven, Redriven).moved == 0


def test_a_redrive_passes_over_dead_letters_of_a_topic_that_was_made_again() -> None:
    node = joined_shop()
    publish(node, _number(1), _number(2))
    first, second = poll(node)
    reject(node, first)
    register(node)
    begin_validation(node)
    node.hold_checks()
    redriven = node.begin(Redrive(topic="orders"))
    node.ask(DeleteTopic(name="orders.dlq"), Done)
    node.ask(CreateTopic(name="orders.dlq", partitions=1), TopicDescription)
    # It gets the offset of the one that was scanned.
    reject(node, second)
    node.release_checks()

    assert node.reply(redriven, Redriven).moved == 0
    assert _kept(node) == 1


def test_a_redrive_passes_over_a_dead_letter_topic_whose_logs_are_being_created() -> None:
    node = _shop(_number(1))
    node.hold_checks()
    redriven = node.begin(Redrive(topic="orders"))
    node.ask(DeleteTopic(name="orders.dlq"), Done)
    node.slow_down(LogId("orders.dlq", 0))
    creation = node.begin(CreateTopic(name="orders.dlq", partitions=1))
    node.release_checks()

    assert node.reply(redriven, Redriven).moved == 0
    assert not node.is_answered(creation)
    node.speed_up()
    assert node.reply(creation, TopicDescription).name == "orders.dlq"
