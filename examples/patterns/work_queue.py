"""A work queue: failed jobs come again with a growing delay, and end as dead letters."""

from collections.abc import Awaitable, Callable

import goqueue


async def work(handle: Callable[[object], Awaitable[None]]) -> None:
    async with goqueue.connect() as q:
        await q.topics.create("jobs", max_deliveries=3, exist_ok=True)
        async for message in q.consume("jobs", group="workers"):
            try:
                await handle(message.json())
                await message.ack()
            except Exception as error:
                await message.nack(reason=str(error))
