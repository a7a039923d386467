"""The composition root: a data directory, its disk thread, the node, the pump, its listeners.

Owns the order of starting and stopping. Listeners take their addresses first, so that a start that
takes its time can be watched (`/readyz`); the data directory is served only after recovery.
"""

import asyncio
import os
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
from goqueue.records import COMPILED
from goqueue.runtime.build_note import read_build_note
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.disk import Disk, reserve_for
from goqueue.runtime.event_log import EventLog, silent_log
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
from goqueue.runtime.node_log import NodeLog
from goqueue.runtime.os_files import OsFileSystem, raise_descriptor_limit
from goqueue.runtime.pump import Pump
from goqueue.runtime.request_log import RequestLog
from goqueue.runtime.settings import Settings
from goqueue.runtime.time_zones import SystemZones

__all__ = ["Server"]

_GRACE_S = 10.0
# The minimum time for responses in flight, if the node used up the grace period.
_GRACE_S_MIN = 1.0


class Server:
    """One node, reachable through its gateways, which are started in the order given.

    `start` may raise OSError, DataDirectoryUnusable or ExporterUnusable.
    """

    def __init__(
        self, settings: Settings, gateways: Sequence[Gateway], log: EventLog | None = None
    ) -> None:
        assert gateways, "a server without a gateway serves nobody"
        self._log = silent_log() if log is None else log
        self._started_at = time.monotonic()
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
                zones=SystemZones(),
            )
            files = OsFileSystem(broker.data_dir)
            log = NodeLog(
                self._log,
                previous_end=self._directory.previous_end,
                free_bytes=files.free_bytes,
            )
            self._pump = Pump(node, self._halt, exporting.put if exporting else None, log)
            self._disk = Disk(
                files,
                self._pump.take_from_disk,
                log=self._log,
                opened=log.opened,
                crashed=self._pump.take_crash,
                slow_ns=self._settings.log.slow_disk_ns or None,
                reserve_bytes=reserve_for(broker.journal_reserve, files.size_bytes()),
            )
            capacity = Capacity(_limits_within(descriptors))
            sources = self._metrics(node, self._disk, files, capacity)
            facts = _facts()
            port = GatewayPort(
                broker=self._pump,
                facts=facts,
                capacity=capacity,
                scrape=MetricsCollector((*sources, exporting.metrics)).scrape,
                requests=RequestLog(self._log, logs_access=self._settings.log.has_access),
            )
            self._listeners = Listeners([create(port) for create in self._gateways])
            addresses = await self._listeners.start()
        except BaseException:
            self._directory.close()
            raise
        self._directory.record_start()
        self._report_start(facts, addresses, self._directory.previous_end)
        exporting.start()
        self._disk.start()
        self._pump.start(self._disk)
        self._lag.start()
        return addresses

    def _report_start(
        self, facts: NodeFacts, addresses: dict[str, Address], previous_end: str
    ) -> None:
        broker = self._settings.broker
        self._log(
            "node_starting",
            version=facts.version,
            commit=facts.git_commit,
            python=facts.python_version,
            compiled=COMPILED,
            pid=os.getpid(),
            node=broker.node_id,
            data_dir=os.path.abspath(broker.data_dir),
            address=tuple(f"{name}://{host}:{port}" for name, (host, port) in addresses.items()),
            previous_end=previous_end,
        )

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

    async def stop(self, reason: str = "stop") -> None:
        """End waiting requests, finish running ones, and flush the logs; `reason` is logged."""
        assert self._pump is not None
        assert self._disk is not None
        assert self._directory is not None
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + _GRACE_S
        self._log("node_stopping", reason=reason, waiting_requests=self._pump.waiting_count)
        self._lag.stop()
        try:
            async with asyncio.timeout_at(deadline):
                await self._pump.stop()
        except TimeoutError:
            count = self._pump.waiting_count
            self._log("requests_abandoned", count=count, grace_s=_GRACE_S)
        await self._listeners.stop(max(deadline - loop.time(), _GRACE_S_MIN))
        # A log that is being opened cannot be closed; at most one log is.
        await self._pump.wait_until_opened()
        try:
            await asyncio.to_thread(self._disk.close)
            self._directory.record_clean_stop()
        finally:
            if self._exporting is not None:
                # The spans come last, and take a few seconds at most.
                await asyncio.to_thread(self._exporting.close)
            self._directory.close()
        uptime_s = round(time.monotonic() - self._started_at, 3)
        self._log("node_stopped", stop_s=round(loop.time() - began, 3), uptime_s=uptime_s)


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
