"""The face without await: threads, interrupts, closing, and a server at the end of a socket."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from goqueue.client import Closed, GoQueueError, TopicNotFound, connect_sync
from goqueue.client.sync import LoopThread, SyncQueueConsumer, SyncStreamConsumer
from tests.unit.client.peer import Answer, Asked, json_answer, peer, refusal_answer


async def answer(asked: Asked) -> Answer:
    """A topic `orders` of one partition that takes a message at a time."""
    if asked.target == "/topics/orders":
        return json_answer({"name": "orders", "partitions": 1})
    if asked.target == "/producers/init":
        return json_answer({"producer_id": 1, "epoch": 0})
    if asked.target.startswith("/topics/orders/records"):
        placed = {"partition": 0, "base_offset": 7, "count": 1}
        return json_answer({"results": [placed], "timestamp": "1970-01-01T00:00:01Z"})
    return refusal_answer(404, "topic_not_found")


@pytest.fixture
def server() -> Iterator[str]:
    """The URL of a server that runs on a loop of its own."""
    urls: list[str] = []
    is_up, is_over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with peer(answer) as url:
            urls.append(url)
            is_up.set()
            await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    is_up.wait()
    yield urls[0]
    is_over.set()
    thread.join()


def test_publishing_waits_for_the_place(server: str) -> None:
    with connect_sync(server) as q:
        assert q.publish("orders", {"id": 1}).offset == 7


def test_a_receipt_can_be_waited_for_later(server: str) -> None:
    with connect_sync(server) as q, q.producer() as producer:
        receipt = producer.send("orders", "x")
        producer.flush()
        assert receipt.is_settled
        assert receipt.wait().offset == 7


def test_failures_are_raised_in_the_thread_that_asked(server: str) -> None:
    with connect_sync(server) as q:
        with pytest.raises(TopicNotFound):
            q.publish("nothing", "x")
        with pytest.raises(GoQueueError):
            q.topics.describe("nothing")


def test_a_group_reads_a_stream_where_commits_are_automatic(server: str) -> None:
    with connect_sync(server) as q:
        stream = q.consume("orders", group="billing", auto_commit=True)
        queue = q.consume("orders", group="billing")
        assert isinstance(stream, SyncStreamConsumer)
        assert isinstance(queue, SyncQueueConsumer)


def test_after_closing_nothing_more_is_done_and_the_thread_is_gone(server: str) -> None:
    before = threading.active_count()
    q = connect_sync(server)
    q.publish("orders", "x")
    q.close()
    q.close()
    assert threading.active_count() == before
    with pytest.raises(Closed):
        q.publish("orders", "x")


def test_work_of_one_thread_does_not_hold_up_another() -> None:
    async def farewell() -> None:
        """Nothing to say."""

    loop = LoopThread(farewell)
    gate = asyncio.Event()

    async def wait() -> str:
        await gate.wait()
        return "waited"

    async def open_gate() -> str:
        gate.set()
        return "opened"

    answers: list[str] = []
    waiting = threading.Thread(target=lambda: answers.append(loop.call(wait())))
    waiting.start()
    answers.append(loop.call(open_gate()))
    waiting.join()
    loop.stop()
    assert sorted(answers) == ["opened", "waited"]
