"""The producers of one partition: a fold over the log's own records, told by offset.

Owns what is needed to know a retry, to fence a zombie, to hold readers at the last stable offset
and to drop what was aborted. Follows from the log alone: a replay of the same records ends in the
same state, because expiry and the cap count in the time that the marks carry. That time passes with
what is appended: a clock that is put forward by weeks forgets nobody.

Invariants
- A transaction that has begun here holds the last stable offset at its first record until its
  marker is committed; what it wrote is aborted or not by that marker alone.
- One marker per transaction: a second one has nothing to end.
- What is said of a batch reaches no further than its records: where another record stands, or the
  log ends, before all of a batch was seen, the batch was torn and is not known as a whole one.

Cost per batch: one look-up; per marker one, and one entry per aborted range.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

import msgspec

from goqueue.log.authors.batch_mark import BatchMark
from goqueue.log.authors.spans import Spans
from goqueue.log.authors.writer import Repeat, Writer, WriterStated
from goqueue.model import HOUR, SECOND, Code, Offset, Refused

__all__ = ["Authors", "AuthorsStated", "Ending"]

_MEMORY_NS = 24 * HOUR
# From one batch to the next no more time passes than this, whatever the clock says.
_STEP_NS = HOUR
_WRITERS_MAX = 10_000
# A retry comes within seconds: who was silent for longer than this may be forgotten for another.
_IDLE_NS_MIN = 60 * SECOND
# Statements before version 1 may say that a torn batch reaches over the records of others.
_STATED_VERSION = 1


class Ending(msgspec.Struct, frozen=True):
    """A marker that was appended: it takes effect when it is committed."""

    marker: Offset
    producer: int
    transaction: int
    is_commit: bool
    ranges: tuple[tuple[int, int], ...]
    # What the producer had ended before; a marker that is taken back ends nothing.
    ended_before: int

    def hide(self, hidden: Spans, aborted: Spans) -> None:
        """Note what is no message because of this."""
        hidden.add(self.marker, self.marker + 1)
        if not self.is_commit:
            for first, following in self.ranges:
                aborted.add(first, following)
                hidden.add(first, following)


class AuthorsStated(msgspec.Struct, frozen=True, kw_only=True):
    """All that the log says about producers below an offset."""

    topic: int
    upto: int
    writers: list[WriterStated]
    hidden: tuple[bytes, bytes]
    aborted: tuple[bytes, bytes]
    version: int = 0
    # How much time has passed for the log, and the newest mark; 0: as the writers say.
    clock: int = 0
    newest: int = 0


class Authors:
    """Producers by their ids, the one that was silent longest first."""

    # Every partition has one, and most have no producers: an empty one must be small.
    __slots__ = (
        "_aborted",
        "_clock",
        "_committed",
        "_endings",
        "_hidden",
        "_last",
        "_newest",
        "_open",
        "_order",
        "_writers",
        "changes",
    )

    def __init__(self) -> None:
        self._writers: dict[int, Writer] = {}
        self._endings: list[Ending] = []
        # First offset of each open transaction by producer, and the same in order; what was closed
        # since stays in the heap until it surfaces.
        self._open: dict[int, Offset] = {}
        self._order: list[tuple[Offset, int]] = []
        self._aborted = Spans()
        # What is no message: aborted records, and all markers.
        self._hidden = Spans()
        self._committed = 0
        # The producer of the batch that was appended last, and the offset after it.
        self._last: tuple[int, int] | None = None
        self.changes = 0
        self._clock = 0
        self._newest = 0

    def __len__(self) -> int:
        return len(self._writers)

    # Appending

    def check(self, mark: BatchMark) -> Repeat | None:
        """Whether a batch may be appended; a repeat is told where it stands."""
        writer = self._writers.get(mark.producer)
        if writer is None or self._is_forgotten(mark.producer, writer, mark.at):
            if mark.sequence > 0:
                raise Refused(Code.SEQUENCE_OUT_OF_ORDER, sequence=mark.sequence, expected=0)
            if writer is None and mark.producer > 0:
                self._check_room(mark.at)
            return None
        return writer.check(mark)

    def _is_forgotten(self, producer: int, writer: Writer, at: int) -> bool:
        return producer not in self._open and self._time(at) - writer.at > _MEMORY_NS

    def _time(self, at: int) -> int:
        """How much time has passed for the log when it is `at` on the wall."""
        return self._clock + min(max(0, at - self._newest), _STEP_NS)

    @property
    def heard(self) -> Iterator[tuple[int, int]]:
        """Each producer that is remembered, and when it wrote last, in wall time or later."""
        for producer, writer in self._writers.items():
            yield producer, self._newest - (self._clock - writer.at)

    def _check_room(self, at: int) -> None:
        if len(self._writers) < _WRITERS_MAX or self._most_idle(at) is not None:
            return
        raise Refused(Code.QUOTA_EXCEEDED, quota="producers", limit=_WRITERS_MAX)

    def _most_idle(self, at: int) -> int | None:
        """Who was silent longest and may be forgotten."""
        for producer, writer in self._writers.items():
            if producer not in self._open:
                return producer if self._time(at) - writer.at > _IDLE_NS_MIN else None
        return None

    def append(self, mark: BatchMark, first: int) -> None:
        """The batch stands at `first` now; it is not committed yet."""
        self.interrupt(first)
        self.changes += 1
        writer = self._writers.pop(mark.producer, None)
        if writer is None or self._is_forgotten(mark.producer, writer, mark.at):
            self._forget_some(mark.at)
            writer = Writer(mark.epoch)
        self._writers[mark.producer] = writer
        writer.append(mark, first, self._committed)
        self._clock = writer.at = self._time(mark.at)
        self._newest = max(self._newest, mark.at)
        if writer.transaction and mark.producer not in self._open:
            self._hold(mark.producer, Offset(first))

        self._last = (mark.producer, first + mark.count)

    def interrupt(self, offset: int) -> None:
        """What stands at `offset`, or the end of the log, is not of the batch before it."""
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

    def is_open(self, producer: int, transaction: int) -> bool:
        """Whether a transaction has written here and has no marker yet."""
        writer = self._writers.get(producer)
        return writer is not None and writer.transaction == transaction != 0

    @property
    def open(self) -> Iterator[tuple[int, int]]:
        """Producer and number of every transaction that has no marker here."""
        for producer in self._open:
            transaction = self._writers[producer].transaction
            if transaction:
                yield producer, transaction

    def end(
        self, producer: int, epoch: int, transaction: int, marker: int, *, is_commit: bool
    ) -> None:
        """The marker of a transaction stands at `marker` now."""
        self.interrupt(marker)
        self.changes += 1
        writer = self._writers.get(producer)
        ranges: tuple[tuple[int, int], ...] = ()
        ended_before = 0 if writer is None else writer.ended
        if writer is not None and writer.transaction == transaction:
            ranges = tuple(writer.ranges)
            writer.ranges = []
            writer.transaction = 0
            writer.ended = transaction
            if epoch > writer.epoch:
                writer.raise_epoch(epoch)
        self._endings.append(
            Ending(Offset(marker), producer, transaction, is_commit, ranges, ended_before)
        )

    def commit(self, upto: int) -> list[Ending]:
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

    def _close(self, ending: Ending) -> None:
        self._open.pop(ending.producer, None)
        following = self._writers[ending.producer].open_from
        if ending.producer < 0 and following is None:
            # The broker's own, with one transaction each: it never comes back.
            del self._writers[ending.producer]
        if following is not None:
            self._hold(ending.producer, following)

    def take_back(self, offset: int) -> None:
        """Nothing from `offset` on is in the log: batches and markers there never were."""
        self._last = None
        while self._endings and self._endings[-1].marker >= offset:
            ending = self._endings.pop()
            writer = self._writers.get(ending.producer)
            if writer is not None and ending.ranges:
                writer.transaction = ending.transaction
                writer.ranges = list(ending.ranges)
                writer.ended = ending.ended_before
        for producer, writer in self._writers.items():
            writer.take_back(offset)
            if writer.transaction == 0 and not self._is_ending(producer):
                self._open.pop(producer, None)

    def _is_ending(self, producer: int) -> bool:
        return any(ending.producer == producer and ending.ranges for ending in self._endings)

    # Asking

    @property
    def unstable_from(self) -> Offset | None:
        """The first record of the oldest transaction that is open."""
        order = self._order
        while order and self._open.get(order[0][1]) != order[0][0]:
            heappop(order)
        return order[0][0] if order else None

    @property
    def aborted(self) -> Spans:
        """Records that readers of committed messages must not see."""
        return self._aborted

    @property
    def hidden(self) -> Spans:
        """Offsets that are no messages because of transactions: aborted records and markers."""
        return self._hidden

    def drop_below(self, start: int) -> None:
        """The log begins later now."""
        self._aborted.drop_below(start)
        self._hidden.drop_below(start)

    # Snapshots

    def stated(self, topic: int, upto: int) -> AuthorsStated:
        """All of it; `upto` is the end of the log, and the statement holds once that is durable."""
        self.changes = 0
        hidden, aborted = self._hidden.copy(), self._aborted.copy()
        for ending in self._endings:
            ending.hide(hidden, aborted)
        return AuthorsStated(
            topic=topic,
            upto=upto,
            writers=[writer.stated(producer) for producer, writer in self._writers.items()],
            hidden=hidden.columns(),
            aborted=aborted.columns(),
            version=_STATED_VERSION,
            clock=self._clock,
            newest=self._newest,
        )

    def restore(self, stated: AuthorsStated) -> bool:
        """Become what was stated; False: that makes no sense, and nothing is changed."""
        if stated.version < _STATED_VERSION:
            return False
        hidden, aborted = Spans(), Spans()
        if not (hidden.restore(*stated.hidden) and aborted.restore(*stated.aborted)):
            return False
        if any(each.transaction and not each.ranges for each in stated.writers):
            return False
        self._hidden, self._aborted = hidden, aborted
        self._committed = stated.upto
        latest = max((each.at for each in stated.writers), default=0)
        self._clock, self._newest = stated.clock or latest, stated.newest or latest
        for each in stated.writers:
            writer = self._writers[each.producer] = Writer.restored(each)
            if writer.open_from is not None:
                self._hold(each.producer, writer.open_from)
        return True
