"""Delayed messages and what becomes of their topics: deleted, made again, kept short, compacted."""

import pytest

from goqueue.model import SECOND, Cleanup, Code, LogId, Refused
from goqueue.model.requests import (
    DelayState,
    DeleteTopic,
    Done,
    Published,
    Redrive,
    Redriven,
    TopicConfig,
)
from tests.unit.broker.delayed.users import (
    LONG,
    TICK,
    cancel,
    delay,
    delayed_from,
    delaying,
    pending,
    shown,
    shown_values,
    state_of,
    statistics,
    store,
    total_messages,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ack, create, join, lag, letters, poll, publish, reject, values

HOUR = 3600 * SECOND

BIG = "x" * 40_000

TOPICS = LogId("__topics", 0)

ORDERS = LogId("orders", 0)

LETTERS = LogId("orders.dlq", 0)


def remake(node: DrivenNode) -> None:
    node.ask(DeleteTopic(name="orders"), Done)
    create(node)


# Deleting


def test_nothing_of_a_deleted_topic_fires_into_one_of_the_same_name() -> None:
    node = store()
    delay(node, ("old", 5 * SECOND), ("older", SECOND))
    remake(node)
    assert statistics(node).pending == 0
    assert pending(node) == []
    publish(node, "new")
    node.advance(10 * SECOND)

    assert shown_values(node) == ["new"]
    assert state_of(node, 0) is None


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_the_snapshot_of_a_deleted_topic_is_not_inherited(without_snapshots: bool) -> None:
    node = store()
    delay(node, ("old", 50 * SECOND), ("older", 60 * SECOND))
    node.stop()
    node.restart()
    remake(node)
    delay(node, ("new", 20 * SECOND), ("newer", 30 * SECOND), ("plain", 0))
    node.restart(without_snapshots=without_snapshots)
    assert pending(node) == [0, 1]
    node.advance(200 * SECOND)

    assert shown_values(node) == ["plain", "new", "newer"]


def test_a_delivery_being_read_when_the_topic_is_deleted_is_not_made_in_the_next_one() -> None:
    node = store()
    delay(node, ("old", SECOND))
    node.news_of_reads_is_late = True
    node.advance(SECOND + TICK)
    remake(node)
    delay(node, ("new", SECOND))
    node.advance(SECOND + TICK)
    node.hear_of_reads()
    node.advance(5 * SECOND)

    assert shown_values(node) == ["new"]


def test_a_delivery_on_its_way_when_the_topic_is_deleted_is_forgotten() -> None:
    node = store()
    delay(node, ("old", SECOND))
    node.slow_down(ORDERS)
    node.advance(SECOND + TICK)
    deleting = node.begin(DeleteTopic(name="orders"))
    node.speed_up()
    assert node.is_answered(deleting)
    create(node)
    delay(node, ("new", SECOND))
    node.advance(5 * SECOND)

    assert shown_values(node) == ["new"]


def test_the_first_delayed_message_of_a_topic_that_is_deleted_meanwhile_is_refused() -> None:
    node = store()
    node.slow_down(TOPICS)
    publishing = node.begin(delaying(node, ("a", SECOND)))
    deleting = node.begin(DeleteTopic(name="orders"))
    node.speed_up()
    assert node.reply(deleting, Done) == Done()
    with pytest.raises(Refused) as refused:
        node.reply(publishing, Published)
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    create(node)
    delay(node, ("b", SECOND))
    node.restart(without_snapshots=True)
    node.advance(5 * SECOND)

    assert shown_values(node) == ["b"]


def test_a_deleted_topic_leaves_the_others_alone() -> None:
    node = store()
    create(node, "more")
    delay(node, ("a", SECOND))
    delay(node, ("b", SECOND), topic="more")
    node.ask(DeleteTopic(name="orders"), Done)
    assert statistics(node).by_topic == {"more": 1}
    node.advance(2 * SECOND)

    assert shown_values(node, LogId("more", 0)) == ["b"]


# Retention


def old_store(**config: object) -> DrivenNode:
    """A topic that keeps messages for an hour, in small segments, and no group."""
    node = DrivenNode()
    settings = {"retention_hours": 1, "segment_bytes": 64 * 1024, **config}
    create(node, config=TopicConfig(**settings))  # type: ignore[arg-type]  # names of its fields
    return node


def test_retention_keeps_a_record_as_long_as_its_message_is_pending() -> None:
    node = old_store()
    delay(node, (f"a{BIG}", 5 * HOUR))
    for number in range(4):
        publish(node, f"{number}{BIG}")
    node.advance(4 * HOUR)
    assert state_of(node, 0) is DelayState.PENDING
    node.advance(HOUR + 60 * SECOND)

    assert [value[0] for value in shown_values(node)][-1] == "a"
    assert delayed_from(shown(node)[-1]) == 0


def test_retention_lets_go_of_a_record_when_its_message_is_delivered_or_cancelled() -> None:
    for is_cancelled in (False, True):
        node = old_store()
        delay(node, (f"a{BIG}", 2 * HOUR + 10 * SECOND))
        publish(node, f"b{BIG}")
        node.advance(2 * HOUR)
        assert state_of(node, 0) is DelayState.PENDING
        if is_cancelled:
            cancel(node, 0)
        node.advance(60 * SECOND)
        assert state_of(node, 0) is not DelayState.PENDING
        publish(node, f"c{BIG}")
        node.advance(2 * HOUR)
        assert state_of(node, 0) is None
        assert total_messages(node) == len(shown(node)) == 0
        node.restart(without_snapshots=True)
        assert state_of(node, 0) is None
        assert statistics(node).pending == 0


def test_after_retention_counts_are_those_of_what_is_left() -> None:
    node = old_store()
    join(node, session_ns=LONG)
    delay(node, (f"a{BIG}", SECOND), ("b", 3 * HOUR))
    delay(node, (f"c{BIG}", 2 * SECOND))
    node.advance(10 * SECOND)
    assert total_messages(node) == lag(node).lag == 2
    cancel(node, 1)
    node.advance(60 * SECOND)
    publish(node, f"d{BIG}")
    node.advance(HOUR - 30 * SECOND)
    assert total_messages(node) == len(shown(node))
    node.restart()
    assert total_messages(node) == len(shown(node))


# Compaction


def compacted_store() -> DrivenNode:
    node = DrivenNode()
    config = TopicConfig(segment_bytes=64 * 1024, cleanup_policy=Cleanup.COMPACT)
    create(node, config=config)
    return node


def fill(node: DrivenNode, *keys: str) -> None:
    """Enough of each key that what came before is compacted."""
    for _ in range(3):
        for key in keys:
            publish(node, f"{key}={BIG}")
    node.advance(120 * SECOND)


def test_compaction_keeps_a_record_as_long_as_its_message_is_pending() -> None:
    node = compacted_store()
    delay(node, ("k=later", HOUR))
    fill(node, "k", "other")
    assert state_of(node, 0) is DelayState.PENDING
    node.restart(without_snapshots=True)
    node.advance(HOUR)

    assert shown_values(node)[-1] == "later"


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_message_whose_delivery_was_compacted_away_is_not_delivered_again(
    without_snapshots: bool,
) -> None:
    node = compacted_store()
    delay(node, ("k=later", SECOND))
    node.advance(2 * SECOND)
    assert shown_values(node) == ["later"]
    fill(node, "k", "other")
    assert "later" not in shown_values(node)
    node.restart(without_snapshots=without_snapshots)
    node.advance(60 * SECOND)

    assert "later" not in shown_values(node)
    assert statistics(node).pending == 0


def test_a_message_cancelled_long_ago_is_not_delivered_after_compaction() -> None:
    node = compacted_store()
    delay(node, ("k=later", 10 * SECOND))
    cancel(node, 0)
    fill(node, "k", "other")
    node.restart(without_snapshots=True)
    node.advance(60 * SECOND)

    assert "later" not in shown_values(node)


# Dead letters


def dead_letter() -> DrivenNode:
    """A delivered message among the dead letters."""
    node = store()
    delay(node, ("later", SECOND))
    node.advance(2 * SECOND)
    (delivery,) = poll(node)
    reject(node, delivery)
    assert letters(node) == ["later"]
    return node


def test_a_dead_letter_says_nothing_about_delays_in_the_dead_letter_topic() -> None:
    node = dead_letter()
    node.ask(DeleteTopic(name="orders.dlq"), Done)
    create(node, "orders.dlq")
    delay(node, ("pending", 50 * SECOND), topic="orders.dlq")
    delay(node, ("more", SECOND))
    node.advance(2 * SECOND)
    # This letter comes from a record that says it is the delivery of another offset.
    (delivery,) = poll(node)
    assert values([delivery]) == ["more"]
    reject(node, delivery)
    node.restart(without_snapshots=True)
    assert state_of(node, 0, "orders.dlq") is DelayState.PENDING
    node.advance(100 * SECOND)

    assert letters(node) == ["more", "pending"]


def test_a_dead_letter_redriven_is_delivered_and_says_nothing_about_delays() -> None:
    node = dead_letter()
    assert node.ask(Redrive(topic="orders"), Redriven).moved == 1
    (again,) = poll(node)
    assert values([again]) == ["later"]
    ack(node, again)
    node.restart(without_snapshots=True)
    node.advance(60 * SECOND)

    assert shown_values(node) == ["later", "later"]
    assert state_of(node, 0) is DelayState.DELIVERED


def test_a_dead_letter_put_into_another_topic_ends_no_delay_there() -> None:
    node = dead_letter()
    create(node, "more")
    delay(node, ("pending", 50 * SECOND), topic="more")
    assert node.ask(Redrive(topic="orders", to_topic="more"), Redriven).moved == 1
    node.restart(without_snapshots=True)
    assert state_of(node, 0, "more") is DelayState.PENDING
    node.advance(100 * SECOND)

    assert sorted(shown_values(node, LogId("more", 0))) == ["later", "pending"]


def test_delayed_messages_can_be_published_to_the_dead_letter_topic() -> None:
    node = dead_letter()
    delay(node, ("more", SECOND), topic="orders.dlq")
    node.advance(2 * SECOND)

    assert shown_values(node, LETTERS) == ["later", "more"]
