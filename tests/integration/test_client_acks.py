"""Acks of the SDK against a node: what an awaited ack promises, and how few requests many need."""

import asyncio
from collections import Counter

import goqueue
from goqueue.client.connection import Connection
from goqueue.client.retries import Retries
from tests.integration.sdk_scenes import SECONDS_MAX, Name, play
from tests.integration.server_process import ServerProcess

GROUP = "workers"
PATIENT = Retries(attempts_max=1000, total_s=60.0)


async def offer(q: Connection, topic: str, count: int) -> None:
    """A topic with jobs whose leases last for longer than any test."""
    await q.topics.create(topic, partitions=2, visibility_timeout="5m")
    async with q.producer() as producer:
        for number in range(count):
            await producer.send(topic, f"{number}", key=f"{number % 7}")


async def rest(q: Connection, topic: str, count: int) -> list[str]:
    """What another member gets; it takes over when those before it have left."""
    async with q.consume(topic, group=GROUP, mode="shared") as consumer:
        left = []
        for _ in range(count):
            message = await anext(consumer)
            left.append(message.text)
            await message.ack()
        return left


def test_nothing_comes_again_that_was_acked_before_the_node_was_killed(
    mortal: ServerProcess, name: Name
) -> None:
    topic = name()

    async def scene() -> None:
        acked: list[str] = []
        async with asyncio.timeout(SECONDS_MAX), goqueue.connect(mortal.url, retries=PATIENT) as q:
            await offer(q, topic, 200)
            async with q.consume(topic, group=GROUP, mode="shared") as consumer:
                for _ in range(50):
                    message = await anext(consumer)
                    await message.ack()
                    acked.append(message.text)
                messages = [await anext(consumer) for _ in range(50)]
                for message in messages:
                    message.ack()
                await consumer.flush()
                acked += [message.text for message in messages]
                mortal.kill()
                mortal.start()
            left = await rest(q, topic, 100)
        assert sorted(acked + left, key=int) == [f"{number}" for number in range(200)]

    asyncio.run(scene())


def test_acks_of_many_tasks_are_each_durable_and_share_requests(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[str]()
        await offer(q, topic, 500)

        async def work() -> None:
            async for message in consumer:
                await message.ack()
                done[message.text] += 1
                if done.total() == 500:
                    consumer.stop()

        async with q.consume(topic, group=GROUP, mode="shared") as consumer:
            await asyncio.gather(*(work() for _ in range(20)))
        assert done == Counter(f"{number}" for number in range(500))
        lags = (await q.groups.lag(GROUP)).partitions
        assert [each.lag for each in lags if each.topic == topic] == [0, 0]

    play(node, scene)
