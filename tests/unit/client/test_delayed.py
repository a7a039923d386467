"""Delayed messages of the SDK: they take the road of all others, and each is answered for."""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import pytest

import goqueue
from goqueue import records
from goqueue.client import AlreadyDelivered, GoQueueError, NotFound
from goqueue.client.batch import ProducerConfig
from goqueue.client.connection import Connection
from goqueue.client.retries import Retries
from tests.unit.client.ledger import Ledger
from tests.unit.client.peer import Answer, Asked, json_answer, peer, refusal_answer

ONCE = Retries(attempts_max=1)
NOON = "2030-01-31T12:00:00.123456Z"
# What the ledger tells when it is asked for the time, in nanoseconds.
TOLD = 1_896_091_200_000_000_000
MINUTE = 60_000_000_000


class Timetable:
    """A ledger that notes when what it took is due."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.dues: list[int | None] = []

    async def answer(self, asked: Asked) -> Answer:
        if urlsplit(asked.target).path.endswith("/records"):
            for position in records.walk(asked.body).positions:
                headers = dict(records.decode(asked.body, position).headers)
                due = headers.get("gq.deliver-at")
                self.dues.append(None if due is None else int(due))
        return await self.ledger(asked)


def play(
    answer: Callable[[Asked], Awaitable[Answer]], scene: Callable[[Connection], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(20),
            peer(answer) as url,
            goqueue.connect(url, retries=ONCE) as q,
        ):
            await scene(q)

    asyncio.run(run())


@pytest.mark.parametrize("due", [60, 60.0, dt.timedelta(minutes=1)])
def test_a_delay_counts_by_the_clock_of_the_broker_and_is_never_early(
    due: float | dt.timedelta,
) -> None:
    table = Timetable()

    async def scene(q: Connection) -> None:
        for _ in range(3):
            await q.publish("orders", "a", due=due)

    play(table.answer, scene)
    dues = [each or 0 for each in table.dues]
    assert dues == sorted(dues)
    # Later by what this test takes, which has a bound of its own.
    assert TOLD + MINUTE <= dues[0] <= dues[-1] < TOLD + 2 * MINUTE
    assert table.ledger.count("healthz") == 1


def test_a_time_to_deliver_at_is_sent_as_it_is() -> None:
    table = Timetable()

    async def scene(q: Connection) -> None:
        noon = dt.datetime.fromisoformat("2030-01-31T13:00:00.123456+01:00")
        sent = await q.publish("orders", b"\xff", headers={"a": b"\xff"}, partition=0, due=noon)
        assert (sent.partition, sent.offset) == (0, 0)

    play(table.answer, scene)
    assert table.dues == [TOLD + 123_456_000]
    assert table.ledger.count("healthz") == 0


def test_no_delay_is_none() -> None:
    table = Timetable()

    async def scene(q: Connection) -> None:
        await q.publish("orders", "a", due=0)

    play(table.answer, scene)
    assert table.dues == [None]


def test_delayed_messages_travel_with_the_others_and_keep_their_places() -> None:
    table = Timetable()

    async def scene(q: Connection) -> None:
        producer = q.producer(ProducerConfig(linger_s=60.0, idempotent=True))
        receipts = [
            await producer.send("orders", str(number), due=number % 2 * 60) for number in range(6)
        ]
        await producer.flush()
        assert [(await receipt).offset for receipt in receipts] == list(range(6))

    play(table.answer, scene)
    assert [due is None for due in table.dues] == [True, False] * 3
    assert [batch.sequence for batch in table.ledger.batches] == [0]


def test_one_that_is_refused_leaves_the_others_alone() -> None:
    table = Timetable()

    async def scene(q: Connection) -> None:
        producer = q.producer(ProducerConfig(linger_s=60.0, idempotent=True))
        receipts = [await producer.send("orders", value, due=5) for value in ("a", "b", "c")]
        refused = refusal_answer(400, "request_invalid", position=100, reason="far too late")
        table.ledger.instead["records"] = [refused]
        with pytest.raises(GoQueueError, match="delay_too_long"):
            await producer.flush()
        with pytest.raises(GoQueueError, match="delay_too_long"):
            await receipts[1]
        assert [(await receipts[index]).offset for index in (0, 2)] == [0, 1]

    play(table.answer, scene)
    assert table.ledger.values == [b"a", b"c"]


@pytest.mark.parametrize("due", [float("nan"), float("inf"), -float("inf"), -1])
def test_a_delay_that_is_none_is_refused_before_it_is_sent(due: float) -> None:
    table = Timetable()

    async def scene(q: Connection) -> None:
        with pytest.raises(GoQueueError, match="message_invalid"):
            await q.publish("orders", "a", due=due)
        with pytest.raises(ValueError, match="time zone"):
            await q.publish("orders", "a", due=dt.datetime(2030, 1, 1))

    play(table.answer, scene)
    assert table.dues == []


# Asking about them

PENDING = {
    "topic": "orders",
    "partition": 1,
    "offset": 5,
    "deliver_at": NOON,
    "time_remaining": "1m0s",
    "priority": "high",
    "state": "pending",
}
STATS = {
    "pending_count": 1,
    "delivered_count": 2,
    "cancelled_count": 3,
    "avg_delay": "1s",
    "by_topic": {"orders": 1},
}


async def describe(asked: Asked) -> Answer:
    match asked.method, asked.target:
        case "GET", "/topics/orders/delayed?limit=2&skip=3":
            return json_answer({"topic": "orders", "messages": [PENDING], "total": 9})
        case "GET", "/topics/orders/delayed/5?partition=1":
            return json_answer({**PENDING, "state": "delivered", "delivered_offset": 7})
        case "GET", "/delay/stats":
            return json_answer(STATS)
        case "DELETE", "/topics/orders/delayed/1/5":
            return json_answer({"cancelled": True})
        case "DELETE", "/topics/orders/delayed/1/6":
            return refusal_answer(409, "already_delivered", delivered_offset=8)
    return refusal_answer(404, "message_not_found")


def test_delayed_messages_are_administered() -> None:
    async def scene(q: Connection) -> None:
        (waiting,) = await q.delayed.list("orders", limit=2, skip=3)
        assert (waiting.partition, waiting.offset, waiting.state) == (1, 5, "pending")
        assert waiting.deliver_at == dt.datetime.fromisoformat(NOON)
        assert (await q.delayed.get("orders", 5, partition=1)).delivered_offset == 7
        await q.delayed.cancel("orders", 1, 5)
        with pytest.raises(AlreadyDelivered) as late:
            await q.delayed.cancel("orders", 1, 6)
        assert late.value.details == {"delivered_offset": 8}
        with pytest.raises(NotFound):
            await q.delayed.get("orders", 6)
        stats = await q.delayed.stats()
        assert (stats.pending_count, stats.by_topic, stats.next_due_at) == (1, {"orders": 1}, None)

    play(describe, scene)
