"""Transactions as operators see them through the SDK."""

import asyncio
import datetime as dt

import msgspec
import pytest

import goqueue
from goqueue.client import NotFound
from goqueue.client.admin_replies import TransactionDescription, TransactionPartition
from goqueue.client.retries import Retries
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
    """Has one transaction, and aborts it for whoever owns it."""

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
