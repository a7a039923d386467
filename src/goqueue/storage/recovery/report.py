"""What opening a log found and did, for whoever runs the node."""

import msgspec

from goqueue.log import DamagedRange
from goqueue.model import LogId, Offset

__all__ = ["Cut", "RecoveryReport"]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A torn tail that was removed."""

    segment: Offset
    position: int
    size: int
    reason: str


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
