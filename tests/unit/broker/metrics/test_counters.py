"""What a node counts: each act once, under the names of what exists, with the times handed in."""

import pytest

from goqueue.metrics import Histogram, Kind
from goqueue.model import MILLISECOND, SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteTopic,
    Done,
    Offsets,
    Poll,
    Publish,
    Published,
    Read,
    Records,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ORDERS,
    ack,
    begin_poll,
    create,
    join,
    messages,
    nack,
    poll,
    polled,
    publish,
    read_values,
    shop,
)

BROKER = "goqueue_broker_"

PAIR = ("orders", "shop")


def samples(node: DrivenNode, name: str, *, by_partition: bool = False) -> dict[str, float]:
    """The samples of a family by their labels, in one text; a histogram by its count."""
    for family in node.node.metrics(by_partition=by_partition):
        if family.name == name:
            pattern = ",".join(f'{label}="%s"' for label in family.labels)
            return {
                labels if isinstance(labels, str) else pattern % labels: (
                    quantity.count if isinstance(quantity, Histogram) else quantity
                )
                for labels, quantity in filter(None, family.samples)
            }
    raise AssertionError(f"there is no family {name}")


def total_ns(node: DrivenNode, name: str) -> int:
    """All that the histograms of a family observed."""
    (family,) = (each for each in node.node.metrics() if each.name == name)
    assert family.kind is Kind.HISTOGRAM
    return sum(
        each.total for _, each in filter(None, family.samples) if isinstance(each, Histogram)
    )


def pair(node: DrivenNode, name: str, topic: str = "orders", group: str = "shop") -> float:
    found = samples(node, name)
    return found.get(f'topic="{topic}",consumer_group="{group}"', 0)


def test_every_name_is_there_once_and_a_start_has_no_surprises() -> None:
    node = DrivenNode()
    names = [family.name for family in node.node.metrics()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("goqueue_") for name in names)


def test_what_was_acknowledged_is_counted_and_what_was_refused_by_its_reason() -> None:
    node = shop(partitions=2, max_message_bytes=4)
    publish(node, "a", "b", "toolong", "c", targets=[0, 7, 0, 1])

    orders = 'topic="orders"'
    assert samples(node, BROKER + "messages_published_total")[orders] == 2
    assert samples(node, BROKER + "bytes_published_total")[orders] == len(build(messages("a", "b")))
    assert samples(node, BROKER + "messages_failed_total") == {
        f'{orders},error_type="partition_not_found"': 1,
        f'{orders},error_type="message_too_large"': 1,
    }


def test_messages_that_a_gateway_did_not_take_count_as_failed() -> None:
    node = shop()
    refused = {Code.MESSAGE_INVALID: 3, Code.PARTITION_INVALID: 1}
    batch = build(messages("a"))
    node.ask(Publish(topic="orders", batch=batch, refused=refused), Published)
    node.ask(
        Publish(topic="orders", batch=bytearray(), refused={Code.DELAY_TOO_LONG: 1}), Published
    )

    assert samples(node, BROKER + "messages_failed_total") == {
        'topic="orders",error_type="message_invalid"': 3,
        'topic="orders",error_type="partition_invalid"': 1,
        'topic="orders",error_type="delay_too_long"': 1,
    }
    assert samples(node, BROKER + "messages_published_total")['topic="orders"'] == 1


def test_names_that_callers_make_up_never_become_labels() -> None:
    node = shop()
    for name in ("absent", 'a"b', "__groups"):
        with pytest.raises(Refused):
            publish(node, "a", "b", topic=name)
        commit = CommitOffsets(group=name, offsets={LogId(name, 0): Offset(1)})
        with pytest.raises(Refused):
            node.ask(commit, Offsets)

    failed = samples(node, BROKER + "messages_failed_total")
    assert sum(failed.values()) == 6
    errors = samples(node, "goqueue_consumer_offset_commit_errors_total")
    assert sum(errors.values()) == 3
    assert all('topic=""' in labels for labels in (*failed, *errors))


def test_what_was_sent_twice_is_counted_once_it_is_there() -> None:
    node = shop()
    publish(node, "a", "b")
    first, second = poll(node)
    ack(node, first)
    ack(node, first, second)

    assert pair(node, BROKER + "messages_consumed_total") == 2
    assert pair(node, BROKER + "bytes_consumed_total") == len(build(messages("a", "b")))
    assert pair(node, BROKER + "messages_acked_total") == 2
    latency = samples(node, BROKER + "ack_latency_seconds")
    assert latency == {'topic="orders",ack_type="ack"': 2}


def test_a_message_that_comes_again_is_counted_each_time() -> None:
    node = shop()
    publish(node, "a")
    (delivery,) = poll(node, visibility_ns=SECOND)
    node.advance(SECOND)
    (again,) = poll(node)
    assert again.attempt == delivery.attempt + 1
    nack(node, again, delay_ns=0)

    assert pair(node, BROKER + "messages_expired_total") == 1
    assert pair(node, BROKER + "messages_redelivered_total") == 1
    assert pair(node, BROKER + "messages_nacked_total") == 1
    assert pair(node, BROKER + "messages_consumed_total") == 2


