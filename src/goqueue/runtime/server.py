"""The composition root: a data directory, its disk thread, the node, the pump, its listeners.

Owns the order of starting and stopping. Listeners take their addresses first, so that a start that
takes its time can be watched (`/readyz`); the data directory is served only after recovery.
"""

import asyncio
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from random import SystemRandom

import msgspec

import goqueue
from goqueue.broker import AUDIT_SETTINGS, AuditConfig, ClusterConfig, Node
from goqueue.gateways import (
    Address,
    Authenticator,
    Capacity,
    ConnectionLimits,
    Gateway,
    GatewayPort,
    KeyMaker,
    NodeFacts,
    TrustedProxies,
)
from goqueue.metrics import Family
from goqueue.model import HOUR, ROOT_KEY, KeyId, Timestamp
from goqueue.records import COMPILED
from goqueue.runtime.backup_thread import BackupThread
from goqueue.runtime.build_note import read_build_note
from goqueue.runtime.clock import read_clock
from goqueue.runtime.cluster_links import (
    cluster_config,
    cluster_tls,
    peer_connections,
    reload_secrets,
    sealing_secret,
)
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.development_certificates import development_certificate, development_names
from goqueue.runtime.disk import Disk, reserve_for
from goqueue.runtime.etcd_client import EtcdClient
from goqueue.runtime.event_log import EventLog, silent_log
from goqueue.runtime.exporters.exporters import ExporterGroup
from goqueue.runtime.listeners import Listeners
from goqueue.runtime.membership import require_alone
from goqueue.runtime.metrics import (
    LoopLag,
    MetricsCollector,
    handshake_families,
    listener_families,
    process_families,
    shell_families,
    volume_families,
)
from goqueue.runtime.node_log import NodeLog
from goqueue.runtime.os_files import OsFileSystem, raise_descriptor_limit
from goqueue.runtime.peers import PeerConnections
from goqueue.runtime.pump import Pump
from goqueue.runtime.request_log import RequestLog
from goqueue.runtime.root_key import read_root_key
from goqueue.runtime.settings import Settings
from goqueue.runtime.time_zones import SystemZones
from goqueue.runtime.tls import TlsListeners, tls_families
from goqueue.security import ApiKeys, FieldChange, SecurityRegistry
from goqueue.storage import BackupJobs

__all__ = ["NobodyAdministers", "Server"]

_GRACE_S = 10.0
# The minimum time for responses in flight, if the node used up the grace period.
_GRACE_S_MIN = 1.0
# What a connection with TLS holds after a large body: buffers of the loop and of OpenSSL.
_TLS_CONNECTION_BYTES = 256 * 1024


class NobodyAdministers(Exception):
    """Nobody could administer a node that asks for keys; one sentence for the operator."""

    def __init__(self, data_dir: str, *, is_member: bool = False) -> None:
        if is_member:
            super().__init__(
                "authentication is on, and this node of a cluster knows no usable admin key: set "
                "api.root_key_file, with the same key on all nodes"
            )
            return
        super().__init__(
            "authentication is on and no admin key is usable: create one with `goqueue key "
            f"bootstrap --data-dir {data_dir}` while the node is stopped, or set api.root_key_file"
        )


