"""What calls hold of the request bytes: counted for their tenant, bounded in time, given back."""

import asyncio
import gzip
import struct
from collections.abc import Callable, Coroutine

import pytest

from goqueue.gateways import Authenticator, Capacity, ConnectionLimits, Endpoint
from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.grpc_api import GrpcLimits
from goqueue.gateways.grpc.grpc_listener import grpc_listener
from goqueue.gateways.grpc.http2.frames import (
    PREFACE,
    ErrorCode,
    FrameType,
    reset_stream,
    settings,
    write_frame,
)
from goqueue.gateways.grpc.http2.header_codec import encode_headers
from goqueue.gateways.grpc.http2.http2_connection import Http2Connection
from goqueue.gateways.key_maker import KeyMaker
from goqueue.gateways.port import GatewayPort, NodeFacts
from goqueue.model import Caller, Code, KeyId, Offset, ProvenKey, Refused, Timestamp
from goqueue.model.requests import Command, Placed, Publish, Published, Reply, key_digest
from tests.unit.gateways.loopback import HandMovedLoop, run

LIMITS = ConnectionLimits(request_bytes_max=4000, unsent_bytes_max=4000)
END_STREAM, END_HEADERS = 0x1, 0x4
PUBLISH, STREAM = b"PublishService/Publish", b"PublishService/PublishStream"
KEYS = {key_digest(name.encode()): ProvenKey(KeyId(name)) for name in ("acme", "globex", "default")}


class Wire(asyncio.Transport):
    """A transport that remembers what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("192.0.2.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        self._is_closing = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Node:
    """A node that publishes when it may, and tenants of which some are in debt."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.asked = 0
        self.debtors: set[str] = set()
        self.capacity = Capacity(LIMITS)

    async def ask(self, command: Command, _: Caller) -> Reply:
        assert isinstance(command, Publish)
        self.asked += 1
        await self.go.wait()
        placed = (Placed(partition=0, first=Offset(0), count=1),)
        return Published(placed=placed, targets=[0], timestamp=Timestamp(0))

    def check_publish(self, topic: str, key: KeyId | None) -> None:
        raise AssertionError(f"the head of a call names no topic, not {topic} for {key}")

    def check_publisher(self, key: KeyId) -> None:
        if key in self.debtors:
            raise Refused(Code.RATE_LIMITED, retry_after_ms=100)

    def open_connection(self, key: KeyId) -> str:
        return str(key)

    def close_connection(self, tenant: str, key: KeyId) -> None: ...


class Client:
    """Frames to the gateway over one connection."""

    def __init__(self, protocol_: asyncio.Protocol, key: str) -> None:
        assert isinstance(protocol_, Http2Connection)
        self.connection = protocol_
        self.wire = Wire()
        self._key = key.encode()
        self.connection.connection_made(self.wire)
        self.send(PREFACE + settings({}))

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def head(self, number: int, method: bytes, *more: tuple[bytes, bytes]) -> bytes:
        head = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/goqueue.v1." + method),
            (b":authority", b"node"),
            (b"content-type", b"application/grpc"),
            (b"x-api-key", self._key),
            *more,
        ]
        return write_frame(FrameType.HEADERS, END_HEADERS, number, encode_headers(head))

    def leave(self) -> None:
        self.connection.connection_lost(None)

    def ended(self, number: int, text: bytes) -> bool:
        """Whether a stream has ended with trailers that hold this text."""
        data = self.wire.written
        while data:
            size, kind, stream = int.from_bytes(data[:3], "big"), data[3], data[5:9]
            is_it = kind == FrameType.HEADERS and int.from_bytes(stream, "big") == number
            if is_it and data[4] & END_STREAM and text in data[9 : 9 + size]:
                return True
            data = data[9 + size :]
        return False


def body(value: bytes, flag: int = 0) -> bytes:
    """A message of a stream."""
    request = protocol.PublishStreamRequest(topic="orders", value=value, partition=0)
    return framed(request.SerializeToString(), flag)


def one(value: bytes) -> bytes:
    """The message of a unary call."""
    request = protocol.PublishRequest(topic="orders", value=value, partition=0)
    return framed(request.SerializeToString())


def framed(message: bytes, flag: int = 0) -> bytes:
    if flag:
        message = gzip.compress(message)
    return struct.pack(">BL", flag, len(message)) + message


def data_frame(number: int, data: bytes, *, is_last: bool = False) -> bytes:
    return write_frame(FrameType.DATA, END_STREAM if is_last else 0, number, data)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def serve(test: Callable[[Node, Callable[[str], Client]], Coroutine[None, None, None]]) -> None:
    async def main() -> None:
        node = Node()
        port = GatewayPort(
            broker=node,
            facts=NodeFacts(version="1", started_at=Timestamp(0)),
            capacity=node.capacity,
            scrape=_nothing,
            authenticator=Authenticator(lambda digest, _: KEYS.get(digest or b"")),
            key_maker=KeyMaker(b"x" * 32),
            tenants=node,
        )
        listener = grpc_listener(port, Endpoint("127.0.0.1", 0), limits=GrpcLimits(message_s=3))

        def connect(key: str) -> Client:
            return Client(listener._connect(listener), key)  # noqa: SLF001  # without a socket

        await test(node, connect)
        await turns()
        assert node.capacity.requests.bytes_held == 0
        assert node.capacity.unsent.bytes_held == 0
        assert node.capacity.shares_count == 0

    run(main(), "by hand")


async def _nothing() -> tuple[bytes, ...]:
    return ()


