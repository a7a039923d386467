"""Everything that a node knows, in one place that its parts share.

Holds machines and indexes; decides nothing. What survives a crash is in `catalog`, `groups`,
`transactions`, `schedules` and the positions of `group_partitions`, each changed only by what its
journal says; the rest is for this life alone.
"""

import msgspec

from goqueue.broker.catalog import Catalog, Topic
from goqueue.broker.disk_reads import FetchPurpose, FindPurpose
from goqueue.broker.group_partitions import GroupPartition, GroupPartitions
from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import Change, TopicChange
from goqueue.broker.metrics.counters import Counts
from goqueue.broker.outbox import Outbox
from goqueue.broker.partitions import Partition, Partitions
from goqueue.broker.storage_health import StorageHealth
from goqueue.broker.trace_recorder import TraceRecorder
from goqueue.broker.turns import Alarms, ForLog, Stepwise, TurnBudget
from goqueue.delivery import LANES, Delays, LeaseHandles, PriorityIndex
from goqueue.groups import Group, Groups
from goqueue.log import Appended, BatchMark, Marker, TransactionEnd
from goqueue.model import (
    Answer,
    Code,
    Fetch,
    Find,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    RequestId,
    Seek,
    Slice,
)
from goqueue.schedules import OnlyUtc, Schedules, Zones
from goqueue.tracing import Tracer
from goqueue.transactions import Transactions

__all__ = ["Absence", "NodeState", "Tally", "lag_between"]


class Tally(msgspec.Struct):
    """What was counted since the process started."""

    acks: int = 0
    nacks: int = 0
    rejects: int = 0
    releases: int = 0
    extensions: int = 0
    redeliveries: int = 0
    expirations: int = 0
    rejected_dead_letters: int = 0
    exhausted_dead_letters: int = 0
    published: list[int] = msgspec.field(default_factory=lambda: [0] * LANES)
    replies_delivered: int = 0
    replies_dropped: int = 0
    requests_unanswered: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    transaction_ns_sum: int = 0

    def end_transaction(self, duration_ns: int, *, is_commit: bool) -> None:
        self.transaction_ns_sum += duration_ns
        if is_commit:
            self.transactions_committed += 1
        else:
            self.transactions_aborted += 1


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """The node itself was away from `since` on; until then it hears what was sent meanwhile."""

    since: Instant
    until: Instant

    def excuses(self, deadline: Instant, now: Instant) -> bool:
        """Whether nobody could be heard at a deadline, and may be now."""
        return self.since <= deadline and now < self.until


def lag_between(start: Offset, end: Offset, place: GroupPartition | None) -> int:
    """How many offsets from `start` on are below `end` and not done for a group."""
    if place is None:
        return max(0, end - start)
    if place.queue is not None:
        return place.queue.missing_within(start, end)
    return place.position.missing_within(start, end)


# What the end of a transaction, or another owner of a producer, makes of a request.
_DECIDED = frozenset(
    (Code.TRANSACTION_TIMEOUT, Code.TRANSACTION_STATE_INVALID, Code.PRODUCER_FENCED)
)


