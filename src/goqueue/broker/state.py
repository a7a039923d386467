"""Everything that a node knows, in one place that its parts share.

Holds machines and indexes; decides nothing. What survives a crash is in `catalog`, `groups`,
`transactions`, `schedules`, `schemas`, `security` and the positions of `group_partitions`, each
changed only by what its journal says; the rest is for this life alone.
"""

from collections.abc import Iterator, Sized

import msgspec

from goqueue.broker.audit import NO_FACTS, AuditConfig, AuditTrail
from goqueue.broker.catalog import Catalog, Topic
from goqueue.broker.disk_reads import FetchPurpose, FindPurpose
from goqueue.broker.group_partitions import GroupPartition, GroupPartitions
from goqueue.broker.journal_changes import RestoreStated
from goqueue.broker.journals import AnyJournal, Journals
from goqueue.broker.metadata import LocalMetadata
from goqueue.broker.metrics.counters import Counts
from goqueue.broker.outbox import Outbox
from goqueue.broker.partitions import ClusterGate, Partition, Partitions
from goqueue.broker.storage_health import StorageHealth
from goqueue.broker.trace_recorder import TraceRecorder
from goqueue.broker.turns import Alarms, ForJournal, ForLog, Stepwise, TurnBudget
from goqueue.delivery import LANES, Delays, LeaseHandles, PriorityIndex
from goqueue.groups import Group, Groups
from goqueue.log import Appended, BatchMark, Marker, TransactionEnd
from goqueue.model import (
    LOCAL,
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
    Timestamp,
    Write,
)
from goqueue.model.requests import Operation, Owner, ResourceType
from goqueue.schedules import OnlyUtc, Schedule, Schedules, Zones
from goqueue.schemas import SchemaRegistry
from goqueue.security import Access, SecurityRegistry, TenantMeter
from goqueue.tracing import Tracer
from goqueue.transactions import Producer, Transactions

__all__ = ["Absence", "NodeState", "ReadTokens", "Tally", "lag_between"]


# No tenant has this id.
_NOBODY = ""


class TransactionTally(msgspec.Struct):
    """How transactions ended since the process started, and how long they took together."""

    committed: int = 0
    aborted: int = 0
    ns_sum: int = 0


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
    # By tenant.
    transactions: dict[str, TransactionTally] = msgspec.field(default_factory=dict)
    backups_running: int = 0
    backups_completed: int = 0
    backups_failed: int = 0
    backup_completed_at: int = 0
    restores_running: int = 0
    restores_completed: int = 0
    restores_failed: int = 0

    @property
    def transactions_committed(self) -> int:
        return sum(each.committed for each in self.transactions.values())

    @property
    def transactions_aborted(self) -> int:
        return sum(each.aborted for each in self.transactions.values())

    def end_transaction(self, tenant: str, duration_ns: int, *, is_commit: bool) -> None:
        counts = self.transactions.setdefault(tenant, TransactionTally())
        counts.ns_sum += duration_ns
        if is_commit:
            counts.committed += 1
        else:
            counts.aborted += 1

    def disown_transactions(self, tenant: str) -> None:
        """Count the transactions of a deleted tenant for nobody; in all they still count."""
        counts = self.transactions.pop(tenant, None)
        if counts is not None:
            rest = self.transactions.setdefault(_NOBODY, TransactionTally())
            rest.committed += counts.committed
            rest.aborted += counts.aborted
            rest.ns_sum += counts.ns_sum


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


class ReadTokens:
    """Numbers of reads, each of them once."""

    def __init__(self) -> None:
        self._next = 1

    def take(self) -> int:
        token = self._next
        self._next += 1
        return token


