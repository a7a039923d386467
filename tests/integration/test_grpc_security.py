"""gRPC under the rules that it shares with HTTP: quotas of tenants, certificates that change."""

import contextlib
import os
import queue
import shutil
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import httpx
import msgspec
import pytest

from goqueue.gateways.grpc import protocol
from tests.certificates import NEEDS_OPENSSL, Authority, Issued
from tests.integration.grpc_client import CallFailed, GrpcClient, grpc_address, grpc_client
from tests.integration.http_api import Answer, Api, Json
from tests.integration.server_process import ServerProcess, serving

ROOT = "a-root-key-for-gRPC-and-its-tenants"
WAIT_S = 30.0


class KeyApi(Api):
    """A connection that sends the root key with each request."""

    def ask(self, method: str, path: str, body: Json | None = None, **_: object) -> Answer:
        content = None if body is None else msgspec.json.encode(body)
        return self.send(method, path, content, {"Authorization": f"Bearer {ROOT}"})


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("limits")
    secret = directory / "root-key"
    secret.write_text(ROOT)
    secret.chmod(0o600)
    flags = ("--auth-enabled=true", "--api-root-key-file", str(secret), "--grpc", "127.0.0.1:0")
    with serving(directory / "data", *flags) as process:
        yield process


def tenant(node: ServerProcess, name: str, **quotas: int) -> str:
    """A new tenant with a topic `orders`; a key of it."""
    with contextlib.closing(KeyApi(node.url)) as admin:
        admin.post("/admin/tenants", {"name": name, "quotas": quotas})
        admin.post("/topics", {"name": f"{name}.orders", "num_partitions": 1})
        body: Json = {"name": name, "roles": ["admin"], "tenant": name}
        return str(admin.post("/admin/keys", body)["key"])


def failure(call: Callable[[], object]) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        call()
    return failed.value


def test_connections_above_the_quota_of_a_tenant_are_refused(node: ServerProcess) -> None:
    key, topic = tenant(node, "narrow", max_connections=2), "narrow.orders"
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(grpc_client(grpc_address(node), key)) for _ in range(3)]
        for client in clients[:2]:
            client.publish(topic, b"x")
        refused = failure(lambda: clients[2].publish(topic, b"x"))
        assert refused.status == "RESOURCE_EXHAUSTED"
        assert refused.error.code == protocol.ERROR_CODE_QUOTA_EXCEEDED
        assert refused.error.details["quota"] == "max_connections"
    deadline = time.monotonic() + WAIT_S
    with grpc_client(grpc_address(node), key) as later:
        # The node hears of closed connections when its loop looks at them.
        while True:
            try:
                later.publish(topic, b"x")
                break
            except CallFailed:
                assert time.monotonic() < deadline


def test_messages_above_the_rate_of_a_tenant_are_refused_with_a_time_to_wait(
    node: ServerProcess,
) -> None:
    key, topic = tenant(node, "slow", max_messages_per_second=5), "slow.orders"
    other, free = tenant(node, "free"), "free.orders"

    def requests() -> Iterator[protocol.PublishStreamRequest]:
        for number in range(100):
            yield protocol.PublishStreamRequest(
                correlation_id=str(number), topic=topic, value=b"x", partition=0
            )

    with grpc_client(grpc_address(node), key) as client:
        # What comes at once may be one batch, which is accepted as a debt.
        list(client.publish_stream(requests()))
        refused = failure(lambda: [client.publish(topic, b"x") for _ in range(100)])
        assert refused.status == "RESOURCE_EXHAUSTED"
        assert refused.error.code == protocol.ERROR_CODE_RATE_LIMITED
        assert refused.error.retry_after.seconds or refused.error.retry_after.nanos
        # An item of a stream is refused by itself: the stream goes on.
        answers = list(client.publish_stream(requests()))
        assert len(answers) == 100
        assert answers[0].error.code == protocol.ERROR_CODE_RATE_LIMITED
    with grpc_client(grpc_address(node), other) as client:
        assert client.publish(free, b"x").offset == 0


