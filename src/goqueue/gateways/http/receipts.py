"""Receipt handles of a request, gathered by the leases that they name.

A poll of a thousand messages gives a thousand receipts of one lease: the node is asked for that one
lease with ranges of offsets, and what it answers is dealt out to the receipts again.

Invariant: every receipt has an outcome of its own, in the order of the request.
"""

from collections.abc import Sequence

from goqueue.model import Code, runs
from goqueue.model.requests import LeaseOffsets, Settlement, lease_of

__all__ = ["NamedReceipts"]


class NamedReceipts:
    """Receipts in the order of a request, and the leases that they name."""

    def __init__(self, receipts: Sequence[str]) -> None:
        self.receipts = receipts
        named = [lease_of(receipt) for receipt in receipts]
        self._handles = [each.handle for each in named]
        # One that cannot be read names a lease that nobody has, and no message of it.
        self._offsets = [each.offsets[0][0] if each.offsets else -1 for each in named]
        by_handle: dict[str, set[int]] = {}
        for handle, offset in zip(self._handles, self._offsets, strict=True):
            by_handle.setdefault(handle, set()).add(offset)
        self.leases = tuple(
            LeaseOffsets(handle, runs(sorted(offsets)) if handle else ())
            for handle, offsets in by_handle.items()
        )

    def codes(self, settlements: Sequence[Settlement]) -> list[Code | None]:
        """Why each was refused, or None, in the order of the request."""
        if not any(each.refused for each in settlements):
            return [None] * len(self.receipts)
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
