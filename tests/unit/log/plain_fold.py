"""What a log says of its producers, in the simplest way that is right: all of it, from the start.

Beside it a log whose disk the test plays, with the bytes that the disk would hold.
"""

import msgspec

from goqueue.log import Appended, BatchMark, Log, LogState, Marker
from goqueue.log.producer_replay import replay
from goqueue.log.producer_state import ProducerState, Repeat
from goqueue.model import (
    Code,
    Filled,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Refused,
    Synced,
    Timestamp,
    Write,
)
from goqueue.records import build, walk

LOG = LogId("orders", 0)

SETTINGS = LogSettings(retention_ns=None)

WINDOW = 5


class Entry(msgspec.Struct, frozen=True):
    """One append: a batch of somebody, of nobody, or a marker."""

    first: int
    following: int
    said: BatchMark | Marker | None
    data: bytes


class Known(msgspec.Struct):
    """One producer as the log has it."""

    epoch: int = 0
    batches: list[tuple[BatchMark, int]] = []
    transaction: int = 0
    ended: int = 0
    ranges: list[tuple[int, int]] = []

    @property
    def expected(self) -> int:
        if not self.batches:
            return 0
        mark = self.batches[-1][0]
        return mark.sequence + mark.count


class PlainFold:
    """Everything that follows from entries, of which those below `committed` are committed."""

    def __init__(self, entries: list[Entry], committed: int) -> None:
        self.known: dict[int, Known] = {}
        self.aborted: set[int] = set()
        self.hidden: set[int] = set()
        self.unstable: list[int] = []
        for entry in entries:
            if isinstance(entry.said, BatchMark):
                self._batch(entry.said, entry.first)
            elif isinstance(entry.said, Marker):
                self._marker(entry.said, entry.first, committed)
        self.unstable += [each.ranges[0][0] for each in self.known.values() if each.transaction]

    def _raise(self, known: Known, epoch: int) -> None:
        if epoch > known.epoch:
            known.epoch = epoch
            known.batches = []

    def _batch(self, mark: BatchMark, first: int) -> None:
        known = self.known.setdefault(mark.producer, Known())
        self._raise(known, mark.epoch)
        if mark.sequence >= 0:
            known.batches = [*known.batches, (mark, first)][-WINDOW:]
        if mark.transaction:
            known.transaction = mark.transaction
            known.ranges = [*known.ranges, (first, first + mark.count)]

    def _marker(self, marker: Marker, offset: int, committed: int) -> None:
        known = self.known[marker.producer]
        ranges, known.ranges, known.transaction = known.ranges, [], 0
        known.ended = marker.transaction
        self._raise(known, marker.epoch)
        if offset >= committed:
            self.unstable.append(ranges[0][0])
            return
        self.hidden.add(offset)
        if not marker.is_commit:
            for first, following in ranges:
                self.aborted.update(range(first, following))
                self.hidden.update(range(first, following))

    @property
    def unstable_from(self) -> int | None:
        return min(self.unstable, default=None)

    def open(self) -> list[tuple[int, int]]:
        return sorted(
            (producer, each.transaction)
            for producer, each in self.known.items()
            if each.transaction
        )

    def check(self, mark: BatchMark) -> Repeat | tuple[Code, object] | None:
        """What a log must say to a batch."""
        known = self.known.get(mark.producer, Known())
        if mark.epoch < known.epoch:
            return Code.PRODUCER_FENCED, known.epoch
        is_late = mark.transaction <= known.ended
        is_other = known.transaction not in {0, mark.transaction}
        if mark.transaction and (is_late or is_other):
            return Code.TRANSACTION_STATE_INVALID, None
        if mark.sequence < 0:
            return None
        if mark.epoch > known.epoch:
            return None if not mark.sequence else (Code.SEQUENCE_OUT_OF_ORDER, 0)
        if mark.sequence == known.expected:
            return None
        for batch, first in known.batches:
            # Only within its own transaction is it a repeat: a new count means other messages.
            if batch.sequence == mark.sequence and _size(batch) == _size(mark):
                return Repeat(Offset(first), Offset(first + batch.count))
        return Code.SEQUENCE_OUT_OF_ORDER, known.expected


def _size(mark: BatchMark) -> tuple[int, int]:
    return mark.count, mark.transaction


def asked(state: ProducerState, mark: BatchMark) -> Repeat | tuple[Code, object] | None:
    """What a log says to a batch, in the words of the plain fold."""
    try:
        return state.check(mark)
    except Refused as refused:
        facts = dict(refused.facts)
        return refused.code, facts.get("expected", facts.get("current"))


def spelled(spans: object) -> set[int]:
    assert isinstance(spans, type(ProducerState().hidden))
    return {offset for first, following in spans for offset in range(first, following)}


def now_at(wall: int) -> Now:
    return Now(Instant(wall), Timestamp(wall))


class PlayedLog:
    """A log and its entries; what the disk did is said by the test."""

    def __init__(self) -> None:
        self.log = Log(LOG, SETTINGS, LogState())
        self.entries: list[Entry] = []
        self.wall = 0

    def append(self, mark: BatchMark | None, count: int = 1) -> Appended:
        batch = build([Message(value=b"v")] * count)
        appended = self.log.append(batch, self._later(), mark)
        if not appended.is_repeat:
            self._note(appended, mark)
        return appended

    def end(self, marker: Marker) -> Appended | None:
        appended = self.log.end_transaction(marker, self._later())
        if appended is not None:
            self._note(appended, marker)
        return appended

    def _later(self) -> Now:
        """A log that was full tries again after a while."""
        self.wall += SETTINGS.full_retry_ns
        return now_at(self.wall)

    def _note(self, appended: Appended, said: BatchMark | Marker | None) -> None:
        data = next(each.data for each in appended.effects if isinstance(each, Write))
        self.entries.append(Entry(appended.first, appended.next, said, bytes(data)))

    def sync(self, upto: int) -> None:
        self.log.handle(Synced(log=LOG, upto=Offset(upto)), now_at(self.wall))

    def take_back(self, offset: int) -> None:
        """There was no space for what was appended from `offset` on."""
        self.log.handle(
            Filled(log=LOG, offset=Offset(offset), segment=Offset(0)), now_at(self.wall)
        )
        self.entries = [entry for entry in self.entries if entry.first < offset]

    @property
    def committed(self) -> int:
        return int(self.log.high_watermark)

    @property
    def uncommitted(self) -> list[int]:
        """Where a full disk can cut."""
        return [entry.first for entry in self.entries if entry.first >= self.committed]

    def plain(self) -> PlainFold:
        return PlainFold(self.entries, self.committed)

    def replayed(self, start: int = 0, onto: ProducerState | None = None) -> ProducerState:
        """What a start would make of the log, if all of it were committed."""
        state = ProducerState() if onto is None else onto
        data = b"".join(entry.data for entry in self.entries)
        if data:
            replay(state, data, walk(data), Offset(start))
        return state
