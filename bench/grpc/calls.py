"""What calls and streams cost, beside the same over HTTP: rates, latencies, processor time."""

import asyncio
import contextlib
import socket
import statistics
import time
from collections.abc import Iterator
from functools import partial

import msgspec
import uvloop

from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.grpc.raw_calls import RawConnection
from bench.wire import Wire, request
from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.http2.frames import FrameType, write_frame
from goqueue.gateways.grpc.message_reader import framed

__all__ = ["idle", "publish", "subscribe", "unary"]

_VALUE = b"x" * 100
_TOPIC = "orders"
_PREPARED = 500
_CONNECTION_CALLS = 100
_UNARY_RATE = 1000


class _Node:
    """A node that serves both protocols."""

    def __init__(self, broker: BrokerProcess, grpc_port: int) -> None:
        self.broker = broker
        self.grpc_port = grpc_port

    async def create(self) -> None:
        wire = await Wire.open(self.broker.port)
        body = b'{"name":"%b","num_partitions":1}' % _TOPIC.encode()
        await wire.send(request("POST", "/topics", body))
        wire.close()


@contextlib.contextmanager
def _serving(folder: str) -> Iterator[_Node]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    flags = ("--log-level", "warning", "--grpc", f"127.0.0.1:{port}")
    with BrokerProcess(folder, flags=flags) as broker:
        node = _Node(broker, port)
        uvloop.run(node.create())
        yield node


def _frames(number: int) -> tuple[bytes, int]:
    """Messages of a stream, one frame for each, as clients send them; and their size."""
    message = protocol.PublishStreamRequest(correlation_id="7", topic=_TOPIC, value=_VALUE)
    data = framed([message.SerializeToString()])
    return write_frame(FrameType.DATA, 0, number, data) * _PREPARED, len(data) * _PREPARED


