"""Rows about messages that move, and transactions that end."""

import asyncio
import contextlib
import time

from bench.stalls.stage import Stage, Stall, encoded
from bench.wire import request
from goqueue.model import Message

__all__ = ["abort", "last_deliveries", "redrive"]

_TOPIC = "orders"
_LETTERS = "orders.dead"
_REDRIVE_MAX = 10_000
_LETTER = {
    "topic": _TOPIC,
    "partition": "0",
    "offset": "7",
    "group": "billing",
    "deliveries": "3",
    "hops": "1",
    "cause": "rejected",
}


async def redrive(stage: Stage, size: int) -> Stall:
    """Put dead letters back."""
    await stage.create(_TOPIC, dead_letter_topic=_LETTERS)
    await stage.create(_LETTERS)
    headers = tuple((f"goqueue.dlq.{name}", text.encode()) for name, text in _LETTER.items())
    await stage.publish(_LETTERS, size, Message(value=b"x" * 100, headers=headers))

    async def work() -> None:
        left = size
        while left:
            # A version that needs longer than a request may take goes on by itself.
            with contextlib.suppress(RuntimeError):
                await stage.ask("POST", f"/topics/{_TOPIC}/dlq/redrive", {"max": _REDRIVE_MAX})
            left = (await stage.ask("GET", "/reliability/stats"))["dlq_messages"]

    return await stage.during(work, size)


async def last_deliveries(stage: Stage, size: int) -> Stall:
    """Leases of last deliveries run out together, and become dead letters."""
    await stage.create(_TOPIC, dead_letter_topic=_LETTERS, max_deliveries=1)
    await stage.publish(_TOPIC, size)
    # As long as it takes to lease them all, and one second more.
    until = time.perf_counter() + 3 + size / 4000
    await stage.lease("billing", _TOPIC, size, until)
    lateness = time.perf_counter() - until
    assert lateness < 0, f"leasing took {lateness:.1f} s too long"
    await asyncio.sleep(max(0.0, -lateness - 1))

    async def work() -> None:
        kept = 0
        while kept < size:
            await asyncio.sleep(0.05)
            kept = (await stage.ask("GET", "/reliability/stats"))["dlq_messages"]

    return await stage.during(work, size)


async def abort(stage: Stage, size: int) -> Stall:
    """Abort one of two transactions that hold every other message, each acked by itself."""
    await stage.create(_TOPIC)
    await stage.publish(_TOPIC, 2 * size)
    receipts = await stage.lease("billing", _TOPIC, 2 * size)
    owners = []
    for number in range(2):
        named = {"transactional_id": f"t{number}"}
        owners.append({**await stage.ask("POST", "/producers/init", named), **named})
        await stage.ask("POST", "/transactions/begin", owners[-1])
    await stage.send_all(
        request(
            "POST",
            "/transactions/offsets",
            encoded({**owners[number % 2], "group": "billing", "receipt_handles": [receipt]}),
        )
        for number, receipt in enumerate(receipts)
    )

    async def work() -> None:
        await stage.ask("POST", "/transactions/abort", owners[0])

    return await stage.during(work, size)
