"""A crowd: many topics, and groups that all consume all of them."""

import asyncio
from collections.abc import Iterator

from bench.broker.wire import Wire

__all__ = ["crowd"]

_WIRES = 16
_PER_TOPIC = 6
_POLL = "&max_messages=1000&visibility_timeout=1h&timeout=1s"


async def crowd(port: int, topics: int, groups: int) -> int:
    """Make them, let every group take and ack messages of every topic; how many were taken."""
    wires = [await Wire.open(port) for _ in range(_WIRES)]
    numbers = iter(range(topics))

    async def make(wire: Wire) -> None:
        for number in numbers:
            name = f"orders-{number:04}"
            await wire.ask("POST", "/topics", {"name": name})
            messages = [{"value": "x"}] * _PER_TOPIC
            await wire.ask("POST", f"/topics/{name}/messages", {"messages": messages})

    await asyncio.gather(*(make(wire) for wire in wires))
    taken = 0
    for number in range(groups):
        taken += await _consume(wires[0], f"readers-{number}", topics)
    # Something that every group has still before it.
    numbers = iter(range(topics))
    await asyncio.gather(*(_publish_more(wire, numbers) for wire in wires))
    for wire in wires:
        wire.close()
    return taken


async def _publish_more(wire: Wire, numbers: Iterator[int]) -> None:
    for number in numbers:
        target = f"/topics/orders-{number:04}/messages"
        await wire.ask("POST", target, {"messages": [{"value": "x"}] * 3})


async def _consume(wire: Wire, group: str, topics: int) -> int:
    """Take and ack what there is."""
    names = [f"orders-{number:04}" for number in range(topics)]
    joined = await wire.ask(
        "POST",
        f"/groups/{group}/join",
        {"client_id": "c", "topics": names, "session_timeout": "10m"},
    )
    taken = 0
    while taken < topics * _PER_TOPIC:
        target = f"/groups/{group}/poll?member_id={joined['member_id']}{_POLL}"
        polled = await wire.ask("GET", target)
        handles = [each["receipt_handle"] for each in polled["messages"]]
        if not handles:
            break
        taken += len(handles)
        await wire.ask("POST", "/messages/ack/batch", {"receipt_handles": handles})
    return taken
