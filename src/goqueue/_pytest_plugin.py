"""Fixtures for pytest, found by the entry point `goqueue` once the package is installed.

Outside the packages: it imports nothing of a node before a test asks for a fixture, so that a run
of pytest without them costs next to nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from goqueue.testing import ManualClock, MemoryNode

__all__ = ["goqueue_clock", "goqueue_node"]


@pytest.fixture
def goqueue_node(monkeypatch: pytest.MonkeyPatch) -> "Iterator[MemoryNode]":
    """A node of this test alone; `goqueue.connect()` without a server reaches it, too."""
    from goqueue.testing import MemoryNode

    with MemoryNode() as node:
        monkeypatch.setenv("GOQUEUE_SERVER", node.url)
        monkeypatch.delenv("GOQUEUE_API_KEY", raising=False)
        yield node


@pytest.fixture
def goqueue_clock(goqueue_node: "MemoryNode") -> "ManualClock":
    """The clock of `goqueue_node`: `await goqueue_clock.advance("10m")`."""
    return goqueue_node.clock
