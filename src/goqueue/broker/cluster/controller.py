"""The controller: what the leader of a cluster decides about brokers and voters.

Topics and partitions, their moves and leaders, keys, ACLs, tenants and schemas are decided in the
same records: see `PartitionController`, `Reassigner`, `LeaderTransfers` and `AccessController`.

Decides by the committed image, by what brokers ask for and by who is silent; one record at a time,
so that each decision is made on all that was decided before. A broker that no longer leads decides
nothing: what waited is refused.

Invariants
- A broker id belongs to one data directory until an operator forgets it.
- A registration of an earlier run never replaces a later one.
- Voters change one at a time, jointly, and only after a record of the own term is committed (a
  proposal is only possible then). At most `VOTERS_MAX` vote; a broker that joins them has the log.

A statement of the image continues in the records that follow, a piece in each, among whatever else
is decided.

Cost: one pass over the registered brokers for each proposal, at most one proposal per commit.
"""

from collections import deque
from collections.abc import Iterator

import msgspec

from goqueue.broker.access_changes import AccessCommand
from goqueue.broker.cluster.access_controller import AccessController, DecideFn
from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.cluster.leader_transfers import LeaderTransfers
from goqueue.broker.cluster.level_gate import audited, with_level
from goqueue.broker.cluster.partition_controller import PartitionController
from goqueue.broker.cluster.presence import Presence
from goqueue.broker.cluster.reassigner import Reassigner
from goqueue.broker.schemas import SchemaDecision
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    BROKERS_MAX,
    FEATURE_LEVEL,
    VOTERS_MAX,
    BrokerAddresses,
    BrokerFenced,
    BrokerRegistered,
    BrokerRemoved,
    BrokerResigned,
    BrokerState,
    MetadataChange,
    RegisteredBroker,
    StatedPiece,
    Voter,
    Voters,
    VotersChanged,
)
from goqueue.model import (
    Answer,
    Code,
    Now,
    Refused,
    RegisterBroker,
    RegistrationRefused,
    RequestId,
    Send,
)
from goqueue.model.requests import Done

__all__ = ["Controller", "Registration"]

