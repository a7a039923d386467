"""What a log says of producers and delays, as its replicas know it: complete before they lead.

A follower folds batches when they are committed, from memory, and never what is not (C24). So the
state at one high watermark is the same on all replicas, and a broker that is elected has it to the
end of its log, or reads the rest before it leads.

What a leader knows of producers may be ahead of what is committed: a log that lost its leadership
with uncommitted records forgets it and folds anew, from its snapshot and the disk. What it knows of
delays is not, but for what it found when it began to lead: that is kept, and folded anew only if
the log is cut below it.

Only batches that say something are kept; at most 4 MiB for each log: beyond, the rest is read
again. A turn folds what its budget allows, or one batch or piece; a snapshot is restored in steps,
so a million delays stop nobody.

Crash points: none of its own; all of it is folded again from the log at a start.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from goqueue.broker.delayed.delay_log import Replay, delays_snapshot
from goqueue.broker.disk_reads import FoldFetch
from goqueue.broker.partitions import FoldState, KeptBatch, Partition
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.producer_snapshots import decode_producers, producers_snapshot
from goqueue.broker.turns import Steps
from goqueue.cluster import PartitionId
from goqueue.delivery import Delays, DelaysStated, decode_in_steps
from goqueue.log import ProducersStated
from goqueue.model import (
    CANCEL_KEY,
    DELAYED_FROM_HEADER,
    DELIVER_HEADER,
    EPOCH_KEY,
    TRANSACTION_KEY,
    Load,
    LogId,
    Now,
    Offset,
)
from goqueue.records import BATCH_HEADER_START, Buffer, last_offset

__all__ = ["DerivedState"]

_KEPT_BYTES = 4 * 1024 * 1024
_READ_BYTES = 256 * 1024
# What is a unit of a turn: so many bytes that are looked through for producers, or for delays, and
# so many entries of a snapshot that are restored.
_BYTES_PER_UNIT = 512
_DELAYED_BYTES_PER_UNIT = 64
_ENTRIES_PER_UNIT = 20
_EPOCH_MARK = EPOCH_KEY.encode()
_TRANSACTION_MARK = TRANSACTION_KEY.encode()
_DELAY_MARKS = (DELIVER_HEADER.encode(), DELAYED_FROM_HEADER.encode(), CANCEL_KEY.encode())


class _SnapshotLoad:
    """Snapshots of a log that were asked for, and what came."""

    __slots__ = ("delays", "log", "missing", "producers", "topic")

    def __init__(self, log: LogId, topic: int) -> None:
        self.log = log
        self.topic = topic
        self.missing: dict[str, None] = {}
        self.producers: ProducersStated | None = None
        # Not decoded yet: it may be large.
        self.delays: bytes | None = None


class _Restored:
    """Delays that are restored from a snapshot; `upto` is None unless that was done."""

    __slots__ = ("delays", "upto")

    def __init__(self, delays: Delays) -> None:
        self.delays = delays
        self.upto: Offset | None = None

    def steps(self, data: bytes, fits: Callable[[DelaysStated], bool]) -> Iterator[int]:
        """Yields after each step how many entries it took in."""
        stated = yield from decode_in_steps(data)
        if stated is not None and fits(stated):
            if (yield from self.delays.restore_in_steps(stated)):
                self.upto = Offset(stated.upto)


class DerivedState:
    """Folds what followers must know before they lead."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        # By the name of a snapshot, and by the log until what came is restored.
        self._by_name: dict[str, _SnapshotLoad] = {}
        self._by_log: dict[LogId, _SnapshotLoad] = {}
        self._runs = 0
        # Logs that have more to fold than a turn allowed.
        self._unfolded: dict[LogId, Partition] = {}

    # Starting anew

    def begin(self, partition: Partition, where: PartitionId) -> None:
        """Fold all that a log holds: it was opened, or what was known of it is not true."""
        self._state.delays.pop(partition.log_id, None)
        self._restart(partition, where, None)

    def _restart(
        self, partition: Partition, where: PartitionId, delays_known: Offset | None
    ) -> None:
        """Fold a log from its snapshots on; its delays are known so far already, if any are."""
        log, log_id = partition.log, partition.log_id
        log.forget_producers()
        partition.lacks_producers = False
        self._runs += 1
        fold = partition.fold = FoldState(log.start, log.end, self._runs)
        log.fold_below(fold.folded)
        if delays_known is not None:
            fold.delays_from = delays_known
        if log.end == log.start:
            return
        names = [producers_snapshot(where.topic, where.partition)]
        if delays_known is None:
            names.append(delays_snapshot(where.topic, where.partition))
        fold.is_reading = True
        loading = self._by_log[log_id] = _SnapshotLoad(log_id, where.topic)
        for name in names:
            loading.missing[name] = None
            if name not in self._by_name:
                self._state.outbox.append(Load(name=name))
            self._by_name[name] = loading

    def follow(self, partition: Partition, where: PartitionId) -> None:
        """A log follows: if it led, or was about to, it may know more than is committed."""
        if partition.fold is not None:
            return
        log = partition.log
        known = max(log.high_watermark, partition.led_from)
        if partition.lacks_producers and not log.damaged:
            self.begin(partition, where)
        elif log.high_watermark < log.end:
            self._restart(partition, where, known)
        else:
            self._runs += 1
            partition.fold = FoldState(log.end, log.end, self._runs)
            partition.fold.delays_from = known
            log.fold_below(log.end)

    def repaired(self, partition: Partition, where: PartitionId) -> None:
        """A follower's log is whole again: fold what could not be read before."""
        if partition.lacks_producers and not partition.log.damaged:
            self.begin(partition, where)

    def expects(self, name: str) -> bool:
        return name in self._by_name

    def loaded(self, name: str, data: bytes | None, now: Now) -> Partition | None:
        """A snapshot came, or there is none; the log to go on with."""
        loading = self._by_name.pop(name)
        loading.missing.pop(name, None)
        partition = self._state.partitions.get(loading.log)
        fold = None if partition is None else partition.fold
        if self._by_log.get(loading.log) is not loading:
            # It is folded anew since, from where its delays are known.
            return None
        if partition is None or fold is None:
            del self._by_log[loading.log]
            return None
        if data is not None and name == producers_snapshot(loading.topic, loading.log.partition):
            loading.producers = decode_producers(data)
        elif data is not None:
            loading.delays = data
        if loading.missing:
            return None
        return self._restore(partition, fold, loading, now)

    def _restore(
        self, partition: Partition, fold: FoldState, loading: _SnapshotLoad, now: Now
    ) -> Partition | None:
        """All snapshots that there are have come: go on from them."""
        log, producers = partition.log, loading.producers
        if producers is not None and self._fits(partition, loading.topic, producers):
            if log.restore_producers(producers):
                fold.producers_from = Offset(producers.upto)
                if not producers.has_delays:
                    fold.delays_from = max(fold.delays_from, fold.producers_from)
        if loading.delays is not None:
            steps = self._restore_delays(partition, fold, loading, loading.delays, now)
            self._state.stepwise.begin(None, steps, now)
            return None
        self._end_loading(partition, fold)
        return partition

    def _fits(
        self, partition: Partition, topic: int, stated: ProducersStated | DelaysStated
    ) -> bool:
        log = partition.log
        return stated.topic == topic and log.start <= stated.upto <= log.high_watermark

    def _restore_delays(
        self,
        partition: Partition,
        fold: FoldState,
        loading: _SnapshotLoad,
        data: bytes,
        now: Now,
    ) -> Steps:
        log_id = partition.log_id
        restored = _Restored(Delays(now.wall))
        for entries in restored.steps(data, partial(self._fits, partition, loading.topic)):
            yield entries // _ENTRIES_PER_UNIT
            if self._by_log.get(log_id) is not loading:
                # It is folded anew since.
                return
        if self._state.partitions.get(log_id) is not partition:
            del self._by_log[log_id]
            return
        if restored.upto is not None:
            restored.delays.drop_below(partition.log.start)
            self._state.delays[log_id] = restored.delays
            fold.delays_from = restored.upto
        self._end_loading(partition, fold)
        self._unfolded[log_id] = partition

    def _end_loading(self, partition: Partition, fold: FoldState) -> None:
        del self._by_log[partition.log_id]
        fold.is_reading = False
        _raise(partition, fold, min(fold.producers_from, fold.delays_from))

    # Following

    def appended(self, partition: Partition, first: Offset, following: Offset, data: bytes) -> None:
        """A follower appended a batch, which begins with `data`: keep that if it says something.

        What is behind it has neither headers nor control records.
        """
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

    def committed(self, partition: Partition, now: Now) -> None:
        """The high watermark of a follower rose, or a piece was read: fold what is committed."""
        fold = partition.fold
        if fold is None or fold.is_reading:
            return
        upto = partition.log.high_watermark
        if fold.folded < min(fold.read_upto, upto):
            self._read(partition, fold, is_committed=True)
        else:
            self._fold_kept(partition, fold, upto, now)

    def complete(self, partition: Partition, now: Now) -> bool:
        """Before it leads: fold up to the end; False if that takes longer than this turn."""
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
        if not self._fold_kept(partition, fold, log.end, now):
            return False
        log.finish_producers()
        log.fold_below(None)
        partition.fold = None
        partition.led_from = log.end
        return True

    def take_unfolded(self) -> list[Partition]:
        """The logs to go on with in this turn."""
        unfolded, self._unfolded = self._unfolded, {}
        open_logs = self._state.partitions
        return [each for log, each in unfolded.items() if open_logs.get(log) is each]

    @property
    def has_unfolded(self) -> bool:
        """Whether there is more to do in the next turn."""
        return bool(self._unfolded)

    def _fold_kept(self, partition: Partition, fold: FoldState, upto: Offset, now: Now) -> bool:
        """Fold what is kept below an offset; False if the turn allows only some of it."""
        while fold.kept and fold.kept[0].next <= upto:
            kept = fold.kept.popleft()
            fold.kept_bytes -= len(kept.data)
            if kept.next > fold.folded:
                self._fold(partition, fold, kept.data, kept.first, now)
                _raise(partition, fold, kept.next)
            if self._state.budget.is_spent and fold.kept:
                self._unfolded[partition.log_id] = partition
                return False
        if not fold.kept:
            # Nothing else below says anything.
            _raise(partition, fold, upto)
        return True

    def _fold(
        self, partition: Partition, fold: FoldState, data: Buffer, first: Offset, now: Now
    ) -> None:
        """Take in what records say, as far as it is not known."""
        self._state.budget.spend(1 + len(data) // _BYTES_PER_UNIT)
        partition.log.fold_producers(data, max(first, fold.folded, fold.producers_from))
        if last_offset(data) < fold.delays_from:
            return
        delays = self._state.delays.get(partition.log_id)
        if delays is None:
            if not _says_of_delays(bytes(data)):
                return
            delays = self._state.delays[partition.log_id] = Delays(now.wall)
        if fold.replay is None:
            fold.replay = Replay(delays)
        self._state.budget.spend(len(data) // _DELAYED_BYTES_PER_UNIT)
        fold.replay.apply(memoryview(data))

    def _read(self, partition: Partition, fold: FoldState, *, is_committed: bool) -> bool:
        """Read the next piece from the disk; False if there is none."""
        log = partition.log
        wanted_from = max(fold.folded, log.start)
        offset = log.readable_from(wanted_from)
        if offset > wanted_from:
            partition.lacks_producers = True
        if offset >= log.end:
            _raise(partition, fold, offset)
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

    def fetched(self, purpose: FoldFetch, data: memoryview | None, now: Now) -> Partition | None:
        """A piece was read, or cannot be: what is damaged says nothing until it is repaired.

        Returns the log to go on with.
        """
        partition = self._state.partitions.get(purpose.log)
        fold = None if partition is None else partition.fold
        if partition is None or fold is None or fold.run != purpose.run:
            return None
        fold.is_reading = False
        following = purpose.below
        if data is not None and len(data):
            self._fold(partition, fold, data, fold.folded, now)
            following = Offset(last_offset(data) + 1)
        else:
            partition.lacks_producers = True
        _raise(partition, fold, following)
        return partition

    def truncated(self, partition: Partition) -> bool:
        """The end of a follower is not what it was; False if it must be folded anew."""
        fold, end = partition.fold, partition.log.end
        if fold is None or max(fold.folded, fold.delays_from) > end:
            return False
        while fold.kept and fold.kept[-1].next > end:
            fold.kept_bytes -= len(fold.kept.pop().data)
            fold.read_upto = end
        fold.read_upto = min(fold.read_upto, end)
        self._runs += 1
        fold.run = self._runs
        if fold.is_reading and partition.log_id not in self._by_log:
            fold.is_reading = False
        return True


def _raise(partition: Partition, fold: FoldState, upto: Offset) -> None:
    """A log is folded as far as this: readers may see no more of it."""
    fold.folded = max(fold.folded, upto)
    partition.log.fold_below(fold.folded)


def _says_something(content: bytes) -> bool:
    """Whether a batch is of a producer or about delays, ends a transaction or begins an epoch."""
    marks = (BATCH_HEADER_START, _EPOCH_MARK, _TRANSACTION_MARK, *_DELAY_MARKS)
    return any(mark in content for mark in marks)


def _says_of_delays(content: bytes) -> bool:
    return any(mark in content for mark in _DELAY_MARKS)
