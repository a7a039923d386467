"""What a log must hold, derived from requests and answers: the judge of a run.

Learns of every append, commit, refusal, truncation and planted damage, and is shown every record
that is read. Raises Violation with the name of the invariant (docs/adr/0004) that was broken.
"""

from goqueue.log import DamagedRange, epoch_of
from goqueue.model import Offset, Record
from goqueue.records import Buffer, Corrupt, Flag, decode, walk
from goqueue.sim.sabotage import Harm

__all__ = ["Oracle", "Violation"]


class Violation(Exception):
    """An invariant does not hold; the message begins with its name."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


class Oracle:
    """The truth about one log."""

    def __init__(self, *, compacts: bool) -> None:
        self._compacts = compacts
        self._records: dict[int, Record] = {}
        self._refused: dict[bytes, None] = {}
        self._compacted_upto = Offset(0)
        self._superseded: dict[int, None] = {}
        # Records that were harmed, and ranges of which nobody knows which records were.
        self._harmed: dict[int, None] = {}
        self._harmed_ranges: list[tuple[int, int]] = []
        self._tombstones_before = 0
        self.start = Offset(0)
        # Where the disk said that the log begins; it never begins before that again.
        self._dropped_upto = Offset(0)
        self._spoiled_slots = 0
        self.committed = Offset(0)
        self.durable = Offset(0)
        self._promised = Offset(0)

    # What happened

    def appended(self, batch: Buffer) -> None:
        columns = walk(batch)
        for position in columns.positions:
            record = decode(batch, position)
            self._records[record.offset] = record
            self._superseded.pop(record.offset, None)

    def advanced(self, committed: Offset, durable: Offset, end: Offset) -> None:
        """The log reported that everything below `committed` is committed."""
        if committed < self.committed:
            raise Violation("committed-goes-back", f"from {self.committed} to {committed}")
        if committed > end:
            raise Violation("committed-beyond-end", f"{committed} > {end}")
        self.committed, self.durable = committed, max(self.durable, durable)

    def refused_from(self, offset: Offset) -> None:
        """The disk was full: the producers of these records were refused."""
        if offset < self.committed:
            raise Violation("acked-refused", f"{offset} was committed up to {self.committed}")
        for gone in [known for known in self._records if known >= offset]:
            self._refused[self._records.pop(gone).value or b""] = None

    def truncation_asked(self, offset: Offset) -> None:
        self.committed = min(self.committed, offset)
        self.durable = min(self.durable, offset)

    def truncated(self, offset: Offset) -> None:
        for gone in [known for known in self._records if known >= offset]:
            del self._records[gone]

    def retained_from(
        self, start: Offset, oldest_kept: int | None, unreadable: tuple[DamagedRange, ...]
    ) -> None:
        """Retention moved the start of the log; records stamped from `oldest_kept` on must stay.

        Records in quarantine have no known time; they go with those after them.
        """
        if start < self.start:
            raise Violation("start-goes-back", f"from {self.start} to {start}")
        if start > self.committed:
            raise Violation("retention-of-uncommitted", f"{start} > {self.committed}")
        for offset in range(self.start, start):
            record = self._records.get(offset)
            is_lost = any(gap.first <= offset < gap.below for gap in unreadable)
            if record is None or oldest_kept is None or is_lost:
                continue
            if self._compacts and self._may_be_compacted(record):
                continue
            if record.timestamp >= oldest_kept:
                raise Violation("retention-too-early", f"offset {offset} at {record.timestamp}")
        self.start = start

    def deleted_before(self, start: Offset) -> None:
        """Somebody asked for the records below `start` to be deleted."""
        if start > self.committed:
            raise Violation("deletion-of-uncommitted", f"{start} > {self.committed}")
        self.start = max(self.start, start)

    def dropped(self, start: Offset) -> None:
        """The disk has said that the log begins here, whatever happens."""
        self._dropped_upto = max(self._dropped_upto, start)
        self._spoiled_slots = 0

    def point_spoiled(self) -> None:
        """A slot of the recovery point was harmed; with both, nobody knows where the log began."""
        self._spoiled_slots += 1
        if self._spoiled_slots > 1:
            self._dropped_upto = Offset(0)

    def damaged(self, harm: Harm) -> None:
        """A record was damaged: from now on it, and no other, may be refused."""
        if harm.offset is None:
            self._harmed_ranges.append((harm.base, harm.end))
        else:
            self._harmed[harm.offset] = None

    def compaction_planned(self) -> None:
        """Superseded records may be removed, even if the newer ones are truncated later."""
        newest: dict[bytes, int] = {}
        for offset, record in sorted(self._records.items()):
            if record.key and offset < self.committed:
                if record.key in newest:
                    self._superseded[newest[record.key]] = None
                newest[record.key] = offset

    def tombstones_expire_before(self, timestamp: int) -> None:
        self._tombstones_before = max(self._tombstones_before, timestamp)

    def expect_compacted_below(self, offset: Offset) -> None:
        """From now on no record below `offset` may be read that has a newer one below it."""
        self._compacted_upto = offset

    def reopened(self, start: Offset, end: Offset, *, is_power_lost: bool) -> None:
        """The log was reopened: it must hold what it promised and nothing else."""
        self._promised = self.durable if is_power_lost else self.committed
        if end < self._promised:
            raise Violation("acked-lost", f"the log ends at {end}, promised up to {self._promised}")
        if start > self.start:
            raise Violation("start-moved", f"the log starts at {start}, not at {self.start}")
        if start < self._dropped_upto:
            words = f"the log starts at {start}, was durable from {self._dropped_upto} on"
            raise Violation("deleted-came-back", words)
        # A deletion that was decided and not yet done is forgotten by a crash.
        self.start = start
        for gone in [known for known in self._records if known >= end]:
            del self._records[gone]
        self.committed = self.durable = end

    def must_accept(self, range_: DamagedRange) -> None:
        """A range is refused as damaged: only where damage was done."""
        if range_.first >= self._promised:
            # Above what was promised, as in the middle of a truncation, nothing need be there.
            self._harmed_ranges.append((range_.first, range_.below))
            return
        for offset in range(max(range_.first, self.start), min(range_.below, self._promised)):
            is_good = offset in self._records and offset not in self._superseded
            if is_good and not self._is_harmed(offset):
                raise Violation("good-records-refused", f"{offset} in {range_}")

    def _is_harmed(self, offset: int) -> bool:
        return offset in self._harmed or any(
            first <= offset < below for first, below in self._harmed_ranges
        )

    # What is read

    def check_read(self, offset: Offset, data: memoryview, committed: Offset) -> Offset:
        """Judge records read from `offset` on; return where the next read starts."""
        try:
            positions = walk(data).positions
        except Corrupt as corrupt:
            raise Violation("wrong-bytes-served", f"from {offset} on: {corrupt}") from corrupt
        for position in positions:
            record = decode(data, position)
            if record.offset >= committed:
                raise Violation("uncommitted-read", f"{record.offset} >= {committed}")
            self._check_gap(offset, Offset(record.offset))
            self._check_record(record)
            offset = Offset(record.offset + 1)
        return offset

    def check_nothing(self, offset: Offset, below: Offset) -> None:
        """A read of these offsets returned no record."""
        self._check_gap(offset, below)

    def _check_record(self, record: Record) -> None:
        if (record.value or b"") in self._refused and record.value:
            raise Violation("refused-record-read", f"offset {record.offset}")
        known = self._records.get(record.offset)
        if known == record:
            if record.key and record.offset < self._compacted_upto:
                self._check_newest(record)
            return
        is_placeholder = bool(record.flags & Flag.CONTROL) and epoch_of(record) is None
        if is_placeholder and (self._compacts or known is None):
            self._check_gap(Offset(record.offset), Offset(record.offset + 1))
            return
        raise Violation("wrong-record", f"offset {record.offset}: {record} is not {known}")

    def _check_newest(self, record: Record) -> None:
        for offset in range(record.offset + 1, self._compacted_upto):
            other = self._records.get(offset)
            is_newer = other is not None and other.key == record.key
            if is_newer and not record.flags & Flag.CONTROL:
                raise Violation("old-value-kept", f"key {record.key!r} at {record.offset}")

    def _check_gap(self, first: Offset, below: Offset) -> None:
        """Offsets that a read passes over must have been compacted away, rightly."""
        for offset in range(first, below):
            record = self._records.get(offset)
            if record is None:
                continue
            if not self._compacts:
                raise Violation("record-skipped", f"offset {offset}")
            if not self._may_be_compacted(record):
                raise Violation("newest-compacted-away", f"offset {offset} key {record.key!r}")

    def _may_be_compacted(self, record: Record) -> bool:
        if not record.key or record.flags & Flag.CONTROL:
            return False
        if record.offset in self._superseded:
            return True
        return bool(record.flags & Flag.TOMBSTONE) and record.timestamp < self._tombstones_before

    def first_since(self, timestamp: int) -> Offset | None:
        """The first committed offset stamped at or after `timestamp`."""
        offsets = [
            offset
            for offset, record in self._records.items()
            if record.timestamp >= timestamp and self.start <= offset < self.committed
        ]
        return Offset(min(offsets)) if offsets else None

    def timestamps(self) -> list[int]:
        return [record.timestamp for record in self._records.values()]

    def epochs(self) -> list[tuple[int, int]]:
        """The leader epochs that the records of the log start."""
        found = [(epoch_of(record), offset) for offset, record in sorted(self._records.items())]
        return [(e, offset) for e, offset in found if e is not None and offset >= self.start]
