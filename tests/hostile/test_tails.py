"""Tails that are many, slow, or abandoned: others do not notice, and nothing is kept of them."""

import contextlib
import socket
import time
import urllib.parse
from collections.abc import Iterator

from tests.hostile.spent_names import spent_name
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess

MIB = 1024 * 1024
_MANY = 1000


def _dial(node: ServerProcess) -> socket.socket:
    host, _, port = urllib.parse.urlsplit(node.url).netloc.partition(":")
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(60)
    peer.connect((host, int(port)))
    return peer


@contextlib.contextmanager
def _tails(
    node: ServerProcess, topic: str, count: int, query: str = ""
) -> Iterator[list[socket.socket]]:
    """Clients that have begun a tail, and have read its head."""
    request = f"GET /topics/{topic}/tail?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(_dial(node)) for _ in range(count)]
        for peer in peers:
            peer.sendall(request)
        for peer in peers:
            _read_until(peer, b"retry: 1000\n\n")
        yield peers


def _read_until(peer: socket.socket, mark: bytes) -> None:
    seen = b""
    while mark not in seen:
        piece = peer.recv(4096)
        assert piece, seen
        seen = seen[-1000:] + piece


def test_a_thousand_tails_get_each_message_and_hold_up_nobody(
    node: ServerProcess, api: Api
) -> None:
    topic = api.create(spent_name())
    with _tails(node, topic, _MANY) as peers:
        api.publish(topic, "for everybody")
        for peer in peers:
            _read_until(peer, b"for everybody")


def test_tails_that_nobody_reads_hold_little_and_other_tails_go_on(
    node: ServerProcess, api: Api
) -> None:
    topic = api.create(spent_name())
    with _tails(node, topic, 100), _tails(node, topic, 1) as (reader,):
        before = node.resident_bytes
        for number in range(40):
            api.publish(topic, *(["x" * 10_000] * 100))
            _read_until(reader, b'"offset":%d,' % (100 * number + 99))
        # 40 MB were published for each of a hundred that read nothing.
        assert node.resident_bytes - before < 32 * MIB


def test_tails_that_are_abandoned_leave_nothing_behind(node: ServerProcess, api: Api) -> None:
    topic = api.create(spent_name())
    before = node.open_descriptors
    for _ in range(5):
        with _tails(node, topic, 100):
            pass
    deadline = time.monotonic() + 60
    while node.open_descriptors > before + 10:
        assert time.monotonic() < deadline, "connections are left"
        time.sleep(0.05)
    api.publish(topic, "nobody listens")