def test_unfinished_messages_of_one_tenant_refuse_only_its_own() -> None:
    async def check(node: Node, connect: Callable[[str], Client]) -> None:
        slow, same, other = connect("acme"), connect("acme"), connect("globex")
        slow.send(slow.head(1, STREAM) + data_frame(1, body(bytes(2000))[:950]))
        await turns()
        assert node.capacity.requests.bytes_held == 950

        same.send(same.head(1, PUBLISH) + data_frame(1, one(bytes(200)), is_last=True))
        other.send(other.head(1, PUBLISH) + data_frame(1, one(bytes(900)), is_last=True))
        await turns()
        assert same.ended(1, b"grpc-status\x0214")
        assert other.ended(1, b"grpc-status\x010")
        for client in (slow, same, other):
            client.leave()

    serve(check)


def test_a_stream_above_the_share_of_its_tenant_ends_with_its_task() -> None:
    async def check(node: Node, connect: Callable[[str], Client]) -> None:
        client = connect("acme")
        client.send(client.head(1, STREAM) + data_frame(1, body(bytes(2000))[:950]))
        await turns()
        tasks = len(asyncio.all_tasks())
        client.send(data_frame(1, bytes(200)))
        await turns()
        assert client.ended(1, b"grpc-status\x0214")
        assert node.capacity.requests.bytes_held == 0
        assert len(asyncio.all_tasks()) == tasks - 1
        client.leave()

    serve(check)


def test_a_message_that_is_not_finished_in_time_ends_its_call() -> None:
    async def check(node: Node, connect: Callable[[str], Client]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HandMovedLoop)
        client = connect("acme")
        message = body(bytes(500))
        client.send(client.head(1, STREAM) + data_frame(1, message[:-1]))
        await turns()
        loop.move(2.9)
        # A byte now and then does not help, and neither does a message that was finished.
        client.send(data_frame(1, message[-1:]) + data_frame(1, message[:1]))
        await turns()
        for _ in range(3):
            loop.move(0.9)
            client.send(data_frame(1, message[1:2]))
            await turns()
            assert not client.ended(1, b"grpc-status")
        loop.move(0.4)
        await turns()
        assert client.ended(1, b"grpc-status\x014")
        assert node.capacity.requests.bytes_held == 0
        loop.let_go()
        client.leave()

    serve(check)


def test_a_stream_that_waits_between_whole_messages_lasts() -> None:
    async def check(node: Node, connect: Callable[[str], Client]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HandMovedLoop)
        client, message = connect("acme"), body(b"x" * 50)
        client.send(client.head(1, STREAM) + data_frame(1, message[:10]))
        client.send(data_frame(1, message[10:]))
        await turns()
        for _ in range(5):
            loop.move(3.1)
            await turns()
        assert not client.ended(1, b"grpc-status")
        assert (node.asked, node.capacity.requests.bytes_held) == (1, 0)
        loop.let_go()
        client.leave()

    serve(check)


def test_a_call_that_is_cancelled_before_it_runs_gives_its_bytes_back() -> None:
    async def check(node: Node, connect: Callable[[str], Client]) -> None:
        client = connect("acme")
        whole = client.head(1, PUBLISH) + data_frame(1, one(bytes(500)), is_last=True)
        client.send(whole + reset_stream(1, ErrorCode.CANCEL))
        await turns()
        assert (node.asked, node.capacity.requests.bytes_held) == (0, 0)
        client.leave()

    serve(check)


@pytest.mark.parametrize("flag", [0, 1])
def test_a_long_stream_holds_nothing_of_messages_that_were_answered(flag: int) -> None:
    async def check(node: Node, connect: Callable[[str], Client]) -> None:
        client = connect("acme")
        client.send(client.head(1, STREAM, (b"grpc-encoding", b"gzip")))
        for number in range(1, 31):
            client.send(data_frame(1, body(b"x" * 100, flag)))
            await turns()
            assert (node.asked, node.capacity.requests.bytes_held) == (number, 0)
        client.leave()

    serve(check)


def test_bytes_of_a_call_count_for_its_tenant_until_it_ends_also_when_its_client_has_gone() -> None:
    async def check(node: Node, connect: Callable[[str], Client]) -> None:
        node.go.clear()
        client = connect("acme")
        client.send(client.head(1, PUBLISH) + data_frame(1, one(bytes(500)), is_last=True))
        await turns()
        client.leave()
        # Its task ends in the next turn.
        assert node.capacity.shares_count == 1
        assert node.capacity.requests.bytes_held > 500

    serve(check)


def test_no_body_is_kept_of_a_tenant_in_debt() -> None:
    async def check(node: Node, connect: Callable[[str], Client]) -> None:
        node.debtors.add("acme")
        client, other = connect("acme"), connect("globex")
        client.send(client.head(1, PUBLISH))
        assert client.ended(1, b"grpc-status\x018")
        client.send(data_frame(1, body(bytes(500))))
        assert node.capacity.requests.bytes_held == 0
        other.send(other.head(1, PUBLISH) + data_frame(1, one(bytes(500)), is_last=True))
        await turns()
        assert other.ended(1, b"grpc-status\x010")
        client.leave()
        other.leave()

    serve(check)


def test_answers_that_a_tenant_does_not_read_refuse_its_next_stream_only() -> None:
    async def check(_: Node, connect: Callable[[str], Client]) -> None:
        slow, same, other = connect("acme"), connect("acme"), connect("globex")
        for client in (slow, same, other):
            client.send(client.head(1, PUBLISH) + data_frame(1, one(b"x"), is_last=True))
        await turns()
        slow.connection.held.unsent.replace(0, 1000)
        consume = b"ConsumeService/Consume"
        for client in (same, other):
            client.send(client.head(3, consume))
        assert same.ended(3, b"grpc-status\x0214")
        assert not other.ended(3, b"grpc-status")
        slow.connection.held.unsent.replace(1000, 0)
        for client in (slow, same, other):
            client.leave()

    serve(check)
