"""Jobs for workers against a node, and what became of them."""

from typing import Unpack

import msgspec

from goqueue.client.connection import Connection
from goqueue.client.topic_settings import TopicSettings

__all__ = ["GROUP", "JOBS", "Job", "assert_all_done", "letters", "offer", "reasons"]

JOBS = 100
GROUP = "workers"


class Job(msgspec.Struct):
    """What handlers are called with."""

    id: int


async def offer(
    q: Connection,
    topic: str,
    count: int = JOBS,
    partitions: int = 2,
    **settings: Unpack[TopicSettings],
) -> None:
    """A topic with jobs."""
    await q.topics.create(topic, partitions=partitions, **settings)
    async with q.producer() as producer:
        for number in range(count):
            await producer.send(topic, Job(number))


async def letters(q: Connection, topic: str) -> list[tuple[str, int]]:
    """The dead letters: the reason of each, and how often it was delivered."""
    found = [each.headers for each in await q.dead_letters.list(topic)]
    return sorted(
        (each["goqueue.dlq.reason"].decode(), int(each["goqueue.dlq.deliveries"])) for each in found
    )


async def reasons(q: Connection, topic: str) -> list[str]:
    return [reason for reason, _ in await letters(q, topic)]


async def assert_all_done(q: Connection, topic: str) -> None:
    lags = [each.lag for each in (await q.groups.lag(GROUP)).partitions if each.topic == topic]
    assert lags
    assert not any(lags)
    assert await q.dead_letters.list(topic) == ()
