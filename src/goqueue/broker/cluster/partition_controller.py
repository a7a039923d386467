"""The controller's decisions about topics and partitions: created, led by whom, in sync where.

Everything is decided on the committed image, together with what the same record says of brokers;
wishes wait until a record may be proposed. What is answered is answered when its record is
committed, by the broker that then leads the metadata log; if leadership ends before, the outcome is
unknown and is reported so.

Invariants
- A number is given to one topic only, for ever; one change of a topic is in a record.
- A leader is a live member of the ISR (C8); nobody leads in the epoch in which it registered (C5).
- An ISR changes by compare-and-set, by its leader only, and is never made smaller than
  `min_insync_replicas` (C9); who is fenced, leaves or began anew since is never added.
- A copy that lost what it had confirmed leaves the ISR at once, whatever the minimum is.
- A partition without a live member of its ISR has no leader. Only an operator's election, which is
  recorded, changes that. Who may have lost its tail leads if nobody else can: `UnsureElections`.

Cost of a decision: by the wishes, and by the partitions that lost their leader or have none; if
nothing changed since the last look, nothing.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import assert_never

import msgspec

from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG, coordinator_topic
from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.cluster.level_gate import audited
from goqueue.broker.cluster.unsure_elections import UnsureElections
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    BrokerFenced,
    BrokerRegistered,
    BrokerRemoved,
    BrokerResigned,
    BrokerState,
    IsrChanged,
    IsrMember,
    LeaderChange,
    LeadersChanged,
    MetadataChange,
    PartitionId,
    PartitionsAssigned,
    ProducerIdsAllocated,
    ReplicasLost,
    TopicDeleted,
    TopicStated,
    UncleanLeaderElected,
    assign_replicas,
    check_isr_change,
    elect_leaders,
)
from goqueue.model import (
    AllocateProducerIds,
    Answer,
    Code,
    Now,
    Offset,
    PartitionMessage,
    Refused,
    ReportLogEnds,
    ReportLostReplicas,
    RequestId,
    RequestIsrs,
    RequestTopic,
    ResignLeaderships,
    Timestamp,
)
from goqueue.model.requests import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    Done,
    LeaderElected,
    Reply,
    TopicConfig,
    TopicDescription,
)
from goqueue.security import Admitted, FieldChange, field_changes

__all__ = ["PRODUCER_IDS", "PartitionController", "TopicCommand"]

_REQUESTS_MAX = 256
# So many producer ids a broker gets at once.
PRODUCER_IDS = 1_000
# So many wishes of leaders, and elections, are in one record.
_WISHES_MAX = 4_096
_ELECTIONS_MAX = 4_096
_COORDINATOR_COPIES = 3

TopicCommand = CreateTopic | AlterTopic | DeleteTopic


class _TopicRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A caller wants a topic changed; `confirm` checks what only this broker's parts know."""

    request: RequestId
    command: TopicCommand
    admitted: Admitted | None
    confirm: Callable[[TopicStated, TopicConfig | None], None] | None = None


