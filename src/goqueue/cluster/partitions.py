"""Topics and partitions of a cluster: the changes to them, and the table that they add up to.

Owns which topics there are, which brokers keep a copy of each partition, which of those copies are
in sync (ISR), and which one leads. Decides nothing: see `placement`, `leader_election` and
`isr_rules`.

The version of the record that names a leader is the leader epoch; the version of the last change to
a partition is the partition version, on which changes of its ISR are compared and set.

Invariants
- A leader is a member of the ISR. The ISR is a part of the replicas and, while a partition moves,
  of its learners: those that are to become replicas.
- One leader per partition and epoch (C5); epochs and versions rise.
- A change that names a topic, an epoch or a version that is gone changes nothing (C11).
- A member of an ISR whose broker began anew after a crash is unsure where records are acknowledged
  before they are synced: it may lack some. It is sure again once a leader found that run in sync.

Cost: a change touches the entries that it names. The table keeps, for each broker, the partitions
that it leads and hosts, so that the loss of a broker costs by what it had.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, assert_never

import msgspec

from goqueue.model import Flush
from goqueue.model.requests import TopicConfig

__all__ = [
    "AddedCopy",
    "IsrChanged",
    "IsrMember",
    "LeaderChange",
    "LeadersChanged",
    "PartitionChange",
    "PartitionId",
    "PartitionState",
    "PartitionTable",
    "PartitionsAssigned",
    "ProducerIdsAllocated",
    "ReplicaAssignment",
    "ReplicasLost",
    "StatedTopic",
    "TopicDeleted",
    "TopicStated",
    "UncleanLeaderElected",
]


class PartitionId(NamedTuple):
    """A partition as brokers name it: by the number of its topic, which is never used twice."""

    topic: int
    partition: int


class TopicStated(msgspec.Struct, frozen=True, kw_only=True, tag="topic"):
    """A topic in full, after a change of any kind."""

    name: str
    number: int
    partitions: int
    config: TopicConfig
    created_at: int
    holds_dead_letters: bool = False
    # Whether a delayed message was ever published: then its logs are looked through at a start.
    has_delays: bool = False
    # Whether a message of another priority than normal was ever published.
    has_lanes: bool = False
    # Whether a producer with sequences or transactions ever wrote: then its logs are looked
    # through at a start, too.
    has_producers: bool = False
    # Whether a restore brings it: until that is committed, nobody can use it.
    is_arriving: bool = False


class TopicDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="topic_deleted"):
    """A topic is gone, and everybody's place in it."""

    name: str
    number: int


class ReplicaAssignment(msgspec.Struct, frozen=True, array_like=True):
    """The copies of one new partition, and who leads it; all of them are in sync: it is empty."""

    replicas: tuple[str, ...]
    leader: str | None


class PartitionsAssigned(msgspec.Struct, frozen=True, kw_only=True, tag="partitions_assigned"):
    """The partitions of a new topic, in order; the version is their first leader epoch."""

    topic: int
    partitions: tuple[ReplicaAssignment, ...]


class LeaderChange(msgspec.Struct, frozen=True, array_like=True):
    """Another leader of a partition; None: no live member of the ISR is known."""

    topic: int
    partition: int
    leader: str | None


class LeadersChanged(msgspec.Struct, frozen=True, kw_only=True, tag="leaders_changed"):
    """Other leaders; the version is the leader epoch of all of them. ISRs stay as they are."""

    changes: tuple[LeaderChange, ...]


class IsrMember(msgspec.Struct, frozen=True, array_like=True):
    """A member of an ISR, with the epoch of the run of the broker that was found in sync."""

    broker: str
    epoch: int


class IsrChanged(msgspec.Struct, frozen=True, kw_only=True, tag="isr_changed"):
    """Another ISR, by the leader of `epoch`, if the partition has still this `version`."""

    topic: int
    partition: int
    epoch: int
    version: int
    isr: tuple[IsrMember, ...]


class UncleanLeaderElected(msgspec.Struct, frozen=True, kw_only=True, tag="unclean_leader"):
    """A leader that may lack committed records: its log is what counts now.

    An operator chose it; or, without `is_by_operator`, no member of the ISR was sure to have all,
    and it has most.
    """

    topic: int
    partition: int
    leader: str
    is_by_operator: bool = True


