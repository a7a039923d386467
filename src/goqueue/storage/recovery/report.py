"""What opening a log found and did, for whoever runs the node."""

import msgspec

from goqueue.log import DamagedRange
from goqueue.model import LogId, Offset

__all__ = ["Cut", "RecoveryReport"]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a segment that was removed, because a record or a batch was not whole.

    With good records behind the bad one it may be more than a torn tail: then `kept` is the path of
    a copy of the first `kept_size` bytes, or `not_kept` says why there is none.
    """

    segment: Offset
    position: int
    size: int
    reason: str
    has_good_records: bool = False
    kept: str = ""
    kept_size: int = 0
    not_kept: str = ""


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What opening a log found and did."""

    log: LogId
    scanned_bytes: int
    cut: Cut | None
    damaged: tuple[DamagedRange, ...]
    set_aside: tuple[Offset, ...]
    rebuilt_indexes: tuple[Offset, ...]
    removed: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return self.cut is None and not self.damaged
