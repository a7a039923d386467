"""A node that asks for keys, and prepared requests with a key."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.broker_process import BrokerProcess
from bench.cluster.failover import NAMES, BenchCluster
from bench.wire import Wire

__all__ = ["KeyedNode", "keyed", "keyed_cluster", "keyed_node"]

_ROOT = "root-key-of-the-benchmark-" + "r" * 16


def keyed(method: str, target: str, key: str = _ROOT, body: object = None) -> bytes:
    """The bytes of one request with a key; without one, it is that of the root."""
    content = b"" if body is None else msgspec.json.encode(body)
    lines = (
        f"{method} {target} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {key}",
        f"Content-Length: {len(content)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + content


class KeyedNode(NamedTuple):
    """A node with authentication on."""

    # Its process, or the port of a node of a cluster.
    where: BrokerProcess | int

    @property
    def broker(self) -> BrokerProcess:
        assert not isinstance(self.where, int), "it is a node of a cluster"
        return self.where

    @property
    def port(self) -> int:
        """Where it listens: elsewhere after a restart."""
        return self.where if isinstance(self.where, int) else self.where.port

    async def open(self) -> Wire:
        return await Wire.open(self.port)

    async def ask(self, method: str, target: str, body: object = None) -> Any:  # noqa: ANN401 - whatever the JSON says
        """One request of the root key."""
        wire = await self.open()
        try:
            return msgspec.json.decode(await wire.send(keyed(method, target, body=body)))
        finally:
            wire.close()

    async def tenant(self, name: str, **quotas: int) -> str:
        """A tenant with one topic, `<name>.orders`; an admin key of it."""
        await self.ask("POST", "/admin/tenants", {"id": name, "name": name, "quotas": quotas})
        topic = {"name": f"{name}.orders", "num_partitions": 1, "retention_hours": 1}
        await self.ask("POST", "/topics", topic)
        key = await self.key("admin", name)
        return str(key["key"])

    async def key(self, role: str, tenant: str) -> Any:  # noqa: ANN401 - the JSON of a key
        body = {"name": "bench", "roles": [role], "tenant": tenant}
        return await self.ask("POST", "/admin/keys", body)


@contextlib.contextmanager
def keyed_node(folder: str) -> Iterator[KeyedNode]:
    flags = ("--log-level", "warning", "--auth-enabled", "--api-root-key-file", _root_file(folder))
    with BrokerProcess(folder, flags=flags) as broker:
        yield KeyedNode(broker)


@contextlib.contextmanager
def keyed_cluster(folder: str) -> Iterator[list[KeyedNode]]:
    """Three nodes of a cluster, which have the same root key."""
    root = _root_file(folder)
    settings = f'[auth]\nenabled = true\n[api]\nroot_key_file = "{root}"\n'
    cluster = BenchCluster(Path(folder) / "keyed", settings)
    try:
        cluster.start(*NAMES)
        yield [KeyedNode(cluster.port(name)) for name in NAMES]
    finally:
        cluster.kill_all()


def _root_file(folder: str) -> str:
    descriptor, path = tempfile.mkstemp(prefix="root-", dir=folder)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(_ROOT)
    return path
