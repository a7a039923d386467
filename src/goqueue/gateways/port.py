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

__all__ = [
    "UNOBSERVED",
    "AnsweredRequest",
    "Broker",
    "Gateway",
    "GatewayPort",
    "NodeFacts",
    "RequestObserver",
    "Scrape",
    "ask",
]

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


class AnsweredRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request and how it ended. `code` and `reason` are those of a refusal."""

    client: str
    method: str
    # As it came, without the query; empty if the request was refused unread.
    path: bytes
    status: int
    size: int
    request_id: bytes
    # 0 unless every request is observed.
    duration_ns: int = 0
    code: str = ""
    reason: str = ""


class RequestObserver(Protocol):
    """Hears of requests that failed, and of every one if `logs_access`; must never wait."""

    @property
    def logs_access(self) -> bool: ...

    def answered(self, answered: AnsweredRequest) -> None: ...


class _Unobserved:
    """Nobody wants to hear of requests."""

    logs_access = False

    def answered(self, answered: AnsweredRequest) -> None:
        """Nothing to do."""


UNOBSERVED: RequestObserver = _Unobserved()


class GatewayPort(msgspec.Struct, frozen=True, kw_only=True):
    """What a node offers to each of its gateways."""

    broker: Broker
    facts: NodeFacts
    # Shared by all gateways of the node.
    capacity: Capacity
    scrape: Scrape
    requests: RequestObserver = UNOBSERVED


# Creates the listener of one gateway; the runtime opens it.
Gateway = Callable[[GatewayPort], Listener]
