"""The composition root: a data directory, its disk thread, the node, the pump, its listeners.

Owns the order of starting and stopping. Listeners take their addresses first, so that a start that
takes its time can be watched (`/readyz`); the data directory is served only after recovery.
"""

import asyncio
import logging
import platform
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

import goqueue
from goqueue.broker import Node
from goqueue.gateways import (
    Address,
    Capacity,
    ConnectionLimits,
    Gateway,
    GatewayPort,
    NodeFacts,
)
from goqueue.metrics import Family
from goqueue.model import HOUR, Timestamp
from goqueue.runtime.build_note import read_build_note
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.disk import Disk, reserve_for
from goqueue.runtime.exporters.exporters import ExporterGroup
from goqueue.runtime.listeners import Listeners
from goqueue.runtime.metrics import (
    LoopLag,
    MetricsCollector,
    listener_families,
    process_families,
    shell_families,
    volume_families,
)
from goqueue.runtime.os_files import OsFileSystem, raise_descriptor_limit
from goqueue.runtime.pump import Pump
from goqueue.runtime.settings import Settings

__all__ = ["Server"]

_logger = logging.getLogger("goqueue")
_GRACE_S = 10.0
# The minimum time for responses in flight, if the node used up the grace period.
_GRACE_S_MIN = 1.0


class Server:
    """One node, reachable through its gateways, which are started in the order given.

    `start` may raise OSError, DataDirectoryUnusable or ExporterUnusable.
    """

    def __init__(self, settings: Settings, gateways: Sequence[Gateway]) -> None:
        assert gateways, "a server without a gateway serves nobody"
        self._settings = settings
        self._gateways = gateways
        self._halted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._directory: DataDirectory | None = None
        self._disk: Disk | None = None
        self._pump: Pump | None = None
        self._listeners = Listeners(())
        self._exporting: ExporterGroup | None = None
        self._lag = LoopLag()

    async def start(self) -> dict[str, Address]:
        """Lock the directory, listen, and begin recovery; the addresses by listener."""
        broker = self._settings.broker
        descriptors = raise_descriptor_limit()
        self._directory = DataDirectory(broker.data_dir)
        try:
            tracing = self._settings.tracing
            self._exporting = exporting = ExporterGroup(tracing, broker.node_id)
            node = Node(
                broker.node_id,
                self._directory.receipt_key(),
                sampling=tracing.sampling,
                group_retention_ns=broker.group_retention_hours * HOUR or None,
            )
            self._pump = Pump(node, self._halt, exporting.put if exporting else None)
            files = OsFileSystem(broker.data_dir)
            self._disk = Disk(
                files,
                self._pump.take_from_disk,
                tell=_logger.warning,
                crashed=self._pump.take_crash,
                reserve_bytes=reserve_for(broker.journal_reserve, files.size_bytes()),
            )
            capacity = Capacity(_limits_within(descriptors))
            sources = self._metrics(node, self._disk, files, capacity)
            port = GatewayPort(
                broker=self._pump,
                facts=_facts(),
                capacity=capacity,
                scrape=MetricsCollector((*sources, exporting.metrics)).scrape,
            )
            self._listeners = Listeners([create(port) for create in self._gateways])
            addresses = await self._listeners.start()
        except BaseException:
            self._directory.close()
            raise
        exporting.start()
        self._disk.start()
        self._pump.start(self._disk)
        self._lag.start()
        return addresses

    def _metrics(
        self, node: Node, disk: Disk, files: OsFileSystem, capacity: Capacity
    ) -> "tuple[Callable[[], Iterator[Family]], ...]":
        by_partition = self._settings.metrics.partitions
        return (
            lambda: node.metrics(by_partition=by_partition),
            disk.metrics,
            lambda: listener_families(self._listeners, capacity),
            lambda: shell_families(disk, self._lag),
            lambda: volume_families(files),
            process_families,
        )

    async def wait_until_serving(self) -> None:
        """Wait until recovery is done and every listener accepts; never returns after a halt."""
        assert self._pump is not None
        await self._pump.wait_until_serving()
        try:
            await self._listeners.serve_when_ready()
        except OSError as error:
            self._halt(f"cannot listen: {error.strerror or error}")
            await asyncio.Future()

    async def wait_until_halted(self) -> str:
        """Wait for a halt of the node; its reason."""
        return await asyncio.shield(self._halted)

    def _halt(self, reason: str) -> None:
        if not self._halted.done():
            self._halted.set_result(reason)

    async def stop(self) -> None:
        """End waiting requests, finish running ones, and flush the logs."""
        assert self._pump is not None
        assert self._disk is not None
        assert self._directory is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _GRACE_S
        self._lag.stop()
        try:
            async with asyncio.timeout_at(deadline):
                await self._pump.stop()
        except TimeoutError:
            _logger.warning("some requests were still not answered after %s s", _GRACE_S)
        await self._listeners.stop(max(deadline - loop.time(), _GRACE_S_MIN))
        # A log that is being opened cannot be closed; at most one log is.
        await self._pump.wait_until_opened()
        try:
            await asyncio.to_thread(self._disk.close)
        finally:
            if self._exporting is not None:
                # The spans come last, and take a few seconds at most.
                await asyncio.to_thread(self._exporting.close)
            self._directory.close()


def _facts() -> NodeFacts:
    note = read_build_note()
    return NodeFacts(
        version=goqueue.__version__,
        started_at=Timestamp(time.time_ns()),
        git_commit=note.commit,
        build_time=note.time,
        python_version=platform.python_version(),
    )


def _limits_within(descriptors: int) -> ConnectionLimits:
    """Connections may use half of the descriptors; the others are for files."""
    limits = ConnectionLimits()
    connections = min(limits.connections_max, descriptors // 2)
    return msgspec.structs.replace(
        limits, connections_max=connections, connections_per_address_max=connections
    )
