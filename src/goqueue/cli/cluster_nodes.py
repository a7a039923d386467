"""The nodes of a cluster, each asked by itself: what only one node knows that node says.

A node is reached at the address that it registered for clients, in the same way as the server that
was named, with the same key. One that does not answer costs its own answer only.

Bound: so many nodes are asked at a time, each for so long.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from goqueue.cli.client import open_connection
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.client.retries import Retries

if TYPE_CHECKING:
    from goqueue.cli.client_settings import ClientSettings
    from goqueue.client.cluster import ClusterNode
    from goqueue.client.connection import Connection

__all__ = ["ask_nodes", "settings_of"]

T = TypeVar("T")

_AT_ONCE = 8
_TIMEOUT_S_MAX = 5.0
_ONCE = Retries(attempts_max=1)


def settings_of(settings: "ClientSettings", node: "ClusterNode") -> "ClientSettings":
    """How to reach one node: as the server that was named, at another address."""
    scheme = "https" if settings.server.startswith("https:") else "http"
    return msgspec.structs.replace(settings, server=f"{scheme}://{node.client_address}")


async def ask_nodes(
    settings: "ClientSettings",
    nodes: "Sequence[ClusterNode]",
    ask: "Callable[[Connection], Awaitable[T]]",
) -> list[T | GoQueueError]:
    """The answer of each node, or why there is none, in the order of the nodes."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def answer(node: "ClusterNode") -> T | GoQueueError:
        if not node.client_address:
            return ServerUnreachable("the node serves no clients over HTTP")
        async with turns:
            connection = open_connection(
                settings_of(settings, node),
                timeout_s=min(settings.timeout_s, _TIMEOUT_S_MAX),
                retries=_ONCE,
            )
            try:
                async with connection as q:
                    return await ask(q)
            except GoQueueError as error:
                return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(node)) for node in nodes]
    return [each.result() for each in tasks]
