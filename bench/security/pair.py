"""A node in the clear and one with TLS, side by side: only figures of one run compare."""

import contextlib
import os
import shutil
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.broker_process import BrokerProcess
from bench.wire import Wire
from goqueue.runtime.development_certificates import (
    DevelopmentCertificate,
    development_certificate,
)

__all__ = ["SecureNode", "Side", "both", "secure_node", "trusting"]

_NAMES = ("127.0.0.1", "localhost")


class Side(NamedTuple):
    """A node and how to reach it."""

    name: str
    broker: BrokerProcess
    tls: ssl.SSLContext | None
    ca_file: str | None

    async def open(self) -> Wire:
        return await Wire.open(self.broker.port, self.tls)

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.broker.port}"


class SecureNode(NamedTuple):
    """A node with TLS whose certificate can be replaced by another one."""

    side: Side
    files: DevelopmentCertificate
    others: DevelopmentCertificate

    def swap(self, number: int) -> None:
        """Put one of two certificates in its place."""
        source = self.others if number % 2 else self.files
        for name in ("cert", "key"):
            wanted = getattr(source, f"{name}_file")
            place = os.path.join(os.path.dirname(self.side.ca_file or ""), f"{name}-used.pem")
            new = f"{place}.new"
            shutil.copyfile(wanted, new)
            os.chmod(new, 0o600)
            Path(new).replace(place)


def trusting(*ca_files: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for each in ca_files:
        context.load_verify_locations(cafile=each)
    return context


@contextlib.contextmanager
def secure_node(folder: str) -> Iterator[SecureNode]:
    first, second = (
        development_certificate(tempfile.mkdtemp(prefix="tls-", dir=folder), _NAMES)
        for _ in range(2)
    )
    used = {
        name: os.path.join(os.path.dirname(first.ca_file), f"{name}-used.pem")
        for name in ("cert", "key")
    }
    for name, path in used.items():
        shutil.copyfile(getattr(first, f"{name}_file"), path)
        os.chmod(path, 0o600)
    files = ("--tls-cert-file", used["cert"], "--tls-key-file", used["key"])
    flags = ("--log-level", "warning", "--tls-enabled", *files)
    with BrokerProcess(folder, flags=flags) as broker:
        context = trusting(first.ca_file, second.ca_file)
        yield SecureNode(Side("tls", broker, context, first.ca_file), first, second)


@contextlib.contextmanager
def both(folder: str) -> Iterator[tuple[Side, Side]]:
    """The plain node and the one with TLS."""
    with BrokerProcess(folder) as plain, secure_node(folder) as secure:
        yield Side("plain", plain, None, None), secure.side
