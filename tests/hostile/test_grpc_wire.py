"""Hostile clients of the gRPC listener: bytes that are no HTTP/2, floods, huge headers, wrong keys.

A node in its own process is attacked over plain sockets. After each attack it answers a client that
behaves, and its memory is bounded.
"""

import contextlib
import gzip
import os
import random
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import goqueue
from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.http2.frames import (
    PREFACE,
    FrameType,
    SettingId,
    settings,
    write_frame,
)
from goqueue.gateways.grpc.http2.header_codec import encode_headers
from tests.certificates import NEEDS_OPENSSL, Authority
from tests.integration.grpc_client import CallFailed, GrpcClient, grpc_address, grpc_client
from tests.integration.server_process import ServerProcess, serving

TOPIC = "orders"
MIB = 1024 * 1024
END_STREAM, END_HEADERS = 0x1, 0x4
UNKNOWN = write_frame(99, 0, 0)  # type: ignore[arg-type]  # a type that there is not
HEAD = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/goqueue.v1.ConsumeService/Consume"),
    (b":authority", b"node"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
]


class Target:
    """A node that is attacked, in the clear or over TLS, and how to speak to it."""

    def __init__(self, process: ServerProcess, authority: Authority | None) -> None:
        self.process = process
        self._ca_file = None if authority is None else authority.ca_file
        self._tls = None
        if self._ca_file is not None:
            self._tls = ssl.create_default_context(cafile=self._ca_file)
            self._tls.set_alpn_protocols(["h2"])

    def connect(self) -> socket.socket:
        host, _, port = grpc_address(self.process).partition(":")
        plain = socket.create_connection((host, int(port)), timeout=30)
        if self._tls is None:
            return plain
        return self._tls.wrap_socket(plain, server_hostname=host)

    def client(self, key: str = "") -> contextlib.AbstractContextManager[GrpcClient]:
        """A client that behaves."""
        credentials = None
        if self._ca_file is not None:
            credentials = grpc.ssl_channel_credentials(self._ca_file.read_bytes())
        return grpc_client(grpc_address(self.process), key, credentials)

    def create(self, topic: str, *, partitions: int) -> None:
        ca_file = None if self._ca_file is None else str(self._ca_file)
        with goqueue.connect_sync(self.process.url, ca_file=ca_file) as q:
            q.topics.create(topic, partitions=partitions)

    @property
    def resident_bytes(self) -> int:
        return self.process.resident_bytes


@contextlib.contextmanager
def target(folder: Path, authority: Authority | None, *flags: str) -> Iterator[Target]:
    flags = ("--grpc", "127.0.0.1:0", *flags)
    if authority is not None:
        issued = authority.issue()
        flags += ("--tls-enabled=true", "--tls-cert-file", issued.cert)
        flags += ("--tls-key-file", issued.key)
    with serving(folder / "data", *flags) as process:
        yield Target(process, authority)


@pytest.fixture(params=["plain", pytest.param("tls", marks=NEEDS_OPENSSL)], scope="module")
def authority(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Authority | None:
    """Every attack is tried in the clear and over TLS."""
    if request.param == "plain":
        return None
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, authority: Authority | None) -> Iterator[Target]:
    with target(tmp_path_factory.mktemp("node"), authority) as made:
        made.create(TOPIC, partitions=2)
        yield made


@pytest.fixture(autouse=True)
def _serves_others(node: Target) -> Iterator[None]:
    yield
    with node.client() as client:
        assert client.publish(TOPIC, b"still here").offset >= 0


