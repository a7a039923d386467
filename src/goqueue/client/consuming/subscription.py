"""What a consumer asks for."""

from collections.abc import Callable, Sequence

import msgspec

from goqueue.model import LogId
from goqueue.model.requests import Isolation

__all__ = ["OnPartitions", "Subscription"]

KIB = 1024
MIB = 1024 * KIB

_CHUNK_BYTES_MIN = 16 * KIB

# Called with the partitions that come or go; must not wait.
OnPartitions = Callable[[Sequence[LogId]], None]


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A group, its topics, and how to read them.

    `prefetch` bounds how many messages of a queue are leased ahead of their turn; how many are
    depends on how long they take. Leases are renewed, those of messages in hand for
    `max_handling_s`. A stream reads at most two chunks ahead in each partition, of `chunk_bytes`
    or less: all of them together stay about within `buffer_bytes`.
    """

    group: str
    topics: tuple[str, ...]
    client_id: str = "python"
    mode: str | None = None
    start: str = "earliest"
    session_s: float = 30.0
    heartbeat_s: float = 3.0
    wait_s: float = 30.0
    # Queues
    prefetch: int = 100
    visibility_s: float | None = None
    max_handling_s: float = 3600.0
    # Streams
    commit_interval_s: float | None = None
    chunk_bytes: int = MIB
    buffer_bytes: int = 64 * MIB
    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    isolation: Isolation = Isolation.READ_COMMITTED

    def chunk_bytes_for(self, partitions: int) -> int:
        """How much to read at a time with so many partitions."""
        share = self.buffer_bytes // (2 * max(partitions, 1))
        return max(min(self.chunk_bytes, share), _CHUNK_BYTES_MIN)
