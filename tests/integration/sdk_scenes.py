"""Scenes of the SDK against a node: with a road that holds, or one that a test may break."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import goqueue
from goqueue.client.connection import Connection
from goqueue.client.message import Message
from goqueue.client.retries import Retries
from goqueue.client.values import IsolationLevel
from tests.integration.cutting_proxy import Proxy, cutting
from tests.integration.server_process import ServerProcess

__all__ = ["SECONDS_MAX", "Name", "messages", "play", "play_cut", "texts"]

SECONDS_MAX = 100
PATIENT = Retries(attempts_max=100, total_s=60.0, first_wait_s=0.001, wait_s_max=0.02)

Name = Callable[[], str]


def play(node: ServerProcess, scene: Callable[[Connection], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS_MAX), goqueue.connect(node.url) as q:
            await scene(q)

    asyncio.run(run())


def play_cut(node: ServerProcess, scene: Callable[[Connection, Proxy], Awaitable[None]]) -> None:
    """With a connection whose road a test may break, and much patience."""

    async def run() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            cutting(node.url) as proxy,
            goqueue.connect(proxy.url, retries=PATIENT) as q,
        ):
            await scene(q, proxy)

    asyncio.run(run())


async def messages(
    q: Connection, topic: str, isolation: IsolationLevel = "read_committed"
) -> AsyncIterator[Message]:
    """All that is there now, up to a last message that this writes into each partition."""
    count = (await q.topics.describe(topic)).partitions
    ends = [await q.publish(topic, b"", partition=number) for number in range(count)]
    left = {(end.partition, end.offset) for end in ends}
    async with q.stream(topic, isolation=isolation) as stream:
        async for message in stream:
            left.discard((message.partition, message.offset))
            if message.value:
                yield message
            if not left:
                return


async def texts(
    q: Connection, topic: str, isolation: IsolationLevel = "read_committed"
) -> list[str]:
    return sorted([message.text async for message in messages(q, topic, isolation)])
