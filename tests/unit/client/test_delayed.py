"""Delayed messages of the SDK: they travel together, and each is answered for."""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import goqueue
from goqueue.client import AlreadyDelivered, Closed, GoQueueError, NotFound
from goqueue.client.connection import Connection
from goqueue.client.transport import Retries
from tests.unit.client.peer import HANG_UP, Answer, Asked, json_answer, peer, refusal_answer

ONCE = Retries(attempts_max=1)
NOON = "2030-01-31T12:00:00.123456Z"


class Server:
    """Takes delayed messages and numbers them; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.offset = 0
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    @property
    def messages(self) -> list[list[dict[str, Any]]]:
        return [msgspec.json.decode(asked.body)["messages"] for asked in self.asked]

    async def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        self.was_asked.set()
        await self.may_answer.wait()
        return json_answer({"results": [self._result(each) for each in self.messages[-1]]})

    def _result(self, message: dict[str, Any]) -> dict[str, object]:
        if message["value"] == "":
            return {"code": "delay_too_long", "error": "too long"}
        self.offset += 1
        place = {"partition": 2, "offset": self.offset, "timestamp": "1970-01-01T00:00:01Z"}
        return {**place, "priority": "normal", "delayed": True, "deliverAt": NOON}


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


def test_what_is_published_while_a_request_is_under_way_travels_together() -> None:
    async def run() -> None:
        server = Server()

        async def scene() -> None:
            async with peer(server.answer) as url, goqueue.connect(url, retries=ONCE) as q:
                server.may_answer.clear()
                first = asyncio.ensure_future(q.publish("orders", "a", due=1))
                await server.was_asked.wait()
                rest = [
                    asyncio.ensure_future(q.publish("orders", str(n), due=n)) for n in range(1200)
                ]
                await asyncio.sleep(0)
                server.may_answer.set()
                sent = [await first, *[await each for each in rest]]
                assert [each.offset for each in sent] == list(range(1, 1202))
                assert {(each.topic, each.partition, each.timestamp) for each in sent} == {
                    ("orders", 2, 10**9)
                }

        async with asyncio.timeout(20):
            await scene()
        assert [len(messages) for messages in server.messages] == [1, 1000, 200]

    asyncio.run(run())


def test_one_that_is_refused_leaves_the_others_alone() -> None:
    server = Server()

    async def scene(q: Connection) -> None:
        values = ["a", "", "b"]
        found = await asyncio.gather(
            *(q.publish("orders", value, due=5) for value in values), return_exceptions=True
        )
        assert isinstance(found[1], GoQueueError)
        assert found[1].code == "delay_too_long"
        assert [getattr(each, "offset", None) for each in found] == [1, None, 2]

    play(server.answer, scene)


@pytest.mark.parametrize(
    ("due", "field"),
    [
        (5, {"delay": 5}),
        (0.25, {"delay": 0.25}),
        (0, {"delay": 0}),
        (dt.timedelta(minutes=1, milliseconds=1), {"delay": 60.001}),
        (dt.datetime.fromisoformat("2030-01-31T13:00:00.123456+01:00"), {"deliverAt": NOON}),
    ],
)
def test_a_due_time_is_told_in_the_words_of_the_contract(
    due: float | dt.timedelta | dt.datetime, field: dict[str, object]
) -> None:
    server = Server()

    async def scene(q: Connection) -> None:
        await q.publish("orders", b"\xff", key="k", headers={"a": "b"}, partition=1, due=due)
        ((message,),) = server.messages
        assert message == {
            "key": "aw==",
            "value": "/w==",
            "encoding": "base64",
            "priority": 2,
            "headers": {"a": "b"},
            "partition": 1,
            **field,
        }

    play(server.answer, scene)


@pytest.mark.parametrize("due", [float("nan"), float("inf"), -float("inf")])
def test_a_delay_that_is_no_number_is_refused_before_it_is_sent(due: float) -> None:
    server = Server()

    async def scene(q: Connection) -> None:
        with pytest.raises(GoQueueError, match="message_invalid"):
            await q.publish("orders", "a", due=due)
        with pytest.raises(ValueError, match="time zone"):
            await q.publish("orders", "a", due=dt.datetime(2030, 1, 1))
        with pytest.raises(GoQueueError, match="headers"):
            await q.publish("orders", "a", headers={"a": b"\xff"}, due=1)
        assert not server.asked

    play(server.answer, scene)


def test_a_failed_request_fails_all_of_its_messages_and_not_the_next_ones() -> None:
    server = Server()

    async def answer(asked: Asked) -> Answer:
        if not server.asked:
            server.asked.append(asked)
            return HANG_UP
        return await server.answer(asked)

    async def scene(q: Connection) -> None:
        publishing = (q.publish("orders", "a", due=1) for _ in range(3))
        found = await asyncio.gather(*publishing, return_exceptions=True)
        assert [type(each) for each in found] == [goqueue.ServerUnreachable] * 3
        assert (await q.publish("orders", "b", due=1)).offset == 1

    play(answer, scene)


@pytest.mark.parametrize("is_under_way", [False, True])
def test_closing_answers_for_what_still_waits(is_under_way: bool) -> None:
    async def run() -> None:
        server = Server()
        server.may_answer.clear()
        async with peer(server.answer) as url:
            async with goqueue.connect(url, retries=ONCE) as q:
                publishing = asyncio.ensure_future(q.publish("orders", "a", due=1))
                await asyncio.sleep(0)
                if is_under_way:
                    await server.was_asked.wait()
            with pytest.raises(Closed):
                async with asyncio.timeout(10):
                    await publishing
            with pytest.raises(Closed):
                await q.publish("orders", "a", due=1)
            server.may_answer.set()

    asyncio.run(run())


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
