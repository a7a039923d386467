"""Producer state on followers: folded below the high watermark only, complete before they lead.

What a leader knows of producers may be ahead of what is committed. A follower folds batches when
they are committed, from memory; a log that lost its leadership with uncommitted records forgets
what it knew and folds anew, from its snapshot and the disk (C24). So the state at one high
watermark is the same on all replicas, and a broker that is elected has it to the end of its log, or
reads the rest before it leads.

Only batches that carry the mark of a producer, a marker or an epoch record are kept; others say
nothing of producers. What is kept is at most 4 MiB for each log: beyond, the rest is read again.

Crash points: none of its own; all of it is folded again from the log at a start.
"""

from collections import deque

import msgspec

from goqueue.broker.disk_reads import FoldFetch
from goqueue.broker.partitions import FoldState, KeptBatch, Partition
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.producer_snapshots import decode_producers, producers_snapshot
from goqueue.cluster import PartitionId
from goqueue.model import EPOCH_KEY, TRANSACTION_KEY, Load, LogId, Offset
from goqueue.records import BATCH_HEADER_START, Buffer, last_offset

__all__ = ["DerivedState"]

_KEPT_BYTES = 4 * 1024 * 1024
_READ_BYTES = 1024 * 1024
_EPOCH_MARK = EPOCH_KEY.encode()
_TRANSACTION_MARK = TRANSACTION_KEY.encode()


class _Snapshot(msgspec.Struct, frozen=True):
    """A snapshot that was asked for."""

    log: LogId
    topic: int


class DerivedState:
    """Folds what followers must know before they lead."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._loading: dict[str, _Snapshot] = {}
        self._runs = 0

    # Starting anew

    def begin(self, partition: Partition, where: PartitionId) -> None:
        """Fold all that a log holds: it was opened, or what was known of it is not true."""
        log = partition.log
        log.forget_producers()
        before = partition.fold
        fold = partition.fold = FoldState(
            log.start, log.end, 0 if before is None else before.run + 1
        )
        if log.end > log.start:
            name = producers_snapshot(where.topic, where.partition)
            fold.is_reading = True
            self._loading[name] = _Snapshot(partition.log_id, where.topic)
            self._state.outbox.append(Load(name=name))

    def follow(self, partition: Partition, where: PartitionId) -> None:
        """A log follows: if it led, or was about to, it knows more than is committed."""
        if partition.fold is not None:
            return
        end = partition.log.end
        if partition.log.high_watermark < end:
            self.begin(partition, where)
        else:
            self._runs += 1
            partition.fold = FoldState(end, end, self._runs)

    def expects(self, name: str) -> bool:
        return name in self._loading

    def loaded(self, name: str, data: bytes | None) -> Partition | None:
        """A snapshot came, or there is none; the log to go on with."""
        loading = self._loading.pop(name)
        partition = self._state.partitions.get(loading.log)
        fold = None if partition is None else partition.fold
        if partition is None or fold is None:
            return None
        fold.is_reading = False
        log = partition.log
        stated = None if data is None else decode_producers(data)
        is_usable = (
            stated is not None
            and stated.topic == loading.topic
            and fold.folded <= stated.upto <= log.high_watermark
        )
        if stated is not None and is_usable and log.restore_producers(stated):
            fold.folded = Offset(stated.upto)
        return partition

    # Following

    def appended(
        self, partition: Partition, first: Offset, following: Offset, data: Buffer
    ) -> None:
        """A follower appended a batch: keep it if it says something of producers."""
        fold = partition.fold
        if fold is None or not _says_something(data):
            return
        if fold.kept_bytes + len(data) > _KEPT_BYTES:
            # Read again when it is needed.
            fold.kept = None
            fold.kept_bytes = 0
            fold.read_upto = following
            return
        if fold.kept is None:
            fold.kept = deque()
        fold.kept.append(KeptBatch(first, following, data))
        fold.kept_bytes += len(data)

    def committed(self, partition: Partition) -> None:
        """The high watermark of a follower rose, or a piece was read: fold what is committed."""
        fold = partition.fold
        if fold is None or fold.is_reading:
            return
        upto = partition.log.high_watermark
        if fold.folded < min(fold.read_upto, upto):
            self._read(partition, fold, is_committed=True)
        else:
            self._fold_kept(partition, fold, upto)

    def complete(self, partition: Partition) -> bool:
        """Before it leads: fold up to the end; False if some of it has to be read first."""
        fold = partition.fold
        if fold is None:
            return True
        if fold.is_reading:
            return False
        log = partition.log
        target = min(fold.read_upto, log.end)
        if fold.folded < target:
            is_coming = self._read(partition, fold, is_committed=False)
            if is_coming or fold.folded < target:
                # The rest is readable when it is durable.
                return False
        self._fold_kept(partition, fold, log.end)
        log.finish_producers()
        partition.fold = None
        return True

    def _fold_kept(self, partition: Partition, fold: FoldState, upto: Offset) -> None:
        while fold.kept and fold.kept[0].next <= upto:
            kept = fold.kept.popleft()
            fold.kept_bytes -= len(kept.data)
            if kept.next > fold.folded:
                partition.log.fold_producers(kept.data, max(kept.first, fold.folded))
                fold.folded = kept.next
        if not fold.kept:
            # Nothing else below says anything.
            fold.folded = max(fold.folded, upto)

    def _read(self, partition: Partition, fold: FoldState, *, is_committed: bool) -> bool:
        """Read the next piece from the disk; False if there is none."""
        log = partition.log
        offset = log.readable_from(max(fold.folded, log.start))
        if offset >= log.end:
            fold.folded = offset
            return False
        if is_committed:
            wanted = log.read(offset, _READ_BYTES)
        else:
            wanted = log.read_for_follower(offset, _READ_BYTES)
        if wanted is None:
            return False
        fold.is_reading = True
        purpose = FoldFetch(partition.log_id, wanted.below, fold.run)
        self._state.fetch(wanted, purpose, in_background=True)
        return True

    def fetched(self, purpose: FoldFetch, data: memoryview | None) -> Partition | None:
        """A piece was read, or cannot be: what is damaged says nothing. The log to go on with."""
        partition = self._state.partitions.get(purpose.log)
        fold = None if partition is None else partition.fold
        if partition is None or fold is None or fold.run != purpose.run:
            return None
        fold.is_reading = False
        following = purpose.below
        if data is not None and len(data):
            partition.log.fold_producers(data, fold.folded)
            following = Offset(last_offset(data) + 1)
        fold.folded = max(fold.folded, following)
        return partition

    def truncated(self, partition: Partition) -> bool:
        """The end of a follower is not what it was; False if it must be folded anew."""
        fold, end = partition.fold, partition.log.end
        if fold is None or fold.folded > end:
            return False
        while fold.kept and fold.kept[-1].next > end:
            fold.kept_bytes -= len(fold.kept.pop().data)
            fold.read_upto = end
        fold.read_upto = min(fold.read_upto, end)
        self._runs += 1
        fold.run = self._runs
        if fold.is_reading and not self._is_loading(partition):
            fold.is_reading = False
        return True

    def _is_loading(self, partition: Partition) -> bool:
        return any(each.log == partition.log_id for each in self._loading.values())


def _says_something(data: Buffer) -> bool:
    """Whether a batch carries the mark of a producer, ends a transaction, or may begin an epoch."""
    content = bytes(data)
    return any(mark in content for mark in (BATCH_HEADER_START, _EPOCH_MARK, _TRANSACTION_MARK))
