"""A crowd: many topics, and groups that all consume all of them."""

import asyncio
from collections.abc import Iterator

from bench.wire import Wire

__all__ = ["crowd"]

_WIRES = 16
# A member looks at all of its partitions whenever one of them has news.
_TOPICS_PER_MEMBER = 50
_PER_TOPIC = 6
_POLL = "&max_messages=1000&visibility_timeout=1h&timeout=1s"


async def crowd(port: int, topics: int, groups: int) -> int:
    """Make them, let every group take and ack messages of every topic; how many were taken."""
    wires = [await Wire.open(port) for _ in range(_WIRES)]
    names = [f"orders-{number:04}" for number in range(topics)]
    making = iter(names)
    await asyncio.gather(*(_make(wire, making) for wire in wires))
    shares = [
        names[first : first + _TOPICS_PER_MEMBER] for first in range(0, topics, _TOPICS_PER_MEMBER)
    ]
    members = iter([(f"readers-{group}", share) for group in range(groups) for share in shares])
    taken = sum(await asyncio.gather(*(_consume_all(wire, members) for wire in wires)))
    # Something that every group has still before it.
    behind = iter(names)
    await asyncio.gather(*(_publish(wire, behind) for wire in wires))
    for wire in wires:
        wire.close()
    return taken


async def _make(wire: Wire, names: Iterator[str]) -> None:
    for name in names:
        await wire.ask("POST", "/topics", {"name": name})
        await _publish(wire, iter([name]))


async def _publish(wire: Wire, names: Iterator[str]) -> None:
    for name in names:
        messages = [{"value": "x"}] * _PER_TOPIC
        await wire.ask("POST", f"/topics/{name}/messages", {"messages": messages})


async def _consume_all(wire: Wire, members: Iterator[tuple[str, list[str]]]) -> int:
    return sum([await _consume(wire, group, topics) for group, topics in members])


async def _consume(wire: Wire, group: str, topics: list[str]) -> int:
    """Take and ack what there is."""
    joined = await wire.ask(
        "POST",
        f"/groups/{group}/join",
        {"client_id": "c", "topics": topics, "session_timeout": "10m"},
    )
    taken = 0
    while taken < len(topics) * _PER_TOPIC:
        target = f"/groups/{group}/poll?member_id={joined['member_id']}{_POLL}"
        polled = await wire.ask("GET", target)
        handles = [each["receipt_handle"] for each in polled["messages"]]
        taken += len(handles)
        if handles:
            await wire.ask("POST", "/messages/ack/batch", {"receipt_handles": handles})
    return taken
