"""GoQueue: one append-only log, read as a stream and as a queue."""

from goqueue._twin import prefer_sources
from goqueue.client import GoQueueError, NoReply, ServerUnreachable, connect, connect_sync

__all__ = [
    "GoQueueError",
    "NoReply",
    "ServerUnreachable",
    "__version__",
    "connect",
    "connect_sync",
]

__version__ = "0.1.0"

prefer_sources()