class NodeState:
    """The node's memory."""

    def __init__(
        self, node_id: str, tracer: Tracer, budget: TurnBudget, zones: Zones | None = None
    ) -> None:
        self.node_id = node_id
        self.outbox = Outbox()
        self.budget = budget
        self.alarms = Alarms()
        self.stepwise = Stepwise(self.outbox, self.alarms, self.budget)
        self.catalog = Catalog()
        self.partitions = Partitions()
        self.traces = TraceRecorder(self.catalog, tracer)
        self.groups = Groups()
        self.transactions = Transactions()
        self.schedules = Schedules(zones or OnlyUtc())
        self.tally = Tally()
        self.counts = Counts()
        # Set while starting.
        self.topics_journal: Journal[TopicChange]
        self.groups_journal: Journal[Change]
        self.has_journals = False
        # The logs of the journals as partitions: they can be read like any other.
        self.internal: dict[LogId, Partition] = {}
        self.lease_handles: LeaseHandles
        self.not_ready: str | None = "starting"
        self.storage = StorageHealth()
        self.group_partitions = GroupPartitions()
        # Of partitions that ever had a delayed message.
        self.delays: dict[LogId, Delays] = {}
        # Of partitions of topics that use several lanes, and that somebody polls.
        self.priority_indexes: dict[LogId, PriorityIndex] = {}
        self.next_move = 1
        self.absence = Absence(since=Instant(0), until=Instant(0))
        # What was asked of the disk, and for what, by token.
        self.fetches: dict[int, FetchPurpose] = {}
        self.searches: dict[int, FindPurpose] = {}
        self._next_token = 1

    def refuse(self, request: RequestId, refused: Refused) -> None:
        """Answer with a refusal; one that tells what was decided waits until that is durable.

        Whoever heard that a transaction timed out must not find it committed after a crash.
        """
        if refused.code in _DECIDED and self.has_journals:
            self.groups_journal.note([], [Answer(request=request, reply=refused)])
        else:
            self.outbox.answer(request, refused)

    def fetch(self, wanted: Slice, purpose: FetchPurpose) -> None:
        """Read records; the node hands them to the component that the purpose belongs to."""
        token = self._token()
        self.fetches[token] = purpose
        self.outbox.append(Fetch(token=token, wanted=wanted))

    def find(self, seeks: list[Seek], purpose: FindPurpose) -> None:
        """Find an offset by time; the node hands it on in the same way."""
        token = self._token()
        self.searches[token] = purpose
        self.outbox.append(Find(token=token, seeks=tuple(seeks)))

    def _token(self) -> int:
        token = self._next_token
        self._next_token += 1
        return token

    def append(
        self, partition: Partition, batch: bytearray, now: Now, mark: BatchMark | None = None
    ) -> Appended:
        """Append a batch, with all that follows from it; raises Refused before any change."""
        appended = partition.log.append(batch, now, mark)
        self.outbox.extend(appended.effects)
        self.arm_flush(partition)
        return appended

    def end_transaction(self, partition: Partition, marker: Marker, now: Now) -> Appended | None:
        """Append the marker of a transaction, unless the partition has it or needs none."""
        appended = partition.log.end_transaction(marker, now)
        if appended is not None:
            self.outbox.extend(appended.effects)
            self.arm_flush(partition)
        return appended

    def arm_flush(self, partition: Partition) -> None:
        """Wake when a log of `flush=interval` wants to be flushed."""
        self.alarms.bring_forward(ForLog(partition.log_id), partition.log.next_deadline())

    def partition(self, topic: Topic, number: int) -> Partition:
        return self.partitions.find(LogId(topic.name, number), topic.stated.partitions)

    def committed(self, group: int, partition: Partition) -> Offset:
        """Where a group stands, as seen from outside: never before the log begins."""
        position = self.group_partitions.position(group, partition.log_id)
        start = partition.log.start
        return start if position is None else max(position.floor, start)

    def lag(self, group: int, partition: Partition) -> int:
        """How many committed messages a group has not consumed yet."""
        log, end = partition.log_id, partition.log.watermarks.stable
        place = self.group_partitions.get(group, log)
        lag = lag_between(partition.log.start, end, place)
        if lag and (place is None or place.queue is None):
            # A queue knows by itself which records are no messages.
            lag -= self.hidden_within(log, self.committed(group, partition), end)
        return max(0, lag)

    def topics_of(self, group: Group) -> list[str]:
        """The topics that a group reads: of its members, or of the last, or where it has begun."""
        topics = dict.fromkeys(group.known_topics)
        for place in self.group_partitions.of_group(group.number):
            if place.log.topic not in topics and place.position.says_something:
                topics[place.log.topic] = None
        found = filter(None, map(self.catalog.get, topics))
        return sorted(topic.name for topic in found if topic.is_open)

    def record_lanes(self, topic: Topic) -> None:
        """Remember that a topic uses more than one lane; without it a poll need not look ahead.

        Nothing waits for that to be committed: after a crash the next such message says it again.
        """
        if not topic.stated.has_lanes:
            stated = msgspec.structs.replace(topic.stated, has_lanes=True)
            self.catalog.apply(stated)
            self.topics_journal.note([stated])

    def hide(self, log: LogId, first: int, count: int = 1) -> None:
        """Records that are no messages were committed side by side: no group waits for them."""
        for queue in self.group_partitions.queues_on(log):
            self.budget.spend()
            queue.hide(first, count)

    def hide_ending(self, log: LogId, ending: TransactionEnd) -> None:
        """A marker was committed, and with it what is no message from now on."""
        self.hide(log, ending.marker)
        for first, following in () if ending.is_commit else ending.ranges:
            self.hide(log, first, following - first)

    def hidden_within(self, log: LogId, first: Offset, end: Offset) -> int:
        """How many offsets of [first, end) are no messages."""
        delays = self.delays.get(log)
        producers = self.partitions[log].log.producers
        hidden = producers.hidden.count_within(first, end)
        if delays is not None:
            hidden += delays.hidden_within(first, end)
            # What was delayed and aborted is not hidden twice.
            aborted = producers.aborted.within(first, end)
            hidden -= sum(delays.hidden_within(*each) for each in aborted)
        return hidden

    def skip_hidden(self, partition: Partition, offset: Offset) -> Offset:
        """The first offset from this one on that may be a message."""
        delays = self.delays.get(partition.log_id)
        hidden = partition.log.producers.hidden
        while True:
            following = hidden.skip(offset)
            if delays is not None:
                following = delays.skip_hidden(following)
            if following == offset:
                return offset
            offset = following
