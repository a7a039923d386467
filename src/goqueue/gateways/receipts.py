"""Receipt handles of a request, gathered by the leases that they name, and the results of each.

A poll of a thousand messages gives a thousand receipts of one lease: the node is asked for that one
lease with ranges of offsets, and what it answers is dealt out to the receipts again. Compiled,
because that is all that a batch of acknowledgements costs per message here: a receipt is compared
with the lease of the one before it, and only its offset is read.

Invariant: every receipt has an outcome of its own, in the order of the request.
"""

from collections.abc import Sequence

from goqueue.model import Code, Folded
from goqueue.model.requests import LeaseOffsets, Settlement, lease_of, receipt_parts

__all__ = ["NamedReceipts"]

_OFFSET_DIGITS_MAX = 19
# With so many leases a receipt is compared one by one: a poll has one for each partition.
_COMPARED_MAX = 8


class _NamedLease:
    """A lease, what its receipts begin and end with, and which of its messages are named."""

    __slots__ = ("end", "handle", "offsets", "start")

    def __init__(self, handle: str) -> None:
        self.handle = handle
        self.start, self.end = receipt_parts(handle) if handle else ("", "")
        self.offsets: list[int] = []

    def read(self, receipt: str) -> int:
        """The offset in a receipt; -1 if it is none of this lease in the form that it was given."""
        before = len(self.start)
        after = len(receipt) - len(self.end)
        if before == 0 or not before < after <= before + _OFFSET_DIGITS_MAX:
            return -1
        if not receipt.startswith(self.start) or not receipt.endswith(self.end):
            return -1
        digits = receipt[before:after]
        if not digits.isascii() or not digits.isdecimal():
            return -1
        return -1 if digits[0] == "0" and after - before > 1 else int(digits)

    def named(self) -> LeaseOffsets:
        """The messages that were named."""
        folded = Folded.of(sorted(set(self.offsets)) if self.handle else ())
        return LeaseOffsets(self.handle, folded.ranges, folded.steps)


class NamedReceipts:
    """Receipts in the order of a request, and the leases that they name."""

    __slots__ = ("_handles", "_offsets", "leases", "receipts")

    def __init__(self, receipts: list[str]) -> None:
        self.receipts = receipts
        self._handles: list[str] = []
        # One that cannot be read names a lease that nobody has, and no message of it.
        self._offsets: list[int] = []
        self.leases = tuple([each.named() for each in self._gather()])

    def _gather(self) -> list[_NamedLease]:
        leases: list[_NamedLease] = []
        by_handle: dict[str, _NamedLease] = {}
        lease = _NamedLease("")
        for receipt in self.receipts:
            offset = lease.read(receipt)
            if offset < 0 and len(leases) <= _COMPARED_MAX:
                for other in leases:
                    offset = other.read(receipt)
                    if offset >= 0:
                        lease = other
                        break
            if offset < 0:
                named = lease_of(receipt)
                found = by_handle.get(named.handle)
                if found is None:
                    found = by_handle[named.handle] = _NamedLease(named.handle)
                    leases.append(found)
                lease = found
                offset = named.offsets[0][0] if named.offsets else -1
            self._handles.append(lease.handle)
            self._offsets.append(offset)
            lease.offsets.append(offset)
        return leases

    def codes(self, settlements: Sequence[Settlement]) -> list[Code | None]:
        """Why each was refused, or None, in the order of the request."""
        refused: dict[tuple[str, int], Code] = {}
        unread: dict[str, Code] = {}
        for lease, settlement in zip(self.leases, settlements, strict=True):
            for each in settlement.refused:
                unread[lease.handle] = each.code
                for offset in range(each.first, each.following):
                    refused[lease.handle, offset] = each.code
        return [
            refused.get((handle, offset)) if offset >= 0 else unread.get(handle)
            for handle, offset in zip(self._handles, self._offsets, strict=True)
        ]
