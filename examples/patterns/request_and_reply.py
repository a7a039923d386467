"""Request and reply: ask whoever handles a topic, and wait for the answer."""

from collections.abc import Callable

import goqueue


async def ask_price(q: goqueue.Connection, item: str) -> str:
    return (await q.request("prices", item, timeout=2)).text


async def quote(price: Callable[[str], str]) -> None:
    async with goqueue.connect() as q:
        async for message in q.consume("prices", group="quotes"):
            await message.reply(price(message.text))
            await message.ack()