def test_a_stream_read_is_nobodys_and_counts_messages_only() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    assert read_values(node) == ["a", "b", "c"]

    assert pair(node, BROKER + "messages_consumed_total", group="") == 3
    settled = samples(node, BROKER + "messages_acked_total")
    assert 'topic="orders",consumer_group=""' not in settled


def test_waiting_for_messages_is_part_of_a_poll_and_not_of_the_fetch() -> None:
    node = shop()
    request = begin_poll(node)
    node.advance(5 * SECOND)
    publish(node, "a")
    assert polled(node, request) == ["a"]

    assert total_ns(node, "goqueue_consumer_poll_latency_seconds") == 5 * SECOND
    assert total_ns(node, BROKER + "fetch_latency_seconds") == 0
    assert samples(node, BROKER + "fetch_latency_seconds") == {
        'topic="orders",consumer_group="shop"': 1
    }


def test_a_waiting_stream_read_is_not_slow_either() -> None:
    node = shop()
    request = node.begin(Read(topic="orders", partition=0, wait_ns=20 * SECOND))
    node.advance(3 * SECOND)
    publish(node, "a")
    assert node.reply(request, Records).data
    assert total_ns(node, BROKER + "fetch_latency_seconds") == 0


def test_a_publish_takes_as_long_as_the_disk() -> None:
    node = shop()
    node.slow_down(ORDERS)
    request = node.begin(Publish(topic="orders", batch=build(messages("a"))))
    node.advance(7 * MILLISECOND)
    assert samples(node, BROKER + "messages_published_total") == {'topic="orders"': 0}
    node.speed_up()
    assert node.reply(request, Published).placed[0].count == 1

    assert total_ns(node, BROKER + "publish_latency_seconds") == 7 * MILLISECOND
    assert samples(node, BROKER + "messages_published_total") == {'topic="orders"': 1}


def test_who_goes_away_before_the_answer_is_forgotten() -> None:
    node = shop()
    node.leave(begin_poll(node))
    publish(node, "a")
    assert samples(node, "goqueue_consumer_polls_total") == {'consumer_group="shop"': 0}
    assert [delivery.value for delivery in poll(node)] == [b"a"]
    assert samples(node, "goqueue_consumer_polls_total") == {'consumer_group="shop"': 1}


def test_empty_polls_and_refused_ones_are_told_apart() -> None:
    node = shop()
    assert poll(node) == []
    with pytest.raises(Refused):
        node.ask(Poll(group="shop", member_id="nobody", wait_ns=0), Records)
    assert samples(node, "goqueue_consumer_polls_total") == {'consumer_group="shop"': 1}
    assert samples(node, "goqueue_consumer_polls_empty_total") == {'consumer_group="shop"': 1}


def test_a_rebalance_counts_what_members_got_and_lost() -> None:
    node = shop(partitions=4)
    join(node, client="c2")
    group = 'consumer_group="shop"'
    assert samples(node, "goqueue_consumer_partitions_assigned_total") == {group: 6}
    assert samples(node, "goqueue_consumer_partitions_revoked_total") == {group: 2}
    assert samples(node, "goqueue_consumer_rebalances_total") == {f'{group},trigger="join"': 2}
    node.advance(40 * SECOND)
    assert samples(node, "goqueue_consumer_session_timeouts_total") == {group: 2}
    left = samples(node, "goqueue_consumer_group_leaves_total")
    assert left == {f'{group},reason="session_timeout"': 2}
    states = samples(node, "goqueue_consumer_group_state")
    assert states == {
        f'{group},state="empty"': 1,
        f'{group},state="stable"': 0,
        f'{group},state="rebalancing"': 0,
    }


def test_lag_is_the_same_as_the_api_tells_by_topic_and_by_partition() -> None:
    node = shop(partitions=2)
    publish(node, "a", "b", "c", targets=[0, 1, 1])
    (delivery, *_) = poll(node, count=1)
    ack(node, delivery)

    assert pair(node, "goqueue_consumer_lag") == 2
    lags = samples(node, "goqueue_consumer_lag", by_partition=True)
    assert sum(lags.values()) == 2
    assert set(lags) == {
        f'topic="orders",partition="{number}",consumer_group="shop"' for number in (0, 1)
    }
    ends = samples(node, "goqueue_storage_log_end_offset", by_partition=True)
    assert ends['topic="orders",partition="1"'] == 2


def test_what_is_deleted_is_not_shown_and_its_numbers_are_gone() -> None:
    node = shop()
    create(node, "other")
    publish(node, "a")
    ack(node, *poll(node))
    node.ask(DeleteTopic(name="orders"), Done)
    node.ask(DeleteGroup(group="shop"), Done)

    shown = [
        str(labels)
        for family in node.node.metrics(by_partition=True)
        for labels, _ in filter(None, family.samples)
    ]
    assert not [labels for labels in shown if "orders" in labels or "shop" in labels]
    create(node)
    assert samples(node, BROKER + "messages_published_total").get('topic="orders"', 0) == 0


def test_a_publish_that_ends_with_its_topic_is_counted_under_no_name() -> None:
    node = shop()
    node.slow_down(ORDERS)
    request = node.begin(Publish(topic="orders", batch=build(messages("a"))))
    node.begin(DeleteTopic(name="orders"))
    node.speed_up()
    assert node.is_answered(request)
    failed = samples(node, BROKER + "messages_failed_total")
    assert failed == {'topic="",error_type="topic_not_found"': 1}
