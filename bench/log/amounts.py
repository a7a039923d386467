"""How much is written and read for each figure."""

import msgspec

from goqueue import records

__all__ = ["FULL", "QUICK", "TINY", "Amounts"]

MIB = 1024 * 1024
GIB = 1024 * MIB
BATCH_RECORDS = 1000
IN_FLIGHT = 8
SLICE_BYTES = MIB

# Interpreted code does a fraction of the work in the same time.
_INTERPRETED_SHARE = 16


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes per round, and rounds; `append_bytes` is also the log that is read and scanned.

    Reads from the page cache take milliseconds, so there are more rounds of them.
    """

    append_bytes: int
    rounds: int
    read_rounds: int
    reopen_bytes: int
    memory_bytes: int
    disk_bytes: int
    small_syncs: int

    def here(self) -> "Amounts":
        """The amounts for the mode that this process runs in."""
        if records.COMPILED:
            return self
        return msgspec.structs.replace(
            self,
            append_bytes=max(self.append_bytes // _INTERPRETED_SHARE, 3 * MIB),
            rounds=min(self.rounds, 3),
            read_rounds=min(self.read_rounds, 5),
        )


FULL = Amounts(
    append_bytes=400 * MIB,
    rounds=7,
    read_rounds=31,
    reopen_bytes=4 * GIB,
    memory_bytes=10 * GIB,
    disk_bytes=GIB,
    small_syncs=200,
)
QUICK = Amounts(
    append_bytes=128 * MIB,
    rounds=5,
    read_rounds=21,
    reopen_bytes=256 * MIB,
    memory_bytes=512 * MIB,
    disk_bytes=256 * MIB,
    small_syncs=100,
)
TINY = Amounts(
    append_bytes=3 * MIB,
    rounds=2,
    read_rounds=2,
    reopen_bytes=6 * MIB,
    memory_bytes=8 * MIB,
    disk_bytes=2 * MIB,
    small_syncs=3,
)
