"""One producer as one partition knows it: its last batches, its open transaction, what has ended.

Knows sequences and numbers, no offsets of others. Invariant: batches are in the order of their
sequences and offsets, at most five; what is taken back from the log is forgotten here.
"""

import msgspec

from goqueue.log.authors.batch_mark import BatchMark
from goqueue.model import Code, Offset, Refused

__all__ = ["WINDOW", "Repeat", "Writer", "WriterStated"]

WINDOW = 5


class Repeat(msgspec.Struct, frozen=True):
    """A batch that is in the log already: where it stands."""

    first: Offset
    next: Offset


class WriterStated(msgspec.Struct, frozen=True, array_like=True):
    """A writer in full."""

    producer: int
    epoch: int
    next_sequence: int
    at: int
    ended: int
    transaction: int
    ranges: list[tuple[int, int]]
    batches: list[tuple[int, int, int, int]]


class Writer:
    """What is remembered of a producer."""

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
        """Refuse what must not be appended; a repeat is told where it stands."""
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
            # A retry comes within its own transaction: who counts anew after an abort means others.
            sought = (mark.sequence, mark.count, mark.transaction)
            for sequence, count, first, transaction in self.batches[-WINDOW:]:
                if (sequence, count, transaction) == sought:
                    return Repeat(Offset(first), Offset(first + count))
        raise Refused(Code.SEQUENCE_OUT_OF_ORDER, sequence=mark.sequence, expected=expected)

    def _check_transaction(self, number: int) -> None:
        """A late message of a transaction that has ended must not join the next one."""
        if number <= self.ended or (self.transaction and number != self.transaction):
            open_now = self.transaction or None
            raise Refused(Code.TRANSACTION_STATE_INVALID, ended=self.ended, open=open_now)

    def append(self, mark: BatchMark, first: int, committed: int) -> None:
        """The batch stands at `first` now; what is below `committed` is never taken back."""
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
        """Sequences begin anew with each epoch."""
        self.epoch = epoch
        self.next_sequence = 0
        self.batches.clear()

    def take_back(self, offset: int) -> None:
        """Nothing of this producer from `offset` on is in the log.

        A batch of which a part is left was never acknowledged: its retry is appended anew.
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
    def restored(cls, stated: WriterStated) -> "Writer":
        writer = cls(stated.epoch)
        writer.next_sequence = stated.next_sequence
        writer.at = stated.at
        writer.ended = stated.ended
        writer.transaction = stated.transaction
        writer.ranges = list(stated.ranges)
        writer.batches = list(stated.batches)
        return writer
