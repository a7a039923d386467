"""A node in this process, without a gateway."""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goqueue.broker import Node
from goqueue.runtime import Disk, OsFileSystem, Pump

__all__ = ["running", "started"]


async def started(data: str) -> tuple[Pump, Disk]:
    """A node that takes commands, on this directory."""
    pump = Pump(Node("bench", os.urandom(32)), _halted)
    disk = Disk(OsFileSystem(data), pump.take_from_disk)
    disk.start()
    pump.start(disk)
    await pump.wait_until_serving()
    return pump, disk


@asynccontextmanager
async def running(folder: str) -> AsyncIterator[Pump]:
    """A node on an empty directory, as long as the block."""
    pump, disk = await started(tempfile.mkdtemp(prefix="data-", dir=folder))
    yield pump
    await pump.stop()
    disk.close()


def _halted(reason: str) -> None:
    raise SystemExit(reason)
