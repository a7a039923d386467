"""A node over a data directory, without a listener: for commands on a stopped node.

Takes the lock of the directory, so it never runs beside another node, and goes the way of every
node: it recovers, serves whoever holds it here, and stops cleanly.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import TypeVar

from goqueue.broker import Node
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.disk import Disk
from goqueue.runtime.membership import require_alone
from goqueue.runtime.os_files import OsFileSystem, raise_descriptor_limit
from goqueue.runtime.pump import Pump
from goqueue.runtime.time_zones import SystemZones

__all__ = ["NodeHalted", "run_offline"]

R = TypeVar("R")
Work = Callable[[Node, Pump], Coroutine[object, object, R]]


class NodeHalted(Exception):
    """The node could not start over this directory; the message says why."""


async def run_offline(directory: DataDirectory, work: Work[R]) -> tuple[Node, R]:
    """The node after its clean stop, and the outcome of the work that it served.

    Raises NodeHalted, DataDirectoryUnusable for the directory of a member of a cluster, and what
    the work raises. The caller has and keeps the directory.
    """
    raise_descriptor_limit()
    require_alone(directory.root)
    node = Node(socket.gethostname(), directory.receipt_key(), zones=SystemZones())
    halted: asyncio.Queue[str] = asyncio.Queue()
    pump = Pump(node, halted.put_nowait)
    disk = Disk(OsFileSystem(directory.root), pump.take_from_disk, crashed=pump.take_crash)
    directory.record_start()
    disk.start()
    pump.start(disk)
    try:
        outcome = await _until_halted(_serve(node, pump, work), halted)
        await pump.stop()
    finally:
        await pump.wait_until_opened()
        await asyncio.to_thread(disk.close)
    directory.record_clean_stop()
    return node, outcome


async def _serve(node: Node, pump: Pump, work: Work[R]) -> R:
    await pump.wait_until_serving()
    return await work(node, pump)


async def _until_halted(work: Coroutine[object, object, R], halted: asyncio.Queue[str]) -> R:
    """The outcome of the work, unless the node halts before it."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work)
        halting = group.create_task(halted.get())
        await asyncio.wait((working, halting), return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        halting.cancel()
    if halting.cancelled():
        return working.result()
    raise NodeHalted(halting.result())
