"""Publishing: where messages go, which are refused, what a full or broken disk does to whom."""

import errno

import pytest

from goqueue.model import MILLISECOND, SECOND, Cleanup, Code, Flush, LogId, Message, Refused
from goqueue.model.requests import (
    Acks,
    DeleteTopic,
    DescribeNode,
    DescribePartitions,
    NodeDescription,
    PartitionList,
    Publish,
    Published,
    TopicConfig,
)
from goqueue.records import Unroutable, build
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import ORDERS, create, join, poll, publish, read, read_values, values


@pytest.mark.parametrize(
    ("key", "partitions", "expected"),
    [
        ("a", 3, 2),
        ("a", 50, 0),
        ("user-100", 4, 1),
        ("user-100", 6, 3),
        ("order-123", 3, 1),
        ("order-123", 50, 41),
        ("é", 4, 3),
        ("é", 50, 45),
    ],
)
def test_a_key_goes_to_the_partition_of_the_contract(
    key: str, partitions: int, expected: int
) -> None:
    node = DrivenNode()
    create(node, partitions=partitions)

    assert publish(node, f"{key}=value").targets == [expected]
    assert [record.key for record in read(node, LogId("orders", expected))] == [key.encode()]


def test_batches_without_a_key_fill_all_partitions_evenly_over_many_publishes() -> None:
    node = DrivenNode()
    create(node, partitions=3)
    for count in (2, 4, 2, 5, 2):
        publish(node, *["x"] * count)

    assert [len(read(node, LogId("orders", n))) for n in range(3)] == [5, 5, 5]


def test_messages_without_a_key_that_come_alone_share_the_partition_of_the_moment() -> None:
    node = DrivenNode()
    create(node, partitions=3)
    targets = []
    for _ in range(4):
        for text in ("x", "y", "a=1", "z"):
            published = publish(node, text)
            if text != "a=1":
                targets += published.targets
        # A batch in between goes its own way, and a key goes where keys go.
        publish(node, "x", "y")
        node.advance(5 * MILLISECOND)

    assert targets == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0]


def test_messages_without_a_key_that_come_alone_fill_all_partitions_evenly() -> None:
    node = DrivenNode()
    create(node, partitions=3)
    for _ in range(15):
        publish(node, "x")
        node.advance(SECOND)

    assert [len(read(node, LogId("orders", n))) for n in range(3)] == [5, 5, 5]


def test_a_single_message_without_a_key_goes_to_its_explicit_partition() -> None:
    node = DrivenNode()
    create(node, partitions=3)

    assert publish(node, "x", targets=[2]).targets == [2]
    assert publish(node, "x", targets=[-1]).targets == [0]


def test_messages_with_a_key_use_up_nobodys_turn() -> None:
    node = DrivenNode()
    create(node, partitions=3)
    published = publish(node, "x", "a=1", "x", "a=2", "x", "x")

    keyless = [target for index, target in enumerate(published.targets) if index not in {1, 3}]
    assert sorted(keyless[:3]) == [0, 1, 2]


def test_an_explicit_partition_wins_over_the_key() -> None:
    node = DrivenNode()
    create(node, partitions=3)

    assert publish(node, "a=1", "a=2", targets=[0, -1]).targets == [0, 2]


def test_messages_of_one_partition_have_consecutive_offsets_in_request_order() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    publish(node, "zero", targets=[1])
    published = publish(node, "one", "two", "three", targets=[1, 0, 1])

    placed = {each.partition: (each.first, each.count, each.refused) for each in published.placed}
    assert placed == {0: (0, 1, None), 1: (1, 2, None)}
    assert read_values(node, LogId("orders", 1)) == ["zero", "one", "three"]
    assert published.timestamp == EPOCH_NS


