"""The metadata of a cluster in an external store (etcd): the same records, elected by its lease.

The store keeps what the metadata log of a quorum would: one record for each version, a head that
says where they end, and the key of the controller (`store_records`). A broker looks at head and key
once a second, and whenever somebody says that they changed; then it reads the records that it
lacks. What it looks at is the present, never a history of events, so it does not matter what a
watch missed or what etcd compacted.

Invariants
- Compare and append: a record and the head that ends behind it are written by one transaction that
  compares the epoch of the controller and the revision of the head. A controller that was deposed,
  or decided on an older image, changes nothing, however late its transaction arrives.
- A proposal without a reply is sent again as it is, at its own version: it is in the log at most
  once. Never at another version. When this broker stops deciding first, its outcome is unknown.
- What is applied is durable knowledge: the version and digest of the newest record are synced in
  `__broker_state` before it is applied. A store that has less, nothing, or another record there was
  restored from a backup, or emptied: this broker refuses it, decides nothing and follows nothing.
- A record is applied when the head counts it, all its parts are here and its digest, which covers
  the record before it, is right.
- Records below the base of the head are gone: who needs one begins anew with the statement of the
  image that the base is.

Crash points: parts | record and head | own note durable | applied | answered. Parts that no head
counts are deleted with what is below the next base.

Cost: a proposal is one call and one sync on each broker; a look is one call a second. Per turn at
most one reply is handled: 64 records of 32 KiB, or four parts of 512 KiB. Memory beyond the image:
what was read in one reply, and the parts of one record.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from goqueue.broker.cluster.broker_state import BrokerStateJournal, StoreMark
from goqueue.broker.cluster.cluster_config import ClusterConfig, JitterSource
from goqueue.broker.cluster.controller_lease import ControllerLease, LeaseStep
from goqueue.broker.cluster.etcd_calls import (
    EtcdCall,
    GrantLease,
    KeepLease,
    RangeReply,
    RevokeLease,
    read_lease,
    read_range,
    read_transaction,
)
from goqueue.broker.cluster.metadata_records import (
    MetadataRecord,
    StatementProgress,
    created_cluster,
)
from goqueue.broker.cluster.store_proposal import KnownHead, StoreProposal
from goqueue.broker.cluster.store_reader import ReadRecord, StoreReader
from goqueue.broker.cluster.store_records import (
    StoredController,
    StoredHead,
    StoredRecord,
    StoreKeys,
    StoreUnusable,
    decode_stored,
)
from goqueue.broker.state import NodeState
from goqueue.cluster import ImageStated, MetadataChange, MetadataImage, Voter, Voters
from goqueue.model import (
    SECOND,
    Answer,
    CallStore,
    Code,
    Instant,
    Now,
    Offset,
    Refused,
    RequestId,
    StoreEvent,
    VoteRequest,
)

__all__ = ["ExternalMetadata"]

_LOOK_NS = SECOND
_RETRY_NS_MIN = SECOND // 10
_RETRY_NS_MAX = 2 * SECOND
_RETRY_GROWTH_MAX = 5
# So long this broker believes in a controller that the store does not confirm.
_BELIEF_NS = 10 * SECOND


class _Look(msgspec.Struct, frozen=True):
    """Head and controller are read; what was known to be there when that was asked."""

    known: int
    asked_at: Instant


class _Records(msgspec.Struct, frozen=True):
    """Records are read."""


class _Append(msgspec.Struct, frozen=True):
    """A part of the record with this digest, or its end, is written."""

    digest: str


_Purpose = _Look | _Records | _Append | LeaseStep
_Asked = tuple[_Purpose, EtcdCall]


class _StoreElection(msgspec.Struct):
    """Who holds the key of the controller, as it was last seen."""

    leader: Voter | None = None
    term: int = 0
    lease: int = 0


class ExternalMetadata:
    """This broker's image of what an external store keeps, and its part in the election."""

    def __init__(
        self,
        state: NodeState,
        config: ClusterConfig,
        broker_state: BrokerStateJournal,
        now: Now,
    ) -> None:
        assert config.store_prefix is not None
        self._state = state
        self.config = config
        self._me = config.voter(state.node_id)
        self._broker_state = broker_state
        self._keys = StoreKeys(config.store_prefix)
        self._jitter = JitterSource(config.seed + 1)
        own = broker_state.state
        me = StoredController(
            broker=self._me.broker, directory=self._me.directory, incarnation=own.incarnation
        )
        self._lease = ControllerLease(me, self._keys, config.seed)
        self._election = _StoreElection()
        self._image = MetadataImage()
        self._applied: list[MetadataRecord] = []
        # What was read and is not applied: it waits until its version is noted.
        self._read: deque[ReadRecord] = deque()
        self._noted = self._durable = own.observed
        # The notes on their way, by their number.
        self._notes: dict[int, StoreMark] = {}
        self._reader = StoreReader(self._keys, own.observed)
        self._head = KnownHead(None, 0)
        # The head that counted records which were not there.
        self._missed: KnownHead | None = None
        self._heard = 0
        self._has_all = False
        self._sizes: deque[tuple[int, int]] = deque()
        self._size = 0
        self._statement = StatementProgress(config.restate_bytes)
        self._proposal: StoreProposal | None = None
        self._asked: dict[int, _Asked] = {}
        self._next_call = 1
        self._is_reading = False
        self._must_look = False
        self._look_at = now.instant
        self._failures = 0
        self._seen_at = now.instant
        self._refusal: str | None = None
        self._silence: str | None = None
        self._is_stopping = False

    # What others see

    @property
    def image(self) -> MetadataImage:
        return self._image

    @property
    def election(self) -> _StoreElection:
        return self._election

    @property
    def is_leading(self) -> bool:
        return self._lease.epoch is not None

    @property
    def is_controller(self) -> bool:
        return self._lease.epoch is not None and self._has_all and bool(self._image.cluster_id)

    @property
    def may_propose(self) -> bool:
        return self.is_controller and self._proposal is None and not self._read

    @property
    def wants_statement(self) -> bool:
        return self._statement.is_wanted(self._size)

    @property
    def refusal(self) -> str | None:
        return self._refusal or self._silence

    @property
    def lineage(self) -> str:
        return self._image.cluster_id

    def may_vote(self, _broker: Voter, /) -> bool:
        """Nobody votes: the store elects."""
        return False

    def take_applied(self) -> list[MetadataRecord]:
        applied, self._applied = self._applied, []
        return applied

    def next_deadline(self) -> Instant | None:
        proposal = self._proposal
        belief = Instant(self._seen_at + _BELIEF_NS) if self._election.leader else None
        due = (
            None if self._is_reading else self._look_at,
            self._lease.next_deadline(),
            None if proposal is None else proposal.retry_at,
            belief,
        )
        return min((each for each in due if each is not None), default=None)

    # Peers

    def connect(self, who: Voter) -> None:
        """Brokers agree through the store."""

    def disconnect(self, broker: str) -> None:
        """As above."""

    def lose(self, broker: str, now: Now) -> None:
        election = self._election
        if election.leader is not None and election.leader.broker == broker and election.lease:
            # Its process is gone: another broker need not wait for the end of its lease.
            self._ask_lease(RevokeLease(ID=election.lease))
            self._look_soon(now)

    def hear_version(self, version: int, now: Now) -> None:
        """A broker of this cluster decides by a version: the store has it."""
        if version > self._heard:
            self._heard = version
            if version > self._reader.end.version:
                self._look_soon(now)

    def ask_vote(
        self, _candidate: Voter, _asked: VoteRequest, _caller: RequestId, _now: Now, /
    ) -> None:
        reason = "etcd elects the controller of this cluster: nobody votes"
        raise Refused(Code.REQUEST_INVALID, field="candidate", reason=reason)

    def hear_term(self, _term: int, answer: Answer, _now: Now, /) -> None:
        self._state.outbox.append(answer)

    # Calls

    def _ask_lease(self, call: EtcdCall | None) -> None:
        """What the election wants, if anything."""
        if call is not None:
            self._ask(LeaseStep.of(call), call)

    def _ask(self, purpose: _Purpose, call: EtcdCall) -> None:
        self._asked[self._next_call] = (purpose, call)
        body = msgspec.json.encode(call)
        wanted = CallStore(number=self._next_call, path=call.path, body=body)
        self._next_call += 1
        self._state.outbox.append(wanted)

    def handle_store(self, event: StoreEvent, now: Now) -> None:
        """The store replied, or did not, or may have changed."""
        if event.number is None:
            self._look_soon(now)
            return
        asked = self._asked.pop(event.number, None)
        if asked is None:
            return
        purpose, call = asked
        if event.body is None:
            self._failed(purpose, event.reason, now)
            return
        try:
            self._replied(purpose, call, event.body, now)
        except StoreUnusable as unusable:
            self._refuse(str(unusable), now)
        except msgspec.DecodeError as error:
            self._failed(purpose, f"it answers something else: {error}", now)

    def _replied(self, purpose: _Purpose, call: EtcdCall, body: bytes, now: Now) -> None:
        match purpose:
            case _Look():
                self._looked(purpose, read_range(body), now)
            case _Records():
                self._take_records(read_range(body), now)
            case _Append(digest):
                reply = read_transaction(body)
                self._appended(digest, is_done=reply.succeeded, now=now)
            case LeaseStep.GRANT | LeaseStep.KEEP:
                assert isinstance(call, GrantLease | KeepLease)
                self._leased(call, read_lease(call, body).TTL)
            case LeaseStep.TAKE | LeaseStep.REVOKE:
                self._look_soon(now)

    def _leased(self, call: GrantLease | KeepLease, ttl_s: int) -> None:
        if isinstance(call, GrantLease):
            self._ask_lease(self._lease.granted(ttl_s))
        else:
            self._ask_lease(self._lease.kept(call, ttl_s))
            self._follow_lease()

    def _failed(self, purpose: _Purpose, reason: str, now: Now) -> None:
        if isinstance(purpose, LeaseStep):
            self._lease.failed(purpose, now.instant)
        elif isinstance(purpose, _Append):
            proposal = self._proposal
            if proposal is not None and proposal.record.digest == purpose.digest:
                proposal.retry_at = self._later(now)
        else:
            self._is_reading = False
            self._reader.cancel()
            self._failures += 1
            self._look_at = self._later(now)
            if now.instant - self._seen_at >= _LOOK_NS:
                self._silence = f"etcd does not answer: {reason}"

    def _later(self, now: Now) -> Instant:
        """When to try again: later after each failure, and not in step with others."""
        bound = min(_RETRY_NS_MAX, _RETRY_NS_MIN << min(self._failures, _RETRY_GROWTH_MAX))
        return Instant(now.instant + bound // 2 + int(bound * self._jitter.draw()) // 2)

    # Looking

    def _look_soon(self, now: Now) -> None:
        self._must_look = True
        if not self._is_reading:
            self._look(now)

    def _look(self, now: Now) -> None:
        self._is_reading, self._must_look = True, False
        known = max(self._noted.version, self._reader.end.version, self._heard)
        self._ask(_Look(known, now.instant), self._keys.read_live())

    def _looked(self, look: _Look, reply: RangeReply, now: Now) -> None:
        """Head and controller as they are together, at one revision."""
        self._failures, self._silence, self._seen_at = 0, None, look.asked_at
        head, controller, created, lease = None, None, 0, 0
        revision = 0
        for each in reply.kvs:
            stored = decode_stored(each, self._keys)
            if isinstance(stored, StoredHead):
                head, revision = stored, each.mod_revision
            elif isinstance(stored, StoredController):
                controller, created, lease = stored, each.create_revision, each.lease
        self._check_head(head, look.known)
        self._head = KnownHead(head, revision)
        while head is not None and self._sizes and self._sizes[0][0] < head.base:
            self._size -= self._sizes.popleft()[1]
        if controller is None:
            self._election.leader, self._election.lease = None, 0
        else:
            leader = Voter(controller.broker, controller.directory)
            self._election.leader, self._election.lease = leader, lease
            self._election.term = created
        self._ask_lease(self._lease.seen(controller, lease, created, now.instant))
        self._follow_lease()
        self._read_on(now)

    def _check_head(self, head: StoredHead | None, known: int) -> None:
        """Raise StoreUnusable if the store has less than was there, or another cluster."""
        entered = self._broker_state.state.cluster_id
        if head is None:
            if entered or known:
                words = "is empty, and this node belongs to the cluster"
                raise StoreUnusable(f"etcd {words} {entered}: restore it as it was")
            return
        if entered and head.cluster_id != entered:
            words = f"etcd holds the cluster {head.cluster_id} and this node belongs to {entered}"
            raise StoreUnusable(words)
        if head.version < known:
            words = f"etcd ends at version {head.version}, and version {known} was there"
            raise StoreUnusable(f"{words}: it was restored from a backup, or lost records")

    def _read_on(self, now: Now) -> None:
        """Read what the head counts and is not here, or look again later."""
        self._is_reading = False
        head, call = self._head.head, None
        if head is not None:
            if self._reader.must_begin_anew(head):
                self._begin_anew(head)
            call = self._reader.next_call(head)
        if call is not None:
            self._is_reading = True
            self._ask(_Records(), call)
        elif self._must_look:
            self._look(now)
        else:
            self._look_at = Instant(now.instant + _LOOK_NS)
            self._caught_up(now)

    def _begin_anew(self, head: StoredHead) -> None:
        """What follows what is known here is gone."""
        self._reader.begin_anew(head)
        self._read.clear()
        self._sizes.clear()
        self._size = 0
        self._has_all = False

    def _take_records(self, reply: RangeReply, now: Now) -> None:
        taken = self._reader.take(reply)
        self._read += taken
        self._note(now)
        if taken or self._reader.is_partial:
            self._read_on(now)
        elif self._missed == self._head:
            version = self._reader.end.version + 1
            raise StoreUnusable(f"the record {version} is missing in etcd, or a part of it")
        else:
            # They are gone: then there is a new base.
            self._missed = self._head
            self._look(now)

    def _refuse(self, reason: str, now: Now) -> None:
        """What the store holds is not believed: decide nothing by it until it is another."""
        self._refusal = reason
        self._election.leader = None
        self._is_reading = False
        self._reader.cancel()
        self._has_all = False
        self._look_at = Instant(now.instant + _LOOK_NS)
        self._ask_lease(self._lease.resign())
        self._follow_lease()

    # The election

    def _follow_lease(self) -> None:
        """This broker may no longer decide: what is on its way has no known outcome."""
        proposal = self._proposal
        is_deposed = self._lease.epoch is None
        if proposal is not None and (is_deposed or proposal.record.epoch != self._lease.epoch):
            self._proposal = None
            self._end_proposal(proposal, Code.REPLICATION_FAILED)
        if is_deposed:
            self._has_all = False
            self._statement.cancel()
            if self._election.leader == self._me:
                self._election.leader = None

    def _caught_up(self, now: Now) -> None:
        """All that the store holds was read, as of a look that also showed who decides."""
        self._refusal = None
        if self._is_stopping:
            return
        proposal = self._proposal
        if proposal is not None and proposal.is_refused:
            if proposal.record.version > self._reader.end.version:
                # Nobody was ahead of it, and the store is not as it was seen.
                self._ask_lease(self._lease.resign())
                self._follow_lease()
        elif self._lease.epoch is not None:
            self._has_all = True
            if self._head.head is None and self._proposal is None:
                founded = created_cluster(self._me, self._lease.epoch, Voters(()))
                self._write((founded,), ())
        elif self._election.leader is None and self._may_stand() and not self._read:
            self._ask_lease(self._lease.stand(now.instant))

    def _may_stand(self) -> bool:
        """A broker that another data directory has the id of, or that is new, only follows."""
        brokers = self._image.brokers
        known = brokers.get(self._me.broker)
        return not brokers or (known is not None and known.voter == self._me)

    def resign(self, _now: Now, /) -> None:
        self._is_stopping = True
        self._ask_lease(self._lease.resign())
        self._follow_lease()

    # Proposals

    def propose(
        self, changes: Sequence[MetadataChange], answers: Sequence[Answer], _now: Now, /
    ) -> int:
        assert self.may_propose, "only the controller proposes, one record at a time"
        if any(isinstance(change, ImageStated) for change in changes):
            self._statement.begin(Offset(self._reader.end.version + 1))
        return self._write(changes, answers)

    def _write(self, changes: Sequence[MetadataChange], answers: Sequence[Answer]) -> int:
        epoch = self._lease.epoch
        assert epoch is not None
        encoded = msgspec.json.encode(changes)
        version = self._reader.end.version + 1
        record = StoredRecord.of(
            version, epoch, self._reader.end.digest, encoded, self.config.store_part_bytes
        )
        states_from = self._statement.end(changes, self._size)
        proposal = StoreProposal(
            record,
            changes,
            answers,
            encoded,
            part_bytes=self.config.store_part_bytes,
            states_from=states_from,
        )
        proposal.prepare(self._keys, self._head)
        self._proposal = proposal
        self._send_proposal()
        return version

    def _send_proposal(self) -> None:
        proposal = self._proposal
        assert proposal is not None
        proposal.retry_at = None
        self._ask(_Append(proposal.record.digest), proposal.call)

    def _appended(self, digest: str, *, is_done: bool, now: Now) -> None:
        """A transaction of the proposal was done; or its comparisons failed."""
        proposal = self._proposal
        if proposal is None or proposal.record.digest != digest:
            # A reply to what was proposed in another epoch, at the same version perhaps.
            return
        if not is_done:
            # Deposed; or an earlier try was done after all: the records tell.
            proposal.is_refused = True
            self._look_soon(now)
            return
        if proposal.done():
            self._look_soon(now)
        else:
            self._send_proposal()

    # Commits

    def _note(self, now: Now) -> None:
        """Remember the newest record that was read; what is noted is applied."""
        if self._reader.end.version > self._noted.version:
            self._noted = self._reader.end
            own = self._broker_state
            state = msgspec.structs.replace(own.state, observed=self._reader.end)
            self._notes[own.save(state, now)] = self._reader.end
        self._apply()

    def broker_state_durable(self, number: int, _now: Now, /) -> None:
        for each in [each for each in self._notes if each <= number]:
            self._durable = self._notes.pop(each)
        self._apply()

    def _apply(self) -> None:
        while self._read and self._read[0][1].version <= self._durable.version:
            stored, record = self._read.popleft()
            if (
                record.version == self._reader.begins_at
                and self._image.version != record.version - 1
            ):
                # What led here is gone; the statement says all of it.
                self._image = MetadataImage()
            self._image.apply(record.changes, record.version)
            self._applied.append(record)
            self._sizes.append((record.version, len(stored.changes)))
            self._size += len(stored.changes)
            if any(isinstance(change, ImageStated) for change in record.changes):
                self._statement.heard()
            self._resolve(stored)

    def _resolve(self, applied: StoredRecord) -> None:
        """End the proposal, if it is this record, or this one is in its place."""
        proposal = self._proposal
        if proposal is None or proposal.record.version != applied.version:
            return
        self._proposal = None
        is_mine = proposal.record.digest == applied.digest
        self._end_proposal(proposal, None if is_mine else Code.REPLICATION_FAILED)
        if is_mine and proposal.states_from is not None:
            self._statement.ended(self._size)

    def _end_proposal(self, proposal: StoreProposal, code: Code | None) -> None:
        for answer in proposal.answers:
            if code is None:
                self._state.outbox.append(answer)
            else:
                self._state.outbox.answer(answer.request, Refused(code))

    # Time

    def wake(self, now: Now) -> None:
        if now.instant >= self._seen_at + _BELIEF_NS:
            self._election.leader = None
        self._ask_lease(self._lease.keep(now.instant))
        self._follow_lease()
        proposal = self._proposal
        if proposal is not None and proposal.retry_at is not None:
            if now.instant >= proposal.retry_at:
                self._send_proposal()
        if not self._is_reading and now.instant >= self._look_at:
            self._look(now)