_REQUESTS_MAX = 256
_VOTERS_AT_FIRST = 3


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a broker that wants to be registered."""

    voter: Voter
    incarnation: int
    addresses: BrokerAddresses
    asked: RegisterBroker


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """An operator, or a broker, wants another one to leave or to be forgotten."""

    request: RequestId
    broker: str
    is_removal: bool


class Controller:
    """Decides while this broker leads the metadata log."""

    def __init__(self, state: NodeState, metadata: ClusterMetadata, presence: Presence) -> None:
        self._state = state
        self._metadata = metadata
        self._liveness = liveness = presence.liveness
        self._me = state.node_id
        self._registrations: dict[str, Registration] = {}
        self._requests: deque[_Request] = deque()
        self._term = 0
        self.partitions = PartitionController(state, metadata)
        self.transfers = LeaderTransfers(state, metadata, presence.replicas.handovers)
        self.moves = Reassigner(state, metadata, presence.moves, self.transfers)
        self.access = AccessController(state, metadata, liveness)
        # What is left of a statement of the image that this broker began.
        self._pieces: Iterator[StatedPiece] | None = None

    @property
    def is_new(self) -> bool:
        """Whether this broker became the controller since the last call of `decide`."""
        return self._metadata.is_controller and self._term != self._metadata.election.term

    # Wishes

    def register(self, registration: Registration) -> None:
        """A broker wants to be registered; the newest wish of each counts."""
        if self._metadata.is_controller and len(self._registrations) < BROKERS_MAX:
            self._registrations[registration.voter.broker] = registration

    def change_access(self, request: RequestId, command: AccessCommand, decide: DecideFn) -> None:
        """A caller wants keys, ACLs, tenants or quotas changed."""
        self.check_leads()
        self.access.request(request, command, decide)

    def change_schemas(self, decision: SchemaDecision) -> None:
        """A caller wants schemas changed, as was decided on what this broker follows."""
        self.check_leads()
        self.access.request_schemas(decision)

    def check_leads(self) -> None:
        """Refuse unless this broker decides."""
        if not self._metadata.is_controller:
            raise self.partitions.not_controller()

    def leave(self, request: RequestId, broker: str, now: Now) -> None:
        """A broker is about to stop; answered when that is committed."""
        self._accept(_Request(request=request, broker=broker, is_removal=False), now)

    def forget(self, request: RequestId, broker: str, now: Now) -> None:
        """Remove a broker for good; answered when that is committed."""
        found = self._find(broker)
        is_here = broker == self._me or not self._liveness.is_lost(broker, now.instant)
        if is_here and found.state is BrokerState.ACTIVE:
            raise Refused(Code.NODE_ALIVE, node=broker)
        self._accept(_Request(request=request, broker=broker, is_removal=True), now)

    def _accept(self, wanted: _Request, now: Now) -> None:
        if not self._metadata.is_controller:
            raise Refused(Code.NOT_CONTROLLER)
        self._find(wanted.broker)
        if len(self._requests) >= _REQUESTS_MAX:
            raise Refused(Code.LOG_BUSY, reason="the metadata log is busy")
        self._requests.append(wanted)
        self.decide(now)

    def _find(self, broker: str) -> RegisteredBroker:
        found = self._metadata.image.brokers.get(broker)
        if found is None:
            raise Refused(Code.NODE_NOT_FOUND, node=broker)
        return found

    # Decisions

    def decide(self, now: Now) -> None:
        """Propose what follows from the image, if nothing is on its way."""
        metadata = self._metadata
        if not metadata.is_leading:
            self._registrations.clear()
            self._pieces = None
            self.partitions.forget_wishes()
            for part in (self.transfers, self.moves, self.access):
                part.resign(self.partitions.not_controller())
            while self._requests:
                refusal = Refused(Code.NOT_CONTROLLER)
                self._state.outbox.answer(self._requests.popleft().request, refusal)
            return
        if not metadata.is_controller:
            # The record of its term is on its way: what brokers want waits for it.
            return
        if self.is_new:
            # It did not matter who was silent before.
            self._term = metadata.election.term
            self._pieces = None
            self._liveness.restart(now.instant)
        self.access.follow(now)
        if not metadata.may_propose:
            return
        answers: list[Answer] = []
        # A piece says what was there before the rest of its record.
        piece = self._next_piece()
        changes: list[MetadataChange] = [
            *self._register_all(),
            *self._answer_requests(answers),
            *self._resign_leaving(),
            *self._fence_lost(now),
        ]
        live, _ = self.partitions.live(changes)
        transfers = self.transfers.decide(live, now)
        moves = self.moves.decide(live, answers, now)
        changes += [*self.partitions.decide(changes, answers, now), *transfers, *moves]
        self.transfers.finish(now, metadata.config.balance_after_ns)
        if metadata.image.feature_level >= FEATURE_LEVEL:
            changes += self.access.decide(now)
        changes = [*piece, *with_level(self._state, metadata.image, changes, answers)]
        if not changes:
            changes = [*self._change_voters()]
        # The audit logs of this node and of others have what the statement drops.
        if not changes and metadata.wants_statement and self._state.audit.is_quiet:
            self._pieces = metadata.image.state_pieces()
            changes = [metadata.image.stated(), *self._next_piece()]
        if changes:
            self.access.proposed(metadata.propose(changes, answers, now))
        else:
            self._state.outbox.extend(answers)

    def _next_piece(self) -> list[MetadataChange]:
        """The next piece of a statement that is under way, if there is one."""
        piece = None if self._pieces is None else next(self._pieces, None)
        if piece is None:
            self._pieces = None
        return [] if piece is None else [piece]

    def _register_all(self) -> list[MetadataChange]:
        changes: list[MetadataChange] = []
        while self._registrations:
            _, wanted = self._registrations.popitem()
            refusal = self._check(wanted)
            if refusal is None:
                changes.append(self._registered(wanted))
            elif refusal:
                message = RegistrationRefused(reason=refusal)
                self._state.outbox.append(Send(broker=wanted.voter.broker, message=message))
        return changes

    def _check(self, wanted: Registration) -> str | None:
        """Why a broker is not registered; empty if it need not be, None if it is."""
        image = self._metadata.image
        known = image.brokers.get(wanted.voter.broker)
        if not wanted.asked.level_min <= image.feature_level <= wanted.asked.level_max:
            asked = wanted.asked
            return (
                f"the cluster has feature level {image.feature_level}, and this version "
                f"({asked.release or 'unknown'}) understands {asked.level_min} to "
                f"{asked.level_max}: install a newer version"
            )
        if known is None:
            return None if len(image.brokers) < BROKERS_MAX else "the cluster has too many nodes"
        if known.registration.directory != wanted.voter.directory:
            return (
                f"the id {wanted.voter.broker} belongs to another data directory: "
                f"forget that node first"
            )
        if wanted.incarnation < known.registration.incarnation:
            return ""
        is_same = wanted.incarnation == known.registration.incarnation
        is_known = is_same and known.state is not BrokerState.FENCED
        # A wish that left before the registration was known must not end what was built on it.
        return "" if is_known or wanted.asked.version < known.epoch else None

    def _registered(self, wanted: Registration) -> BrokerRegistered:
        asked = wanted.asked
        return BrokerRegistered(
            broker=wanted.voter.broker,
            directory=wanted.voter.directory,
            incarnation=wanted.incarnation,
            addresses=wanted.addresses,
            rack=asked.rack,
            level_min=asked.level_min,
            level_max=asked.level_max,
            release=asked.release,
            is_clean=asked.is_clean,
        )

    def _answer_requests(self, answers: list[Answer]) -> list[MetadataChange]:
        changes: list[MetadataChange] = []
        voters = self._metadata.image.voters
        removed: dict[str, None] = {}
        while self._requests:
            wanted = self._requests[0]
            known = self._metadata.image.brokers.get(wanted.broker)
            if known is not None and wanted.broker not in removed:
                if wanted.is_removal:
                    left = tuple(each for each in voters.new if each.broker != wanted.broker)
                    if voters.new and not left:
                        # Nobody could decide anything after that.
                        self._requests.popleft()
                        refusal = Refused(Code.NODE_ALIVE, node=wanted.broker)
                        answers.append(Answer(request=wanted.request, reply=refusal))
                        continue
                    if left != voters.new and (voters.is_joint or removed):
                        # One change of voters at a time.
                        break
                    changes.append(BrokerRemoved(broker=wanted.broker, epoch=known.epoch))
                    if left != voters.new:
                        changes.append(VotersChanged(new=left, old=voters.new))
                    changes += audited(self._state, self._metadata.image, wanted.request)
                    removed[wanted.broker] = None
                elif known.state is BrokerState.ACTIVE:
                    changes.append(BrokerResigned(broker=wanted.broker, epoch=known.epoch))
            self._requests.popleft()
            answers.append(Answer(request=wanted.request, reply=Done()))
        return changes

    def _resign_leaving(self) -> list[MetadataChange]:
        """Let go of brokers that stop, and have handed over what they led."""
        return [
            BrokerResigned(broker=broker, epoch=known.epoch)
            for broker, known in self._metadata.image.brokers.items()
            if known.state is BrokerState.ACTIVE
            and self._liveness.is_resigning(broker, known.epoch)
        ]

    def _fence_lost(self, now: Now) -> list[MetadataChange]:
        return [
            BrokerFenced(broker=broker, epoch=known.epoch)
            for broker, known in self._metadata.image.brokers.items()
            if broker != self._me
            and known.state is not BrokerState.FENCED
            and self._liveness.is_lost(broker, now.instant)
        ]

    def _change_voters(self) -> list[MetadataChange]:
        """End a joint change, or let one more broker vote."""
        image = self._metadata.image
        voters = image.voters
        if voters.is_joint:
            return [VotersChanged(new=voters.new)]
        active = [each for each in image.brokers.values() if each.state is BrokerState.ACTIVE]
        wanted = VOTERS_MAX if len(active) >= VOTERS_MAX else _VOTERS_AT_FIRST
        if len(voters.new) >= wanted:
            return []
        for each in active:
            if each.voter not in voters and self._metadata.may_vote(each.voter):
                joined = Voters(tuple(sorted((*voters.new, each.voter))), voters.new)
                return [VotersChanged(new=joined.new, old=joined.old)]
        return []
