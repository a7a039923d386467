"""What each route asks of the broker."""

import msgspec
import pytest

from goqueue.model import HOUR, SECOND, Cleanup, Code, Flush, LogId, Offset, Timestamp
from goqueue.model.requests import (
    Ack,
    AlterTopic,
    Assignor,
    Command,
    CommitOffsets,
    CreateTopic,
    DeleteGroup,
    DeleteRecords,
    DeleteTopic,
    DescribeGroup,
    DescribeLag,
    DescribeOffsets,
    DescribePartitions,
    DescribeReliability,
    DescribeTopic,
    Extend,
    Heartbeat,
    Join,
    LeaseOffsets,
    Leave,
    ListGroups,
    ListTopics,
    Mode,
    Nack,
    Poll,
    Redrive,
    Reject,
    Release,
    ResetOffsets,
    Start,
    Strategy,
    TopicChanges,
    TopicConfig,
    lease_of,
)
from tests.unit.gateways.http.refusing_broker import Client, RefusingBroker, code_of, read

CASES: list[tuple[str, str, object, Command]] = [
    ("GET", "/topics", None, ListTopics()),
    ("GET", "/topics/t", None, DescribeTopic(name="t")),
    ("DELETE", "/topics/t", None, DeleteTopic(name="t")),
    ("GET", "/topics/t/partitions", None, DescribePartitions(topic="t")),
    (
        "POST",
        "/topics/t/trim",
        {"offsets": {"0": 12, "7": 0}},
        DeleteRecords(topic="t", before={0: Offset(12), 7: Offset(0)}),
    ),
    ("DELETE", "/topics/t/messages", None, DeleteRecords(topic="t")),
    ("POST", "/topics", {"name": "t"}, CreateTopic(name="t", chosen=())),
    (
        "POST",
        "/topics",
        {
            "name": "t",
            "num_partitions": 7,
            "replication_factor": 1,
            "retention_hours": -1,
            "cleanup_policy": "compact",
            "flush_policy": "interval",
            "visibility_timeout": "1h30m",
            "dead_letter_topic": "dead",
        },
        CreateTopic(
            name="t",
            partitions=7,
            config=TopicConfig(
                retention_hours=-1,
                cleanup_policy=Cleanup.COMPACT,
                flush_policy=Flush.INTERVAL,
                visibility_ns=HOUR * 3 // 2,
                dead_letter_topic="dead",
            ),
            chosen=(
                "cleanup_policy",
                "dead_letter_topic",
                "flush_policy",
                "replication_factor",
                "retention_hours",
                "visibility_timeout",
            ),
        ),
    ),
    (
        "PATCH",
        "/topics/t",
        {"retention_hours": 5, "visibility_timeout": 2, "max_deliveries": None},
        AlterTopic(
            name="t", changes=TopicChanges({"retention_hours": 5, "visibility_timeout": 2 * SECOND})
        ),
    ),
    ("GET", "/groups", None, ListGroups()),
    ("GET", "/groups/g", None, DescribeGroup(group="g")),
    ("DELETE", "/groups/g", None, DeleteGroup(group="g")),
    (
        "POST",
        "/groups/g/heartbeat",
        {"member_id": "m", "generation": 4},
        Heartbeat(group="g", member_id="m", generation=4),
    ),
    ("POST", "/groups/g/leave", {"member_id": "m"}, Leave(group="g", member_id="m")),
    (
        "POST",
        "/groups/g/poll",
        {"member_id": "m"},
        Poll(group="g", member_id="m", wait_ns=29 * SECOND),
    ),
    (
        "POST",
        "/groups/g/poll",
        {"member_id": "m", "timeout": "2h", "max_messages": 5000, "isolation": "read_committed"},
        Poll(group="g", member_id="m", wait_ns=59 * SECOND, messages_max=1000),
    ),
    (
        "POST",
        "/groups/g/poll",
        {"member_id": "m", "generation": 2, "timeout": 0, "visibility_timeout": "1m"},
        Poll(group="g", member_id="m", generation=2, wait_ns=0, visibility_ns=60 * SECOND),
    ),
    (
        "GET",
        "/groups/g/poll?member_id=m&generation=2&timeout=0&max_messages=5",
        None,
        Poll(group="g", member_id="m", generation=2, wait_ns=0, messages_max=5),
    ),
    (
        "POST",
        "/groups/g/offsets",
        {"member_id": "m", "generation": 1, "offsets": {"t": {"0": 5, "11": 6}}},
        CommitOffsets(
            group="g",
            offsets={LogId("t", 0): Offset(5), LogId("t", 11): Offset(6)},
            member_id="m",
            generation=1,
        ),
    ),
    ("GET", "/groups/g/offsets", None, DescribeOffsets(group="g")),
    ("GET", "/groups/g/lag", None, DescribeLag(group="g")),
    (
        "POST",
        "/groups/g/offsets/reset",
        {"topic": "t", "strategy": "timestamp", "timestamp": "1970-01-01T00:00:01Z"},
        ResetOffsets(
            group="g", topic="t", strategy=Strategy.TIMESTAMP, timestamp=Timestamp(SECOND)
        ),
    ),
    (
        "POST",
        "/groups/g/offsets/reset",
        {"topic": "t", "strategy": "offset", "offset": 9, "partition": 2, "dry_run": True},
        ResetOffsets(
            group="g",
            topic="t",
            strategy=Strategy.OFFSET,
            offset=Offset(9),
            partition=2,
            is_dry_run=True,
        ),
    ),
    ("POST", "/messages/ack", {"receipt_handle": "r"}, Ack(leases=(lease_of("r"),))),
    (
        "POST",
        "/messages/ack/batch",
        {"receipt_handles": ["t:0:1:1:r", "t:0:2:1:r"]},
        Ack(leases=(LeaseOffsets("t:0:1:r", [(1, 3)]),)),
    ),
    (
        "POST",
        "/messages/release",
        {"receipt_handles": ["t:0:1:1:r", "t:0:2:1:r"]},
        Release(leases=(LeaseOffsets("t:0:1:r", [(1, 3)]),)),
    ),
    ("POST", "/messages/nack", {"receipt_handle": "r"}, Nack(receipt="r")),
    (
        "POST",
        "/messages/nack",
        {"receipt_handle": "r", "delay": "1.5s", "reason": "why"},
        Nack(receipt="r", delay_ns=SECOND * 3 // 2, reason="why"),
    ),
    ("POST", "/messages/reject", {"receipt_handle": "r"}, Reject(receipt="r")),
    (
        "POST",
        "/messages/visibility",
        {"receipt_handle": "r", "timeout": 60},
        Extend(leases=(lease_of("r"),), timeout_ns=60 * SECOND),
    ),
    ("POST", "/topics/t/dlq/redrive", {}, Redrive(topic="t")),
    (
        "POST",
        "/topics/t/dlq/redrive",
        {"max": 10_000, "to_topic": "u", "filter": {"reason": "rejected"}},
        Redrive(topic="t", messages_max=10_000, to_topic="u", reason="rejected"),
    ),
    ("GET", "/reliability/stats", None, DescribeReliability()),
]


def send(client: Client, method: str, target: str, body: object) -> int:
    if body is None:
        return client.send(method, target).status
    if method == "POST":
        return client.post(target, body).status
    return client.send(method, target, msgspec.json.encode(body)).status


@pytest.mark.parametrize(
    ("method", "target", "body", "command"),
    CASES,
    ids=[f"{method} {target}" for method, target, _, _ in CASES],
)
def test_a_route_asks_for_what_it_says(
    method: str, target: str, body: object, command: Command
) -> None:
    client = Client()
    assert send(client, method, target, body) == 503
    assert client.asked() == command


def test_a_join_draws_a_token_of_its_own_each_time() -> None:
    client = Client()
    wanted = {
        "client_id": "c",
        "topics": ["t", "u"],
        "mode": "key_ordered",
        "assignor": "sticky",
        "session_timeout": "10s",
        "start_position": "latest",
        "member_id": "m",
    }
    client.post("/groups/g/join", wanted)
    client.post("/groups/g/join", wanted)
    assert isinstance(client.broker, RefusingBroker)
    first, second = client.broker.asked
    assert isinstance(first, Join)
    assert isinstance(second, Join)
    assert first.token != second.token
    assert (first.topics, first.session_ns, first.member_id) == (("t", "u"), 10 * SECOND, "m")
    assert (first.mode, first.assignor) == (Mode.KEY_ORDERED, Assignor.STICKY)
    assert first.start is Start.LATEST


@pytest.mark.parametrize(
    ("target", "body", "field"),
    [
        ("/groups/g/join", {"client_id": "c", "topics": []}, "topics"),
        ("/groups/g/join", {"topics": ["t"]}, "client_id"),
        ("/groups/g/join", {"client_id": "c", "topics": ["t"], "mode": "loud"}, "mode"),
        ("/groups/g/heartbeat", {"member_id": "m"}, "generation"),
        ("/groups/g/heartbeat", {"member_id": "m", "generation": 2**31}, "generation"),
        ("/groups/g/poll", {}, "member_id"),
        ("/groups/g/poll", {"member_id": "m", "max_messages": 0}, "max_messages"),
        ("/groups/g/poll", {"member_id": "m", "timeout": "-1s"}, "timeout"),
        ("/groups/g/offsets", {"offsets": {}}, "offsets"),
        ("/groups/g/offsets", {"offsets": {"t": {"x": 1}}}, "offsets"),
        ("/groups/g/offsets/reset", {"topic": "t", "strategy": "timestamp"}, "timestamp"),
        ("/groups/g/offsets/reset", {"topic": "t", "strategy": "offset"}, "offset"),
        ("/groups/g/offsets/reset", {"topic": "t", "strategy": "middle"}, "strategy"),
        ("/messages/ack", {"receipt_handle": ["r"]}, "receipt_handle"),
        ("/messages/ack/batch", {"receipt_handles": []}, "receipt_handles"),
        ("/messages/ack/batch", {"receipt_handles": ["r"] * 1001}, "receipt_handles"),
        ("/messages/ack/batch", {"receipt_handles": ["r", 1]}, "receipt_handles[1]"),
        ("/messages/nack", {"receipt_handle": "r", "delay": "-1s"}, "delay"),
        ("/messages/visibility", {"receipt_handle": "r"}, "timeout"),
        ("/topics/t/dlq/redrive", {"max": 10_001}, "max"),
        ("/topics/t/dlq/redrive", {"max": 0}, "max"),
        ("/topics/t/dlq/redrive", {"filter": {"reason": 1}}, "filter.reason"),
        ("/topics", {"name": "t", "max_message_bytes": 17 * 1024 * 1024}, "max_message_bytes"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_asked(target: str, body: object, field: str) -> None:
    client = Client()
    response = client.post(target, body)
    assert response.status == 400
    told = read(response)
    assert told["code"] == "request_invalid"
    details = told["details"]
    assert isinstance(details, dict)
    assert details["field"] == field
    assert isinstance(client.broker, RefusingBroker)
    assert not client.broker.asked


@pytest.mark.parametrize(
    ("target", "body", "field"),
    [
        ("/topics", {"name": "a/b"}, "name"),
        ("/topics", {"name": "t", "dead_letter_topic": ".."}, "dead_letter_topic"),
        ("/groups/g/join", {"client_id": "c d", "topics": ["t"]}, "client_id"),
        ("/groups/g/join", {"client_id": "c", "topics": ["t", "\x00"]}, "topics"),
        ("/groups/g/offsets", {"offsets": {"..": {"0": 1}}}, "offsets"),
        ("/groups/g/offsets/reset", {"topic": "", "strategy": "latest"}, "topic"),
        ("/topics/t/dlq/redrive", {"to_topic": "é"}, "to_topic"),
    ],
)
def test_a_wrong_name_in_a_body_has_the_code_of_names(
    target: str, body: object, field: str
) -> None:
    response = Client().post(target, body)
    assert (response.status, code_of(response)) == (400, "name_invalid")
    assert read(response)["details"] == {"field": field}


@pytest.mark.parametrize("field", ["num_partitions", "replication_factor"])
def test_what_other_routes_change_is_refused_here(field: str) -> None:
    client = Client()
    response = client.send("PATCH", "/topics/t", msgspec.json.encode({field: 1}))
    assert (response.status, code_of(response)) == (400, "request_invalid")
    assert "is fixed when a topic is created" in str(read(response)["error"])


def test_a_negative_partition_in_a_commit_has_its_own_code() -> None:
    response = Client().post("/groups/g/offsets", {"offsets": {"t": {"-1": 1}}})
    assert code_of(response) == Code.PARTITION_INVALID