class NodeState:
    """The node's memory; `tokens` are shared with that of a coordinator on the same node."""

    # In a cluster: who leads what. None on a single node, which leads everything.
    cluster: ClusterGate | None = None
    # Why a member of a cluster is not ready although it serves.
    no_quorum: str | None = None
    # The number of this run of the node on its data directory.
    incarnation = 0
    # Whether commands were ever taken in this run.
    has_served = False
    # A node of a cluster that is about to stop serves on, and wants no new callers.
    leaving: str | None = None
    # In the memory of a coordinator: the epoch in which it leads its log. None elsewhere.
    coordinator_epoch: int | None = None
    # The key of a coordinator's receipts, in hexadecimal.
    receipt_key: str | None = None

    def __init__(
        self,
        node_id: str,
        tracer: Tracer,
        budget: TurnBudget,
        zones: Zones | None = None,
        *,
        acl_enabled: bool = False,
        audit: AuditConfig = NO_FACTS,
        tokens: "ReadTokens | None" = None,
    ) -> None:
        self.node_id = node_id
        self.outbox = Outbox()
        self.budget = budget
        # What components fill in a turn and empty at its end: each the same object for good.
        self.follow_ups: list[Sized] = []
        self.alarms = Alarms()
        self.stepwise = Stepwise(self.outbox, self.alarms, self.budget)
        self.catalog = Catalog()
        self.partitions = Partitions()
        self.traces = TraceRecorder(self.catalog, tracer)
        self.groups = Groups()
        self.coordinated = self  # Or the memory of the coordinator of a cluster that is here.
        self.transactions = Transactions()
        self.schedules = Schedules(zones or OnlyUtc())
        self.security = SecurityRegistry()
        self.schemas = SchemaRegistry()
        self.access = Access(self.security, acl_enabled=acl_enabled)
        self.audit = AuditTrail(node_id, self.outbox, self.alarms, self.security, audit)
        self.tally = Tally()
        self.counts = Counts()
        self.journals = Journals(self.outbox)
        self.metadata = LocalMetadata(self.journals, self.catalog, self.security, self.schemas)
        # Set while starting.
        # The logs of the journals as partitions: they can be read like any other.
        self.internal: dict[LogId, Partition] = {}
        self.lease_handles: LeaseHandles
        self.not_ready: str | None = "starting"
        # Of the command that is being handled.
        self.caller = LOCAL
        self.storage = StorageHealth()
        self.group_partitions = GroupPartitions()
        # Of partitions that ever had a delayed message.
        self.delays: dict[LogId, Delays] = {}
        # Of partitions of topics that use several lanes, and that somebody polls.
        self.priority_indexes: dict[LogId, PriorityIndex] = {}
        self.next_move = 1
        # Moves of a coordinator that are not decided: the topic and the partition they go to.
        self.open_moves: dict[int, tuple[int, int]] = {}
        # While a backup takes hold of segments no log begins to remove any.
        self.holds_segments = False
        # Topics that were just restored: until then nothing of them is removed for its age.
        self.spared_until: dict[str, Instant] = {}
        # What the journal says of a restore that has not ended.
        self.pending_restore: RestoreStated | None = None
        self.absence = Absence(since=Instant(0), until=Instant(0))
        # What was asked of the disk, and for what, by token.
        self.fetches: dict[int, FetchPurpose] = {}
        self.searches: dict[int, FindPurpose] = {}
        self.tokens = tokens or ReadTokens()

    @property
    def unready(self) -> str | None:
        """Why callers should go elsewhere."""
        return self.not_ready or self.leaving or self.no_quorum

    def meter(self, name: str) -> TenantMeter:
        """The meter of the tenant that a topic or a group belongs to."""
        return self.security.meters.of(self.security.tenants.owner(name))

    def refuse(self, request: RequestId, refused: Refused) -> None:
        """Answer with a refusal; one that tells what was decided waits until that is durable.

        Whoever heard that a transaction timed out must not find it committed after a crash.
        """
        if refused.code in _DECIDED and self.journals.are_open:
            answer = Answer(request=request, reply=refused)
            self.journals.hold(answer, [self.journals.of_producers])
        else:
            self.outbox.answer(request, refused)

    def require_producer(self, producer_id: int) -> None:
        """Refuse a producer of another tenant than that of the caller, as if there were none."""
        self._require_producer(
            producer_id, Refused(Code.PRODUCER_NOT_FOUND, producer_id=producer_id)
        )

    def find_owner(self, owner: Owner, now: Now) -> Producer:
        """The producer that owns transactions, if it is one of the caller's tenant."""
        absent = Refused(
            Code.PRODUCER_NOT_FOUND,
            producer_id=owner.producer_id,
            transactional_id=owner.transactional_id,
        )
        self._require_producer(owner.producer_id, absent)
        return self.transactions.producers.find_owner(owner, now)

    def require_transaction(self, identity: str) -> None:
        """Refuse a transaction of another tenant than that of the caller, as if there were none."""
        producer_id = self.transactions.producer_of(identity)
        absent = Refused(Code.TRANSACTION_NOT_FOUND, transaction_id=identity[:64])
        self._require_producer(producer_id, absent)

    def _require_producer(self, producer_id: int | None, absent: Refused) -> None:
        producer = None if producer_id is None else self.transactions.producers.get(producer_id)
        # What does not exist is nobody's: its handler refuses it.
        tenant = self.access.tenant if producer is None else producer.tenant
        self.access.require_tenant(tenant, absent)

    def dead_letters_of(self, topic: Topic) -> str:
        """Where the dead letters of a topic go, which is never another tenant's.

        One that was chosen before a tenant was made for either name is not used any more. A topic
        named exactly as a tenant is not the tenant's, but `{name}.dlq` is: a name without a dot
        belongs to `default`.
        """
        owner = self.access.owner(topic.name)
        for name in (topic.config.dead_letter_topic, f"{topic.name}.dlq"):
            if self.access.owner(name) == owner:
                return name
        return f"{topic.name}-dlq"

    def find_schedule(self, name: str, operation: Operation) -> Schedule:
        """A schedule of the caller's tenant; what is done to it is done to its topic."""
        self.access.require_owner(name, Refused(Code.SCHEDULE_NOT_FOUND, schedule=name))
        schedule = self.schedules.find(name)
        self.access.require(ResourceType.TOPIC, schedule.spec.topic, operation)
        return schedule

    def fetch(self, wanted: Slice, purpose: FetchPurpose, *, in_background: bool = False) -> None:
        """Read records; the node hands them to the component that the purpose belongs to."""
        token = self.tokens.take()
        self.fetches[token] = purpose
        self.outbox.append(Fetch(token=token, wanted=wanted, in_background=in_background))

    def find(self, seeks: list[Seek], purpose: FindPurpose) -> None:
        """Find an offset by time; the node hands it on in the same way."""
        token = self.tokens.take()
        self.searches[token] = purpose
        self.outbox.append(Find(token=token, seeks=tuple(seeks)))

    def append(
        self, partition: Partition, batch: bytearray, now: Now, mark: BatchMark | None = None
    ) -> Appended:
        """Append a batch, with all that follows from it; raises Refused before any change."""
        leader = partition.leader
        if leader is not None:
            leader.begin_epoch(now)
        appended = partition.log.append(batch, now, mark)
        self.outbox.extend(appended.effects)
        self.arm_flush(partition)
        if leader is not None and not appended.is_repeat:
            leader.appended(appended.first, appended.next, batch, now.instant)
        return appended

    def end_transaction(
        self, partition: Partition, marker: Marker, now: Now, *, is_forced: bool = False
    ) -> Appended | None:
        """Append the marker of a transaction, unless the partition has it or needs none."""
        leader = partition.leader
        if leader is not None:
            leader.begin_epoch(now)
        appended = partition.log.end_transaction(marker, now, is_forced=is_forced)
        if appended is not None:
            self.outbox.extend(appended.effects)
            self.arm_flush(partition)
            if leader is not None:
                (write,) = (each for each in appended.effects if isinstance(each, Write))
                leader.appended(appended.first, appended.next, write.data, now.instant)
        return appended

    def arm_flush(self, partition: Partition) -> None:
        """Wake when a log of `flush=interval` wants to be flushed."""
        self.alarms.bring_forward(ForLog(partition.log_id), partition.log.next_deadline())

    def arm_journal(self, journal: AnyJournal) -> None:
        """Wake when a journal wants to write something that nobody waits for, or did not fit."""
        deadline = journal.next_deadline()
        if deadline is not None:
            self.alarms.bring_forward(ForJournal(journal.id), deadline)

    def partition(self, topic: Topic, number: int) -> Partition:
        """A partition that this node serves; refuses one that is not there or led elsewhere."""
        log = LogId(topic.name, number)
        if self.cluster is not None and 0 <= number < topic.stated.partitions:
            self.cluster.check_leads(topic.number, number, log)
        return self.partitions.find(log, topic.stated.partitions)

    def lease_epoch(self, log: LogId) -> int | None:
        """The epoch that leases of a partition belong to; None if there is no such partition."""
        partition = self.partitions.get(log)
        if partition is None:
            return None
        if self.coordinator_epoch is not None:
            return self.coordinator_epoch
        # A standalone log has no leader epoch.
        return partition.log.replica.epoch or self.incarnation

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
            self.metadata.propose([stated])

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

    def led_delays(self) -> Iterator[tuple[LogId, Delays]]:
        """The delays of the partitions that this node serves, and not those of its copies."""
        for log, delays in self.delays.items():
            partition = self.partitions.get(log)
            if self.cluster is None or (partition is not None and partition.leader is not None):
                yield log, delays

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

    def steady(self, now: Now) -> Now:
        """Now, for what is kept for a time: a clock that is put back makes nothing old.

        One that is put forward makes it young, and it is kept for longer.
        """
        wall = self.transactions.producers.steady(now)
        return now if now.wall >= wall else Now(now.instant, Timestamp(wall))

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