def test_a_message_that_cannot_be_taken_does_not_stop_the_others() -> None:
    node = DrivenNode()
    create(node, partitions=2, config=TopicConfig(max_message_bytes=5))
    published = publish(node, "ok", "too long", "ok", "ok", "ok", targets=[0, 0, 2, -7, 1])

    assert published.targets == [
        0,
        Unroutable.TOO_LARGE,
        Unroutable.NO_PARTITION,
        Unroutable.BAD_PARTITION,
        1,
    ]
    assert [(each.partition, each.count) for each in published.placed] == [(0, 1), (1, 1)]


def test_a_request_in_which_nothing_can_be_taken_is_answered_all_the_same() -> None:
    node = DrivenNode()
    create(node)
    published = publish(node, "one", "two", targets=[5, 6])

    assert published.placed == ()
    assert published.targets == [Unroutable.NO_PARTITION] * 2


@pytest.mark.parametrize(
    ("targets", "values_given", "code"),
    [
        ([0, 7], ("a", "b"), Code.PARTITION_NOT_FOUND),
        ([0, -3], ("a", "b"), Code.PARTITION_INVALID),
        ([0, 0], ("a", "much too long"), Code.MESSAGE_TOO_LARGE),
    ],
)
def test_a_whole_request_is_refused_for_one_message_and_nothing_of_it_is_taken(
    targets: list[int], values_given: tuple[str, ...], code: Code
) -> None:
    node = DrivenNode()
    create(node, partitions=2, config=TopicConfig(max_message_bytes=5))
    batch = build([Message(value=value.encode()) for value in values_given])

    with pytest.raises(Refused) as refused:
        node.ask(Publish(topic="orders", batch=batch, targets=targets, is_whole=True), Published)
    assert refused.value.code is code
    assert refused.value.facts["index"] == 1
    assert read(node) == []


def test_a_whole_request_that_is_refused_uses_up_nobodys_turn() -> None:
    node = DrivenNode()
    create(node, partitions=3)
    batch = build([Message(value=b"a"), Message(value=b"b")])
    with pytest.raises(Refused):
        node.ask(Publish(topic="orders", batch=batch, targets=[-1, 9], is_whole=True), Published)

    assert publish(node, "x").targets == [0]


def test_a_compacted_topic_takes_only_messages_with_a_key() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(cleanup_policy=Cleanup.COMPACT))

    assert publish(node, "k=1", "2").targets == [0, Unroutable.NO_KEY]


def test_a_size_limit_counts_key_value_and_headers() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(max_message_bytes=10))
    just = Message(key=b"kkk", value=b"vvv", headers=(("hh", b"xx"),))
    over = Message(key=b"kkk", value=b"vvvv", headers=(("hh", b"xxx"),))
    published = node.ask(Publish(topic="orders", batch=build([just, over])), Published)

    assert published.targets == [0, Unroutable.TOO_LARGE]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("absent", Code.TOPIC_NOT_FOUND),
        ("__groups", Code.TOPIC_INTERNAL),
        ("not/a/name", Code.NAME_INVALID),
    ],
)
def test_publishing_to_what_is_no_topic_of_users_is_refused(topic: str, code: Code) -> None:
    node = DrivenNode()

    with pytest.raises(Refused) as refused:
        publish(node, "x", topic=topic)
    assert refused.value.code is code


def test_a_message_is_not_acknowledged_before_every_partition_has_it() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    node.slow_down(LogId("orders", 1))
    batch = build([Message(value=b"a"), Message(value=b"b")])
    request = node.begin(Publish(topic="orders", batch=batch))

    assert not node.is_answered(request)
    node.speed_up()
    assert len(node.reply(request, Published).placed) == 2


def test_who_does_not_wait_is_answered_before_anything_is_durable() -> None:
    node = DrivenNode()
    create(node)
    node.slow_down(ORDERS)
    batch = build([Message(value=b"a")])
    node.ask(Publish(topic="orders", batch=batch, acks=Acks.NONE), Published)

    assert read(node) == []
    node.speed_up()
    assert read_values(node) == ["a"]


def test_what_was_acknowledged_is_there_after_a_crash() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a", "b")
    node.restart()

    assert read_values(node) == ["a", "b"]
    assert publish(node, "c").placed[0].first == 2


