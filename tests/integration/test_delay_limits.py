"""The longest delay is accepted at every door, and a longer one refused."""

import asyncio
import datetime as dt
from collections.abc import Callable

import pytest

import goqueue
from goqueue.client import GoQueueError
from tests.integration.http_api import Api
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess

Name = Callable[[], str]

DAYS = 366
LONGEST = dt.timedelta(days=DAYS)
NACK = dt.timedelta(hours=12)


@pytest.mark.parametrize("delay", [f"{DAYS}d", f"{DAYS * 24}h", DAYS * 86_400])
def test_over_http_the_longest_delay_is_accepted(api: Api, name: Name, delay: str | int) -> None:
    topic = api.create(name())
    body = {"messages": [{"value": "a", "delay": delay}]}
    (result,) = api.post(f"/topics/{topic}/messages", body)["results"]
    assert "code" not in result


def test_over_http_the_time_of_the_longest_delay_is_accepted(api: Api, name: Name) -> None:
    topic = api.create(name())
    at = (dt.datetime.now(dt.UTC) + LONGEST).isoformat()
    body = {"messages": [{"value": "a", "deliverAt": at}]}
    (result,) = api.post(f"/topics/{topic}/messages", body)["results"]
    assert "code" not in result


@pytest.mark.parametrize("delay", [f"{DAYS}d", LONGEST, LONGEST.total_seconds()])
def test_the_sdk_publishes_with_the_longest_delay_and_with_none_longer(
    node: ServerProcess, name: Name, delay: str | float | dt.timedelta
) -> None:
    async def play() -> None:
        async with asyncio.timeout(60), goqueue.connect(node.url) as q:
            topic = name()
            await q.topics.create(topic)
            for _ in range(20):
                await q.publish(topic, "a", delay=delay)
            await q.publish(topic, "a", deliver_at=dt.datetime.now(dt.UTC) + LONGEST)
            with pytest.raises(GoQueueError, match="longest delay"):
                await q.publish(topic, "a", delay=LONGEST + dt.timedelta(hours=1))

    asyncio.run(play())


def test_the_command_line_produces_with_the_longest_delay(program: Program, name: Name) -> None:
    topic = name()
    assert program.run("topic", "create", topic).code == 0
    assert program.run("produce", topic, "-m", "a", "--delay", f"{DAYS}d").code == 0
    assert program.run("produce", topic, "-m", "a", "--delay", f"{DAYS}d1s").code == 1


@pytest.mark.parametrize("delay", ["12h", "0.5d", NACK, NACK.total_seconds()])
def test_a_message_is_nacked_with_the_longest_delay_and_with_none_longer(
    node: ServerProcess, name: Name, delay: str | float | dt.timedelta
) -> None:
    async def play() -> None:
        async with asyncio.timeout(60), goqueue.connect(node.url) as q:
            topic, group = name(), name()
            await q.topics.create(topic)
            await q.publish(topic, "a")
            (message,) = await q.receive(topic, group=group, wait=10)
            with pytest.raises(GoQueueError, match="12h"):
                await message.nack(delay=NACK + dt.timedelta(seconds=1))
            await message.nack(delay=delay)

    asyncio.run(play())


def test_over_http_a_message_is_nacked_with_the_longest_delay(api: Api, name: Name) -> None:
    topic, group = api.create(name()), name()
    api.publish(topic, "a")
    (message,) = api.post(f"/queues/{group}/receive", {"topic": topic})["messages"]
    body = {"receipt_handle": message["receipt_handle"], "delay": "12h"}
    assert api.post("/messages/nack", body)


@pytest.mark.parametrize("every", [f"{DAYS}d", LONGEST])
def test_a_schedule_has_the_longest_interval_and_none_longer(
    node: ServerProcess, name: Name, every: str | dt.timedelta
) -> None:
    async def play() -> None:
        async with asyncio.timeout(60), goqueue.connect(node.url) as q:
            topic = name()
            await q.topics.create(topic)
            await q.schedules.create(name(), topic, "a", every=every)
            with pytest.raises(GoQueueError):
                await q.schedules.create(name(), topic, "a", every=f"{DAYS}d1s")

    asyncio.run(play())
