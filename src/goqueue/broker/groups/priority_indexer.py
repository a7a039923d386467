"""What stands where in the backlogs of topics with several lanes, and how the lanes fare.

A census of a partition is shared by its groups. It grows with what they survey anyway; the rest of
a backlog is passed over in the background, a piece at a time, so that nobody waits for it.
"""

from collections.abc import Iterable, Sequence
from itertools import compress

from goqueue.broker.disk_reads import PriorityFetch
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import ForCensus, Steps
from goqueue.delivery import LANES, DeliveryQueue, PriorityIndex
from goqueue.groups import Group
from goqueue.log import Spans
from goqueue.model import LogId, Now, Offset, RequestId, Slice
from goqueue.model.requests import LaneDescription, Mode, PriorityStatistics
from goqueue.records import Columns, Flag, MessageSummary, walk

__all__ = ["PriorityIndexer"]

_SCOUT_BYTES = 1024 * 1024
# A plain number: it is compared with the flags of every record of a backlog.
_HIDDEN = int(Flag.CONTROL | Flag.DELAYED)
# The flags of records that are messages.
_SHOWN = bytes(flags for flags in range(256) if not flags & _HIDDEN)


class PriorityIndexer:
    """Keeps a census of each partition that needs one."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        # What is being read; it is recognised by being the same, not by being equal, since a topic
        # may be deleted and made again meanwhile.
        self._scouting: dict[LogId, Slice] = {}

    def census(
        self, group: Group, partition: Partition, queue: DeliveryQueue
    ) -> PriorityIndex | None:
        """What may be skipped; None where lanes do not part: one lane, or keys in order."""
        log = partition.log_id
        topic = self._state.catalog.get(log.topic)
        if topic is not None:
            queue.lanes.weigh(topic.config.lanes)
        if topic is None or not topic.stated.has_lanes or group.mode is Mode.KEY_ORDERED:
            return None
        census = self._state.censuses.get(log)
        begin = max(queue.cursor, partition.log.start)
        if census is None or begin < census.start:
            census = self._state.censuses[log] = PriorityIndex(begin)
        census.drop_below(partition.log.start)
        return census

    def count_known(
        self,
        partition: Partition,
        known: Sequence[MessageSummary],
        first: Offset,
        upto: Offset,
        now: Now,
    ) -> None:
        """Count what a queue surveyed, if nobody counted it before."""
        census = self._state.censuses.get(partition.log_id)
        if census is None:
            return
        if first <= census.upto < upto:
            offsets = [each.offset for each in known]
            census.count(offsets, bytes(each.priority for each in known), upto)
        if census.upto < partition.log.watermarks.stable:
            self._state.alarms.set(ForCensus(partition.log_id), now.instant)

    def scout(self, log: LogId) -> None:
        """Read the next piece of a backlog that was not counted yet."""
        census = self._state.censuses.get(log)
        partition = self._state.partitions.get(log)
        if census is None or partition is None or log in self._scouting:
            return
        wanted = _uncounted(census, partition)
        if wanted is not None:
            self._scouting[log] = wanted
            self._state.fetch(wanted, PriorityFetch(wanted))

    def scouted(self, purpose: PriorityFetch, data: memoryview | None, now: Now) -> None:
        log = purpose.wanted.log
        if self._scouting.get(log) is not purpose.wanted:
            return
        del self._scouting[log]
        census = self._state.censuses.get(log)
        partition = self._state.partitions.get(log)
        if census is None or partition is None or data is None:
            return
        if purpose.wanted.offset > max(census.upto, partition.log.start):
            # Another census began further down meanwhile: what lies between is not counted.
            pass
        elif not len(data):
            census.count((), b"", purpose.wanted.below)
        else:
            _count(census, walk(data), partition.log.authors.aborted)
        if census.upto < partition.log.watermarks.stable:
            # Others go first: the next piece is for the next turn of the loop.
            self._state.alarms.set(ForCensus(log), now.instant)

    def forget_logs(self, logs: Iterable[LogId]) -> None:
        """The logs are gone, and with them what was counted in them."""
        censuses = self._state.censuses
        for log in logs:
            if log in censuses:
                del censuses[log]
                self._state.alarms.set(ForCensus(log), None)
            self._scouting.pop(log, None)

    # Statistics

    def describe(self, request: RequestId, now: Now) -> None:
        """How the lanes of every group fare."""
        self._state.stepwise.begin(request, self._answer_described(request, now), now)

    def _answer_described(self, request: RequestId, now: Now) -> Steps:
        lanes: list[LaneDescription] = []
        waited, dequeued, pending = [0] * LANES, [0] * LANES, [0] * LANES
        for group in list(self._state.groups):
            for log, queue in self._state.group_partitions.queues_of(group.number):
                for each in _described(group.name, log, queue, now):
                    lanes.append(each)
                    waited[each.lane] += each.waited_ns
                    dequeued[each.lane] += each.dequeued
                    pending[each.lane] += each.ready + each.in_flight
                yield 2
        reply = PriorityStatistics(
            published=tuple(self._state.tally.published),
            average_wait_ns=tuple(
                total // max(1, count) for total, count in zip(waited, dequeued, strict=True)
            ),
            pending=tuple(pending),
            lanes=tuple(lanes),
        )
        self._state.outbox.answer(request, reply)


def _count(census: PriorityIndex, columns: Columns, aborted: Spans) -> None:
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
    census.count(offsets, lanes, following)


def _uncounted(census: PriorityIndex, partition: Partition) -> Slice | None:
    """The next piece to be counted; what is damaged holds nothing that can be delivered."""
    offset = partition.log.readable_from(census.upto)
    census.count((), b"", offset)
    return partition.log.read(offset, _SCOUT_BYTES, below=partition.log.watermarks.stable)


def _described(group: str, log: LogId, queue: DeliveryQueue, now: Now) -> list[LaneDescription]:
    held = queue.held_by_lane()
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