class Attacker:
    """A plain socket that has begun to speak HTTP/2."""

    def __init__(self, node: Target, *, speaks: bool = True) -> None:
        self.socket = node.connect()
        if speaks:
            self.socket.sendall(PREFACE + settings({}))

    def send(self, data: bytes) -> None:
        # The node may have closed already, and need not read the rest.
        with contextlib.suppress(OSError):
            self.socket.sendall(data)

    def call(self, number: int, request: bytes, *, head: list[tuple[bytes, bytes]] = HEAD) -> None:
        """Begin a call with one message."""
        self.send(write_frame(FrameType.HEADERS, END_HEADERS, number, encode_headers(head)))
        message = struct.pack(">BL", 0, len(request)) + request
        self.send(write_frame(FrameType.DATA, END_STREAM, number, message))

    def frames(self) -> Iterator[tuple[int, int, bytes]]:
        """What the node sends until it closes: type, stream and payload."""
        data = b""
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            while piece := self.socket.recv(65_536):
                data += piece
                while len(data) >= 9 and len(data) >= 9 + (size := int.from_bytes(data[:3], "big")):
                    yield data[3], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]
                    data = data[9 + size :]

    def farewell(self, *, stays: bool = False) -> tuple[int, str]:
        """The code and the reason of the last GOAWAY, once the node has closed.

        Over TLS, where a node cannot say that it has no more to send, it waits two seconds for the
        client to go. Most go at once; one that `stays` is cut off.
        """
        code, reason = -1, ""
        for kind, _, payload in self.frames():
            if kind == FrameType.GOAWAY:
                code, reason = int.from_bytes(payload[4:8], "big"), payload[8:].decode()
                if not stays:
                    self.socket.shutdown(socket.SHUT_WR)
        return code, reason

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def attacker(node: Target) -> Iterator[Attacker]:
    with contextlib.closing(Attacker(node)) as made:
        yield made


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"\x00" * 64,
        PREFACE[:-1] + b"x",
    ],
)
def test_what_is_no_http2_is_refused(node: Target, data: bytes) -> None:
    with contextlib.closing(Attacker(node, speaks=False)) as attacker:
        attacker.send(data)
        assert attacker.farewell()[0] == 1


