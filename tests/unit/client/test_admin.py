"""Administration through the SDK: transactions as operators see them, and the bodies of replies."""

import asyncio
import datetime as dt

import msgspec
import pytest

import goqueue
from goqueue.client import GoQueueError, NotFound
from goqueue.client.admin_replies import (
    GroupDescription,
    GroupLag,
    GroupOffsets,
    Readiness,
    Topic,
    TransactionDescription,
    TransactionPartition,
)
from goqueue.client.membership import Subscription, split_name
from goqueue.client.retries import Retries
from goqueue.model import LogId
from tests.unit.client.peer import Answer, Asked, json_answer, peer, refusal_answer

ONCE = Retries(attempts_max=1)

OWNER = {"producer_id": 7, "epoch": 2, "transactional_id": "billing-1"}

BODY = {
    **OWNER,
    "transaction_id": "7-3",
    "state": "ongoing",
    "started_at": "2026-01-02T03:04:05.5Z",
    "timeout_ms": 60_000,
    "partitions": [{"topic": "t", "partition": 1}],
    "prepared": True,
    "mood": "good",
}

DESCRIBED = TransactionDescription(
    transaction_id="7-3",
    transactional_id="billing-1",
    producer_id=7,
    epoch=2,
    state="ongoing",
    started_at=dt.datetime(2026, 1, 2, 3, 4, 5, 500_000, dt.UTC),
    timeout_ms=60_000,
    partitions=(TransactionPartition(topic="t", partition=1),),
    prepared=True,
)

COUNTS = {
    "active_transactions": 1,
    "committed_total": 2,
    "aborted_total": 3,
    "avg_duration": "1.5s",
    "active_producers": 4,
}


class Server:
    """Has one transaction, and aborts it for its owner."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    async def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        match (asked.method, asked.target):
            case ("GET", "/transactions?limit=100&skip=0"):
                return json_answer({"transactions": [BODY], "count": 1})
            case ("GET", "/transactions/stats"):
                return json_answer(COUNTS)
            case ("GET", "/transactions/7-3"):
                return json_answer(BODY)
            case ("POST", "/transactions/abort"):
                return json_answer({"status": "aborted"})
            case _:
                return refusal_answer(404, "transaction_not_found")


def test_transactions_are_listed_described_counted_and_aborted() -> None:
    server = Server()

    async def scene() -> None:
        async with (
            asyncio.timeout(20),
            peer(server.answer) as url,
            goqueue.connect(url, retries=ONCE) as q,
        ):
            assert await q.transactions.list() == (DESCRIBED,)
            assert await q.transactions.describe("7-3") == DESCRIBED
            assert (await q.transactions.stats()).committed_total == 2
            assert await q.transactions.abort("7-3") == DESCRIBED
            with pytest.raises(NotFound):
                await q.transactions.abort("7-4")

    asyncio.run(scene())
    aborts = [asked for asked in server.asked if asked.method == "POST"]
    named = {**OWNER, "transaction_id": "7-3"}
    assert [msgspec.json.decode(asked.body) for asked in aborts] == [named]


def test_threads_see_them_too() -> None:
    server = Server()

    def scene(url: str) -> None:
        with goqueue.connect_sync(url, retries=ONCE) as q:
            assert q.transactions.list() == (DESCRIBED,)
            assert q.transactions.describe("7-3") == DESCRIBED
            assert q.transactions.abort("7-3") == DESCRIBED
            assert q.transactions.stats().aborted_total == 3

    async def run() -> None:
        async with asyncio.timeout(20), peer(server.answer) as url:
            await asyncio.to_thread(scene, url)

    asyncio.run(run())
    assert len(server.asked) == 5


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