class ReplicasLost(msgspec.Struct, frozen=True, kw_only=True, tag="replicas_lost"):
    """A run of a broker found that its copies of these partitions lack what it had confirmed.

    It leaves their ISRs, whatever the minimum is: it does not hold what members must hold. An ISR
    may become empty; then only an operator chooses a leader.
    """

    broker: str
    epoch: int
    partitions: tuple[tuple[int, int], ...]


class ProducerIdsAllocated(msgspec.Struct, frozen=True, kw_only=True, tag="producer_ids"):
    """A run of a broker may give out the producer ids [first, first + count)."""

    broker: str
    epoch: int
    first: int
    count: int


PartitionChange = (
    TopicStated
    | TopicDeleted
    | PartitionsAssigned
    | LeadersChanged
    | IsrChanged
    | UncleanLeaderElected
    | ProducerIdsAllocated
)


class AddedCopy(msgspec.Struct, frozen=True, array_like=True):
    """A broker that a move added to the copies of a partition, and the version that did."""

    broker: str
    version: int


class PartitionState(msgspec.Struct, frozen=True, array_like=True):
    """One partition: who keeps it, who is in sync, who leads, since when.

    `unclean_epoch` is the epoch of the last leader that was elected although it may lack committed
    records, 0 if none: records of earlier epochs may be cut even below a high watermark. `unsure`
    are the members of the ISR that may have lost their tails, with the broker epochs since when.
    `target` are the replicas that it is to have, while it is moved; empty otherwise. `added` are
    the copies that were added by moves: what a broker said of an earlier copy counts no more.
    """

    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    leader: str | None
    epoch: int
    version: int
    unclean_epoch: int = 0
    unsure: tuple[IsrMember, ...] = ()
    target: tuple[str, ...] = ()
    added: tuple[AddedCopy, ...] = ()

    @property
    def learners(self) -> tuple[str, ...]:
        """Those that copy the partition to become replicas of it."""
        return tuple(broker for broker in self.target if broker not in self.replicas)

    @property
    def copies(self) -> tuple[str, ...]:
        """Whoever keeps a copy: the replicas first, then the learners."""
        return (*self.replicas, *self.learners) if self.target else self.replicas

    def added_at(self, broker: str) -> int:
        """The version that added the copy of a broker; 0 if it was there from the beginning."""
        return next((each.version for each in self.added if each.broker == broker), 0)

    def is_unsure(self, broker: str) -> bool:
        """Whether a member of the ISR may lack what it confirmed."""
        return any(each.broker == broker for each in self.unsure)


class StatedTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic and its partitions in a statement of the image; `version` is that of its creation."""

    topic: TopicStated
    version: int
    partitions: tuple[PartitionState, ...]


_EMPTY: Mapping[PartitionId, None] = {}


class PartitionTable:
    """The topics and partitions of a cluster as of one version."""

    def __init__(self) -> None:
        self._topics: dict[int, TopicStated] = {}
        self._numbers: dict[str, int] = {}
        self._created: dict[int, int] = {}
        self._partitions: dict[int, list[PartitionState]] = {}
        # What each broker leads, and what has no leader (None); what each broker hosts.
        self._led: dict[str | None, dict[PartitionId, None]] = {}
        self._hosted: dict[str, dict[PartitionId, None]] = {}
        self._count = 0
        self.next_topic = 1
        self.next_producer = 1

    # Looking

    @property
    def topics(self) -> Mapping[int, TopicStated]:
        """The topics by their numbers."""
        return self._topics

    @property
    def partition_count(self) -> int:
        return self._count

    def topic_named(self, name: str) -> TopicStated | None:
        number = self._numbers.get(name)
        return None if number is None else self._topics[number]

    def created_at(self, topic: int) -> int:
        """The version at which a topic was created: no record in its logs is of an older epoch."""
        return self._created[topic]

    def get(self, topic: int, partition: int) -> PartitionState | None:
        """One partition; None if there is none."""
        states = self._partitions.get(topic, ())
        return states[partition] if 0 <= partition < len(states) else None

    def partitions_of(self, topic: int) -> tuple[PartitionState, ...]:
        """The partitions of a topic, in order; none if it is not known."""
        return tuple(self._partitions.get(topic, ()))

    def led_by(self, broker: str | None) -> Mapping[PartitionId, None]:
        """What a broker leads; of None what nobody leads."""
        return self._led.get(broker, _EMPTY)

    def hosted_by(self, broker: str) -> Mapping[PartitionId, None]:
        """What a broker keeps a copy of."""
        return self._hosted.get(broker, _EMPTY)

    # Changing

    def apply(self, change: PartitionChange, version: int) -> None:
        """Become what a change says; one that came too late changes nothing."""
        match change:
            case TopicStated():
                self._state_topic(change, version)
            case TopicDeleted():
                self._delete_topic(change)
            case PartitionsAssigned():
                self._assign(change, version)
            case LeadersChanged():
                for each in change.changes:
                    self._elect(each, version)
            case IsrChanged():
                self._change_isr(change, version)
            case UncleanLeaderElected():
                self._elect_unclean(change, version)
            case ProducerIdsAllocated():
                self.next_producer = max(self.next_producer, change.first + change.count)
            case _:
                assert_never(change)

    def _state_topic(self, stated: TopicStated, version: int) -> None:
        known = self._topics.get(stated.number)
        if known is None and stated.name in self._numbers:
            return
        self._topics[stated.number] = stated
        self._numbers[stated.name] = stated.number
        self._created.setdefault(stated.number, version)
        self.next_topic = max(self.next_topic, stated.number + 1)

    def _delete_topic(self, change: TopicDeleted) -> None:
        gone = self._topics.pop(change.number, None)
        if gone is None:
            return
        del self._numbers[gone.name], self._created[gone.number]
        states = self._partitions.pop(gone.number, [])
        self._count -= len(states)
        for number, state in enumerate(states):
            where = PartitionId(gone.number, number)
            self._led[state.leader].pop(where, None)
            for broker in state.copies:
                self._hosted[broker].pop(where, None)

    def _assign(self, change: PartitionsAssigned, version: int) -> None:
        if change.topic not in self._topics or change.topic in self._partitions:
            return
        states = [
            PartitionState(each.replicas, each.replicas, each.leader, version, version)
            for each in change.partitions
        ]
        self._add(change.topic, states)

    def _add(self, topic: int, states: list[PartitionState]) -> None:
        self._partitions[topic] = states
        self._count += len(states)
        for number, state in enumerate(states):
            where = PartitionId(topic, number)
            self._led.setdefault(state.leader, {})[where] = None
            for broker in state.copies:
                self._hosted.setdefault(broker, {})[where] = None

    def _put(self, where: PartitionId, state: PartitionState) -> None:
        """Replace the state of a partition that exists."""
        before = self._partitions[where.topic][where.partition]
        self._partitions[where.topic][where.partition] = state
        if before.leader != state.leader:
            del self._led[before.leader][where]
            self._led.setdefault(state.leader, {})[where] = None
        if (before.replicas, before.target) != (state.replicas, state.target):
            for broker in before.copies:
                self._hosted[broker].pop(where, None)
            for broker in state.copies:
                self._hosted.setdefault(broker, {})[where] = None

    def _elect(self, change: LeaderChange, version: int) -> None:
        state = self.get(change.topic, change.partition)
        if state is None or (change.leader is not None and change.leader not in state.isr):
            return
        elected = msgspec.structs.replace(
            state, leader=change.leader, epoch=version, version=version
        )
        self._put(PartitionId(change.topic, change.partition), elected)

    def _change_isr(self, change: IsrChanged, version: int) -> None:
        state = self.get(change.topic, change.partition)
        if state is None or (state.epoch, state.version) != (change.epoch, change.version):
            return
        members = {each.broker: each.epoch for each in change.isr}
        isr = tuple(broker for broker in state.copies if broker in members)
        if state.leader not in isr:
            return
        # Whoever was found in sync in the run that is in doubt, or a later one, has all again.
        unsure = tuple(
            each
            for each in state.unsure
            if each.broker in isr and members[each.broker] < each.epoch
        )
        changed = msgspec.structs.replace(state, isr=isr, version=version, unsure=unsure)
        self._put(PartitionId(change.topic, change.partition), changed)

    def _elect_unclean(self, change: UncleanLeaderElected, version: int) -> None:
        state = self.get(change.topic, change.partition)
        if state is None or change.leader not in state.copies:
            return
        elected = msgspec.structs.replace(
            state,
            isr=(change.leader,),
            leader=change.leader,
            epoch=version,
            version=version,
            unclean_epoch=version,
            unsure=(),
        )
        self._put(PartitionId(change.topic, change.partition), elected)

    def forget_broker(self, broker: str, version: int) -> None:
        """An operator removed a broker: it is in no ISR and leads nothing; its copies are lost."""
        for where in tuple(self.hosted_by(broker)):
            self._remove_member(where, broker, version)

    def doubt_replicas(self, broker: str, version: int) -> None:
        """A broker began anew after a crash: it may lack what it confirmed and had not synced.

        Of the only copy there is no doubt: nobody has more, and nobody has to cut what it lacks.
        """
        for where in tuple(self.hosted_by(broker)):
            state = self._partitions[where.topic][where.partition]
            syncs_first = self._topics[where.topic].config.flush_policy is Flush.COMMIT
            if broker not in state.isr or syncs_first or len(state.copies) == 1:
                continue
            others = tuple(each for each in state.unsure if each.broker != broker)
            unsure = (*others, IsrMember(broker, version))
            self._put(where, msgspec.structs.replace(state, unsure=unsure, version=version))

    def lose_replicas(self, lost: ReplicasLost, version: int) -> None:
        """A broker lost copies: it is not in sync there, and does not lead."""
        for each in lost.partitions:
            state = self.get(*each)
            if state is not None and lost.broker in state.isr:
                self._remove_member(PartitionId(*each), lost.broker, version)

    def _remove_member(self, where: PartitionId, broker: str, version: int) -> None:
        state = self._partitions[where.topic][where.partition]
        isr = tuple(each for each in state.isr if each != broker)
        unsure = tuple(each for each in state.unsure if each.broker != broker)
        changed = msgspec.structs.replace(state, isr=isr, version=version, unsure=unsure)
        if state.leader == broker:
            changed = msgspec.structs.replace(changed, leader=None, epoch=version)
        self._put(where, changed)

    # Moves

    def set_target(self, where: PartitionId, target: tuple[str, ...], version: int) -> bool:
        """A move begins; False if there is no such partition, or it is moved already."""
        state = self.get(*where)
        if state is None or state.target:
            return False
        new = [AddedCopy(broker, version) for broker in target if broker not in state.replicas]
        known = [each for each in state.added if each.broker in state.replicas]
        moved = msgspec.structs.replace(state, target=target, added=(*known, *new), version=version)
        self._put(where, moved)
        return True

    def adopt_target(self, where: PartitionId, known: int, version: int) -> bool:
        """A move is over: its target are the replicas; False if it is not `known` as it was."""
        state = self.get(*where)
        if state is None or state.version != known or not state.target:
            return False
        target = state.target
        if state.leader not in target or not set(target) <= set(state.isr):
            return False
        moved = msgspec.structs.replace(
            state,
            replicas=target,
            isr=target,
            target=(),
            unsure=tuple(each for each in state.unsure if each.broker in target),
            added=tuple(each for each in state.added if each.broker in target),
            version=version,
        )
        self._put(where, moved)
        return True

    def drop_target(self, where: PartitionId, known: int, version: int) -> bool:
        """A move is given up: its learners go; False if it is not `known` as it was.

        If one of them led, nobody leads until another one is elected.
        """
        state = self.get(*where)
        if state is None or state.version != known or not state.target:
            return False
        learners = state.learners
        isr = tuple(broker for broker in state.isr if broker not in learners)
        if not isr:
            return False
        changed = msgspec.structs.replace(
            state,
            isr=isr,
            target=(),
            unsure=tuple(each for each in state.unsure if each.broker in isr),
            added=tuple(each for each in state.added if each.broker in state.replicas),
            version=version,
        )
        if state.leader in learners:
            changed = msgspec.structs.replace(changed, leader=None, epoch=version)
        self._put(where, changed)
        return True

    # Statements

    def stated(self) -> Iterator[StatedTopic]:
        """Every topic with its partitions, in the order of their numbers."""
        for number in sorted(self._topics):
            states = tuple(self._partitions.get(number, ()))
            yield StatedTopic(self._topics[number], self._created[number], states)

    def adopt(self, topics: Iterable[StatedTopic]) -> None:
        """Become what a statement says; the table is empty before."""
        for each in topics:
            self._state_topic(each.topic, each.version)
            if each.partitions:
                self._add(each.topic.number, list(each.partitions))