async def _publish(port: int, count: int) -> None:
    connection = await RawConnection.open(port)
    answered, done = [0], asyncio.Event()

    def receive(messages: list[bytes]) -> None:
        answered[0] += len(messages)
        if answered[0] >= count:
            done.set()

    call = connection.begin("PublishService/PublishStream", receive)
    frames, size = _frames(call.number)
    for _ in range(count // _PREPARED):
        await connection.send(call, frames, size)
    await done.wait()
    connection.close()


async def _publish_http(port: int, count: int) -> None:
    wire = await Wire.open(port)
    message = b'{"value":"%b"}' % _VALUE
    for _ in range(count // _PREPARED):
        body = b'{"messages":[%b]}' % b",".join([message] * _PREPARED)
        await wire.send(request("POST", f"/topics/{_TOPIC}/messages", body))
    wire.close()


def publish(folder: str, scale: float) -> Iterator[Figure]:
    count = max(1, int(200_000 * scale) // _PREPARED) * _PREPARED
    with _serving(folder) as node:
        costs = {}
        for name, run, port in (
            ("grpc", _publish, node.grpc_port),
            ("http", _publish_http, node.broker.port),
        ):
            usage, began = node.broker.usage, time.perf_counter()
            uvloop.run(run(port, count))
            costs[name] = (count / (time.perf_counter() - began), usage.cpu_s / count * 1e6)
    rate, cpu_us = costs["grpc"]
    yield Figure(
        figure="publish_stream",
        value=round(rate),
        unit="messages/s",
        target=Target(at_least=25_000),
        details={"cpu_us": round(cpu_us, 1), "http_json_500_cpu_us": round(costs["http"][1], 1)},
    )


async def _subscribe(port: int, count: int) -> None:
    connection = await RawConnection.open(port)
    acked, done = [0], asyncio.Event()

    def settled(messages: list[bytes]) -> None:
        for message in messages:
            acked[0] += protocol.BatchAckResponse.FromString(message).success_count
        if acked[0] >= count:
            done.set()

    def receive(messages: list[bytes]) -> None:
        for message in messages:
            batch = protocol.ConsumeResponse.FromString(message).messages.messages
            if batch:
                handles = [each.receipt_handle for each in batch]
                ack = protocol.BatchAckRequest(receipt_handles=handles)
                connection.unary("AckService/BatchAck", ack.SerializeToString(), settled)

    wanted = protocol.SubscribeRequest(topics=[_TOPIC], group_id="bench", max_messages=1000)
    connection.unary("ConsumeService/Subscribe", wanted.SerializeToString(), receive)
    await done.wait()
    connection.close()


async def _poll_http(port: int, count: int) -> None:
    wire = await Wire.open(port)
    body = b'{"client_id":"bench","topics":["%b"]}' % _TOPIC.encode()
    joined = msgspec.json.decode(await wire.send(request("POST", "/groups/other/join", body)))
    poll = msgspec.json.encode({"member_id": joined["member_id"], "max_messages": 1000})
    acked = 0
    while acked < count:
        answer = await wire.send(request("POST", "/groups/other/poll", poll))
        handles = [each["receipt_handle"] for each in msgspec.json.decode(answer)["messages"]]
        ack = msgspec.json.encode({"receipt_handles": handles})
        await wire.send(request("POST", "/messages/ack/batch", ack))
        acked += len(handles)
    wire.close()


def subscribe(folder: str, scale: float) -> Iterator[Figure]:
    count = max(1, int(100_000 * scale) // _PREPARED) * _PREPARED
    with _serving(folder) as node:
        uvloop.run(_publish(node.grpc_port, count))
        usage, began = node.broker.usage, time.perf_counter()
        uvloop.run(_subscribe(node.grpc_port, count))
        rate, cpu_us = count / (time.perf_counter() - began), usage.cpu_s / count * 1e6
        usage = node.broker.usage
        uvloop.run(_poll_http(node.broker.port, count))
        http_us = usage.cpu_s / count * 1e6
    yield Figure(
        figure="subscribe_with_batch_acks",
        value=round(rate),
        unit="messages/s",
        target=Target(at_least=25_000),
        details={"cpu_us": round(cpu_us, 1), "http_json_cpu_us": round(http_us, 1)},
    )


async def _unary(port: int, count: int) -> list[float]:
    """Latencies in ms of calls at a rate, each counted from when it was due."""
    loop = asyncio.get_running_loop()
    connection = await RawConnection.open(port)
    message = protocol.PublishRequest(topic=_TOPIC, value=_VALUE).SerializeToString()
    latencies: list[float] = []
    began = loop.time() + 0.1
    # As many as a connection may have; what waits here is late, and counts as late.
    room = asyncio.Semaphore(_CONNECTION_CALLS)

    async def one(number: int) -> None:
        due = began + number / _UNARY_RATE
        await asyncio.sleep(max(0.0, due - loop.time()))
        async with room:
            await connection.unary("PublishService/Publish", message, lambda _: None).ended
        latencies.append((loop.time() - due) * 1000)

    await asyncio.gather(*map(one, range(count)))
    connection.close()
    return latencies


def unary(folder: str, scale: float) -> Iterator[Figure]:
    count = max(100, int(5_000 * scale))
    with _serving(folder) as node:
        uvloop.run(_unary(node.grpc_port, 100))
        usage = node.broker.usage
        latencies = uvloop.run(_unary(node.grpc_port, count))
        cpu_us = usage.cpu_s / count * 1e6
    quantiles = statistics.quantiles(latencies, n=100)
    yield Figure(
        figure="unary_publish_p99_at_1000",
        value=round(quantiles[98], 2),
        unit="ms",
        target=Target(below=10),
        details={"p50_ms": round(quantiles[49], 2), "cpu_us": round(cpu_us)},
    )


async def _idle(node: _Node, count: int, seconds: float) -> float:
    """The processor time that a node spends for subscriptions without messages."""
    connections: list[RawConnection] = []
    for number in range(count):
        if number % _CONNECTION_CALLS == 0:
            connections.append(await RawConnection.open(node.grpc_port))
            await asyncio.sleep(0.05)
        begun = asyncio.Event()
        wanted = protocol.SubscribeRequest(topics=[_TOPIC], group_id=f"idle-{number}")
        connections[-1].unary(
            "ConsumeService/Subscribe", wanted.SerializeToString(), partial(_set, begun)
        )
        await begun.wait()
    usage = node.broker.usage
    await asyncio.sleep(seconds)
    spent = usage.cpu_s
    for connection in connections:
        connection.close()
    return spent


def _set(begun: asyncio.Event, _messages: list[bytes]) -> None:
    begun.set()


def idle(folder: str, scale: float) -> Iterator[Figure]:
    count, seconds = max(10, int(1000 * scale)), max(2.0, 30 * scale)
    with _serving(folder) as node:
        spent = uvloop.run(_idle(node, count, seconds))
    yield Figure(
        figure="idle_subscriptions",
        value=round(spent / seconds * 100, 2),
        unit="% of a core",
        target=Target(below=3),
        details={"subscriptions": count},
    )
