"""How one log is kept: sizes, flushing, retention, compaction."""

import enum

import msgspec

from goqueue.model.ids import HOUR, MILLISECOND
from goqueue.model.limits import INDEX_INTERVAL_BYTES, SEGMENT_BYTES

__all__ = ["Cleanup", "Flush", "LogSettings"]


class Flush(enum.StrEnum):
    """What an acknowledgement waits for (docs/adr/0003)."""

    COMMIT = "commit"
    INTERVAL = "interval"


class Cleanup(enum.StrEnum):
    """How old records leave a log."""

    DELETE = "delete"
    COMPACT = "compact"
    COMPACT_AND_DELETE = "compact,delete"

    @property
    def deletes(self) -> bool:
        return self is not Cleanup.COMPACT

    @property
    def compacts(self) -> bool:
        return self is not Cleanup.DELETE


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one log; every field has the product's default."""

    segment_bytes: int = SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    batch_bytes_max: int = SEGMENT_BYTES
    batches_in_flight_max: int = 4096
    flush: Flush = Flush.COMMIT
    flush_interval_ns: int = 1000 * MILLISECOND
    full_retry_ns: int = 1000 * MILLISECOND
    retention_ns: int | None = 168 * HOUR
    retention_bytes: int | None = None
    cleanup: Cleanup = Cleanup.DELETE
    tombstone_ns: int = 24 * HOUR
    dirty_percent_min: int = 50
    compaction_keys_bytes: int = 128 * 1024 * 1024
    # Whether it may use the space that is kept back from producers.
    may_use_reserve: bool = False
