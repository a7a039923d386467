"""Request and reply, through the API and the SDK."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import msgspec
import pytest

import goqueue
from goqueue.client.connection import Connection
from goqueue.client.message import Message
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess, serving

Name = Callable[[], str]
# How long nobody replies: beside other work the disk may take longer than the shorter ones, and
# then nobody knows whether the message is stored.
TIMEOUTS_S = (0.05, 1, 20)


def test_curl_asks_and_a_worker_replies(node: ServerProcess, api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    other = Api(node.url)
    with ThreadPoolExecutor(1) as threads:
        body = {"value": "apples", "key": "k", "headers": {"h": "1"}, "timeout": "30s"}
        asked = threads.submit(other.post, f"/topics/{topic}/request", body)
        receive = {"topic": topic, "wait": "30s"}
        (message,) = api.post(f"/queues/{group}/receive", receive)["messages"]
        reply_to = message["headers"]["goqueue.reply_to"]
        assert message["headers"]["h"] == "1"
        assert message["headers"]["goqueue.reply_by"] > message["timestamp"]
        reply = {"value": "3.20", "headers": {"currency": "EUR"}}
        assert api.post(f"/replies/{reply_to}", reply) == {"delivered": True}
        assert asked.result(30) == {
            "value": "3.20",
            "partition": 0,
            "offset": 0,
            "headers": {"currency": "EUR"},
        }
    assert api.post(f"/replies/{reply_to}", reply) == {"delivered": False}
    other.close()


def test_a_request_that_nobody_answers_says_where_its_message_is(api: Api, name: Name) -> None:
    topic = api.create(name())
    timeouts = iter(TIMEOUTS_S)
    while True:
        body = msgspec.json.encode({"value": "x", "timeout": next(timeouts)})
        refused = api.send("POST", f"/topics/{topic}/request", body)
        if refused.code != "request_timeout":
            break
        topic = api.create(name())
    assert (refused.status, refused.code) == (504, "no_reply")
    assert refused.body["details"] == {"partition": 0, "offset": 0}
    assert api.read(topic)[0]["value"] == "x"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "request_invalid"),
        ({"value": "x", "delay": "1s"}, "request_invalid"),
        ({"value": "x", "timeout": "soon"}, "request_invalid"),
        ({"value": "x", "headers": {"goqueue.reply_to": "me"}}, "message_invalid"),
        ({"value": "x", "encoding": "base32"}, "message_invalid"),
        ({"value": "x", "partition": 7}, "partition_not_found"),
    ],
)
def test_a_request_that_cannot_be_published_waits_for_nothing(
    api: Api, name: Name, body: dict[str, object], code: str
) -> None:
    topic = api.create(name())
    refused = api.send("POST", f"/topics/{topic}/request", msgspec.json.encode(body))
    assert refused.code == code


def test_a_request_to_an_unknown_topic_is_refused(api: Api, name: Name) -> None:
    refused = api.send("POST", f"/topics/{name()}/request", b'{"value":"x"}')
    assert refused.code == "topic_not_found"


@pytest.mark.parametrize("reply_to", ["x", "0" * 31, "G" * 32, "0" * 33])
def test_a_reply_to_no_request_of_ours_is_refused(api: Api, reply_to: str) -> None:
    assert api.send("POST", f"/replies/{reply_to}", b'{"value":"x"}').code == "request_invalid"


@asynccontextmanager
async def _responder(
    q: Connection, topic: str, answer: Callable[[Message], object]
) -> AsyncIterator[None]:
    """Somebody who replies to all that comes."""

    async def run() -> None:
        async with q.consume(topic, group="responders", mode="shared") as consumer:
            async for message in consumer:
                await message.reply(answer(message), headers={"by": "us"})
                await message.ack()

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_the_sdk_asks_and_replies(node: ServerProcess, api: Api, name: Name) -> None:
    topic = api.create(name(), partitions=3)

    async def main() -> None:
        async with (
            goqueue.connect(node.url) as q,
            _responder(q, topic, lambda message: {"echo": message.text}),
        ):
            reply = await q.request(topic, "one", timeout=20)
            assert (reply.json(), reply.headers) == ({"echo": "one"}, {"by": "us"})
            replies = await asyncio.gather(
                *(q.request(topic, str(number), timeout=30) for number in range(100))
            )
            told = [reply.json(dict[str, str])["echo"] for reply in replies]
            assert told == [str(number) for number in range(100)]

    asyncio.run(main())


def test_many_requests_leave_connections_to_the_one_who_replies(
    node: ServerProcess, api: Api, name: Name
) -> None:
    topic = api.create(name())

    async def main() -> None:
        async with (
            goqueue.connect(node.url) as q,
            _responder(q, topic, lambda message: message.text),
        ):
            asked = (q.request(topic, str(number), timeout=60) for number in range(300))
            replies = await asyncio.gather(*asked)
            assert [reply.text for reply in replies] == [str(number) for number in range(300)]

    asyncio.run(main())


@pytest.mark.parametrize("value", [b"\xff\x00", b"", None, b"text"])
def test_bytes_of_any_kind_go_there_and_back(
    node: ServerProcess, api: Api, name: Name, value: bytes | None
) -> None:
    topic = api.create(name())

    async def main() -> bytes | None:
        async with (
            goqueue.connect(node.url) as q,
            _responder(q, topic, lambda message: message.value),
        ):
            return (await q.request(topic, value, timeout=20)).value

    assert asyncio.run(main()) == value


def test_nobody_replies_is_an_error_of_its_own(node: ServerProcess, api: Api, name: Name) -> None:
    with goqueue.connect_sync(node.url) as q:
        topic = api.create(name())
        timeouts = iter(TIMEOUTS_S)
        while True:
            with pytest.raises(goqueue.GoQueueError) as failure:
                q.request(topic, "x", timeout=next(timeouts))
            if failure.value.code != "request_timeout":
                break
            topic = api.create(name())
        assert isinstance(failure.value, goqueue.NoReply)
        assert not failure.value.is_outcome_unknown
        (message,) = q.receive(topic, group=name())
        assert message.reply("too late") is False


def test_a_message_that_expects_no_reply_gets_none(
    node: ServerProcess, api: Api, name: Name
) -> None:
    topic = api.create(name())
    api.publish(topic, "x")
    with goqueue.connect_sync(node.url) as q:
        (message,) = q.receive(topic, group=name())
        with pytest.raises(goqueue.GoQueueError, match="nobody waits"):
            message.reply("x")


def test_a_request_fails_clearly_when_the_node_dies(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with serving(tmp_path_factory.mktemp("node")) as node:

        async def main() -> goqueue.GoQueueError:
            async with goqueue.connect(node.url) as q:
                await q.topics.create("prices", partitions=1)
                asked = asyncio.create_task(q.request("prices", "x", timeout=30))
                async for _ in q.stream("prices"):
                    break
                node.kill()
                try:
                    await asked
                except goqueue.GoQueueError as error:
                    return error
            raise AssertionError

        failure = asyncio.run(main())
        assert failure.is_outcome_unknown
        node.start()
