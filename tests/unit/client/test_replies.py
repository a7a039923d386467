"""What the server tells about itself, read from the bodies of the contract."""

import datetime as dt

import msgspec
import pytest

from goqueue.client import GoQueueError
from goqueue.client.admin_replies import GroupDescription, GroupLag, GroupOffsets, Readiness, Topic
from goqueue.client.membership import Subscription, split_name
from goqueue.model import LogId


def read(body: dict[str, object], kind: type[msgspec.Struct]) -> object:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


def test_a_topic_is_read_and_fields_of_tomorrow_are_ignored() -> None:
    body: dict[str, object] = {
        "name": "orders",
        "partitions": 2,
        "total_messages": 5,
        "total_size_bytes": 700,
        "partition_offsets": {
            "0": {"earliest": 3, "latest": 7},
            "1": {"earliest": 0, "latest": -1},
        },
        "created_at": "2026-01-02T03:04:05.123456001Z",
        "config": {"retention_hours": -1, "visibility_timeout": "1m0s", "shape": "round"},
        "mood": "good",
    }
    topic = read(body, Topic)
    assert isinstance(topic, Topic)
    assert topic.partition_offsets[0].latest == 7
    assert topic.config.retention_hours == -1
    assert topic.created_at == dt.datetime(2026, 1, 2, 3, 4, 5, 123456, dt.UTC)


def test_the_answer_to_making_a_topic_is_a_topic() -> None:
    made = read({"name": "orders", "partitions": 3, "created": True, "config": {}}, Topic)
    assert isinstance(made, Topic)
    assert (made.partitions, made.total_messages) == (3, 0)


def test_offsets_of_a_group_go_by_number() -> None:
    body: dict[str, object] = {
        "group_id": "g",
        "offsets": {"orders": {"0": 4, "11": 9}},
        "generation": 2,
    }
    offsets = read(body, GroupOffsets)
    assert isinstance(offsets, GroupOffsets)
    assert offsets.offsets == {"orders": {0: 4, 11: 9}}
    assert offsets.updated_at is None


def test_groups_and_their_lag_are_read() -> None:
    member = {
        "member_id": "python-1",
        "client_id": "python",
        "assigned_partitions": ["a-b-1"],
        "last_heartbeat": "2026-01-02T03:04:05Z",
        "joined_at": "2026-01-02T03:04:05Z",
        "in_flight": 3,
    }
    body: dict[str, object] = {
        "group_id": "g",
        "state": "stable",
        "mode": "shared",
        "protocol": "eager",
        "generation": 1,
        "topics": ["a-b"],
        "members": [member],
        "created_at": "2026-01-02T03:04:05Z",
    }
    group = read(body, GroupDescription)
    assert isinstance(group, GroupDescription)
    assert group.members[0].assigned_partitions == ("a-b-1",)
    lag = read({"group_id": "g", "total_lag": 0, "partitions": []}, GroupLag)
    assert isinstance(lag, GroupLag)
    assert lag.partitions == ()


def test_the_name_of_a_partition_is_split_at_its_last_hyphen() -> None:
    assert split_name("a-b-12") == LogId("a-b", 12)
    with pytest.raises(GoQueueError):
        split_name("orders-x")


def test_many_partitions_are_read_in_smaller_chunks() -> None:
    subscription = Subscription(
        group="g", topics=("orders",), chunk_bytes=1_000_000, buffer_bytes=8_000_000
    )
    assert subscription.chunk_bytes_for(0) == 1_000_000
    assert subscription.chunk_bytes_for(4) == 1_000_000
    assert subscription.chunk_bytes_for(40) == 100_000
    assert subscription.chunk_bytes_for(10_000) == 16 * 1024


def test_readiness_is_read_with_and_without_its_checks() -> None:
    check = {"status": "warn", "message": "2 logs take no writes"}
    body: dict[str, object] = {
        "status": "pass",
        "timestamp": "2026-01-02T03:04:05Z",
        "uptime": "1h0m0s",
        "broker": {"node_id": "n", "topic_count": 1, "total_size": 2},
    }
    bare = read(body, Readiness)
    whole = read({**body, "checks": {"storage": check}}, Readiness)
    assert isinstance(bare, Readiness)
    assert isinstance(whole, Readiness)
    assert bare.checks == {}
    assert whole.checks["storage"].message == "2 logs take no writes"
    assert whole.checks["storage"].latency == ""
