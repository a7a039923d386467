"""Read-ahead: what queues know of their partitions, read when somebody polls.

A poll has the next records of its partitions read by the shell; one compiled pass tells the queue
what there is to deliver. A group that nobody polls costs nothing. The bytes are kept for the poll
that caused the read, so that its answer is made of them and they are not read twice.

Invariants
- Of each group and partition at most one fetch is under way.
- Of a node at most `_KEPT_MAX` fetches of `_KEPT_BYTES_MAX` together are kept; the oldest go first.
"""

from collections.abc import Iterable, Sequence

import msgspec

from goqueue.broker.disk_reads import ReadAheadFetch
from goqueue.broker.groups.priority_indexer import PriorityIndexer
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.delivery import DeliveryQueue
from goqueue.groups import Group
from goqueue.model import FetchedSlice, LogId, Now, Offset, Slice
from goqueue.model.requests import Mode
from goqueue.records import IndexedRecords, RecordFinder, scan_messages, slice_records

__all__ = [
    "Learned",
    "ReadAhead",
]

_FETCH_BYTES = 256 * 1024
_KEPT_BYTES_MAX = 32 * 1024 * 1024
# What a queue of several lanes knows of messages of 100 bytes.
_OF_QUEUE_BYTES_MAX = 4 * 1024 * 1024
_KEPT_MAX = 1000


class Learned(msgspec.Struct, frozen=True):
    """A survey is over: for whom, and whether there is nothing to look for at once."""

    group: Group
    is_enough: bool


class _Kept(msgspec.Struct, frozen=True):
    """Bytes of a fetch: the records of its slice below `upto`."""

    wanted: Slice
    upto: int
    data: memoryview
    records: IndexedRecords


class FetchedBytes:
    """The last fetches of each group and partition, as far as there is room."""

    def __init__(self) -> None:
        # Those of a queue in the order in which they came; queues by when they were last read for.
        self._kept: dict[tuple[int, LogId], list[_Kept]] = {}
        self._size = 0
        self._count = 0

    @property
    def size(self) -> int:
        """How many bytes are kept."""
        return self._size

    def keep(
        self, group: int, wanted: Slice, upto: int, data: memoryview, floor: int | None = None
    ) -> None:
        """Keep what was read for a queue instead of what was read before.

        With a floor earlier fetches stay that reach beyond it: messages of them are still to come.
        """
        earlier = self._take(group, wanted.log)
        if len(data) > _KEPT_BYTES_MAX:
            return
        room = _OF_QUEUE_BYTES_MAX - len(data)
        kept = [_Kept(wanted, upto, data, IndexedRecords(data))]
        for each in reversed(earlier if floor is not None else ()):
            is_again = wanted.offset <= each.wanted.offset and each.upto <= upto
            if each.upto <= (floor or 0) or is_again:
                continue
            room -= len(each.data)
            if room < 0:
                break
            kept.append(each)
        self._kept[group, wanted.log] = kept[::-1]
        self._count += len(kept)
        self._size += sum([len(each.data) for each in kept])
        while self._size > _KEPT_BYTES_MAX or self._count > _KEPT_MAX:
            self._drop_oldest()

    def _take(self, group: int, log: LogId) -> list[_Kept]:
        """What is kept for a queue, which is not any more."""
        taken = self._kept.pop((group, log), [])
        self._count -= len(taken)
        self._size -= sum([len(each.data) for each in taken])
        return taken

    def _drop_oldest(self) -> None:
        """Forget one fetch of the queue for which nothing was read for the longest time."""
        key, kept = next(iter(self._kept.items()))
        self._size -= len(kept.pop(0).data)
        self._count -= 1
        if not kept:
            del self._kept[key]

    def forget(self, group: int, log: LogId) -> None:
        self._take(group, log)

    def forget_log(self, log: LogId) -> None:
        """Records of a log may be others now."""
        for key in [key for key in self._kept if key[1] == log]:
            self.forget(*key)

    def find(self, group: int, wanted: Slice) -> Slice | FetchedSlice:
        """The slice with its bytes, if all of them are kept together."""
        for kept in self._kept.get((group, wanted.log), ()):
            if wanted.segment != kept.wanted.segment:
                continue
            if kept.wanted.offset <= wanted.offset and wanted.below <= kept.upto:
                return _cut(kept, wanted)
        return wanted

    def gather(
        self, group: int, wanted: Slice, offsets: Sequence[int], size: int
    ) -> FetchedSlice | None:
        """These records of a slice, in this order and of this size; None if some are not kept."""
        kept = [
            each.records
            for each in self._kept.get((group, wanted.log), ())
            if each.wanted.segment == wanted.segment
        ]
        data = RecordFinder(kept).gather(offsets, size) if kept else None
        return None if data is None else FetchedSlice(wanted=wanted, data=memoryview(data))


