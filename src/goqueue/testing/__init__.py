"""A real node for the tests of programs that use GoQueue: in the process, over memory, in no time.

`MemoryNode` is a node without a port or a file; async and sync clients use it as any other server.
Its `clock` stands still until the test moves it: `await node.clock.advance("10m")` lets delays,
leases, retries and sessions run out as they would in ten minutes. docs/guides/testing.md shows how;
with pytest, the fixtures `goqueue_node` and `goqueue_clock` are there by themselves.
"""

from goqueue.testing.clock import Duration, ManualClock
from goqueue.testing.idle import NotIdle
from goqueue.testing.node import MemoryNode
from goqueue.testing.process_broker import NodeFailed

__all__ = ["Duration", "ManualClock", "MemoryNode", "NodeFailed", "NotIdle"]