def test_random_bytes_end_their_connection_only(node: Target) -> None:
    chance = random.Random(os.environ.get("SIM_SEED_BASE", "5"))
    for _ in range(40):
        with contextlib.closing(Attacker(node)) as attacker:
            for _ in range(chance.randrange(1, 6)):
                payload = chance.randbytes(chance.randrange(0, 60))
                kind, flags = chance.randrange(0, 11), chance.randrange(256)
                attacker.send(
                    write_frame(kind, flags, chance.randrange(0, 8), payload)  # type: ignore[arg-type]  # also kinds that are none
                )
            attacker.send(chance.randbytes(200))


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (write_frame(FrameType.DATA, 0, 0, b"x"), 1),
        (write_frame(FrameType.DATA, 0, 7, b"x"), 1),
        (write_frame(FrameType.HEADERS, END_HEADERS, 2, b""), 1),
        (write_frame(FrameType.HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"), 9),
        (write_frame(FrameType.HEADERS, END_HEADERS | 0x8, 1, b"\xff"), 1),
        (write_frame(FrameType.CONTINUATION, END_HEADERS, 1, b""), 1),
        (write_frame(FrameType.SETTINGS, 0, 0, b"\x00"), 6),
        (settings({5: 1}), 1),  # type: ignore[dict-item]  # a frame size that cannot be
        (settings({4: 2**31}), 3),  # type: ignore[dict-item]  # a window that cannot be
        (write_frame(FrameType.SETTINGS, 0x1, 0, b"\0\0\0\0\0\0"), 6),
        (write_frame(FrameType.PING, 0, 0, b"short"), 6),
        (write_frame(FrameType.PING, 0, 1, b"12345678"), 1),
        (write_frame(FrameType.GOAWAY, 0, 1, b"\0" * 8), 1),
        (write_frame(FrameType.PUSH_PROMISE, 0, 1, b""), 1),
        (write_frame(FrameType.RST_STREAM, 0, 9, b"\0\0\0\0"), 1),
        (write_frame(FrameType.WINDOW_UPDATE, 0, 0, b"\0\0\0\0"), 3),
        (write_frame(FrameType.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"), 3),
        (b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", 6),
    ],
)
def test_a_malformed_frame_ends_the_connection_with_its_code(
    attacker: Attacker, frame: bytes, code: int
) -> None:
    attacker.send(frame)
    assert attacker.farewell()[0] == code


def test_a_header_block_without_end_is_cut_off(attacker: Attacker) -> None:
    attacker.send(write_frame(FrameType.HEADERS, 0, 1, b""))
    for _ in range(1000):
        attacker.send(write_frame(FrameType.CONTINUATION, 0, 1, b""))
    assert attacker.farewell(stays=True) == (11, "the headers are too large")


def test_huge_metadata_fail_one_call(node: Target) -> None:
    with node.client() as client:
        with pytest.raises(CallFailed) as failed:
            client.call(
                "HealthService/Check",
                protocol.HealthCheckRequest(),
                protocol.HealthCheckResponse,
                metadata=(("x-large", "v" * 20_000),),
            )
        assert failed.value.status in {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
        assert client.publish(TOPIC, b"same connection").offset >= 0


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (write_frame(FrameType.PING, 0, 0, b"12345678"), "too_many_pings"),
        (settings({}), "too many empty frames"),
        (write_frame(FrameType.SETTINGS, 0x1, 0), "too many empty frames"),
        (write_frame(FrameType.PING, 0x1, 0, b"12345678"), "too many empty frames"),
        (UNKNOWN, "too many empty frames"),
        (write_frame(FrameType.PRIORITY, 0, 1, b"\0\0\0\0\0"), "too many empty frames"),
    ],
)
def test_a_flood_of_empty_frames_ends_its_connection(
    attacker: Attacker, frame: bytes, reason: str
) -> None:
    attacker.send(frame * 3000)
    assert attacker.farewell() == (11, reason)


def test_calls_that_are_reset_at_once_end_their_connection(attacker: Attacker) -> None:
    head = encode_headers(HEAD)
    calls = b"".join(
        write_frame(FrameType.HEADERS, END_HEADERS, number, head)
        + write_frame(FrameType.RST_STREAM, 0, number, b"\0\0\0\x08")
        for number in range(1, 6001, 2)
    )
    attacker.send(calls)
    assert attacker.farewell() == (11, "too many resets")


def test_calls_that_the_node_is_made_to_reset_end_their_connection(attacker: Attacker) -> None:
    head = encode_headers(HEAD)
    calls = b"".join(
        write_frame(FrameType.HEADERS, END_HEADERS, number, head)
        + write_frame(FrameType.WINDOW_UPDATE, 0, number, b"\0\0\0\0")
        for number in range(1, 6001, 2)
    )
    attacker.send(calls)
    assert attacker.farewell() == (11, "too many resets")


def test_a_window_that_is_opened_byte_by_byte_ends_its_connection(attacker: Attacker) -> None:
    attacker.send(settings({SettingId.INITIAL_WINDOW_SIZE: 0}))
    request = protocol.ConsumeRequest(topic=TOPIC).SerializeToString()
    attacker.call(1, request)
    attacker.send(write_frame(FrameType.WINDOW_UPDATE, 0, 1, b"\0\0\0\1") * 20_000)
    assert attacker.farewell() == (11, "too many window updates")


def test_a_window_of_a_stream_above_its_maximum_ends_that_stream(attacker: Attacker) -> None:
    request = protocol.ConsumeRequest(topic=TOPIC, start_position=1).SerializeToString()
    for number in (1, 3):
        attacker.call(number, request)
    attacker.send(write_frame(FrameType.WINDOW_UPDATE, 0, 1, b"\x7f\xff\xff\xff"))
    attacker.send(write_frame(FrameType.PING, 0, 0, b"finished"))
    ended = []
    for kind, stream, payload in attacker.frames():
        if kind == FrameType.RST_STREAM:
            ended.append((stream, int.from_bytes(payload, "big")))
        if kind == FrameType.PING:
            break
    assert ended == [(1, 3)]


def test_thousands_of_settings_in_one_frame_end_their_connection(attacker: Attacker) -> None:
    many = struct.pack(">HL", SettingId.INITIAL_WINDOW_SIZE, 1) * 10_000
    attacker.send(write_frame(FrameType.SETTINGS, 0, 0, many))
    assert attacker.farewell() == (11, "too many settings")


def test_headers_that_are_too_large_again_and_again_end_their_connection(
    attacker: Attacker,
) -> None:
    block = encode_headers([*HEAD, (b"x-large", b"v" * 20_000)])
    for number in range(1, 101, 2):
        attacker.send(write_frame(FrameType.HEADERS, END_HEADERS, number, block))
    assert attacker.farewell() == (11, "too many empty frames")


def test_a_header_block_that_unfolds_without_measure_ends_its_connection(
    attacker: Attacker,
) -> None:
    block = b"\x40\x01a\x7f\x81\x1e" + b"v" * 4000 + b"\xbe" * 40_000
    attacker.send(write_frame(FrameType.HEADERS, END_HEADERS, 1, block))
    assert attacker.farewell() == (11, "the headers are too large")


def test_messages_that_decompress_to_a_thousand_times_their_size_wait_as_they_came(
    node: Target,
) -> None:
    bomb = gzip.compress(bytes(15 * MIB), 9)
    message = struct.pack(">BL", 1, len(bomb)) + bomb
    head = [pair for pair in HEAD if pair[0] != b":path"]
    head += [(b"grpc-encoding", b"gzip")]
    path = (b":path", b"/goqueue.v1.PublishService/PublishStream")
    block = encode_headers([path, *head])
    before = node.resident_bytes
    with contextlib.closing(Attacker(node)) as attacker:
        for number in range(1, 41, 2):
            attacker.send(write_frame(FrameType.HEADERS, END_HEADERS, number, block))
            for _ in range(20):
                attacker.send(write_frame(FrameType.DATA, 0, number, message))
        # 20 streams with 20 messages of 15 MiB each: 6 GiB, of which 15 MiB are there at a time.
        attacker.send(write_frame(FrameType.PING, 0, 0, b"finished"))
        for kind, _, payload in attacker.frames():
            if kind == FrameType.PING and payload == b"finished":
                break
        assert node.resident_bytes - before < 256 * MIB


def test_ten_thousand_calls_are_a_hundred_at_a_time(node: Target, attacker: Attacker) -> None:
    request = protocol.ConsumeRequest(topic=TOPIC, start_position=1).SerializeToString()
    before = node.resident_bytes
    for number in range(1, 20_001, 2):
        attacker.call(number, request)
    attacker.send(write_frame(FrameType.PING, 0, 0, b"finished"))
    refused = 0
    for kind, _, payload in attacker.frames():
        if kind == FrameType.RST_STREAM:
            refused += int.from_bytes(payload, "big") == 7
        if kind == FrameType.PING and payload == b"finished":
            break
    assert refused == 9_900
    assert node.resident_bytes - before < 64 * MIB


def test_a_message_above_the_limit_is_refused_by_its_first_bytes(attacker: Attacker) -> None:
    head = [(name, value) for name, value in HEAD if name != b":path"]
    path = (b":path", b"/goqueue.v1.PublishService/Publish")
    block = encode_headers([path, *head])
    attacker.send(write_frame(FrameType.HEADERS, END_HEADERS, 1, block))
    attacker.send(write_frame(FrameType.DATA, 0, 1, struct.pack(">BL", 0, 17 * MIB)))
    statuses = [payload for kind, _, payload in _until_trailers(attacker)]
    assert any(b"grpc-status" in payload for payload in statuses)


def _until_trailers(attacker: Attacker) -> Iterator[tuple[int, int, bytes]]:
    for frame in attacker.frames():
        yield frame
        if frame[0] == FrameType.HEADERS:
            return


def test_a_reader_that_takes_nothing_holds_one_batch(node: Target) -> None:
    topic = "large"
    node.create(topic, partitions=1)
    with node.client() as client:
        for _ in range(64):
            client.publish(topic, os.urandom(MIB - 1000))
    before = node.resident_bytes
    request = protocol.ConsumeRequest(topic=topic).SerializeToString()
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(contextlib.closing(Attacker(node))) for _ in range(8)]
        for reader in readers:
            for number in (1, 3):
                reader.call(number, request)
        # The node sends what the windows of 64 KiB allow, and then waits.
        for reader in readers:
            sent = 0
            for kind, _, payload in reader.frames():
                sent += len(payload) if kind == FrameType.DATA else 0
                if sent >= 65_535:
                    break
            assert sent == 65_535
        assert node.resident_bytes - before < 16 * 8 * MIB


def test_a_subscription_cancelled_in_the_middle_of_a_batch_frees_it(node: Target) -> None:
    topic = "middle"
    node.create(topic, partitions=1)
    with node.client() as client:
        for number in range(40):
            client.publish(topic, b"%d" % number * 10_000)
        request = protocol.SubscribeRequest(topics=[topic], group_id="middle", max_messages=40)
        head = [pair for pair in HEAD if pair[0] != b":path"]
        path = (b":path", b"/goqueue.v1.ConsumeService/Subscribe")
        with contextlib.closing(Attacker(node)) as attacker:
            attacker.call(1, request.SerializeToString(), head=[path, *head])
            sent = 0
            for kind, _, payload in attacker.frames():
                sent += len(payload) if kind == FrameType.DATA else 0
                if sent >= 65_535:
                    break
        # It is gone with most of the batch unsent: another member gets all of it now.
        stream = client.subscribe("middle", topic, max_messages=40)
        assert len({message.offset for message in stream.messages(40)}) == 40
        stream.cancel()


def test_thousands_of_silent_connections_leave_room(node: Target) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(contextlib.closing(Attacker(node)))
        with node.client() as client:
            assert client.publish(TOPIC, b"x").offset >= 0


def test_wrong_keys_are_refused_late_and_end_their_connection(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority | None
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    secret = folder / "root"
    secret.write_text("gq_" + "7" * 64)
    secret.chmod(0o600)
    flags = ("--auth-enabled", "true", "--api-root-key-file", str(secret))
    with target(folder, authority, *flags) as node:
        for key in ("", "gq_wrong", "a" * 5000):
            with node.client(key) as client:
                with pytest.raises(CallFailed) as failed:
                    client.publish(TOPIC, b"x")
                assert failed.value.status == "UNAUTHENTICATED"
                expected = protocol.ERROR_CODE_UNAUTHENTICATED
                assert failed.value.error.code == expected
        with contextlib.closing(Attacker(node)) as attacker:
            for number in (1, 3, 5):
                attacker.call(number, b"", head=[*HEAD, (b"authorization", b"Bearer gq_wrong")])
            assert attacker.farewell() == (0, "no valid key")
        assert "Traceback" not in node.process.said_in_this_life
        with node.client() as client:
            # Health checks need no key.
            method, request = "grpc.health.v1.Health/Check", protocol.HealthCheckRequest()
            answer = client.call(method, request, protocol.HealthCheckResponse)
            assert answer.status == protocol.SERVING_STATUS_SERVING
        with node.client("gq_" + "7" * 64) as client:
            with pytest.raises(CallFailed) as failed:
                client.publish(TOPIC, b"x")
            assert failed.value.status == "NOT_FOUND"


def test_many_clients_with_wrong_keys_do_not_keep_out_one_with_the_right_key(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority | None
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    secret = folder / "root"
    secret.write_text("gq_" + "7" * 64)
    secret.chmod(0o600)
    flags = ("--auth-enabled", "true", "--api-root-key-file", str(secret))
    with target(folder, authority, *flags) as node:
        is_over = threading.Event()

        def guess() -> None:
            while not is_over.is_set():
                with node.client("gq_wrong") as client, contextlib.suppress(CallFailed):
                    client.publish(TOPIC, b"x")

        guessers = [threading.Thread(target=guess, daemon=True) for _ in range(8)]
        for guesser in guessers:
            guesser.start()
        for _ in range(10):
            with node.client("gq_" + "7" * 64) as client:
                with pytest.raises(CallFailed) as failed:
                    client.publish(TOPIC, b"x")
                assert failed.value.status == "NOT_FOUND"
        is_over.set()
        for guesser in guessers:
            guesser.join(30)