def _cut(kept: _Kept, wanted: Slice) -> Slice | FetchedSlice:
    """A slice out of the bytes of a fetch."""
    part = slice_records(kept.data, wanted.offset, wanted.below, len(kept.data))
    data = kept.data[part.start : part.end]
    if 4 * len(data) < len(kept.data):
        # A slow reader of a few messages must not hold on to all that was read with them.
        data = memoryview(bytes(data))
    return FetchedSlice(wanted=wanted, data=data) if data else wanted


class ReadAhead:
    """Brings queues to life and tells them what is in the log."""

    def __init__(self, state: NodeState, indexer: PriorityIndexer) -> None:
        self._state = state
        self._indexer = indexer
        # What is being read; known by being the same, not by being equal, since a topic may be
        # deleted and made again meanwhile.
        self._fetches: dict[int, dict[LogId, Slice]] = {}
        self._fetched = FetchedBytes()
        # Logs whose next records could not be read: another look would find the same.
        self._unreadable: dict[LogId, None] = {}

    def is_reading(self, group: int, log: LogId) -> bool:
        return log in self._fetches.get(group, ())

    def is_reading_for(self, group: Group, member_id: str) -> bool:
        """Whether something of a member's partitions is being read for its group."""
        under_way = self._fetches.get(group.number, ())
        return any(group.is_assigned(member_id, log) for log in under_way)

    def is_reading_any(self, group: int, logs: tuple[LogId, ...]) -> bool:
        """Whether something of these partitions is being read for a group."""
        under_way = self._fetches.get(group, ())
        return bool(under_way) and any(log in under_way for log in logs)

    @property
    def unreadable(self) -> list[LogId]:
        """Logs of which no more is asked until `retry`."""
        return list(self._unreadable)

    def retry(self, log: LogId) -> None:
        """What could not be read may be readable now."""
        self._unreadable.pop(log, None)

    def forget(self, group: int, log: LogId) -> None:
        """What is on its way is for a queue that is gone."""
        under_way = self._fetches.get(group, {})
        under_way.pop(log, None)
        if not under_way:
            self._fetches.pop(group, None)

    def forget_fetched(self, group: int, log: LogId) -> None:
        """The queue of a group is gone, and so is what was read for it."""
        self.forget(group, log)
        self._fetched.forget(group, log)

    def forget_log(self, log: LogId) -> None:
        """Records of a log were removed or rewritten."""
        self._fetched.forget_log(log)

    def fetched(self, group: int, slices: Iterable[Slice]) -> tuple[Slice | FetchedSlice, ...]:
        """The slices of an answer, with their bytes where those were read ahead."""
        return tuple(self._fetched.find(group, wanted) for wanted in slices)

    def gathered(
        self, group: int, wanted: Slice, offsets: Sequence[int], size: int
    ) -> FetchedSlice | None:
        """These records of a slice, in this order and of this size, if all were read ahead."""
        return self._fetched.gather(group, wanted, offsets, size)

    # Looking

    def refresh(self, group: Group, partition: Partition, *, is_eager: bool) -> DeliveryQueue:
        """The queue of a group on a partition, told of what is gone, asked for what it needs.

        One that has something to hand out is asked only if the look is eager.
        """
        queue = self._queue(group, partition)
        log = partition.log
        if not is_eager and queue.is_ready:
            return queue
        if queue.cursor < log.start or queue.floor < log.start:
            queue.settle_below(log.start)
        self._fetch_more(group, partition, queue)
        return queue

    def _queue(self, group: Group, partition: Partition) -> DeliveryQueue:
        place = self._state.group_partitions.open(
            group.number, partition.log_id, partition.log.start
        )
        queue = place.queue
        if queue is None:
            queue = DeliveryQueue(
                place.position,
                keeps_key_order=group.mode is Mode.KEY_ORDERED,
                lanes=self._state.catalog.find(partition.log_id.topic).config.lanes,
            )
            delays = self._state.delays.get(partition.log_id)
            if delays is not None:
                queue.hide_all(delays.hidden)
            self._state.group_partitions.add_queue(place, queue)
        return queue

    def _fetch_more(self, group: Group, partition: Partition, queue: DeliveryQueue) -> None:
        """Have records read that the queue does not know yet and needs."""
        log_id = partition.log_id
        if self.is_reading(group.number, log_id) or log_id in self._unreadable:
            return
        log = partition.log
        priority_index = self._indexer.priority_index(group, partition, queue)
        # What a transaction has not committed is nobody's yet.
        end = log.watermarks.stable
        while (offset := queue.wanted(end, priority_index)) is not None:
            readable = log.readable_from(offset)
            if readable > offset:
                # What is damaged cannot be delivered; the rest goes on.
                queue.learn((), readable, offset)
                continue
            wanted = log.read(offset, _FETCH_BYTES, below=end)
            if wanted is not None:
                self._fetches.setdefault(group.number, {})[log_id] = wanted
                self._state.fetch(wanted, ReadAheadFetch(group.number, wanted))
            return

    def learn_committed(self, group: Group, partition: Partition, now: Now) -> bool:
        """Tell the queue of a group what was committed in this turn, if that is what it needs.

        Those records are at hand, so they are not read. False if it has to look for itself.
        """
        log_id, log = partition.log_id, partition.log
        committed = partition.committed_records()
        if committed is None or self.is_reading(group.number, log_id):
            return False
        queue = self._queue(group, partition)
        priority_index = self._indexer.priority_index(group, partition, queue)
        if queue.wanted(committed.next, priority_index) != committed.first:
            return False
        wanted = log.read(committed.first, _FETCH_BYTES, below=log.watermarks.stable)
        # It may end before them: at damage, a segment's end, or what a transaction holds.
        if wanted is None or wanted.below != committed.next:
            return False
        self._take_in(ReadAheadFetch(group.number, wanted), partition, queue, committed.data, now)
        return True

    def learn(self, purpose: ReadAheadFetch, data: memoryview | None, now: Now) -> Learned | None:
        """Records were read for a queue: it learns. None if nobody waits for them any longer."""
        wanted = purpose.wanted
        if self._fetches.get(purpose.group, {}).get(wanted.log) is not wanted:
            # The queue is another one since: of a topic that was made again, or after a reset.
            return None
        self.forget(purpose.group, wanted.log)
        group = self._state.groups.numbered(purpose.group)
        partition = self._state.partitions.get(wanted.log)
        queue = self._state.group_partitions.queue(purpose.group, wanted.log)
        if group is None or partition is None or queue is None:
            return None
        if data is None:
            if not partition.log.is_damaged_at(wanted.offset):
                # The segment is set aside when the writes on their way are done: wait for those.
                self._unreadable[wanted.log] = None
            return Learned(group, True)
        self._take_in(purpose, partition, queue, data, now)
        return Learned(group, queue.is_ready)

    def _take_in(
        self,
        purpose: ReadAheadFetch,
        partition: Partition,
        queue: DeliveryQueue,
        data: memoryview,
        now: Now,
    ) -> None:
        """Tell a queue what is in a slice, and keep the bytes for the answer."""
        wanted = purpose.wanted
        found = scan_messages(data, wanted.offset, with_keys=queue.keeps_key_order)
        # Nothing at all in the slice: compaction left nothing of it.
        upto = Offset(found.next_offset) if len(data) else wanted.below
        known = found.known
        aborted = partition.log.producers.aborted
        if aborted.within(wanted.offset, upto):
            known = [message for message in known if message.offset not in aborted]
        queue.learn(known, upto, wanted.offset)
        # Lanes go at their own pace, so that their messages are of several fetches.
        floor = queue.floor if wanted.log in self._state.priority_indexes else None
        self._fetched.keep(purpose.group, wanted, upto, data, floor)
        self._indexer.count_known(partition, known, wanted.offset, upto, now)
