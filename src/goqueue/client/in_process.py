"""Nodes in this process that clients reach by name instead of by a port: `memory://name`.

Owns the names. A node registers itself while it runs (`goqueue.testing` does); a connection finds
it when it is made, and gets its clock from it.

Invariant: a name stands for one node at a time.
"""

import asyncio
import threading
from typing import Protocol

from goqueue.client.clock import Clock
from goqueue.client.errors import Closed

__all__ = ["SCHEME", "InProcessNode", "find_node", "register", "unregister"]

SCHEME = "memory"


class InProcessNode(Protocol):
    """A node as its clients see it."""

    @property
    def clock(self) -> Clock: ...

    def attach(self, protocol: asyncio.BufferedProtocol) -> None:
        """Connect the client's end, on the running event loop; raises as a connect would."""
        ...


_names = threading.Lock()
_nodes: dict[str, InProcessNode] = {}


def register(name: str, node: InProcessNode) -> None:
    """Let clients find the node; a ValueError if the name is taken."""
    with _names:
        if name in _nodes:
            raise ValueError(f"a node named {name!r} already runs in this process")
        _nodes[name] = node


def unregister(name: str) -> None:
    with _names:
        _nodes.pop(name, None)


def find_node(name: str) -> InProcessNode:
    """The node of this name; `Closed` if none runs, because waiting would not bring it back."""
    with _names:
        node = _nodes.get(name)
    if node is None:
        raise Closed(f"no node named {SCHEME}://{name} runs in this process, or not any more")
    return node
