"""Scenes with transactions of the SDK and a ledger at the other end of a socket."""

import asyncio
from collections.abc import Awaitable, Callable

from goqueue.client import connect
from goqueue.client.ack_sender import AckSender
from goqueue.client.connection import Connection
from goqueue.client.http import Settings, Transport
from goqueue.client.message import Message
from goqueue.client.retries import Retries
from tests.unit.client.lease_answers import held
from tests.unit.client.ledger import Ledger
from tests.unit.client.peer import peer

__all__ = ["NAME", "leased", "play", "publish_one"]

NAME = "billing-1"

SETTLING = {
    group: AckSender(Transport(Settings(server="http://127.0.0.1:1")), group) for group in "gh"
}


def leased(number: int, group: str = "g") -> Message:
    return Message("orders", 0, number, 0, 2, b"", b"", b"", held(SETTLING[group], number))


def play(
    ledger: Ledger, scene: Callable[[Connection], Awaitable[None]], *, attempts: int = 4
) -> None:
    async def run() -> None:
        retries = Retries(attempts_max=attempts, first_wait_s=0.001)
        async with (
            asyncio.timeout(20),
            peer(ledger) as server,
            connect(server, retries=retries) as q,
        ):
            await scene(q)

    asyncio.run(run())


async def publish_one(q: Connection, value: bytes = b"x") -> None:
    async with q.transaction(NAME) as tx:
        await tx.publish("orders", value)
