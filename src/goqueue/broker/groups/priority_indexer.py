"""The priority indexes of backlogs in topics with several lanes, and how the lanes fare.

The groups of a partition share one index. It grows with what they read ahead anyway; the rest of a
backlog is read in the background, a piece at a time, so that nobody waits for it.
"""

from collections.abc import Iterable, Sequence
from itertools import compress

from goqueue.broker.disk_reads import PriorityFetch
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import ForPriorityIndex, Steps
from goqueue.delivery import LANES, DeliveryQueue, PriorityIndex
from goqueue.groups import Group
from goqueue.log import OffsetRanges
from goqueue.model import LogId, Now, Offset, RequestId, Slice
from goqueue.model.requests import LaneDescription, Mode, PriorityStatistics
from goqueue.records import Columns, Flag, MessageSummary, walk
from goqueue.security import NameFilter

__all__ = ["PriorityIndexer"]

_INDEX_BYTES = 1024 * 1024
# A plain number: it is compared with the flags of every record of a backlog.
_HIDDEN = int(Flag.CONTROL | Flag.DELAYED)
# The flags of records that are messages.
_SHOWN = bytes(flags for flags in range(256) if not flags & _HIDDEN)


class PriorityIndexer:
    """Keeps a priority index of each partition that needs one."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        # What is being read; it is recognised by being the same, not by being equal, since a topic
        # may be deleted and made again meanwhile.
        self._fetches: dict[LogId, Slice] = {}

    def priority_index(
        self, group: Group, partition: Partition, queue: DeliveryQueue
    ) -> PriorityIndex | None:
        """What may be skipped; None where lanes do not part: one lane, or keys in order."""
        log = partition.log_id
        topic = self._state.catalog.get(log.topic)
        if topic is not None:
            queue.lanes.weigh(topic.config.lanes)
        if topic is None or not topic.stated.has_lanes or group.mode is Mode.KEY_ORDERED:
            return None
        priority_index = self._state.priority_indexes.get(log)
        begin = max(queue.cursor, partition.log.start)
        if priority_index is None or begin < priority_index.start:
            priority_index = self._state.priority_indexes[log] = PriorityIndex(begin)
        priority_index.drop_below(partition.log.start)
        return priority_index

    def count_known(
        self,
        partition: Partition,
        known: Sequence[MessageSummary],
        first: Offset,
        upto: Offset,
        now: Now,
    ) -> None:
        """Count what was read ahead for a queue, if nobody counted it before."""
        priority_index = self._state.priority_indexes.get(partition.log_id)
        if priority_index is None:
            return
        if first <= priority_index.upto < upto:
            offsets = [each.offset for each in known]
            priority_index.count(offsets, bytes(each.priority for each in known), upto)
        if priority_index.upto < partition.log.watermarks.stable:
            self._state.alarms.set(ForPriorityIndex(partition.log_id), now.instant)

    def index_more(self, log: LogId) -> None:
        """Read the next piece of a backlog that was not counted yet."""
        priority_index = self._state.priority_indexes.get(log)
        partition = self._state.partitions.get(log)
        if priority_index is None or partition is None or log in self._fetches:
            return
        wanted = _uncounted(priority_index, partition)
        if wanted is not None:
            self._fetches[log] = wanted
            self._state.fetch(wanted, PriorityFetch(wanted))

    def records_fetched(self, purpose: PriorityFetch, data: memoryview | None, now: Now) -> None:
        log = purpose.wanted.log
        if self._fetches.get(log) is not purpose.wanted:
            return
        del self._fetches[log]
        priority_index = self._state.priority_indexes.get(log)
        partition = self._state.partitions.get(log)
        if priority_index is None or partition is None or data is None:
            return
        if purpose.wanted.offset > max(priority_index.upto, partition.log.start):
            # Another index began further down meanwhile: what lies between is not counted.
            pass
        elif not len(data):
            priority_index.count((), b"", purpose.wanted.below)
        else:
            _count(priority_index, walk(data), partition.log.producers.aborted)
        if priority_index.upto < partition.log.watermarks.stable:
            # Others go first: the next piece is for the next turn of the loop.
            self._state.alarms.set(ForPriorityIndex(log), now.instant)

    def forget_logs(self, logs: Iterable[LogId]) -> None:
        """The logs are gone, and with them what was counted in them."""
        priority_indexes = self._state.priority_indexes
        for log in logs:
            if log in priority_indexes:
                del priority_indexes[log]
                self._state.alarms.set(ForPriorityIndex(log), None)
            self._fetches.pop(log, None)

    # Statistics

    def describe(self, request: RequestId, now: Now) -> None:
        """How the lanes of every group fare."""
        access = self._state.access
        steps = self._answer_described(
            request, access.visible_groups(), access.visible_topics(), now
        )
        self._state.stepwise.begin(request, steps, now)

    def _answer_described(
        self, request: RequestId, sees_group: NameFilter, sees: NameFilter, now: Now
    ) -> Steps:
        lanes: list[LaneDescription] = []
        waited, dequeued, pending = [0] * LANES, [0] * LANES, [0] * LANES
        for group in list(self._state.groups):
            if sees_group is not None and not sees_group(group.name):
                yield 1
                continue
            for log, queue in self._state.group_partitions.queues_of(group.number):
                if sees is not None and not sees(log.topic):
                    continue
                for each in _described(group.name, log, queue, now):
                    lanes.append(each)
                    waited[each.lane] += each.waited_ns
                    dequeued[each.lane] += each.dequeued
                    pending[each.lane] += each.ready + each.in_flight
                yield 2
        reply = PriorityStatistics(
            published=self._published(sees),
            average_wait_ns=tuple(
                total // max(1, count) for total, count in zip(waited, dequeued, strict=True)
            ),
            pending=tuple(pending),
            lanes=tuple(lanes),
        )
        self._state.outbox.answer(request, reply)

    def _published(self, sees: NameFilter) -> tuple[int, ...]:
        """Messages by priority since the process started, on the topics that the caller sees."""
        if sees is None:
            return tuple(self._state.tally.published)
        lanes = [counts.lanes for name, counts in self._state.counts.topics() if sees(name)]
        return tuple(sum(column) for column in zip([0] * LANES, *lanes, strict=True))


def _count(priority_index: PriorityIndex, columns: Columns, aborted: OffsetRanges) -> None:
    """Count the messages among stored records."""
    offsets, lanes = list(columns.offsets), columns.priorities.tobytes()
    following = offsets[-1] + 1
    has_aborted = bool(aborted.within(offsets[0], following))
    if has_aborted or columns.flags.tobytes().translate(None, _SHOWN):
        shown = [
            not flags & _HIDDEN and not (has_aborted and offset in aborted)
            for flags, offset in zip(columns.flags, offsets, strict=True)
        ]
        offsets = list(compress(offsets, shown))
        lanes = bytes(compress(lanes, shown))
    priority_index.count(offsets, lanes, following)


def _uncounted(priority_index: PriorityIndex, partition: Partition) -> Slice | None:
    """The next piece to be counted; what is damaged holds nothing that can be delivered."""
    offset = partition.log.readable_from(priority_index.upto)
    priority_index.count((), b"", offset)
    return partition.log.read(offset, _INDEX_BYTES, below=partition.log.watermarks.stable)


def _described(group: str, log: LogId, queue: DeliveryQueue, now: Now) -> list[LaneDescription]:
    held = queue.in_flight_by_lane()
    described = []
    for lane in range(LANES):
        facts = queue.lanes.facts(lane)
        if not facts.ready and not held[lane] and not facts.dequeued:
            continue
        described.append(
            LaneDescription(
                group=group,
                log=log,
                lane=lane,
                ready=facts.ready,
                in_flight=held[lane],
                enqueued=facts.enqueued,
                dequeued=facts.dequeued,
                waited_ns=facts.waited_ns,
                served_ago_ns=None if facts.served_at is None else now.instant - facts.served_at,
                waiting_ns=0 if facts.waiting_from is None else now.instant - facts.waiting_from,
            )
        )
    return described
