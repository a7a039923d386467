"""Closing while something else is under way: nothing is left behind, and nobody waits for good."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable

import pytest

from goqueue import records
from goqueue.client import Closed, connect, connect_sync
from goqueue.client.batch import ProducerConfig
from goqueue.client.connection import Connection
from goqueue.client.http import Settings, Transport, get
from goqueue.client.membership import Subscription
from goqueue.client.queue_consumer import QueueConsumer
from goqueue.client.stream_consumer import StreamConsumer
from goqueue.client.sync import LoopThread
from goqueue.client.tasks import Tasks
from goqueue.model import Message
from tests.unit.client.lease_answers import leased
from tests.unit.client.peer import Answer, Asked, json_answer, peer

PATIENCE_S = 10.0
LIMIT = 5


class SlowJoin:
    """A broker whose first answer to a join waits until it is told to go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.has_joined = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def __call__(self, asked: Asked) -> Answer:
        route = asked.target.split("?")[0].rsplit("/", 1)[-1]
        self.asked.append(route)
        if route == "join":
            self.has_joined.set()
            await self.may_answer.wait()
            body = {"member_id": "m-1", "generation": 1, "assigned_partitions": ["orders-0"]}
            return json_answer(body)
        if route == "leave":
            return json_answer({"left": True})
        if route == "offsets":
            return json_answer({"offsets": {"orders": {"0": 0}}})
        await asyncio.Event().wait()
        raise AssertionError(asked)


@pytest.mark.parametrize(
    "make",
    [
        lambda q: q.consume("orders", group="g", protocol="eager"),
        lambda q: q.subscribe("orders", group="g", protocol="eager"),
    ],
    ids=["queue", "stream"],
)
def test_a_consumer_closed_while_it_joins_leaves_the_group_and_does_nothing_more(
    make: Callable[[Connection], QueueConsumer | StreamConsumer],
) -> None:
    async def play() -> list[str]:
        broker = SlowJoin()
        async with asyncio.timeout(PATIENCE_S), peer(broker) as server, connect(server) as q:
            consumer = make(q)
            beginning = asyncio.ensure_future(consumer.take())
            await broker.has_joined.wait()
            await consumer.close()
            broker.may_answer.set()
            assert await beginning == []
            return broker.asked

    assert asyncio.run(play()) == ["join", "leave"]


def test_messages_of_a_member_that_was_lost_are_not_handed_out() -> None:
    """Their leases went with the member: others may have them already."""

    class Losing:
        def __init__(self) -> None:
            self.joins = self.polls = 0
            self.has_gone_on = asyncio.Event()

        async def __call__(self, asked: Asked) -> Answer:
            route = asked.target.split("?")[0].rsplit("/", 1)[-1]
            if route == "join":
                self.joins += 1
                body = {"member_id": f"m-{self.joins}", "generation": 1}
                return json_answer({**body, "assigned_partitions": ["orders-0"]})
            if route == "heartbeat" and self.joins == 1:
                return json_answer({"error": "who?", "code": "member_not_found"}, 404)
            if route != "records":
                return json_answer({"left": True})
            self.polls += 1
            if self.polls == 1:
                return Answer(body=leased(0, 1))
            if self.polls == 2:
                self.has_gone_on.set()
                return Answer(body=leased(7))
            await asyncio.Event().wait()
            raise AssertionError(asked)

    async def play() -> list[int]:
        broker, tasks = Losing(), Tasks()
        async with asyncio.timeout(PATIENCE_S), peer(broker) as server:
            await tasks.open()
            subscription = Subscription(
                group="g", protocol="eager", topics=("orders",), heartbeat_s=0.005
            )
            transport = Transport(Settings(server=server))
            async with QueueConsumer(transport, tasks, subscription) as consumer:
                first = await anext(consumer)
                await broker.has_gone_on.wait()
                # Whatever the next one is, it was leased to the present member.
                offsets = [first.offset, (await anext(consumer)).offset]
            await tasks.close()
            return offsets

    assert asyncio.run(play()) == [0, 7]


async def _take_records(asked: Asked) -> Answer:
    if asked.method == "GET":
        return json_answer({"name": "orders", "partitions": 2})
    if asked.target == "/producers/init":
        return json_answer({"producer_id": 1, "epoch": 0})
    count = len(records.walk(asked.body))
    placed = {"partition": 0, "base_offset": 0, "count": count}
    return json_answer({"results": [placed], "timestamp": "1970-01-01T00:00:01Z"})


