"""Another broker that runs beside ours, with the same promise: an answer comes after the sync."""

import contextlib
import functools
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

import click

from bench.broker_process import Usage
from bench.dialogue import Countdown, Laps, Script
from bench.goqueue_node import GoQueueNode
from bench.peers.kafka_log import KafkaServer
from bench.peers.nats_jetstream import NatsServer
from bench.peers.rabbitmq import RabbitServer
from bench.peers.redis_streams import RedisServer

__all__ = ["QUEUES", "Arena", "Peer", "arena", "skip"]


class Peer(Protocol):
    """A server with an empty data directory. A queue has one consumer group."""

    name: str
    port: int
    # Of the messages of a measure, so many per thousand: a round takes seconds, not minutes.
    per_mille: int

    @property
    def usage(self) -> Usage: ...

    def renew(self, queue: str) -> None:
        """Make the queue, or empty it."""

    def publish(self, queue: str, value: bytes, count: int, left: Countdown) -> Script:
        """Batches of `count`, each answered before the next is sent."""

    def publish_singly(self, queue: str, value: bytes, laps: Laps) -> Script:
        """One message a request, each answered before the next is sent."""

    def consume(self, queue: str, left: Countdown) -> Script:
        """Lease up to 1,000 messages, acknowledge all of them, and so on."""


class PeerServer(Peer, Protocol):
    """How a peer is started: as a block, with its files in a folder."""

    missing: str

    def __init__(self, folder: str) -> None: ...

    @staticmethod
    def is_there() -> bool: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


QUEUES: tuple[type[PeerServer], ...] = (RedisServer, RabbitServer, NatsServer)


class Arena:
    """Our node and the peers that this machine has."""

    def __init__(self, node: GoQueueNode, peers: list[Peer], kafka: KafkaServer | None) -> None:
        self.node = node
        self.peers = peers
        self.kafka = kafka


@contextlib.contextmanager
def arena(folder: str, *kinds: type[PeerServer], has_kafka: bool = False) -> Iterator[Arena]:
    """Fresh servers, gone when the block ends; what is not installed is left out."""
    _say(
        f"brokers and load generator share {os.cpu_count()} cores; "
        "every answer comes after the sync of what it says"
    )
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(GoQueueNode(folder))
        node.ask("GET", "/readyz")
        peers: list[Peer] = []
        for kind in kinds:
            if kind.is_there():
                peers.append(stack.enter_context(kind(folder)))
            else:
                skip(kind.name, kind.missing)
        kafka: KafkaServer | None = None
        if has_kafka and KafkaServer.is_there():
            kafka = stack.enter_context(KafkaServer(folder))
        elif has_kafka:
            skip(KafkaServer.name, KafkaServer.missing)
        yield Arena(node, peers, kafka)


def skip(what: str, why: str) -> None:
    """Say once in a run what it leaves out."""
    _say(f"{what} is skipped: {why}")


@functools.cache
def _say(words: str) -> None:
    click.echo(f"peers: {words}", err=True)
