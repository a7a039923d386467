"""Rows about what ends together: ticks of schedules, requests without a reply, tails."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.stalls.stage import Stage, Stall
from bench.wire import Wire

__all__ = ["requests", "tails", "ticks"]

_TOPIC = "orders"
_PARTITIONS = 100
# Schedules that never tick, to learn how long it takes to create one.
_TRIAL = 200
_POLL_S = 0.1


async def ticks(stage: Stage, size: int) -> Stall:
    """So many schedules tick at one moment."""
    await stage.create(_TOPIC)
    began = time.perf_counter()
    await _create_schedules(stage, "trial", _TRIAL, timedelta(days=1))
    needed_s = (time.perf_counter() - began) * size / _TRIAL
    until = datetime.now(UTC) + timedelta(seconds=5 + 2 * needed_s)
    await _create_schedules(stage, "tick", size - _TRIAL, until - datetime.now(UTC))
    left = until - datetime.now(UTC)
    assert left > timedelta(), "the schedules took longer than the trial said"
    await asyncio.sleep(max(0.0, left.total_seconds() - 0.5))

    async def work() -> None:
        while True:
            described: Any = await stage.ask("GET", f"/topics/{_TOPIC}")
            # The markers of the ticks' transactions have offsets, too.
            listed = await stage.ask("GET", "/schedules?limit=1&skip=0")
            assert listed["total"] == size
            if described["total_messages"] >= size - _TRIAL:
                return
            await asyncio.sleep(_POLL_S)

    return await stage.during(work, size)


async def _create_schedules(stage: Stage, prefix: str, count: int, later: timedelta) -> None:
    start = (datetime.now(UTC) + later).isoformat().replace("+00:00", "Z")
    body = {"topic": _TOPIC, "every": "24h", "start": start, "message": {"value": "x"}}
    await stage.send_all(
        stage.request("POST", "/schedules", {**body, "name": f"{prefix}-{number}"})
        for number in range(count)
    )


async def requests(stage: Stage, size: int) -> Stall:
    """So many requests wait: half of them get a reply, the time of the others ends together."""
    await stage.create(_TOPIC)
    member = await stage.join("workers", [_TOPIC])
    until = time.perf_counter() + 10 + size / 200
    waiting: list[tuple[Wire, asyncio.Task[bytes]]] = []
    for _ in range(size):
        wire = await Wire.open(stage.broker.port)
        left = f"{int((until - time.perf_counter()) * 1000)}ms"
        prepared = stage.request(
            "POST", f"/topics/{_TOPIC}/request", {"value": "x", "timeout": left}
        )
        waiting.append((wire, asyncio.create_task(wire.send(prepared))))
    replies = await _replies(stage, member, size // 2)

    async def work() -> None:
        await stage.send_all(replies)
        done = await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)
        answered = sum(isinstance(each, bytes) for each in done)
        assert answered == len(replies), f"{answered} replies for {len(replies)}"

    stall = await stage.during(work, size)
    for wire, _ in waiting:
        wire.close()
    return stall


async def _replies(stage: Stage, member: str, count: int) -> list[bytes]:
    places: list[str] = []
    while len(places) < count:
        target = f"/groups/workers/poll?member_id={member}&max_messages=1000&timeout=2s"
        polled: Any = await stage.ask("GET", target)
        handles = [each["receipt_handle"] for each in polled["messages"]]
        await stage.ask("POST", "/messages/ack/batch", {"receipt_handles": handles})
        places += [each["headers"]["goqueue.reply_to"] for each in polled["messages"]]
    return [stage.request("POST", f"/replies/{each}", {"value": "y"}) for each in places[:count]]


async def tails(stage: Stage, size: int) -> Stall:
    """So many tails follow a topic of many partitions, and a message comes for each of them."""
    await stage.create(_TOPIC, _PARTITIONS)
    tail = stage.request("GET", f"/topics/{_TOPIC}/tail")
    readers: list[asyncio.StreamReader] = []
    writers: list[asyncio.StreamWriter] = []
    for _ in range(size):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.broker.port)
        writer.write(tail)
        await reader.readuntil(b"\r\n\r\n")
        readers.append(reader)
        writers.append(writer)
    await asyncio.sleep(1)
    body = {"messages": [{"value": "last", "partition": each} for each in range(_PARTITIONS)]}

    async def work() -> None:
        await stage.ask("POST", f"/topics/{_TOPIC}/messages", body)
        await asyncio.gather(*(_messages(reader, _PARTITIONS) for reader in readers))

    stall = await stage.during(work, size * _PARTITIONS)
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return stall


async def _messages(reader: asyncio.StreamReader, count: int) -> None:
    """Read until so many messages came."""
    seen = 0
    while seen < count:
        seen += (await reader.readuntil(b"\n")).startswith(b"data:")