def test_a_send_that_was_overtaken_by_the_close_is_refused() -> None:
    async def play() -> None:
        async with asyncio.timeout(PATIENCE_S), peer(_take_records) as server, connect(server) as q:
            producer = q.producer(ProducerConfig(messages=LIMIT))
            for _ in range(LIMIT - 1):
                await producer.send("orders", "x", partition=0)
            # The one that gives others their turn first, to a partition without a lane.
            overtaken = asyncio.ensure_future(producer.send("orders", "x", partition=1))
            await asyncio.sleep(0)
            await producer.close()
            with pytest.raises(Closed):
                await overtaken

    asyncio.run(play())


def test_no_task_is_started_once_the_connection_ends() -> None:
    async def play() -> None:
        tasks = Tasks()
        await tasks.open()
        closing = asyncio.ensure_future(tasks.close())
        await asyncio.sleep(0)
        with pytest.raises(Closed):
            tasks.start(_wait_for_good())
        async with asyncio.timeout(PATIENCE_S):
            await closing

    asyncio.run(play())


async def _wait_for_good() -> None:
    await asyncio.Event().wait()


def test_a_line_in_use_at_the_close_is_hung_up_when_its_answer_has_come() -> None:
    async def play() -> tuple[int, bytes]:
        gate, is_asked = asyncio.Event(), asyncio.Event()
        rest: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            is_asked.set()
            await gate.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            # Ends when the client hangs up, in whichever way.
            with contextlib.suppress(ConnectionError):
                await reader.read()
            rest.set_result(b"")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with asyncio.timeout(PATIENCE_S), server:
            port = server.sockets[0].getsockname()[1]
            transport = Transport(Settings(server=f"http://127.0.0.1:{port}"))
            asking = asyncio.ensure_future(transport.ask(get("topics")))
            await is_asked.wait()
            transport.close()
            gate.set()
            return (await asking).status, await rest

    assert asyncio.run(play()) == (200, b"")


def test_a_thread_that_waits_when_the_loop_ends_is_told() -> None:
    outcome: list[type[BaseException]] = []
    is_waiting = threading.Event()

    async def wait_for_good() -> None:
        is_waiting.set()
        await asyncio.Event().wait()

    async def say_nothing() -> None:
        """No farewell."""

    def wait() -> None:
        try:
            loop.call(wait_for_good())
        except Closed as closed:
            outcome.append(type(closed))

    loop = LoopThread(say_nothing)
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert is_waiting.wait(PATIENCE_S)
    loop.stop()
    thread.join(PATIENCE_S)

    assert outcome == [Closed]


def with_peer(answer: Callable[[Asked], Awaitable[Answer]], scene: Callable[[str], None]) -> None:
    """Play a scene of threads against a server on a loop of its own."""

    async def play() -> None:
        async with peer(answer) as server:
            await asyncio.to_thread(scene, server)

    asyncio.run(play())


def test_closing_a_stream_in_a_thread_commits_what_was_finished_of_a_batch() -> None:
    commits: list[bytes] = []

    async def answer(asked: Asked) -> Answer:
        route = asked.target.split("?")[0].rsplit("/", 1)[-1]
        if route == "join":
            body = {"member_id": "m-1", "generation": 1, "assigned_partitions": ["orders-0"]}
            return json_answer(body)
        if route == "offsets":
            commits.append(asked.body)
            return json_answer({"offsets": {"orders": {"0": 0}}})
        if route == "records":
            if "offset=0" not in asked.target:
                await asyncio.Event().wait()
            batch = records.build([Message(value=b"x")] * 10)
            records.stamp(batch, 0, 1)
            return Answer(body=bytes(batch), headers={"GoQueue-Next-Offset": "10"})
        return json_answer({"left": True})

    def scene(server: str) -> None:
        with (
            connect_sync(server) as q,
            q.subscribe("orders", group="g", protocol="eager") as consumer,
        ):
            assert [next(consumer).offset for _ in range(5)] == [0, 1, 2, 3, 4]

    with_peer(answer, scene)
    # Number 4 was in hand, so it was not finished.
    assert b'"offsets":{"orders":{"0":4}}' in commits[-1]