def test_every_stream_ends_when_its_key_is_revoked(node: ServerProcess) -> None:
    tenant(node, "ending")
    topic = "ending.orders"
    with contextlib.closing(KeyApi(node.url)) as admin:
        body: Json = {"name": "leaked", "roles": ["producer", "consumer"], "tenant": "ending"}
        leaked = admin.post("/admin/keys", body)
    key, requests = str(leaked["key"]), queue.SimpleQueue[protocol.PublishStreamRequest | None]()
    request = protocol.PublishStreamRequest(correlation_id="1", topic=topic, value=b"x")
    headers = {"Authorization": f"Bearer {key}"}
    with (
        grpc_client(grpc_address(node), key) as client,
        httpx.stream(
            "GET", f"{node.url}/topics/{topic}/tail", headers=headers, timeout=WAIT_S
        ) as tail,
        contextlib.closing(KeyApi(node.url)) as admin,
    ):
        published = iter(client.publish_stream(iter(requests.get, None)))
        requests.put(request)
        assert next(published).offset == 0
        consumed = client.consume(topic)
        subscribed = client.subscribe("ending.group", topic)
        lines = tail.iter_lines()
        assert len(consumed.messages(1)) == len(subscribed.messages(1)) == 1
        assert any(line.startswith("data:") for line in lines)
        # All of them wait for the next message now.
        admin.do("DELETE", f"/admin/keys/{leaked['id']}")
        for stream in (consumed, subscribed):
            assert failure(lambda each=stream: list(each)).status == "UNAUTHENTICATED"  # type: ignore[misc]  # bound now
        assert "unauthenticated" in "".join(lines)
        # A message that is refused does not end its stream: each is by itself.
        requests.put(request)
        assert next(published).error.code == protocol.ERROR_CODE_UNAUTHENTICATED
        requests.put(None)


def test_names_of_another_tenant_are_out_of_reach(node: ServerProcess) -> None:
    key = tenant(node, "curious")
    tenant(node, "secretive")
    with grpc_client(grpc_address(node), key) as client:
        refused = failure(lambda: client.publish("secretive.orders", b"x"))
        assert refused.status in {"NOT_FOUND", "PERMISSION_DENIED"}
        stream = client.consume("secretive.orders")
        assert failure(lambda: list(stream)).status == refused.status


def swap(pair: Issued, source: Issued) -> None:
    for path, new in zip(pair, source, strict=True):
        temporary = Path(f"{path}.new")
        shutil.copy(new, temporary)
        temporary.chmod(0o600)
        os.replace(temporary, path)


def certificate_of(address: str) -> bytes:
    host, _, port = address.partition(":")
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port)), timeout=WAIT_S))


@NEEDS_OPENSSL
def test_a_certificate_is_replaced_while_streams_last(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    pair = Issued(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    first, second = authority.issue(), authority.issue()
    swap(pair, first)
    flags = ("--tls-enabled", "--tls-cert-file", pair.cert, "--tls-key-file", pair.key)
    with serving(tmp_path / "data", *flags, "--grpc", "127.0.0.1:0") as node:
        address = grpc_address(node).replace("127.0.0.1", "localhost")
        trusted = grpc.ssl_channel_credentials(root_certificates=authority.ca_file.read_bytes())
        with grpc_client(address, credentials=trusted) as client:
            before = certificate_of(address)
            watched = client.stream(
                "HealthService/Watch", protocol.HealthCheckRequest(), protocol.HealthCheckResponse
            )
            assert next(iter(watched)).status == protocol.SERVING_STATUS_SERVING
            swap(pair, second)
            node.signal(signal.SIGHUP)
            deadline = time.monotonic() + WAIT_S
            while certificate_of(address) == before:
                assert time.monotonic() < deadline
            # The connection that was there goes on, and new ones get the new certificate.
            assert _status(client) == "NOT_FOUND"
            with grpc_client(address, credentials=trusted) as later:
                assert _status(later) == "NOT_FOUND"
            watched.cancel()


def _status(client: GrpcClient) -> str:
    return failure(lambda: client.publish("never-created", b"x")).status
