"""What connections with TLS cost a node: little while they are open, nothing once they are gone."""

import contextlib
import http.client
import ssl
from collections.abc import Iterator

import pytest

from goqueue.model import Message
from goqueue.records import build
from tests.certificates import NEEDS_OPENSSL, Authority
from tests.integration.server_process import ServerProcess, serving

pytestmark = NEEDS_OPENSSL

MIB = 1024 * 1024
BATCH = bytes(build([Message(value=b"x" * 1000)] * 900))
READ = f"/topics/orders/partitions/0/records?offset=0&max_bytes={8 * MIB}"


class Clients:
    """Connections to a node with TLS."""

    def __init__(self, node: ServerProcess, authority: Authority) -> None:
        self._port = int(node.url.rpartition(":")[2])
        self._context = ssl.create_default_context(cafile=authority.ca_file)
        self._stack = contextlib.ExitStack()

    def open(self) -> http.client.HTTPSConnection:
        opened = http.client.HTTPSConnection("localhost", self._port, context=self._context)
        return self._stack.enter_context(contextlib.closing(opened))

    def close(self) -> None:
        self._stack.close()


def ask(client: http.client.HTTPSConnection, method: str, path: str, body: bytes = b"") -> bytes:
    client.request(method, path, body)
    answer = client.getresponse()
    data = answer.read()
    assert answer.status < 300, data[:300]
    return data


@pytest.fixture(name="node", scope="module")
def node_with_tls(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[ServerProcess]:
    issued = authority.issue()
    flags = ("--tls-enabled", "--tls-cert-file", issued.cert, "--tls-key-file", issued.key)
    with serving(tmp_path_factory.mktemp("node") / "data", *flags) as process:
        with contextlib.closing(Clients(process, authority)) as clients:
            client = clients.open()
            ask(client, "POST", "/topics", b'{"name": "orders", "num_partitions": 1}')
            for _ in range(10):
                ask(client, "POST", "/topics/orders/records", BATCH)
            # What the first large answers cost is not the cost of a connection.
            ask(client, "GET", READ)
        yield process


@pytest.fixture(name="authority", scope="module")
def certificate_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


def test_a_connection_that_read_a_large_answer_does_not_keep_its_size(
    node: ServerProcess, authority: Authority
) -> None:
    before = node.resident_bytes
    with contextlib.closing(Clients(node, authority)) as clients:
        for _ in range(24):
            assert len(ask(clients.open(), "GET", READ)) > 7 * MIB
        # All of them are open: 24 times 7 MiB would be 168.
        assert node.resident_bytes - before < 32 * MIB


def test_connections_that_have_gone_leave_no_memory_behind(
    node: ServerProcess, authority: Authority
) -> None:
    before = node.resident_bytes
    for _ in range(20):
        with contextlib.closing(Clients(node, authority)) as clients:
            for _ in range(20):
                ask(clients.open(), "POST", "/topics/orders/records", BATCH)

    # At some 350 KiB for each of 400 they would be 140 MiB.
    assert node.resident_bytes - before < 48 * MIB
