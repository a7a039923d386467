"""Rows about what is looked at: backlogs, delayed messages, metrics, traces, and what comes in."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime

from bench.observability.crowd import crowd
from bench.stalls.stage import Stage, Stall, encoded
from bench.wire import request
from goqueue.model import Message

__all__ = [
    "compaction",
    "deep_page",
    "delayed_poll",
    "delays_snapshot",
    "find_by_time",
    "headers",
    "metrics",
    "producers_snapshot",
    "traces",
]

_TOPIC = "orders"
_HOUR_NS = 3_600_000_000_000


def _delayed() -> Message:
    due = time.time_ns() + _HOUR_NS
    return Message(value=b"x" * 100, headers=(("gq.deliver-at", b"%d" % due),))


async def delayed_poll(stage: Stage, size: int) -> Stall:
    """A group polls for the first time, and nearly all records are delayed."""
    await stage.create(_TOPIC)
    await stage.publish(_TOPIC, size, _delayed())
    await stage.publish(_TOPIC, 1)

    async def work() -> None:
        member = await stage.join("billing", [_TOPIC])
        assert len(await stage.poll("billing", member)) == 1

    return await stage.during(work, size)


async def deep_page(stage: Stage, size: int) -> Stall:
    """List delayed messages from far behind the first."""
    await stage.create(_TOPIC)
    await stage.publish(_TOPIC, size, _delayed())
    target = f"/topics/{_TOPIC}/delayed?limit=100&skip={size - 100}"
    return await stage.repeat(request("GET", target), 3, size)


async def delays_snapshot(stage: Stage, size: int) -> Stall:
    """Keep a snapshot of the delayed messages of one partition."""
    await stage.create(_TOPIC)
    await stage.publish(_TOPIC, size, _delayed())

    async def work() -> None:
        # As many changes as a snapshot takes; upkeep looks each second.
        await stage.publish(_TOPIC, size // 2 + 50_001, _delayed())
        await asyncio.sleep(3)

    return await stage.during(work, size)


async def producers_snapshot(stage: Stage, size: int) -> Stall:
    """Keep a snapshot of the producers of one partition."""
    await stage.create(_TOPIC)
    prepared: list[bytes] = []
    for _ in range(size):
        identity = await stage.ask("POST", "/producers/init", {})
        message = {**identity, "topic": _TOPIC, "value": "x", "sequence": 0}
        prepared.append(request("POST", "/transactions/publish", encoded(message)))
    await stage.send_all(prepared)

    async def work() -> None:
        # As many records as a snapshot takes.
        await stage.publish(_TOPIC, 250_001)
        await asyncio.sleep(3)

    return await stage.during(work, size)


async def find_by_time(stage: Stage, size: int) -> Stall:
    """Search a segment of so many bytes by time, for the first time after a restart."""
    await stage.create(_TOPIC, segment_bytes=1 << 30)
    await stage.publish(_TOPIC, max(1, size // 1_000), Message(value=b"x" * 960))
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await stage.publish(_TOPIC, 1)
    await stage.restart()
    target = f"/topics/{_TOPIC}/partitions/0/messages?timestamp={since}"
    return await stage.repeat(request("GET", target), 1, size)


async def headers(stage: Stage, size: int) -> Stall:
    """Publish a message with far too many headers; it is refused."""
    await stage.create(_TOPIC)
    many = {f"name-{number}": "x" * 20 for number in range(size // 36)}
    message = {"value": "x", "headers": many}
    target = f"/topics/{_TOPIC}/messages"
    prepared = request("POST", target, encoded({"messages": [message]})[:size])

    async def work() -> None:
        for _ in range(3):
            # Refused as a whole or in its result, as the version likes.
            with contextlib.suppress(RuntimeError):
                await stage.wires[0].send(prepared)

    return await stage.during(work)


async def metrics(stage: Stage, size: int) -> Stall:
    """Scrape a crowded node."""
    await crowd(stage.broker.port, max(4, size // 317), 10)
    return await stage.repeat(request("GET", "/metrics"), 5, size)


async def traces(stage: Stage, size: int) -> Stall:
    """Search a full ring for what is not there."""
    await stage.create(_TOPIC)
    await stage.publish(_TOPIC, size)
    target = "/traces/search?topic=elsewhere"
    return await stage.repeat(request("GET", target), 10, size)


async def compaction(stage: Stage, size: int) -> Stall:
    """Read a topic while it is compacted, on a slow disk."""
    await stage.create(_TOPIC, cleanup_policy="compact", segment_bytes=64 << 20)
    record = Message(key=b"k", value=b"x" * 10_000)
    await stage.publish(_TOPIC, size // 10_000, record)
    read = request("GET", f"/topics/{_TOPIC}/partitions/0/records?offset=0&max_bytes=1000000")

    async def work() -> None:
        end = time.perf_counter() + 10
        while time.perf_counter() < end:
            try:
                await stage.wires[0].send(read)
            except RuntimeError:
                # What is compacted away begins later.
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.005)

    return await stage.during(work)