def test_a_topic_that_flushes_by_interval_is_synced_within_it() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(flush_policy=Flush.INTERVAL, flush_interval_ms=200))
    publish(node, "a")
    before = node.files.faults.count("sync", "00000000000000000000.log")
    node.advance(SECOND // 5)

    assert node.files.faults.count("sync", "00000000000000000000.log") > before
    publish(node, "b")
    again = node.files.faults.count("sync", "00000000000000000000.log")
    node.advance(SECOND // 5)
    assert node.files.faults.count("sync", "00000000000000000000.log") > again


def test_a_full_disk_refuses_exactly_what_it_took_back() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    # The first write of a log takes space for its other files, too.
    publish(node, "kept", "kept", targets=[0, 1])
    node.files.faults.room = 60
    published = publish(node, "fits", "x" * 200, targets=[0, 1])

    placed = {each.partition: each.refused for each in published.placed}
    assert placed == {0: None, 1: Code.STORAGE_FULL}
    assert read_values(node) == ["kept", "fits"]
    assert len(read(node, LogId("orders", 1))) == 1


def test_what_a_full_disk_took_back_is_never_read_and_all_else_is() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "before")
    node.slow_down(ORDERS)
    requests = {
        value: node.begin(Publish(topic="orders", batch=build([Message(value=value.encode())])))
        for value in ("a", "b" * 500, "c")
    }
    node.files.faults.room = 100
    node.speed_up()

    refusals = {
        value: node.reply(each, Published).placed[0].refused for value, each in requests.items()
    }
    assert set(refusals.values()) <= {None, Code.STORAGE_FULL}
    assert refusals["b" * 500] is refusals["c"] is Code.STORAGE_FULL
    taken = [value for value, refused in refusals.items() if refused is None]
    assert read_values(node) == ["before", *taken]


def test_a_full_disk_is_tried_again_and_offsets_go_on_without_a_gap() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a")
    node.files.faults.room = 0
    assert publish(node, "b").placed[0].refused is Code.STORAGE_FULL
    assert publish(node, "b").placed[0].refused is Code.STORAGE_FULL
    node.files.faults.room = None
    node.advance(SECOND)

    placed = publish(node, "c").placed[0]
    assert (placed.first, placed.refused) == (1, None)
    assert read_values(node) == ["a", "c"]


def test_messages_are_read_and_acked_while_another_log_has_failed() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    publish(node, "a", "b", targets=[0, 1])
    node.files.faults.broken[("sync", "orders/1/00000000000000000000.log")] = errno.EIO
    published = publish(node, "c", "d", targets=[0, 1])

    assert {each.partition: each.refused for each in published.placed} == {
        0: None,
        1: Code.STORAGE_FAILED,
    }
    assert publish(node, "e", targets=[1]).placed[0].refused is Code.STORAGE_FAILED
    join(node)
    assert sorted(values(poll(node))) == ["a", "b", "c"]
    described = node.ask(DescribeNode(), NodeDescription)
    assert described.failed_logs == (LogId("orders", 1),)


def test_a_failed_log_writes_again_after_a_restart() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a")
    node.files.faults.broken[("sync", "orders/0/00000000000000000000.log")] = errno.EIO
    publish(node, "lost or not")
    node.restart()
    publish(node, "c")

    kept = read_values(node)
    assert (kept[0], kept[-1]) == ("a", "c")
    end = node.ask(DescribePartitions(topic="orders"), PartitionList).partitions[0].end_offset
    assert end == len(kept)


def test_publications_on_their_way_end_when_their_topic_is_deleted() -> None:
    node = DrivenNode()
    create(node)
    node.slow_down(ORDERS)
    request = node.begin(Publish(topic="orders", batch=build([Message(value=b"a")])))
    node.begin(DeleteTopic(name="orders"))

    placed = node.reply(request, Published).placed
    assert [each.refused for each in placed] == [Code.TOPIC_NOT_FOUND]
    node.speed_up()
