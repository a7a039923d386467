"""Another broker that runs beside ours, with the same promise: an answer comes after the sync."""

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Protocol

import click

from bench.broker_process import Usage
from bench.dialogue import AnswerEnd, Countdown, Script
from bench.goqueue_node import GoQueueNode
from bench.peers.rabbitmq import RabbitServer
from bench.peers.redis_streams import RedisServer

__all__ = ["Arena", "Peer", "arena", "skip"]


class Peer(Protocol):
    """A server with an empty data directory. A queue has one consumer group."""

    name: str
    port: int

    @property
    def usage(self) -> Usage: ...

    def greet(self) -> Script:
        """What a new connection says first."""

    def renew(self, queue: str) -> None:
        """Make the queue, or empty it."""

    def publish(self, queue: str, value: bytes, count: int, left: Countdown) -> Script:
        """Batches of `count`, each answered before the next is sent."""

    def publish_one(self, queue: str, value: bytes) -> tuple[bytes, AnswerEnd]:
        """A request with one message."""

    def is_accepted(self, answer: bytes) -> bool:
        """Whether an answer says that the message is stored."""

    def consume(self, queue: str, left: Countdown) -> Script:
        """Lease up to 1,000 messages, acknowledge all of them, and so on."""


class Arena:
    """Our node and the peers that this machine has."""

    def __init__(self, node: GoQueueNode, peers: list[Peer]) -> None:
        self.node = node
        self.peers = peers


@contextlib.contextmanager
def arena(folder: str) -> Iterator[Arena]:
    """Fresh servers, gone when the block ends."""
    _say(
        f"brokers and load generator share {os.cpu_count()} cores; "
        "every answer comes after the sync of what it says"
    )
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(GoQueueNode(folder))
        node.ask("GET", "/readyz")
        peers: list[Peer] = []
        if RedisServer.is_there():
            peers.append(stack.enter_context(RedisServer(folder)))
        else:
            skip(RedisServer.name, RedisServer.missing)
        if RabbitServer.is_there():
            peers.append(stack.enter_context(RabbitServer(folder)))
        else:
            skip(RabbitServer.name, RabbitServer.missing)
        yield Arena(node, peers)


def skip(what: str, why: str) -> None:
    """Say once in a run what it leaves out."""
    _say(f"{what} is skipped: {why}")


@functools.cache
def _say(words: str) -> None:
    click.echo(f"peers: {words}", err=True)
