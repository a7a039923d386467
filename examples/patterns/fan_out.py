"""Fan-out: every group gets every message, and the members of a group share them."""

import asyncio
from collections.abc import Callable

import goqueue


async def consume(q: goqueue.Connection, group: str, handle: Callable[[str], None]) -> None:
    async for message in q.consume("orders", group=group):
        handle(message.text)
        await message.ack()


async def fan_out(mail: Callable[[str], None], count: Callable[[str], None]) -> None:
    async with goqueue.connect() as q, asyncio.TaskGroup() as tasks:
        tasks.create_task(consume(q, "mail", mail))
        tasks.create_task(consume(q, "statistics", count))
