"""Leases: what a poll returns, how messages of a lease are named, and how settling them ended.

A lease handle names all messages of a lease. The receipt of one message is the handle with its
offset inserted after the partition. Here both are text; `delivery.lease_handles` signs and checks
them.
"""

from collections.abc import Iterator, Sequence

import msgspec

from goqueue.model.errors import Code
from goqueue.model.ids import LogId, Offset, Timestamp
from goqueue.model.ranges import Folded, Range
from goqueue.model.requests.traces import TraceSeed

__all__ = [
    "Acked",
    "Extended",
    "LeaseOffsets",
    "Leased",
    "LeasedRun",
    "PartitionLeases",
    "RefusedOffsets",
    "Released",
    "Settlement",
    "lease_of",
    "receipt_of",
    "receipt_parts",
]

_PARTS_BEFORE_OFFSET = 2
_PARTS_AFTER_OFFSET = 2
_OFFSET_DIGITS_MAX = 19


class LeasedRun(msgspec.Struct, frozen=True):
    """One lease: its handle, its delivery count, its messages in the order of delivery."""

    handle: str
    attempt: int
    offsets: Sequence[int]


class PartitionLeases(msgspec.Struct, frozen=True, kw_only=True):
    """The leases of one partition; their messages are to be picked out of the records in `data`.

    `size` is how many bytes they are, without what is between them. Where `is_gathered`, the data
    is one piece without anything between: the records in the order of delivery.
    """

    log: LogId
    leases: tuple[LeasedRun, ...]
    deadline: Timestamp
    data: tuple[memoryview, ...] = ()
    size: int = 0
    seed: TraceSeed | None = None
    is_gathered: bool = False

    def __len__(self) -> int:
        """How many messages it has."""
        return sum(len(lease.offsets) for lease in self.leases)

    @property
    def offsets(self) -> list[int]:
        """The messages in the order of delivery."""
        return [offset for lease in self.leases for offset in lease.offsets]

    def __iter__(self) -> Iterator[tuple[int, int, str]]:
        """Offset, delivery count and receipt of each message, in the order of delivery."""
        for lease in self.leases:
            for offset in lease.offsets:
                yield offset, lease.attempt, receipt_of(lease.handle, offset)


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """What a poll got, by partition; empty when nothing came in time.

    It is also empty if the member has to send a heartbeat first, because partitions of its
    cooperative group move.
    """

    partitions: tuple[PartitionLeases, ...] = ()
    is_rebalance_required: bool = False


class LeaseOffsets(msgspec.Struct, frozen=True):
    """Messages of one lease: as ranges [first, next), or the first and each step to the next."""

    handle: str
    offsets: Sequence[Range]
    steps: Sequence[int] = []

    @property
    def folded(self) -> Folded:
        return Folded(list(self.offsets), list(self.steps))


def receipt_of(handle: str, offset: int) -> str:
    """The receipt of one message of a lease."""
    start, end = receipt_parts(handle)
    return f"{start}{offset}{end}"


def receipt_parts(handle: str) -> tuple[str, str]:
    """What stands before the offset and after it in the receipts of a lease."""
    topic, partition, rest = handle.split(":", _PARTS_BEFORE_OFFSET)
    return f"{topic}:{partition}:", f":{rest}"


def lease_of(receipt: str) -> LeaseOffsets:
    """What a receipt names; one that cannot be read names a lease that nobody has."""
    parts = receipt.split(":", _PARTS_BEFORE_OFFSET + _PARTS_AFTER_OFFSET)
    if len(parts) == _PARTS_BEFORE_OFFSET + 1 + _PARTS_AFTER_OFFSET:
        topic, partition, offset, attempt, nonce = parts
        is_number = offset.isascii() and offset.isdecimal() and len(offset) <= _OFFSET_DIGITS_MAX
        if is_number and str(first := int(offset)) == offset:
            handle = f"{topic}:{partition}:{attempt}:{nonce}"
            return LeaseOffsets(handle, ((first, first + 1),))
    return LeaseOffsets("", ())


class RefusedOffsets(msgspec.Struct, frozen=True):
    """Messages [first, following) of a lease with which nothing was done, and why."""

    first: int
    following: int
    code: Code


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the messages of one lease: how many were dealt with, and which were not.

    The other fields say how far the group is on the partition, if one of them was dealt with.
    """

    count: int = 0
    refused: tuple[RefusedOffsets, ...] = ()
    log: LogId | None = None
    committed: Offset = Offset(0)
    has_advanced: bool = False
    in_flight: int = 0

    @property
    def code(self) -> Code | None:
        """Why messages were refused; None if none was."""
        return self.refused[0].code if self.refused else None


class Acked(msgspec.Struct, frozen=True, kw_only=True):
    """One settlement for each lease of the command, in order."""

    settlements: tuple[Settlement, ...]


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """One settlement for each lease of the command, in order: what is not refused is available."""

    settlements: tuple[Settlement, ...]


class Extended(msgspec.Struct, frozen=True, kw_only=True):
    """One settlement for each lease of the command, in order: the rest lasts until `deadline`."""

    deadline: Timestamp
    settlements: tuple[Settlement, ...]