class Server:
    """One node, reachable through its gateways, which are started in the order given.

    `start` may raise OSError, DataDirectoryUnusable, RootKeyUnusable, ExporterUnusable or
    TlsUnusable.
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
        self._backups: BackupThread | None = None
        self._pump: Pump | None = None
        self._listeners = Listeners(())
        self._exporting: ExporterGroup | None = None
        self._lag = LoopLag()
        self._tls: TlsListeners | None = None
        self._peers: PeerConnections | None = None
        self._peer_tls: TlsListeners | None = None
        self._etcd: EtcdClient | None = None
        self._keys: ApiKeys | None = None

    async def start(self) -> dict[str, Address]:
        """Lock the directory, listen, and begin recovery; the addresses by listener."""
        broker = self._settings.broker
        descriptors = raise_descriptor_limit()
        self._directory = DataDirectory(broker.data_dir)
        try:
            if not self._settings.cluster.is_enabled:
                require_alone(broker.data_dir)
            self._exporting = exporting = ExporterGroup(self._settings.tracing, broker.node_id)
            maker = KeyMaker(sealing_secret(self._settings, self._directory.node_secret()))
            node = await self._create_node(self._directory.receipt_key(), maker)
            self._keys = node.keys
            files = OsFileSystem(broker.data_dir)
            reserve_bytes = reserve_for(broker.journal_reserve, files.size_bytes())
            previous_end = self._directory.previous_end
            log = NodeLog(self._log, previous_end=previous_end, free_bytes=files.free_bytes)
            self._pump = Pump(node, self._halt, exporting.put if exporting else None, log)
            self._disk = Disk(
                files,
                self._pump.take_from_disk,
                log=self._log,
                opened=log.opened,
                crashed=self._pump.take_crash,
                slow_ns=self._settings.log.slow_disk_ns or None,
                reserve_bytes=reserve_bytes,
            )
            self._backups = _backup_thread(files, self._pump, reserve_bytes)
            self._tls = tls = self._load_tls()
            capacity = self._capacity(_limits_within(descriptors, is_tls=tls is not None))
            sources = self._metrics(node, self._disk, files, capacity)
            facts = _facts()
            port = GatewayPort(
                broker=self._pump,
                facts=facts,
                capacity=capacity,
                scrape=MetricsCollector((*sources, exporting.metrics)).scrape,
                tls=None if tls is None else tls.context_of,
                authenticator=self._authenticator(self._pump),
                key_maker=maker,
                tenants=_Limits(node.security),
                requests=RequestLog(self._log, logs_access=self._settings.log.has_access),
            )
            self._listeners = Listeners([create(port) for create in self._gateways])
            addresses = await self._listeners.start()
            if self._settings.cluster.is_enabled:
                addresses |= await self._open_links(self._pump, port)
        except BaseException:
            await self._listeners.stop(0)
            self._directory.close()
            raise
        self._directory.record_start()
        self._report_start(facts, addresses, previous_end)
        exporting.start()
        self._disk.start()
        self._backups.start()
        self._pump.start(self._disk, self._backups.submit)
        self._lag.start()
        if tls is not None:
            tls.start()
        return addresses

    def _capacity(self, limits: ConnectionLimits) -> Capacity:
        proxies = TrustedProxies(self._settings.trusted_proxies)
        return Capacity(limits, is_proxy=proxies.includes)

    async def _open_links(self, pump: Pump, port: GatewayPort) -> dict[str, Address]:
        """Listen for other nodes; dialling begins when the node says who it is."""
        self._peer_tls = cluster_tls(self._settings, self._log)
        self._peers = peers = peer_connections(self._settings, self._peer_tls, self._log, port)
        address = await peers.open()
        await peers.serve()
        pump.connect(peers.inbox, peers.carry_out)
        if self._settings.cluster.etcd is not None:
            etcd = self._settings.cluster.etcd
            emit, crashed = pump.take_from_store, pump.take_crash
            self._etcd = EtcdClient(etcd, emit, SystemRandom(), self._log, crashed)
            pump.connect_store(self._etcd.call)
            self._etcd.start()
        if self._peer_tls is not None:
            self._peer_tls.start()
        return {"internal": address}

    def _authenticator(self, pump: Pump) -> Authenticator:
        if not self._settings.auth.is_enabled:
            return Authenticator()
        return Authenticator(pump.identify, pump.record_failure)

    def reload_files(self) -> None:
        """Read the files of TLS again, in the background, and the secret of the cluster."""
        if self._peers is not None:
            reload_secrets(self._settings.cluster, self._peers, self._log)
        for tls in (self._tls, self._peer_tls):
            if tls is not None:
                tls.request_reload()

    def _load_tls(self) -> TlsListeners | None:
        tls, listeners = self._settings.tls, self._settings.listeners.clients
        if not tls.is_enabled:
            return None
        if tls.is_self_signed:
            # All client listeners share the certificate, and it names the first of them.
            created = development_certificate(
                self._settings.broker.data_dir, development_names(listeners[0].host)
            )
            self._log("tls_development_certificate", ca_file=created.ca_file, sha256=created.sha256)
            tls = msgspec.structs.replace(
                tls, cert_file=created.cert_file, key_file=created.key_file
            )
        loop = asyncio.get_running_loop()

        def observe(listener: str, facts: dict[str, str]) -> None:
            if self._pump is not None:
                subject = ("tls.reload", f"listener:{listener}", facts)
                loop.call_soon_threadsafe(self._pump.observe, *subject)

        return TlsListeners(tls, self._log, observe=observe)

    async def _create_node(self, receipt_key: bytes, maker: KeyMaker) -> Node:
        """The node, with the root key if there is one."""
        settings, broker = self._settings, self._settings.broker
        node = Node(
            broker.node_id,
            receipt_key,
            sampling=settings.tracing.sampling,
            group_retention_ns=broker.group_retention_hours * HOUR or None,
            zones=SystemZones(),
            acl_enabled=settings.auth.acl_enabled,
            audit=_audit_config(settings),
            cluster=self._cluster_config(),
        )
        root_key = read_root_key(settings.api)
        if root_key is not None:
            node.keys.accept_root(await asyncio.to_thread(maker.verify, ROOT_KEY, root_key))
        return node

    def _cluster_config(self) -> ClusterConfig | None:
        if not self._settings.cluster.is_enabled:
            return None
        assert self._directory is not None
        is_clean = self._directory.previous_end == "clean"
        return cluster_config(self._settings, self._directory.directory_id(), is_clean=is_clean)

    def _report_start(
        self, facts: NodeFacts, addresses: dict[str, Address], previous_end: str
    ) -> None:
        broker = self._settings.broker
        tls = "" if self._tls is None else "s"
        self._log(
            "node_starting",
            version=facts.version,
            commit=facts.git_commit,
            python=facts.python_version,
            compiled=COMPILED,
            pid=os.getpid(),
            node=broker.node_id,
            data_dir=os.path.abspath(broker.data_dir),
            address=tuple(
                f"{name}{tls}://{host}:{port}" for name, (host, port) in addresses.items()
            ),
            previous_end=previous_end,
        )

    def _metrics(
        self, node: Node, disk: Disk, files: OsFileSystem, capacity: Capacity
    ) -> "tuple[Callable[[], Iterator[Family]], ...]":
        by_partition = self._settings.metrics.partitions
        tls: tuple[Callable[[], Iterator[Family]], ...] = (self._tls_families,)
        if self._tls is not None:
            tls += (lambda: handshake_families(capacity),)
        return (
            lambda: node.metrics(by_partition=by_partition),
            disk.metrics,
            lambda: listener_families(self._listeners, capacity),
            lambda: shell_families(disk, self._lag),
            lambda: volume_families(files),
            process_families,
            self._peer_families,
            *tls,
        )

    def _tls_families(self) -> Iterator[Family]:
        found = [each for each in (self._tls, self._peer_tls) if each is not None]
        return tls_families(found) if found else iter(())

    def _peer_families(self) -> Iterator[Family]:
        return iter(()) if self._peers is None else self._peers.metrics()

    async def wait_until_serving(self) -> None:
        """Wait until recovery is done and every listener accepts; never returns after a halt.

        Raises NobodyAdministers; then the node is to be stopped.
        """
        assert self._pump is not None
        await self._pump.wait_until_serving()
        assert self._keys is not None
        is_locked = self._settings.auth.is_enabled
        if is_locked and not self._keys.has_admin(read_clock().wall):
            is_member = self._settings.cluster.is_enabled
            raise NobodyAdministers(self._settings.broker.data_dir, is_member=is_member)
        try:
            await self._listeners.serve_when_ready()
        except OSError as error:
            self._halt(f"cannot listen: {error.strerror or error}")
            await asyncio.Future()

    async def wait_until_halted(self) -> str:
        """Wait for a halt of the node; its reason."""
        return await asyncio.shield(self._halted)

    @property
    def is_misconfigured(self) -> bool:
        """Whether the node halted because its settings are wrong."""
        return self._pump is not None and self._pump.is_misconfigured

    def _halt(self, reason: str) -> None:
        if not self._halted.done():
            self._halted.set_result(reason)

    async def stop(self, reason: str = "stop") -> None:
        """Let others lead, end waiting requests, finish running ones, and flush the logs.

        `reason` is logged.
        """
        assert self._pump is not None
        assert self._disk is not None
        assert self._backups is not None
        assert self._directory is not None
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + _GRACE_S
        self._log("node_stopping", reason=reason, waiting_requests=self._pump.waiting_count)
        self._lag.stop()
        for tls in (self._tls, self._peer_tls):
            if tls is not None:
                await asyncio.to_thread(tls.stop)
        try:
            async with asyncio.timeout_at(deadline):
                await self._pump.leave()
                await self._pump.stop()
        except TimeoutError:
            count = self._pump.waiting_count
            self._log("requests_abandoned", count=count, grace_s=_GRACE_S)
        self._pump.disconnect()
        if self._etcd is not None:
            await self._etcd.stop()
        if self._peers is not None:
            await self._peers.stop(_GRACE_S_MIN)
        await self._listeners.stop(max(deadline - loop.time(), _GRACE_S_MIN))
        # A log that is being opened cannot be closed; at most one log is.
        await self._pump.wait_until_opened()
        await asyncio.to_thread(self._backups.close)
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


def _backup_thread(files: OsFileSystem, pump: Pump, reserve_bytes: int) -> BackupThread:
    jobs = BackupJobs(
        files, version=goqueue.__version__, reserve_bytes=reserve_bytes, ticks=time.monotonic_ns
    )
    return BackupThread(jobs, pump.take_from_disk, crashed=pump.take_crash)


class _Limits:
    """The limits of tenants with the time of this process."""

    def __init__(self, security: SecurityRegistry) -> None:
        self._security = security
        self.open_connection = security.open_connection
        self.close_connection = security.close_connection

    def check_publish(self, topic: str, key: KeyId | None) -> None:
        self._security.check_publish(topic, key, read_clock().instant)

    def check_publisher(self, key: KeyId) -> None:
        self._security.check_publisher(key, read_clock().instant)


# Settings of these sections are named in the record of a start, secrets as `***`.
_RECORDED = ("acl.", "api.", "audit.", "auth.", "listeners.", "tls.")
_RECORDED_IN_CLUSTER = ("cluster.", "cluster_tls.")


def _audit_config(settings: Settings) -> AuditConfig:
    log = msgspec.structs.replace(
        AUDIT_SETTINGS,
        retention_ns=settings.audit.retention_hours * HOUR,
        retention_bytes=settings.audit.retention_bytes,
    )
    facts = tuple(
        FieldChange(origin.setting, new=origin.value)
        for origin in settings.origins
        if origin.value and _is_recorded(origin.setting, is_member=settings.cluster.is_enabled)
    )
    return AuditConfig(log=log, start_facts=facts)


def _is_recorded(setting: str, *, is_member: bool) -> bool:
    if is_member:
        return setting.startswith(_RECORDED + _RECORDED_IN_CLUSTER)
    return setting.startswith(_RECORDED) and setting != "listeners.internal"


def _facts() -> NodeFacts:
    note = read_build_note()
    return NodeFacts(
        version=goqueue.__version__,
        started_at=Timestamp(time.time_ns()),
        git_commit=note.commit,
        build_time=note.time,
        python_version=platform.python_version(),
    )


def _limits_within(descriptors: int, *, is_tls: bool) -> ConnectionLimits:
    """Connections may use half of the descriptors; the others are for files.

    One with TLS also holds buffers of its own: all together may take an eighth of the memory.
    """
    limits = ConnectionLimits()
    connections = min(limits.connections_max, descriptors // 2)
    if is_tls:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        connections = min(connections, max(1, memory // 8 // _TLS_CONNECTION_BYTES))
    return msgspec.structs.replace(
        limits, connections_max=connections, connections_per_address_max=connections
    )
