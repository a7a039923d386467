"""Priorities: urgent messages overtake a backlog, and the backlog still moves."""

from collections.abc import Awaitable, Callable

import goqueue


async def publish(q: goqueue.Connection) -> None:
    await q.publish("mails", "newsletter", priority="background")
    await q.publish("mails", "password reset", priority="high")


async def send_mails(q: goqueue.Connection, send: Callable[[str], Awaitable[None]]) -> None:
    async for message in q.consume("mails", group="smtp"):
        await send(message.text)
        await message.ack()
