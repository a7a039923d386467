"""The producer state of one partition: a fold over the records of its log.

Owns what is needed to recognise a retry, to fence a stale producer, to stop readers at the last
stable offset and to hide aborted records. `PartitionProducer` is one producer: its last batches and
its open transaction.

The state is derived from the log alone: a replay of the same records ends in the same state,
because expiry and the cap use the time that the marks carry. That time advances with appends: a
clock that is set forward by weeks evicts nobody.

Invariants
- An open transaction holds the last stable offset at its first record until its marker is
  committed; only that marker decides whether its records are aborted.
- One marker per transaction: a second one has nothing to end. A marker where a transaction wrote
  nothing ends it all the same: a late batch cannot open it.
- The batches of a producer are in the order of sequences and offsets. At most five committed ones
  are known; batches that the log takes back are forgotten.
- A batch reaches no further than its records: if another record follows, or the log ends, before
  all of a batch was seen, the batch was torn and is not known as a complete one.

Cost: one look-up per batch and per marker, and one entry per aborted range.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

import msgspec

from goqueue.log.batch_mark import BatchMark
from goqueue.log.offset_ranges import OffsetRanges
from goqueue.model import HOUR, SECOND, Code, Offset, Refused, TransactionKey

__all__ = [
    "WINDOW",
    "PartitionProducer",
    "ProducerState",
    "ProducersStated",
    "Repeat",
    "TransactionEnd",
    "WriterStated",
]


WINDOW = 5


class Repeat(msgspec.Struct, frozen=True):
    """The offsets of a batch that is already in the log."""

    first: Offset
    next: Offset


class WriterStated(msgspec.Struct, frozen=True, array_like=True):
    """The full state of a writer."""

    producer: int
    epoch: int
    next_sequence: int
    at: int
    ended: int
    transaction: int
    ranges: list[tuple[int, int]]
    batches: list[tuple[int, int, int, int]]


class PartitionProducer:
    """The state of one producer."""

    __slots__ = ("at", "batches", "ended", "epoch", "next_sequence", "ranges", "transaction")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self.at = 0
        # Sequence, count, first offset and transaction of each: the last five, and all that are not
        # committed, with the five before them.
        self.batches: list[tuple[int, int, int, int]] = []
        # The open transaction and what it wrote; the highest that has ended.
        self.transaction = 0
        self.ranges: list[tuple[int, int]] = []
        self.ended = 0

    def check(self, mark: BatchMark) -> Repeat | None:
        """Refuse an invalid batch; the offsets of a repeat."""
        if mark.epoch < self.epoch:
            raise Refused(Code.PRODUCER_FENCED, epoch=mark.epoch, current=self.epoch)
        if mark.transaction:
            self._check_transaction(mark.transaction)
        if mark.sequence < 0:
            return None
        expected = self.next_sequence if mark.epoch == self.epoch else 0
        if mark.sequence == expected:
            return None
        if mark.epoch == self.epoch:
            # A retry belongs to its own transaction: after an abort the numbers start again.
            sought = (mark.sequence, mark.count, mark.transaction)
            for sequence, count, first, transaction in self.batches[-WINDOW:]:
                if (sequence, count, transaction) == sought:
                    return Repeat(Offset(first), Offset(first + count))
        raise Refused(Code.SEQUENCE_OUT_OF_ORDER, sequence=mark.sequence, expected=expected)

    def _check_transaction(self, number: int) -> None:
        """Refuse a late message of an ended transaction: it must not join the next one."""
        if number <= self.ended or (self.transaction and number != self.transaction):
            open_now = self.transaction or None
            raise Refused(Code.TRANSACTION_STATE_INVALID, ended=self.ended, open=open_now)

    def append(self, mark: BatchMark, first: int, committed: int) -> None:
        """Record a batch at `first`; offsets below `committed` are never taken back."""
        if mark.epoch > self.epoch:
            self.raise_epoch(mark.epoch)
        self.at = max(self.at, mark.at)
        if mark.sequence >= 0:
            self.next_sequence = mark.sequence + mark.count
            self.batches.append((mark.sequence, mark.count, first, mark.transaction))
            if len(self.batches) > WINDOW:
                kept = sum(each[2] < committed for each in self.batches)
                del self.batches[: max(0, kept - WINDOW)]
        if mark.transaction:
            self.transaction = mark.transaction
            following = first + mark.count
            if self.ranges and self.ranges[-1][1] == first:
                self.ranges[-1] = (self.ranges[-1][0], following)
            else:
                self.ranges.append((first, following))

    def raise_epoch(self, epoch: int) -> None:
        """Sequences restart with each epoch."""
        self.epoch = epoch
        self.next_sequence = 0
        self.batches.clear()

    def take_back(self, offset: int) -> None:
        """Forget everything of this producer from `offset` on.

        A batch that is left in part was never acknowledged: its retry is appended again.
        """
        while self.batches and self.batches[-1][2] + self.batches[-1][1] > offset:
            self.next_sequence = self.batches.pop()[0]
        if self.ranges and self.ranges[-1][1] > offset:
            kept = [(first, min(end, offset)) for first, end in self.ranges if first < offset]
            self.ranges = kept
            if not kept:
                self.transaction = 0

    @property
    def open_from(self) -> Offset | None:
        """Where its open transaction begins."""
        return Offset(self.ranges[0][0]) if self.transaction else None

    def stated(self, producer: int) -> WriterStated:
        return WriterStated(
            producer,
            self.epoch,
            self.next_sequence,
            self.at,
            self.ended,
            self.transaction,
            list(self.ranges),
            self.batches[-WINDOW:],
        )

    @classmethod
    def restored(cls, stated: WriterStated) -> "PartitionProducer":
        writer = cls(stated.epoch)
        writer.next_sequence = stated.next_sequence
        writer.at = stated.at
        writer.ended = stated.ended
        writer.transaction = stated.transaction
        writer.ranges = list(stated.ranges)
        writer.batches = list(stated.batches)
        return writer


_MEMORY_NS = 24 * HOUR
# Time advances by at most this from one batch to the next, whatever the clock says.
_STEP_NS = HOUR
_WRITERS_MAX = 10_000
# A retry comes within seconds: a producer that was idle for longer may be evicted.
_IDLE_NS_MIN = 60 * SECOND
# Statements before version 1 may extend a torn batch over records of other producers.
_STATED_VERSION = 1


class TransactionEnd(msgspec.Struct, frozen=True):
    """A marker that was appended: it takes effect when it is committed."""

    marker: Offset
    producer: int
    transaction: int
    is_commit: bool
    ranges: tuple[tuple[int, int], ...]
    # The transaction that ended before; a marker that is taken back ends nothing.
    ended_before: int

    @property
    def key(self) -> TransactionKey:
        return TransactionKey(self.producer, self.transaction)

    def hide(self, hidden: OffsetRanges, aborted: OffsetRanges) -> None:
        """Hide the offsets that are no messages because of this marker."""
        hidden.add(self.marker, self.marker + 1)
        if not self.is_commit:
            for first, following in self.ranges:
                aborted.add(first, following)
                hidden.add(first, following)


class ProducersStated(msgspec.Struct, frozen=True, kw_only=True):
    """The full producer state below an offset."""

    topic: int
    upto: int
    writers: list[WriterStated]
    hidden: tuple[bytes, bytes]
    aborted: tuple[bytes, bytes]
    version: int = 0
    # The time of the log, and the newest mark; 0: as the writers say.
    clock: int = 0
    newest: int = 0
    has_delays: bool = True  # There may be delayed messages below.


class ProducerState:
    """Producers by id, the one that was idle longest first."""

    # Every partition has one, and most have no producers: an empty one must be small.
    __slots__ = (
        "_aborted",
        "_clock",
        "_committed",
        "_endings",
        "_hidden",
        "_idle",
        "_last",
        "_newest",
        "_open",
        "_order",
        "_writers",
        "changes",
    )

    def __init__(self) -> None:
        self._writers: dict[int, PartitionProducer] = {}
        self._endings: list[TransactionEnd] = []
        # First offset of each open transaction by producer, and the same in order; what was closed
        # since stays in the heap until it surfaces.
        self._open: dict[int, Offset] = {}
        self._order: list[tuple[Offset, int]] = []
        self._aborted = OffsetRanges()
        # Offsets that are no messages: aborted records and all markers.
        self._hidden = OffsetRanges()
        self._committed = 0
        # Where the table is full: producers without an open transaction, with the time of their
        # last write, that which was idle longest first; what has changed since is passed over.
        self._idle: deque[tuple[int, int]] | None = None
        # The producer of the batch that was appended last, and the offset after it.
        self._last: tuple[int, int] | None = None
        self.changes = 0
        self._clock = 0
        self._newest = 0

    def __len__(self) -> int:
        return len(self._writers)

    # Appending

    def check(self, mark: BatchMark) -> Repeat | None:
        """Refuse an invalid batch; the offsets of a repeat, None for a new one."""
        writer = self._writers.get(mark.producer)
        if writer is None or self._is_forgotten(mark.producer, writer, mark.at):
            if mark.sequence > 0:
                raise Refused(Code.SEQUENCE_OUT_OF_ORDER, sequence=mark.sequence, expected=0)
            if writer is None and mark.producer > 0:
                self._check_room(mark.at)
            return None
        return writer.check(mark)

    def _is_forgotten(self, producer: int, writer: PartitionProducer, at: int) -> bool:
        return producer not in self._open and self._time(at) - writer.at > _MEMORY_NS

    def _time(self, at: int) -> int:
        """The time of the log at the wall time `at`."""
        return self._clock + min(max(0, at - self._newest), _STEP_NS)

    @property
    def heard(self) -> Iterator[tuple[int, int]]:
        """Each known producer and the time of its last write, in wall time or later."""
        for producer, writer in self._writers.items():
            yield producer, self._newest - (self._clock - writer.at)

    def _check_room(self, at: int) -> None:
        if len(self._writers) < _WRITERS_MAX or self._most_idle(at) is not None:
            return
        raise Refused(Code.QUOTA_EXCEEDED, quota="producers", limit=_WRITERS_MAX)

    def _most_idle(self, at: int) -> int | None:
        """The producer that was idle longest and may be evicted; scans the table seldom."""
        while self._idle or len(self._open) < len(self._writers):
            if not self._idle:
                found = [each for each in self._writers.items() if each[0] not in self._open]
                self._idle = deque((producer, writer.at) for producer, writer in found)
            producer, written = self._idle[0]
            writer = self._writers.get(producer)
            if writer is not None and writer.at == written and producer not in self._open:
                return producer if self._time(at) - written > _IDLE_NS_MIN else None
            self._idle.popleft()
        return None

    def append(self, mark: BatchMark, first: int) -> None:
        """Record a batch at `first`; it is not committed yet."""
        self.interrupt(first)
        self.changes += 1
        writer = self._writers.pop(mark.producer, None)
        if writer is None or self._is_forgotten(mark.producer, writer, mark.at):
            self._forget_some(mark.at)
            writer = PartitionProducer(mark.epoch)
        self._writers[mark.producer] = writer
        writer.append(mark, first, self._committed)
        self._clock = writer.at = self._time(mark.at)
        self._newest = max(self._newest, mark.at)
        if writer.transaction and mark.producer not in self._open:
            self._hold(mark.producer, Offset(first))
        self._last = (mark.producer, first + mark.count)

    def interrupt(self, offset: int) -> None:
        """The record at `offset`, or the end of the log, interrupts the batch before it."""
        if self._last is None or self._last[1] <= offset:
            return
        producer, self._last = self._last[0], None
        writer = self._writers.get(producer)
        if writer is not None:
            writer.take_back(offset)

    def _hold(self, producer: int, first: Offset) -> None:
        self._open[producer] = first
        heappush(self._order, (first, producer))

    def _forget_some(self, at: int) -> None:
        if len(self._writers) >= _WRITERS_MAX:
            idle = self._most_idle(at)
            if idle is not None:
                del self._writers[idle]
        while self._writers:
            producer, writer = next(iter(self._writers.items()))
            if not self._is_forgotten(producer, writer, at):
                return
            del self._writers[producer]

    # Transactions

    def open_number(self, producer: int, epoch: int) -> int | None:
        """The transaction that a producer has written here in an epoch, without a marker yet."""
        writer = self._writers.get(producer)
        if writer is None or writer.epoch != epoch:
            return None
        return writer.transaction or None

    def has_ended(self, producer: int, transaction: int) -> bool:
        """Whether the marker of a transaction is committed here."""
        writer = self._writers.get(producer)
        if writer is None or writer.ended < transaction:
            return False
        # One that came again while it is on its way ended nothing.
        return all(
            ending.producer != producer or ending.ended_before >= transaction
            for ending in self._endings
        )

    def is_open(self, producer: int, transaction: int) -> bool:
        """Whether a transaction has written here and has no marker yet."""
        writer = self._writers.get(producer)
        return writer is not None and writer.transaction == transaction != 0

    @property
    def open(self) -> Iterator[TransactionKey]:
        """Every transaction that has no marker here."""
        for producer in self._open:
            transaction = self._writers[producer].transaction
            if transaction:
                yield TransactionKey(producer, transaction)

    def end(
        self, producer: int, epoch: int, transaction: int, marker: int, *, is_commit: bool
    ) -> None:
        """Record the marker of a transaction at `marker`."""
        self.interrupt(marker)
        self.changes += 1
        writer = self._writers.get(producer)
        if writer is None and producer > 0:
            self._forget_some(self._newest)
            writer = self._writers[producer] = PartitionProducer(epoch)
            writer.at = self._clock
        ranges: tuple[tuple[int, int], ...] = ()
        ended_before = 0 if writer is None else writer.ended
        if writer is not None:
            if writer.transaction == transaction:
                ranges = tuple(writer.ranges)
                writer.ranges = []
                writer.transaction = 0
                writer.ended = transaction
            elif not writer.transaction:
                writer.ended = max(writer.ended, transaction)
            if epoch > writer.epoch:
                writer.raise_epoch(epoch)
        self._endings.append(
            TransactionEnd(Offset(marker), producer, transaction, is_commit, ranges, ended_before)
        )

    def forget_all(self, offset: int, committed: Iterable[tuple[int, int]]) -> None:
        """The records below `offset`, which are all committed, were restored from a backup.

        Their producers are others by now. What is open here has no other end: it was committed, or
        it is aborted.
        """
        self.interrupt(offset)
        self.commit(offset)
        kept = frozenset(committed)
        for producer in sorted(self._open):
            writer = self._writers[producer]
            if (producer, writer.transaction) not in kept:
                for first, following in writer.ranges:
                    self._aborted.add(first, following)
                    self._hidden.add(first, following)
        self._hidden.add(offset, offset + 1)
        self._writers.clear()
        self._open.clear()
        self._order.clear()
        self._endings.clear()
        self._last = self._idle = None
        self.changes += 1

    def commit(self, upto: int) -> list[TransactionEnd]:
        """Everything below `upto` is committed: these transactions have ended for every reader."""
        self._committed = max(self._committed, upto)
        if not self._endings:
            return []
        ended = [each for each in self._endings if each.marker < upto]
        self._endings = self._endings[len(ended) :]
        for ending in ended:
            ending.hide(self._hidden, self._aborted)
            if ending.ranges:
                self._close(ending)
        return ended

    def _close(self, ending: TransactionEnd) -> None:
        self._open.pop(ending.producer, None)
        writer = self._writers[ending.producer]
        following = writer.open_from
        if self._idle and writer.at < self._idle[0][1]:
            self._idle.appendleft((ending.producer, writer.at))
        if ending.key.is_internal and following is None:
            # A producer of the broker has one transaction and never returns.
            del self._writers[ending.producer]
        if following is not None:
            self._hold(ending.producer, following)

    def take_back(self, offset: int) -> None:
        """Forget batches and markers from `offset` on: they are no longer in the log."""
        self._last = None
        while self._endings and self._endings[-1].marker >= offset:
            ending = self._endings.pop()
            writer = self._writers.get(ending.producer)
            if writer is not None:
                writer.ended = ending.ended_before
            if writer is not None and ending.ranges:
                writer.transaction = ending.transaction
                writer.ranges = list(ending.ranges)
        for producer, writer in self._writers.items():
            writer.take_back(offset)
            if writer.transaction == 0 and not self._is_ending(producer):
                self._open.pop(producer, None)

    def _is_ending(self, producer: int) -> bool:
        return any(ending.producer == producer and ending.ranges for ending in self._endings)

    # Asking

    @property
    def unstable_from(self) -> Offset | None:
        """The first record of the oldest open transaction."""
        order = self._order
        while order and self._open.get(order[0][1]) != order[0][0]:
            heappop(order)
        return order[0][0] if order else None

    @property
    def aborted(self) -> OffsetRanges:
        """Records that readers of committed messages must not see."""
        return self._aborted

    @property
    def hidden(self) -> OffsetRanges:
        """Offsets that are no messages because of transactions: aborted records and markers."""
        return self._hidden

    def drop_below(self, start: int) -> None:
        """Forget everything below the new start of the log."""
        self._aborted.drop_below(start)
        self._hidden.drop_below(start)

    # Snapshots

    def stated(self, topic: int, upto: int) -> ProducersStated:
        """The full state; it is valid once the log is durable up to `upto`, its end."""
        self.changes = 0
        hidden, aborted = self._hidden.copy(), self._aborted.copy()
        for ending in self._endings:
            ending.hide(hidden, aborted)
        return ProducersStated(
            topic=topic,
            upto=upto,
            writers=[
                writer.stated(producer)
                for producer, writer in self._writers.items()
                if not _is_over(producer, writer.transaction)
            ],
            hidden=hidden.columns(),
            aborted=aborted.columns(),
            version=_STATED_VERSION,
            clock=self._clock,
            newest=self._newest,
        )

    def restore(self, stated: ProducersStated) -> bool:
        """Restore a stated state; False if it is inconsistent: nothing is changed."""
        if stated.version < _STATED_VERSION:
            return False
        hidden, aborted = OffsetRanges(), OffsetRanges()
        if not (hidden.restore(*stated.hidden) and aborted.restore(*stated.aborted)):
            return False
        if any(each.transaction and not each.ranges for each in stated.writers):
            return False
        self._hidden, self._aborted = hidden, aborted
        self._committed = stated.upto
        latest = max((each.at for each in stated.writers), default=0)
        self._clock, self._newest = stated.clock or latest, stated.newest or latest
        for each in stated.writers:
            if _is_over(each.producer, each.transaction):
                continue
            writer = self._writers[each.producer] = PartitionProducer.restored(each)
            if writer.open_from is not None:
                self._hold(each.producer, writer.open_from)
        return True


def _is_over(producer: int, transaction: int) -> bool:
    """Whether this is a producer of the broker whose marker is only to be committed yet.

    It has one transaction and never returns; who restores a statement sees no marker of it.
    """
    return producer < 0 and not transaction
