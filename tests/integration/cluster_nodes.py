"""Real nodes of one cluster on loopback, and raw links to them."""

import re
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from goqueue.cluster import Confirm, Hello, LinkMessage, Refuse, Versions, Welcome
from goqueue.model import PeerIdentity, PeerLane, PeerMessage, Timestamp
from goqueue.runtime.peers.frames import FrameDecoder, decode_message, encode_message
from tests.free_ports import free_ports
from tests.integration.server_process import ServerProcess

__all__ = [
    "SECRET",
    "ClusterNode",
    "RawLink",
    "cluster_of",
    "free_ports",
    "identity",
    "wait_until",
]

SECRET = "-".join(("a", "secret", "of", "all", "nodes"))
PATIENCE_S = 30.0
VERSIONS = Versions(1, 1)
HEAD = (
    "GET /cluster/link HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
    "Upgrade: goqueue-peer/1\r\nAuthorization: Bearer {}\r\n\r\n"
)


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> float:
    """Wait for something to be so; how long it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds, f"not in {seconds} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - began


class ClusterNode(ServerProcess):
    """One node; `peers` are the ports where it finds the others, `at` where they find it."""

    def __init__(
        self,
        home: Path,
        name: str,
        port: int,
        peers: list[int],
        secret: Path,
        at: int | None = None,
    ) -> None:
        self.name = name
        self.port = port
        super().__init__(
            home / name,
            "--broker-nodeid",
            name,
            "--cluster",
            "--listeners-internal",
            f"127.0.0.1:{port}",
            "--cluster-peers",
            ",".join(f"127.0.0.1:{each}" for each in peers),
            "--cluster-advertise",
            f"127.0.0.1:{at or port}",
            "--cluster-secret-file",
            str(secret),
        )

    def metric(self, name: str) -> int:
        with urllib.request.urlopen(  # noqa: S310 - http, to a node of this test
            f"{self.url}/metrics", timeout=PATIENCE_S
        ) as reply:
            text = reply.read().decode()
        found = re.search(rf"^{name} (\d+)", text, re.MULTILINE)
        assert found is not None, f"there is no {name}"
        return int(found[1])

    @property
    def links(self) -> int:
        """How many links it has, three for each other node."""
        return self.metric("goqueue_peer_links")

    def incarnations_of(self, broker: str) -> list[int]:
        """The runs of another node that connected to this one, in order."""
        found = re.findall(rf"peer_connected.*broker={broker} .*incarnation=(\d+)", self.said)
        return [int(each) for each in found]


@contextmanager
def cluster_of(home: Path, names: list[str]) -> Iterator[list[ClusterNode]]:
    """Nodes that are started, and ended without warning at the end."""
    secret = home / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET)
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    nodes = []
    for name in names:
        others = [port for other, port in ports.items() if other != name]
        nodes.append(ClusterNode(home, name, ports[name], others, secret))
    try:
        for node in nodes:
            node.begin()
        for node in nodes:
            node.wait_until_ready()
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def identity(broker: str, **changes: object) -> PeerIdentity:
    """A broker that is none of the cluster's."""
    basis = PeerIdentity(
        broker=broker,
        directory=broker.encode().hex().rjust(32, "0")[-32:],
        incarnation=1,
        address="127.0.0.1:9",
    )
    return msgspec.structs.replace(basis, **changes)


class RawLink:
    """A connection to port 7000 of a node, spoken by hand."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._decoder = FrameDecoder()

    def __enter__(self) -> "RawLink":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, head: bytes) -> bytes:
        """Send a head; what came back until its end, or until the connection was closed."""
        self.socket.sendall(head)
        answer = b""
        while b"\r\n\r\n" not in answer and (piece := self._read()):
            answer += piece
        return answer

    def upgrade(self, secret: str = SECRET) -> "RawLink":
        answer = self.ask(HEAD.format(secret).encode())
        assert answer.startswith(b"HTTP/1.1 101 "), answer
        return self

    def send(self, message: LinkMessage | PeerMessage, data: tuple[bytes, ...] = ()) -> None:
        self.socket.sendall(b"".join(map(bytes, encode_message(message, data)[0])))

    def hello(
        self,
        who: PeerIdentity,
        number: int = 1,
        versions: Versions = VERSIONS,
        lane: PeerLane = PeerLane.CONTROL,
    ) -> Welcome | Refuse:
        wall = Timestamp(time.time_ns())
        self.send(Hello(versions=versions, lane=lane, number=number, identity=who, wall=wall))
        answer = self.receive()
        assert isinstance(answer, Welcome | Refuse)
        return answer

    def open(self, who: PeerIdentity, number: int = 1) -> "RawLink":
        """Go through the whole handshake."""
        self.upgrade()
        assert isinstance(self.hello(who, number), Welcome)
        self.send(Confirm())
        return self

    def receive(self) -> LinkMessage | PeerMessage | None:
        """The next message; None if the node has closed the connection."""
        while piece := self._read():
            for frame in self._decoder.feed(piece):
                return decode_message(frame)
        return None

    def is_closed_within(self, seconds: float) -> float:
        """Wait until the node closes the connection, and say how long that took."""
        began = time.monotonic()
        self.socket.settimeout(seconds)
        while self._read():
            assert time.monotonic() - began < seconds, "the connection is still open"
        return time.monotonic() - began

    def _read(self) -> bytes:
        try:
            return self.socket.recv(65_536)
        except ConnectionError:
            return b""

    def reset(self) -> None:
        """Break the connection without an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
