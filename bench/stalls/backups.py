"""Rows about backups: one of many bytes, one of many partitions, and the restore of it."""

import asyncio
from typing import Any

from bench.stalls.stage import Stage, Stall
from bench.wire import request
from goqueue.model import Message
from goqueue.records import build

__all__ = ["backup", "backup_partitions", "restore_partitions"]

_TOPIC = "orders"
_POLL_S = 0.05
_MESSAGE_BYTES = 10_000


async def backup(stage: Stage, size: int) -> Stall:
    """Take a backup of so many bytes, in segments of 64 MiB; an item is a megabyte."""
    await stage.create(_TOPIC, partitions=4)
    message = Message(value=b"x" * _MESSAGE_BYTES)
    await stage.publish(_TOPIC, max(1, size // _MESSAGE_BYTES), message)
    return await stage.during(lambda: _back_up(stage), max(1, size // 1_000_000))


async def backup_partitions(stage: Stage, size: int) -> Stall:
    """Take a backup of so many partitions, each with a message."""
    await _fill_partitions(stage, size)
    return await stage.during(lambda: _back_up(stage), size)


async def restore_partitions(stage: Stage, size: int) -> Stall:
    """Restore a topic of so many partitions."""
    await _fill_partitions(stage, size)
    taken = await _back_up(stage)
    await stage.ask("DELETE", f"/topics/{_TOPIC}")

    async def work() -> None:
        target = f"/admin/backup/{taken}"
        await stage.ask("POST", f"{target}/restore", {})
        while True:
            restored: Any = (await stage.ask("GET", target))["restore"]
            if restored["state"] != "running":
                assert restored["state"] == "completed", restored
                return
            await asyncio.sleep(_POLL_S)

    return await stage.during(work, size)


async def _fill_partitions(stage: Stage, count: int) -> None:
    await stage.create(_TOPIC, partitions=count)
    record = bytes(build([Message(value=b"x" * 100)]))
    target = f"/topics/{_TOPIC}/records"
    await stage.send_all(
        request("POST", f"{target}?partition={number}", record) for number in range(count)
    )


async def _back_up(stage: Stage) -> str:
    begun: Any = await stage.ask("POST", "/admin/backup", {})
    taken = str(begun["backup_id"])
    while True:
        found: Any = await stage.ask("GET", f"/admin/backup/{taken}")
        if found["state"] != "running":
            assert found["state"] == "completed", found
            return taken
        await asyncio.sleep(_POLL_S)
