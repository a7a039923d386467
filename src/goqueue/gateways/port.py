"""The port between a node and its gateways: what a gateway is given, and what it returns.

A gateway turns the bytes of one protocol into commands and replies back into bytes. It knows
`model` and `records` and this port, never the node, the runtime or another gateway. The runtime
calls a `Gateway` once with a `GatewayPort`, and starts and stops the `Listener` that it returns.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from goqueue.gateways.connection_limits import Capacity
from goqueue.gateways.listener import Listener
from goqueue.model import Timestamp
from goqueue.model.requests import Command, Reply

__all__ = ["Broker", "Gateway", "GatewayPort", "NodeFacts", "Scrape", "ask"]

Expected = TypeVar("Expected", bound=Reply)

# The text of all metrics, in pieces.
Scrape = Callable[[], Awaitable[tuple[bytes, ...]]]


class Broker(Protocol):
    """Carries out commands. Raises `Refused`; cancelling the call withdraws the command."""

    async def ask(self, command: Command) -> Reply: ...


async def ask(broker: Broker, command: Command, expected: type[Expected]) -> Expected:
    """The reply to a command, of the one type that this command has; raises `Refused`."""
    reply = await broker.ask(command)
    assert isinstance(reply, expected), f"{command} was answered by {type(reply).__name__}"
    return reply


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node knows about itself from the start."""

    version: str
    started_at: Timestamp
    git_commit: str = "unknown"
    build_time: str = "unknown"
    python_version: str = "unknown"


class GatewayPort(msgspec.Struct, frozen=True, kw_only=True):
    """What a node offers to each of its gateways."""

    broker: Broker
    facts: NodeFacts
    # Shared by all gateways of the node.
    capacity: Capacity
    scrape: Scrape


# Creates the listener of one gateway; the runtime opens it.
Gateway = Callable[[GatewayPort], Listener]