class PartitionController:
    """Decides about topics and partitions while this broker leads the metadata log."""

    def __init__(self, state: NodeState, metadata: ClusterMetadata) -> None:
        self._state = state
        self._metadata = metadata
        self._requests: deque[_TopicRequest] = deque()
        self._isrs: dict[PartitionId, IsrChanged] = {}
        # Who gave up what, in which epoch; and who cannot lead it in this run of its broker.
        self._resigned: dict[PartitionId, tuple[int, str]] = {}
        self._unable: dict[tuple[PartitionId, str], int] = {}
        self._unclean: dict[PartitionId, tuple[RequestId, str]] = {}
        self._wanting_ids: dict[str, int] = {}
        # What brokers lost, in which epoch of theirs.
        self._lost: dict[str, tuple[int, dict[tuple[int, int], None]]] = {}
        self._unsure = UnsureElections()
        # Whether a client wants a group while there is no coordinator.
        self._wants_coordinator = False
        # By the name of a dead-letter topic that is missing, whose letters are to go there.
        self._wanted_dead_letters: dict[str, int] = {}
        # With what the last look for partitions without a leader found nothing to do.
        self._settled: tuple[int, frozenset[str]] | None = None

    # Wishes

    def request(
        self,
        request: RequestId,
        command: TopicCommand,
        confirm: Callable[[TopicStated, TopicConfig | None], None] | None = None,
    ) -> None:
        """A caller wants a topic created, altered or deleted; answered when that is committed."""
        if not self._metadata.is_controller:
            raise self.not_controller()
        if len(self._requests) >= _REQUESTS_MAX:
            raise Refused(Code.LOG_BUSY, reason="the metadata log is busy")
        wanted = _TopicRequest(
            request=request,
            command=command,
            admitted=self._state.access.note_command(),
            confirm=confirm,
        )
        self._requests.append(wanted)

    def not_controller(self) -> Refused:
        """The refusal that says who is the controller, as far as this broker knows."""
        leader = self._metadata.election.leader
        known = None if leader is None else self._metadata.image.brokers.get(leader.broker)
        if known is None:
            return Refused(Code.NOT_CONTROLLER)
        return Refused(
            Code.NOT_CONTROLLER,
            controller_id=known.registration.broker,
            controller_address=known.registration.addresses.peers,
        )

    def elect_unclean(self, request: RequestId, where: PartitionId, leader: str) -> None:
        """An operator accepts that committed records may be lost; without `leader` anybody leads.

        Refused while a member of the ISR lives: it leads without a loss.
        """
        if not self._metadata.is_controller:
            raise self.not_controller()
        state = self._metadata.image.table.get(*where)
        if state is None:
            raise Refused(Code.PARTITION_NOT_FOUND, partition=where.partition)
        if leader and leader not in state.copies:
            raise Refused(Code.NODE_NOT_FOUND, node=leader)
        if where in self._unclean or len(self._unclean) >= _REQUESTS_MAX:
            raise Refused(Code.LOG_BUSY, reason="the metadata log is busy")
        self._unclean[where] = (request, leader)

    def want(self, sender: str, message: PartitionMessage) -> None:
        """A broker asks for something; the metadata log answers."""
        match message:
            case RequestIsrs():
                self._want_isrs(sender, message)
            case ResignLeaderships():
                self._resign(sender, message)
            case AllocateProducerIds():
                # It has few producer ids left.
                self._wanting_ids[sender] = message.broker_epoch
            case ReportLostReplicas():
                self._report_lost(sender, message)
            case ReportLogEnds():
                self._unsure.receive(sender, message, self._metadata.image)
            case RequestTopic(name=name):
                if name == COORDINATOR_LOG.topic:
                    self._wants_coordinator = True
                elif len(self._wanted_dead_letters) < _REQUESTS_MAX:
                    self._wanted_dead_letters[name] = message.origin
            case _:
                assert_never(message)

    def _report_lost(self, sender: str, message: ReportLostReplicas) -> None:
        """A broker lost copies; what it reported before, in the same epoch, still holds."""
        epoch, lost = self._lost.get(sender, (0, {}))
        if message.broker_epoch < epoch:
            return
        if message.broker_epoch > epoch:
            lost = {}
        lost.update(dict.fromkeys(message.partitions[: _WISHES_MAX - len(lost)]))
        self._lost[sender] = (message.broker_epoch, lost)

    def _want_isrs(self, sender: str, message: RequestIsrs) -> None:
        """A leader wants other ISRs; the newest wish for each partition counts."""
        table = self._metadata.image.table
        for wish in message.wishes[:_WISHES_MAX]:
            state = table.get(wish.topic, wish.partition)
            if state is not None and state.leader == sender and len(self._isrs) < _WISHES_MAX:
                self._isrs[PartitionId(wish.topic, wish.partition)] = IsrChanged(
                    topic=wish.topic,
                    partition=wish.partition,
                    epoch=wish.epoch,
                    version=wish.version,
                    isr=tuple(IsrMember(broker, epoch) for broker, epoch in wish.isr),
                )

    def _resign(self, sender: str, message: ResignLeaderships) -> None:
        """A leader gives up partitions."""
        image = self._metadata.image
        known = image.brokers.get(sender)
        for topic, partition, epoch in message.partitions[:_WISHES_MAX]:
            where = PartitionId(topic, partition)
            state = image.table.get(topic, partition)
            if state is not None and (state.leader, state.epoch) == (sender, epoch):
                self._resigned[where] = (epoch, sender)
                if not message.is_able and known is not None:
                    self._unable[where, sender] = known.epoch

    def forget_wishes(self) -> None:
        """This broker no longer leads: leaders ask the next controller again."""
        while self._requests:
            self._state.outbox.answer(self._requests.popleft().request, self.not_controller())
        for request, _ in self._unclean.values():
            self._state.outbox.answer(request, self.not_controller())
        self._unclean.clear()
        self._isrs.clear()
        self._resigned.clear()
        self._unable.clear()
        self._wanting_ids.clear()
        self._lost.clear()
        self._unsure.clear()
        self._wants_coordinator = False
        self._wanted_dead_letters.clear()
        self._settled = None

    # Decisions

    def decide(
        self, brokers: Sequence[MetadataChange], answers: list[Answer], now: Now
    ) -> list[MetadataChange]:
        """What follows for partitions, if `brokers` are the other changes of the same record."""
        live, keeping = self.live(brokers)
        # Not beside a registration: who led before it is replaced with the same record, or never.
        lost = [] if brokers else self._lose()
        if lost:
            # Who leads instead is decided on what this record says.
            return lost
        return [
            *self._elect(live, keeping),
            *self._elect_unsure(brokers, live, now),
            *self._change_isrs(brokers),
            *self._elect_unclean(live, answers),
            *self._allocate_ids(brokers),
            *(
                self._create_coordinator(live, now)
                or self._create_dead_letters(live, now)
                or self._change_topics(live, answers, now)
            ),
        ]

    def _create_dead_letters(self, live: frozenset[str], now: Now) -> list[MetadataChange]:
        """Create dead-letter topics that are missing, with as many copies as their origins have.

        One that needs more brokers than are there is asked for again.
        """
        image, catalog = self._metadata.image, self._state.catalog
        wanted, self._wanted_dead_letters = self._wanted_dead_letters, {}
        changes: list[MetadataChange] = []
        number = image.table.next_topic
        for name, origin_number in wanted.items():
            origin = catalog.numbered(origin_number)
            if origin is None or image.topic(name) is not None:
                continue
            copies = origin.config.replication_factor
            if copies > len(live):
                continue
            stated = catalog.create_dead_letters(origin, name, now)
            config = msgspec.structs.replace(
                stated.config,
                replication_factor=copies,
                min_insync_replicas=origin.config.min_insync_replicas,
            )
            stated = msgspec.structs.replace(
                stated, number=number, config=config, has_delays=True, has_lanes=True
            )
            racks = {broker: self._rack(broker) for broker in sorted(live)}
            placed = assign_replicas(number, stated.partitions, copies, racks)
            changes += [stated, PartitionsAssigned(topic=number, partitions=placed)]
            number += 1
        return changes

    def _create_coordinator(self, live: frozenset[str], now: Now) -> list[MetadataChange]:
        """Create the log of the coordinator, when all brokers that should keep it are there.

        Its copies cannot be added to later.
        """
        image, name = self._metadata.image, COORDINATOR_LOG.topic
        if not self._wants_coordinator or image.topic(name) is not None:
            self._wants_coordinator = False
            return []
        copies = min(_COORDINATOR_COPIES, 1 + len(self._metadata.config.peers))
        if len(live) < copies:
            return []
        self._wants_coordinator = False
        number = image.table.next_topic
        stated = coordinator_topic(number, copies, now.wall)
        racks = {broker: self._rack(broker) for broker in sorted(live)}
        placed = assign_replicas(number, 1, copies, racks)
        return [stated, PartitionsAssigned(topic=number, partitions=placed)]

    def _lose(self) -> list[MetadataChange]:
        """Remove brokers from ISRs whose copies lack what they had confirmed."""
        reports, self._lost = self._lost, {}
        image = self._metadata.image
        changes: list[MetadataChange] = []
        for broker, (epoch, reported) in reports.items():
            known = image.brokers.get(broker)
            if known is None or known.epoch != epoch:
                continue
            partitions = tuple(
                each
                for each in reported
                if (state := image.table.get(*each)) is not None and broker in state.isr
            )
            if partitions:
                lost = ReplicasLost(broker=broker, epoch=known.epoch, partitions=partitions)
                changes.append(lost)
        return changes

    def live(self, brokers: Sequence[MetadataChange]) -> tuple[frozenset[str], frozenset[str]]:
        """Who may lead after this record; and who leaves, and keeps what nobody else can lead."""
        lost: set[str] = set()
        leaving: set[str] = set()
        for change in brokers:
            match change:
                case BrokerFenced() | BrokerRemoved() | BrokerRegistered():
                    # Nobody leads in the epoch in which it registers: the next record may say so.
                    lost.add(change.broker)
                case BrokerResigned():
                    leaving.add(change.broker)
        known = self._metadata.image.brokers.items()
        live = {name for name, each in known if each.state is BrokerState.ACTIVE}
        leaving |= {name for name, each in known if each.state is BrokerState.LEAVING}
        return frozenset(live - lost - leaving), frozenset(leaving - lost)

    def _elect(self, live: frozenset[str], keeping: frozenset[str]) -> list[MetadataChange]:
        image = self._metadata.image
        table = image.table
        self._resigned = resigned = {
            where: each
            for where, each in self._resigned.items()
            if (state := table.get(*where)) is not None and (state.epoch, state.leader) == each[:2]
        }
        if self._settled == (image.version, live) and not resigned:
            return []
        self._forget_unable()
        wanting: dict[PartitionId, None] = dict.fromkeys(table.led_by(None))
        for broker in image.brokers:
            if broker not in live:
                wanting.update(dict.fromkeys(table.led_by(broker)))
        wanting.update(dict.fromkeys(resigned))
        excluded = {(where, broker) for where, (_, broker) in resigned.items()} | set(self._unable)
        changes: list[LeaderChange] = []
        for each in elect_leaders(table, wanting, live, excluded=excluded):
            where = PartitionId(each.topic, each.partition)
            if each.leader is not None:
                changes.append(each)
            elif where in resigned and (where, resigned[where][1]) not in self._unable:
                # Nobody else can: the same broker leads on, in a new epoch.
                changes += elect_leaders(table, (where,), live)
            elif not self._keeps(where, keeping):
                changes.append(each)
        if not changes:
            self._settled = (image.version, live)
            return []
        return [LeadersChanged(changes=tuple(changes[:_ELECTIONS_MAX]))]

    def _elect_unsure(
        self, brokers: Sequence[MetadataChange], live: frozenset[str], now: Now
    ) -> list[MetadataChange]:
        """Let the furthest lead what no sure member can; on what the records before say alone."""
        elected = [] if brokers else self._unsure.elect(self._metadata.image, live, now.instant)
        self._forget_unable()
        return [
            each
            for each in elected
            if (PartitionId(each.topic, each.partition), each.leader) not in self._unable
        ]

    def _forget_unable(self) -> None:
        """A later run of a broker may be able again."""
        brokers = self._metadata.image.brokers
        self._unable = {
            (where, broker): epoch
            for (where, broker), epoch in self._unable.items()
            if broker in brokers and brokers[broker].epoch == epoch
        }

    def _keeps(self, where: PartitionId, keeping: Collection[str]) -> bool:
        state = self._metadata.image.table.get(*where)
        return state is not None and state.leader in keeping

    def _change_isrs(self, brokers: Sequence[MetadataChange]) -> list[MetadataChange]:
        wishes, self._isrs = self._isrs, {}
        if not wishes:
            return []
        image = self._metadata.image
        gone = {
            each.broker
            for each in brokers
            if isinstance(each, BrokerFenced | BrokerRemoved | BrokerRegistered | BrokerResigned)
        }
        epochs = {
            name: each.epoch
            for name, each in image.brokers.items()
            if each.state is BrokerState.ACTIVE and name not in gone
        }
        changes: list[MetadataChange] = []
        for wish in wishes.values():
            topic = image.table.topics.get(wish.topic)
            minimum = 1 if topic is None else topic.config.min_insync_replicas
            if check_isr_change(wish, image.table, epochs, minimum):
                changes.append(wish)
        return changes

    def _elect_unclean(self, live: frozenset[str], answers: list[Answer]) -> list[MetadataChange]:
        changes: list[MetadataChange] = []
        wanted, self._unclean = self._unclean, {}
        for where, (request, wished) in wanted.items():
            try:
                leader = self._choose_unclean(where, wished, live)
            except Refused as refusal:
                self._state.outbox.answer(request, refusal)
                continue
            changes.append(
                UncleanLeaderElected(topic=where.topic, partition=where.partition, leader=leader)
            )
            told = (FieldChange("leader", None, leader),)
            changes += audited(self._state, self._metadata.image, request, told)
            answers.append(Answer(request=request, reply=LeaderElected(node=leader)))
        return changes

    def _choose_unclean(self, where: PartitionId, wished: str, live: frozenset[str]) -> str:
        """Who leads as the operator wishes; raises Refused."""
        state = self._metadata.image.table.get(*where)
        if state is None:
            raise Refused(Code.PARTITION_NOT_FOUND, partition=where.partition)
        able = [each for each in state.copies if each in live and (where, each) not in self._unable]
        in_sync = [each for each in state.isr if each in able]
        if in_sync:
            raise Refused(Code.NODE_ALIVE, node=in_sync[0])
        if not able or (wished and wished not in able):
            raise Refused(Code.LEADER_UNAVAILABLE, partition=where.partition)
        return wished or able[0]

    def _allocate_ids(self, brokers: Sequence[MetadataChange]) -> list[MetadataChange]:
        wanting, self._wanting_ids = self._wanting_ids, {}
        image = self._metadata.image
        anew = {each.broker for each in brokers if isinstance(each, BrokerRegistered)}
        first = image.table.next_producer
        changes: list[MetadataChange] = []
        for broker, epoch in wanting.items():
            known = image.brokers.get(broker)
            if known is not None and known.epoch == epoch and broker not in anew:
                changes.append(
                    ProducerIdsAllocated(
                        broker=broker, epoch=epoch, first=first, count=PRODUCER_IDS
                    )
                )
                first += PRODUCER_IDS
        return changes

    # Topics

    def _change_topics(
        self, live: frozenset[str], answers: list[Answer], now: Now
    ) -> list[MetadataChange]:
        changes: list[MetadataChange] = []
        touched: set[str] = set()
        created = 0
        while self._requests:
            wanted = self._requests[0]
            if wanted.command.name in touched:
                # Decided on what the record before it says.
                break
            self._requests.popleft()
            touched.add(wanted.command.name)
            known = self._state.catalog.get(wanted.command.name)
            before = None if known is None else known.config
            try:
                # Its key may have been revoked by a record since.
                with self._state.access.resuming(wanted.admitted, now):
                    decided, reply = self._decide_topic(wanted, live, created, now)
            except Refused as refused:
                self._state.outbox.answer(wanted.request, refused)
                continue
            created += isinstance(wanted.command, CreateTopic)
            changes += decided
            told = _told(before, decided[0])
            changes += audited(self._state, self._metadata.image, wanted.request, told)
            answers.append(Answer(request=wanted.request, reply=reply))
        return changes

    def _decide_topic(
        self, wanted: _TopicRequest, live: frozenset[str], created: int, now: Now
    ) -> tuple[list[MetadataChange], Reply]:
        catalog = self._state.catalog
        command = wanted.command
        match command:
            case CreateTopic():
                stated = catalog.create(command, now)
                number = self._metadata.image.table.next_topic + created
                # Which of these a topic has is not known to its leaders before it is used.
                stated = msgspec.structs.replace(
                    stated, number=number, has_delays=True, has_lanes=True, has_producers=True
                )
                racks = {name: self._rack(name) for name in sorted(live)}
                _check_copies(stated.config, len(racks))
                if wanted.confirm is not None:
                    wanted.confirm(stated, None)
                factor = stated.config.replication_factor
                placed = assign_replicas(number, stated.partitions, factor, racks)
                assigned = PartitionsAssigned(topic=number, partitions=placed)
                return [stated, assigned], _describe(stated)
            case AlterTopic():
                before = catalog.find_for_writing(command.name)
                stated = catalog.alter(command)
                _check_copies(stated.config, len(self._metadata.image.brokers))
                if wanted.confirm is not None:
                    wanted.confirm(stated, before.config)
                return [stated], _describe(stated)
            case DeleteTopic():
                topic = catalog.find_for_writing(command.name)
                return [TopicDeleted(name=topic.name, number=topic.number)], Done()

    def _rack(self, broker: str) -> str:
        return self._metadata.image.brokers[broker].registration.rack


def _told(before: TopicConfig | None, change: MetadataChange) -> tuple[FieldChange, ...]:
    """What the audit log says of a topic that was created or altered."""
    if not isinstance(change, TopicStated):
        return ()
    return field_changes(before, change.config) if before else field_changes(None, change)


def _check_copies(config: TopicConfig, brokers: int) -> None:
    if config.replication_factor > brokers:
        raise Refused(Code.REQUEST_INVALID, field="replication_factor", minimum=1, maximum=brokers)


def _describe(stated: TopicStated) -> TopicDescription:
    """A topic without what its leaders know: offsets and sizes."""
    return TopicDescription(
        name=stated.name,
        config=stated.config,
        created_at=Timestamp(stated.created_at),
        total_messages=0,
        total_size_bytes=0,
        offsets=((Offset(0), Offset(-1)),) * stated.partitions,
    )
