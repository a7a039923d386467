"""The port between a node and its gateways: what a gateway is given, and what it returns.

A gateway turns the bytes of one protocol into commands and replies back into bytes. It knows
`model` and `records` and this port, never the node, the runtime or another gateway. The runtime
calls a `Gateway` once with a `GatewayPort`, and starts and stops the `Listener` that it returns.
"""

import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from goqueue.gateways.connection_limits import Capacity
from goqueue.gateways.credentials import Authenticator
from goqueue.gateways.key_maker import KeyMaker
from goqueue.gateways.listener import Listener
from goqueue.model import Caller, KeyId, Timestamp
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
    "TenantLimits",
    "ask",
]

Expected = TypeVar("Expected", bound=Reply)

# The text of all metrics, in pieces.
Scrape = Callable[[], Awaitable[tuple[bytes, ...]]]


class Broker(Protocol):
    """Carries out commands. Raises `Refused`; cancelling the call withdraws the command."""

    async def ask(self, command: Command, caller: Caller) -> Reply: ...


class TenantLimits(Protocol):
    """Limits that a gateway keeps before it asks the node; each raises `Refused`."""

    def check_publish(self, topic: str, key: KeyId | None) -> None:
        """Refuse a publish whose tenant is in debt, when only its head has come."""
        ...

    def check_publisher(self, key: KeyId) -> None:
        """The same where the head names no topic: by the tenant of the key, unless `default`."""
        ...

    def open_connection(self, key: KeyId) -> str:
        """Count a connection when it first proves a key: the tenant to `close_connection` for."""
        ...

    def close_connection(self, tenant: str, key: KeyId) -> None:
        """A connection that was counted has ended."""
        ...


async def ask(
    broker: Broker, command: Command, expected: type[Expected], caller: Caller
) -> Expected:
    """The reply to a command, of the one type that this command has; raises `Refused`."""
    reply = await broker.ask(command, caller)
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
    """One request and how it ended. `code` and `reason` are those of a refusal.

    Status 499 is a client that went before its answer; it is reported only if every request is.
    """

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
    """Hears of requests that failed, and of every one if `logs_access`; must never wait.

    A request is reported when its answer is complete, a stream when it ends. Of a stream, `opened`
    is called as well when it begins, if `logs_access`.
    """

    @property
    def logs_access(self) -> bool: ...

    def answered(self, answered: AnsweredRequest) -> None: ...

    def opened(self, opened: AnsweredRequest) -> None: ...


class _Unobserved:
    """Nobody wants to hear of requests."""

    logs_access = False

    def answered(self, answered: AnsweredRequest) -> None:
        """Nothing to do."""

    def opened(self, opened: AnsweredRequest) -> None:
        """Nothing to do."""


UNOBSERVED: RequestObserver = _Unobserved()


class GatewayPort(msgspec.Struct, frozen=True, kw_only=True):
    """What a node offers to each of its gateways."""

    broker: Broker
    facts: NodeFacts
    # Shared by all gateways of the node.
    capacity: Capacity
    scrape: Scrape
    authenticator: Authenticator
    key_maker: KeyMaker
    tenants: TenantLimits
    # Builds the TLS context of a listener, by its name and the protocols of ALPN; None without TLS.
    # Returns what returns the current context.
    tls: Callable[[str, tuple[str, ...]], Callable[[], ssl.SSLContext]] | None = None
    requests: RequestObserver = UNOBSERVED


# Creates the listener of one gateway; the runtime opens it.
Gateway = Callable[[GatewayPort], Listener]
