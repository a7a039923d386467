"""gRPC when things end badly: the node is killed under streams, certificates, keys and rights."""

import contextlib
import os
import re
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from goqueue.gateways.grpc import protocol
from tests.certificates import NEEDS_OPENSSL, Authority
from tests.free_ports import free_port
from tests.integration.grpc_client import CallFailed, GrpcClient, grpc_address, grpc_client
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess, serving

ROOT_KEY = "the-root-key-of-these-tests-hidden"
TOPIC = "orders"
KILLS = 5 if "GOQUEUE_EXHAUSTIVE" in os.environ else 1


class Publisher(threading.Thread):
    """Publishes numbers over streams until it is stopped; sends again what was not answered."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.acknowledged: set[int] = set()
        self.is_over = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.is_over.is_set():
            with grpc_client(self._address) as client, contextlib.suppress(CallFailed):
                for answer in client.publish_stream(self._requests(number)):
                    if not answer.error.code:
                        self.acknowledged.add(int(answer.correlation_id))
            number = max(self.acknowledged, default=-1) + 1
            time.sleep(0.05)

    def _requests(self, number: int) -> Iterator[protocol.PublishStreamRequest]:
        while not self.is_over.is_set():
            yield protocol.PublishStreamRequest(
                correlation_id=str(number), topic=TOPIC, value=b"%d" % number
            )
            number += 1


class Worker(threading.Thread):
    """A member of a group that handles and acknowledges, and subscribes again when it breaks."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.handled: list[int] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            with grpc_client(self._address) as client, contextlib.suppress(CallFailed):
                stream = client.subscribe("workers", TOPIC, max_messages=200)
                for batch in stream.payloads("messages"):
                    self._settle(client, batch)
                    if self.is_over.is_set():
                        stream.cancel()
            time.sleep(0.05)

    def _settle(self, client: GrpcClient, batch: protocol.MessageBatch) -> None:
        # Handled before it is settled: an ack whose answer the kill took may be in force.
        self.handled += [int(message.value) for message in batch.messages]
        client.ack(*(message.receipt_handle for message in batch.messages))


def wait_for_more(counted: "set[int] | list[int]", more: int) -> None:
    wanted, deadline = len(counted) + more, time.monotonic() + 60
    while len(counted) < wanted:
        assert time.monotonic() < deadline, f"{len(counted)} of {wanted}"
        time.sleep(0.01)


def test_nothing_acknowledged_is_lost_when_the_node_is_killed_under_streams(
    tmp_path: Path,
) -> None:
    address = f"127.0.0.1:{free_port()}"
    node = ServerProcess(tmp_path / "data", "--grpc", address)
    node.start()
    with contextlib.closing(Api(node.url)) as api:
        api.create(TOPIC, partitions=2)
    publisher, worker = Publisher(address), Worker(address)
    publisher.start()
    worker.start()
    for _ in range(KILLS):
        wait_for_more(publisher.acknowledged, 300)
        wait_for_more(worker.handled, 300)
        node.kill()
        node.start()
    wait_for_more(publisher.acknowledged, 300)
    publisher.is_over.set()
    publisher.join(60)
    # Subscriptions go on after each kill: in the end the worker has handled all that is stored.
    deadline = time.monotonic() + 60
    while missing := publisher.acknowledged - set(worker.handled):
        assert time.monotonic() < deadline, f"{len(missing)} were not delivered"
        time.sleep(0.05)
    worker.is_over.set()
    with contextlib.closing(Api(node.url)) as api:
        stored = {int(each["value"]) for part in (0, 1) for each in api.read(TOPIC, part)}
    assert publisher.acknowledged <= stored
    node.kill()
    worker.join(60)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[ServerProcess]:
    """A node with TLS that verifies client certificates, and asks for keys."""
    home = tmp_path_factory.mktemp("secured")
    issued = authority.issue()
    secret = home / "root-key"
    secret.write_text(ROOT_KEY)
    secret.chmod(0o600)
    flags = (
        *("--tls-enabled", "--tls-cert-file", issued.cert, "--tls-key-file", issued.key),
        *("--tls-client-auth", "verify", "--tls-ca-file", str(authority.ca_file)),
        *("--auth-enabled", "--api-root-key-file", str(secret), "--grpc", "127.0.0.1:0"),
    )
    process = ServerProcess(home / "data", *flags)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def secure_client(
    node: ServerProcess, authority: Authority, key: str = "", *, certificate: str = ""
) -> "contextlib.AbstractContextManager[GrpcClient]":
    chain = None
    if certificate:
        issued = authority.issue("worker", certificate, usage="clientAuth")
        chain = (Path(issued.key).read_bytes(), Path(issued.cert).read_bytes())
    own = {} if chain is None else {"private_key": chain[0], "certificate_chain": chain[1]}
    trusted = authority.ca_file.read_bytes()
    credentials = grpc.ssl_channel_credentials(root_certificates=trusted, **own)
    address = grpc_address(node).replace("127.0.0.1", "localhost")
    return grpc_client(address, key, credentials)


def publish_code(client: GrpcClient) -> str:
    try:
        client.publish("never", b"x")
    except CallFailed as failed:
        return failed.status
    return "OK"


@NEEDS_OPENSSL
def test_tls_keys_and_certificates_are_those_of_http(
    secured: ServerProcess, authority: Authority
) -> None:
    with secure_client(secured, authority, ROOT_KEY) as client:
        assert publish_code(client) == "NOT_FOUND"
    with secure_client(secured, authority) as client:
        assert publish_code(client) == "UNAUTHENTICATED"
    trusted = ssl.create_default_context(cafile=str(authority.ca_file))
    with httpx.Client(
        base_url=secured.url.replace("127.0.0.1", "localhost"), verify=trusted
    ) as http:
        for name, roles in (("uri:spiffe://prod/writer", "producer"), ("dns:reader.x", "readonly")):
            body = {"name": roles, "roles": [roles], "certificate": name}
            headers = {"authorization": f"Bearer {ROOT_KEY}"}
            assert http.post("/admin/keys", json=body, headers=headers).status_code == 201
    # The certificate is enough, and what it may do is decided for its key.
    with secure_client(secured, authority, certificate="URI:spiffe://prod/writer") as client:
        assert publish_code(client) == "NOT_FOUND"
    with secure_client(secured, authority, certificate="DNS:reader.x") as client:
        assert publish_code(client) == "PERMISSION_DENIED"
    with secure_client(secured, authority, certificate="DNS:nobody.x") as client:
        assert publish_code(client) == "UNAUTHENTICATED"
    with grpc_client(grpc_address(secured), ROOT_KEY) as client:
        assert publish_code(client) == "UNAVAILABLE"


def test_requests_are_counted_and_logged(tmp_path: Path) -> None:
    flags = ("--grpc", "127.0.0.1:0", "--log-access", "true")
    with serving(tmp_path / "data", *flags) as node, contextlib.closing(Api(node.url)) as api:
        api.create(TOPIC)
        with grpc_client(grpc_address(node)) as client:
            client.publish(TOPIC, b"x")
            assert publish_code(client) == "NOT_FOUND"
        metrics = api.send("GET", "/metrics").content.decode()
        counted = re.search(r"^goqueue_grpc_requests_total (\d+)", metrics, re.MULTILINE)
        assert counted is not None
        assert int(counted[1]) == 2
        assert 'goqueue_broker_messages_published_total{topic="orders"} 1' in metrics
        # Their lines come in order.
        path = "path=/goqueue.v1.PublishService/Publish"
        node.wait_to_say(f"{path} status=404")
        assert node.said.count(f"{path} status=200") == 1
