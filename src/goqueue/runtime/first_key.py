"""The first admin key of a data directory, made by a node that listens nowhere.

Takes the lock of the directory, so it never runs beside a node, and goes the way of every change:
the key is in the journal and in the audit log when the secret is returned.
"""

import asyncio
import socket
from collections.abc import Coroutine

import msgspec

from goqueue.broker import Node
from goqueue.gateways import KeyMaker, ask
from goqueue.model import LOCAL
from goqueue.model.requests import CreateKey, KeyDescription, Role
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.disk import Disk
from goqueue.runtime.os_files import OsFileSystem, raise_descriptor_limit
from goqueue.runtime.pump import Pump
from goqueue.runtime.time_zones import SystemZones

__all__ = ["FirstKey", "NodeHalted", "create_first_key"]


class NodeHalted(Exception):
    """The node could not start over this directory; the message says why."""


class FirstKey(msgspec.Struct, frozen=True):
    """A new key and its secret."""

    described: KeyDescription
    secret: str

    def __repr__(self) -> str:
        return f"FirstKey({self.described.id})"


async def create_first_key(data_dir: str, name: str) -> FirstKey:
    """Create an admin key of the tenant `default`; raises DataDirectoryUnusable, NodeHalted."""
    raise_descriptor_limit()
    directory = DataDirectory(data_dir)
    try:
        maker = KeyMaker(directory.node_secret())
        node = Node(socket.gethostname(), directory.receipt_key(), zones=SystemZones())
        halted: asyncio.Queue[str] = asyncio.Queue()
        pump = Pump(node, halted.put_nowait)
        disk = Disk(OsFileSystem(data_dir), pump.take_from_disk, crashed=pump.take_crash)
        directory.record_start()
        disk.start()
        pump.start(disk)
        try:
            created = await _until_halted(_create(pump, maker, name), halted)
            await pump.stop()
        finally:
            await pump.wait_until_opened()
            await asyncio.to_thread(disk.close)
        directory.record_clean_stop()
    finally:
        directory.close()
    return created


async def _create(pump: Pump, maker: KeyMaker, name: str) -> FirstKey:
    await pump.wait_until_serving()
    id_ = maker.new_id()
    secret = await maker.draw(id_)
    command = CreateKey(
        id=id_,
        prefix=secret.prefix,
        verifiers=secret.verifiers,
        name=name,
        roles=frozenset((Role.ADMIN,)),
    )
    return FirstKey(await ask(pump, command, KeyDescription, LOCAL), secret.key)


async def _until_halted(
    work: Coroutine[object, object, FirstKey], halted: asyncio.Queue[str]
) -> FirstKey:
    """The outcome of the work, unless the node halts before it."""
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(work)
        halting = group.create_task(halted.get())
        await asyncio.wait((creating, halting), return_when=asyncio.FIRST_COMPLETED)
        creating.cancel()
        halting.cancel()
    if halting.cancelled():
        return creating.result()
    raise NodeHalted(halting.result())
