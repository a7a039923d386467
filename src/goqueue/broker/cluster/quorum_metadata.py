"""The metadata log on this broker: its elected leader, replicated records, the committed image.

Joins the election (`Quorum`), the log (`LogLeader`, `LogFollower`) and the image. Only a committed
record changes the image; only the leader proposes, once a record of its own term is committed. A
proposal costs one record here, one message to each broker, one sync on each.

Invariants
- A leader commits what a majority of the voters has synced, and only from the first record of its
  own term on: a majority that holds a record of an older term proves nothing.
- The voters that count are those that the own log names last, committed or not.
- One proposal is on its way. When leadership ends its outcome is unknown, and is reported so.
- A statement of the image is proposed while nothing else is on its way, so it says exactly what the
  records before it say; they are dropped once it is committed, with all of its pieces.
- A broker that belongs to a cluster believes no leader and no candidate of another.
"""

from collections import deque
from collections.abc import Sequence
from typing import assert_never

import msgspec

from goqueue.broker.cluster.broker_state import BrokerStateJournal
from goqueue.broker.cluster.cluster_config import ClusterConfig, JitterSource
from goqueue.broker.cluster.log_follower import LeaderMessage, LogFollower, Refusal
from goqueue.broker.cluster.log_leader import LogLeader
from goqueue.broker.cluster.metadata_records import (
    MetadataRecord,
    Proposal,
    StatementProgress,
    created_cluster,
    decode_records,
    lineage_of,
)
from goqueue.broker.cluster.peer_callers import PeerCallers
from goqueue.broker.disk_reads import ReplicaFetch
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    Ballot,
    BallotPersisted,
    BecomeLeader,
    FollowerHeard,
    FollowLeader,
    ImageStated,
    LeaderGone,
    LeaderHeard,
    LeadershipEnded,
    LeadershipOffered,
    MetadataChange,
    MetadataImage,
    OfferLeadership,
    PersistBallot,
    Quorum,
    QuorumEffect,
    QuorumEvent,
    Role,
    SendVoteReply,
    SendVoteRequest,
    StepDown,
    TermHeard,
    TimerFired,
    Voter,
    VoteReplied,
    VoteRequested,
    Voters,
    VotersWritten,
    voters_written,
)
from goqueue.log import Log, ReplicaRole
from goqueue.model import (
    METADATA_REPLICA,
    Answer,
    Code,
    DiskEvent,
    Failed,
    Filled,
    Halt,
    Instant,
    LeadershipOffer,
    LogEnd,
    Message,
    Now,
    Offset,
    PeerLane,
    Refused,
    ReplicaAck,
    ReplicaAppend,
    ReplicaDiverged,
    ReplicaMessage,
    ReplicaReset,
    ReplicaSubscribe,
    RequestId,
    Send,
    Truncated,
    VoteMessage,
    VoteReply,
    VoteRequest,
    WatermarkAdvanced,
)
from goqueue.records import Buffer, build

__all__ = ["QuorumMetadata"]


class QuorumMetadata:
    """This broker's copy of the metadata log, and its part in the quorum."""

    def __init__(
        self,
        state: NodeState,
        config: ClusterConfig,
        broker_state: BrokerStateJournal,
        *,
        log: Log,
        records: Sequence[MetadataRecord],
        now: Now,
    ) -> None:
        self._state = state
        self.config = config
        me = self._me = config.voter(state.node_id)
        self._log = log
        self._broker_state = broker_state
        self._jitter = JitterSource(config.seed)
        self._image = MetadataImage()
        # Records that are not applied yet, oldest first.
        self._records: deque[MetadataRecord] = deque(records)
        # Who may form a cluster, while the log names nobody.
        self._founders = Voters(())
        self._abstains = False
        self._leader: LogLeader | None = None
        self._follower: LogFollower | None = None
        self.epoch_first = Offset(0)
        self._proposal: Proposal | None = None
        self._is_reset = False
        self._statement = StatementProgress(config.restate_bytes)
        self._heartbeat_at: Instant | None = None
        # The numbers of ballots on their way to the disk, by those of their states.
        self._ballots: dict[int, int] = {}
        self._connected: dict[str, Voter] = {}
        self._applied: list[MetadataRecord] = []
        self._refusal: Refusal | None = None
        self._told_committed = Offset(0)
        self._callers = PeerCallers(state.outbox, me.broker)
        self._quorum = Quorum(
            me,
            ballot=broker_state.state.ballot,
            log=LogEnd(log.last_epoch, log.end),
            voters=self._voters(),
            timing=config.election,
            now=now.instant,
            jitter=self._jitter.draw(),
        )
        self._apply()

    # What others see

    @property
    def image(self) -> MetadataImage:
        """What is committed, as far as this broker knows."""
        return self._image

    @property
    def log(self) -> Log:
        return self._log

    @property
    def election(self) -> Quorum:
        return self._quorum

    @property
    def is_leading(self) -> bool:
        return self._leader is not None

    @property
    def epoch_leader(self) -> LogLeader | None:
        """The leader's side of the log, while this broker leads."""
        return self._leader

    @property
    def is_controller(self) -> bool:
        """Whether this broker leads and has committed a record of its own term."""
        return self._leader is not None and self._log.high_watermark > self.epoch_first

    @property
    def may_propose(self) -> bool:
        """Whether nothing is on its way, and the image says all that the log says."""
        return self.is_controller and not self._proposal and self._image.version == self._log.end

    @property
    def wants_statement(self) -> bool:
        """Whether the log should begin anew with the image."""
        return self._statement.is_wanted(self._log.size)

    @property
    def refusal(self) -> str | None:
        """Why this broker does not follow its leader."""
        return None if self._refusal is None else self._refusal.reason

    @property
    def lineage(self) -> str:
        """The cluster that the log belongs to, committed or not; empty if it names none."""
        return lineage_of(self._records) or self._image.cluster_id

    def pending(self) -> tuple[MetadataRecord, ...]:
        """The records that are not committed as far as this broker knows."""
        return tuple(self._records)

    def may_vote(self, broker: Voter) -> bool:
        """Whether a broker holds the whole log."""
        return self._leader is not None and self._leader.holds_all(broker)

    def take_applied(self) -> list[MetadataRecord]:
        """The records that were applied to the image since the last call."""
        applied, self._applied = self._applied, []
        return applied

    def next_deadline(self) -> Instant:
        deadline = self._quorum.next_deadline()
        return deadline if self._heartbeat_at is None else min(deadline, self._heartbeat_at)

    def _voters(self) -> Voters:
        if self._abstains:
            return Voters(())
        for record in reversed(self._records):
            written = voters_written(record.changes)
            if written is not None:
                return written
        return self._image.voters if self._image.voters.new else self._founders

    # Peers

    def connect(self, who: Voter) -> None:
        """A broker can be reached: a follower asks its leader again."""
        self._connected[who.broker] = who
        if self._follower is not None and self._follower.leader == who:
            self._follower.subscribe(self.lineage)

    def disconnect(self, broker: str) -> None:
        self._connected.pop(broker, None)
        if self._leader is not None:
            self._leader.disconnect(broker)

    def lose(self, broker: str, now: Now) -> None:
        """The process of a broker is gone: if it led, voters need not wait for it."""
        leader = self._quorum.leader
        if leader is not None and leader.broker == broker:
            self._handle(LeaderGone(leader), now)

    def form(self, founders: Voters, now: Now) -> None:
        """Vote among these while the log names nobody; nobody: only follow."""
        self._founders = founders
        self._log_changed(now)

    def abstain(self, now: Now) -> None:
        """A peer belongs to a cluster: what this log only attempted must not become another."""
        if not self._abstains and not self._broker_state.state.cluster_id:
            self._abstains = True
            self._handle(LeadershipEnded(), now)
            self._log_changed(now)

    def handle_vote(self, sender: Voter, message: VoteMessage, now: Now) -> None:
        """A broker asks for a vote, replies, or offers its leadership."""
        match message:
            case VoteRequest():
                entered = self._broker_state.state.cluster_id
                if not entered or message.lineage == entered:
                    self._handle(VoteRequested(sender, message), now)
            case VoteReply():
                self._handle(VoteReplied(sender, message), now)
            case LeadershipOffer():
                if message.lineage == self.lineage:
                    self._handle(LeadershipOffered(message.term), now)
            case _:
                assert_never(message)

    def ask_vote(self, candidate: Voter, asked: VoteRequest, caller: RequestId, now: Now) -> None:
        """A caller asks on behalf of a candidate; answered when the vote is durable."""
        self._callers.await_vote(candidate, asked, caller)
        self._handle(VoteRequested(candidate, asked), now)

    def hear_term(self, term: int, answer: Answer, now: Now) -> None:
        """A caller knows of a term; it is answered when that is durable."""
        self._handle(TermHeard(term), now)
        self._callers.await_term(answer)
        self._callers.release(is_durable=self._quorum.is_term_durable)

    def handle_replica(
        self, sender: Voter, message: ReplicaMessage, data: tuple[Buffer, ...], now: Now
    ) -> None:
        """A leader or a follower of the metadata log says something."""
        match message:
            case ReplicaSubscribe():
                if self._leader is not None:
                    self._leader.subscribe(sender, message, self.lineage, now.instant)
            case ReplicaAck():
                self._acknowledged(sender, message, now)
            case WatermarkAdvanced():
                self._hear_heartbeat(sender, message, now)
            case ReplicaAppend() | ReplicaDiverged() | ReplicaReset():
                self._hear_leader(sender, message, data, now)
            case _:
                assert_never(message)
        self._advance(now)

    def _acknowledged(self, sender: Voter, message: ReplicaAck, now: Now) -> None:
        if message.epoch > self._quorum.term:
            self._handle(TermHeard(message.epoch), now)
        elif self._leader is not None and message.epoch == self._leader.epoch:
            self._handle(FollowerHeard(sender, message.epoch, message.asked), now)
            if self._leader is not None:
                self._leader.acknowledge(sender, message, now.instant)

    def _hear_heartbeat(self, sender: Voter, message: WatermarkAdvanced, now: Now) -> None:
        entered = self._broker_state.state.cluster_id
        if entered and message.lineage != entered:
            return
        term = self._quorum.term
        if message.epoch < term:
            if self._quorum.is_term_durable:
                # A leader that does not know of a later term would never hear of it.
                self._send(sender, ReplicaAck(log=message.log, epoch=term, asked=message.asked))
            return
        is_rival = message.epoch == term and (
            self._quorum.role is Role.LEADER or self._quorum.leader not in {None, sender}
        )
        if is_rival:
            # Two attempts to form a cluster: a voter was wiped in between. One of them ends.
            return
        self._count_leader(sender, message, now)
        follower = self._follower
        if follower is not None and (follower.leader, follower.epoch) == (sender, message.epoch):
            follower.heartbeat(message, self.lineage)

    def _hear_leader(
        self,
        sender: Voter,
        message: ReplicaAppend | ReplicaDiverged | ReplicaReset,
        data: tuple[Buffer, ...],
        now: Now,
    ) -> None:
        follower = self._follower
        if follower is None or (follower.leader, follower.epoch) != (sender, message.epoch):
            return
        if message.epoch < self._quorum.term:
            # A vote in a later term was given on what this log held: nothing may come on top of it.
            return
        self._count_leader(sender, message, now)
        match message:
            case ReplicaAppend():
                appended = follower.append(message, data, now)
                if appended is not None:
                    self._remember(data, now)
            case ReplicaDiverged():
                self._refusal = follower.diverged(message) or self._refusal
            case ReplicaReset():
                self._refusal = follower.reset(message) or self._refusal

    def _count_leader(self, leader: Voter, message: LeaderMessage, now: Now) -> None:
        """The leader is there; but a message that comes again, later, does not say so."""
        if self._follower is None or self._follower.is_news(leader, message):
            self._handle(LeaderHeard(leader, message.epoch), now)

    def _remember(self, data: tuple[Buffer, ...], now: Now) -> None:
        """Records were appended: they are applied when they are committed."""
        for piece in data:
            self._records.extend(decode_records(piece))
        self._log_changed(now)

    # The election

    def _handle(self, event: QuorumEvent, now: Now) -> None:
        effects = self._quorum.handle(event, now.instant, self._jitter.draw())
        self._carry_out(effects, now)

    def _log_changed(self, now: Now) -> None:
        """The log ends otherwise: it may name other voters."""
        self._quorum.end_log(LogEnd(self._log.last_epoch, self._log.end))
        voters = self._voters()
        if voters != self._quorum.voters:
            self._handle(VotersWritten(voters), now)

    def _carry_out(self, effects: list[QuorumEffect], now: Now) -> None:
        for effect in effects:
            match effect:
                case PersistBallot(serial, ballot):
                    self._persist(serial, ballot, now)
                case SendVoteRequest(to, request):
                    self._send(to, msgspec.structs.replace(request, lineage=self.lineage))
                case SendVoteReply(to, reply):
                    if not self._callers.answer_vote(to, reply, self._image.cluster_id):
                        self._send(to, reply)
                case OfferLeadership(to, term):
                    self._send(to, LeadershipOffer(term=term, lineage=self.lineage))
                case BecomeLeader(term):
                    self._lead(term, now)
                case FollowLeader(leader, term):
                    self._follow(leader, term)
                case StepDown(term):
                    self._step_down(term)
                case _:
                    assert_never(effect)

    def _send(self, to: Voter, message: VoteMessage | ReplicaMessage) -> None:
        self._state.outbox.append(Send(broker=to.broker, message=message))

    def _persist(self, serial: int, ballot: Ballot, now: Now) -> None:
        state = msgspec.structs.replace(self._broker_state.state, ballot=ballot)
        self._ballots[self._broker_state.save(state, now)] = serial

    def broker_state_durable(self, number: int, now: Now) -> None:
        """The states of this broker up to a number are durable."""
        done = [each for each in self._ballots if each <= number]
        serials = [self._ballots.pop(each) for each in done]
        if serials:
            self._handle(BallotPersisted(max(serials)), now)
            self._callers.release(is_durable=self._quorum.is_term_durable)
            self._advance(now)

    def _lead(self, term: int, now: Now) -> None:
        self._follower = None
        self._log.assume_role(ReplicaRole.LEADER, term)
        lane = PeerLane.CONTROL
        self._leader = LogLeader(self._state, self._log, METADATA_REPLICA, term, lane=lane)
        self.epoch_first = self._log.end
        try:
            appended = self._log.start_epoch(term, now)
        except Refused:
            # No space, or a truncation is on its way: another broker should lead.
            self._handle(LeadershipEnded(), now)
            return
        self._state.outbox.extend(appended.effects)
        self._records.append(MetadataRecord(appended.next, ()))
        self._log_changed(now)
        if not self.lineage:
            self._append((created_cluster(self._me, term, self._quorum.voters),), now)
        self._heartbeat_at = now.instant
        self.wake(now)

    def _follow(self, leader: Voter, term: int) -> None:
        self._log.assume_role(ReplicaRole.FOLLOWER, term)
        self._follower = LogFollower(
            self._state, self._log, METADATA_REPLICA, leader, term, lane=PeerLane.CONTROL
        )
        self._refusal = None
        self._follower.subscribe(self.lineage)

    def _step_down(self, term: int) -> None:
        self._leader = None
        self._heartbeat_at = None
        self._statement.cancel()
        self._log.assume_role(ReplicaRole.FOLLOWER, term)
        if self._proposal is not None:
            self._refuse(self._proposal.answers, Code.REPLICATION_FAILED)
            self._proposal = None

    def _refuse(self, answers: Sequence[Answer], code: Code) -> None:
        for answer in answers:
            self._state.outbox.answer(answer.request, Refused(code))

    def resign(self, now: Now) -> None:
        """Give up leadership: to the voter that holds the whole log, if there is one."""
        if self._leader is None:
            return
        heirs = [
            voter
            for voter in self._quorum.voters.new
            if self._leader.holds_all(voter) and self._connected.get(voter.broker) == voter
        ]
        self._handle(LeadershipEnded(heirs[0] if heirs else None), now)

    # Time

    def wake(self, now: Now) -> None:
        """A deadline has come."""
        if now.instant >= self._quorum.next_deadline():
            self._handle(TimerFired(), now)
        due = self._heartbeat_at
        if self._leader is not None and due is not None and now.instant >= due:
            self._heartbeat_at = Instant(now.instant + self.config.leader_heartbeat_ns)
            self._send_heartbeats(now.instant)
        self._advance(now)

    def _send_heartbeats(self, now: Instant) -> None:
        if self._leader is not None:
            self._told_committed = self._log.high_watermark
            self._leader.heartbeat(list(self._connected), self.lineage, now)

    # Proposals

    def propose(
        self, changes: Sequence[MetadataChange], answers: Sequence[Answer], now: Now
    ) -> int:
        """Write changes that were decided on the present image; answers follow their commit."""
        assert self.may_propose, "only the controller proposes, one record at a time"
        if any(isinstance(change, ImageStated) for change in changes):
            self._state.outbox.extend(self._log.begin_segment())
            self._statement.begin(self._log.end)
        states_from = self._statement.end(changes, self._log.size)
        is_written = self._append(changes, now)
        if not is_written or self._leader is None:
            # Other voters may end it at once: another leader's record must not confirm this one.
            self._refuse(answers, Code.REPLICATION_FAILED if is_written else Code.STORAGE_FULL)
            return self._log.end
        self._proposal = Proposal(self._log.end, tuple(answers), states_from)
        self._advance(now)
        return self._log.end

    def _append(self, changes: Sequence[MetadataChange], now: Now) -> bool:
        assert self._leader is not None
        batch = build([Message(value=msgspec.json.encode(changes))])
        try:
            appended = self._log.append(batch, now)
        except Refused:
            self._handle(LeadershipEnded(), now)
            return False
        self._state.outbox.extend(appended.effects)
        self._records.append(MetadataRecord(appended.next, tuple(changes)))
        self._leader.appended(appended.first, appended.next, batch, now.instant)
        self._log_changed(now)
        return True

    # The disk

    def handle_disk(self, event: DiskEvent, now: Now) -> None:
        """The disk did something to the metadata log."""
        self._state.outbox.extend(self._log.handle(event, now))
        if isinstance(event, Failed):
            # A voter that no longer knows what it promised must not go on.
            self._state.outbox.append(Halt(reason=f"{self._log.id}: {event.reason}"))
            return
        if isinstance(event, Filled | Truncated):
            self._forget_removed(event, now)
        if self._follower is not None:
            self._follower.synced()
            if isinstance(event, Truncated):
                self._follower.settled(self.lineage)
        if self._leader is not None:
            self._leader.resume(now.instant)
        self._advance(now)

    def _forget_removed(self, event: Filled | Truncated, now: Now) -> None:
        """Records at the end of the log are gone."""
        # What was sent to others is not here: the same offsets must not get other bytes.
        self._handle(LeadershipEnded(), now)
        while self._records and self._records[-1].version > self._log.end:
            self._records.pop()
        if isinstance(event, Truncated) and event.is_reset:
            self._records.clear()
            self._is_reset = True
        self._log_changed(now)

    def fetched(self, purpose: ReplicaFetch, data: memoryview | None, now: Now) -> None:
        """Records for a follower were read."""
        if self._leader is not None:
            self._leader.fetched(purpose, data, now.instant)

    # Commits

    def _advance(self, now: Now) -> None:
        """Commit what a majority has, and apply what is committed."""
        leader = self._leader
        if leader is not None:
            upto = self._quorum.voters.majority_end(leader.durable_ends(self._me))
            if upto > self.epoch_first:
                self._log.commit(min(upto, self._log.end))
        self._apply()
        if self._abstains and self._image.cluster_id:
            # It is in that cluster by now, and votes where it is named.
            self._abstains = False
            self._log_changed(now)
        if leader is not None and self._log.high_watermark > self._told_committed:
            self._send_heartbeats(now.instant)
        self._leave_if_removed(now)

    def _apply(self) -> None:
        committed = self._log.high_watermark
        while self._records and self._records[0].version <= committed:
            record = self._records.popleft()
            if self._is_reset and record.changes:
                # The start of the leader's log states all that was before.
                self._image = MetadataImage()
                self._is_reset = False
            self._image.apply(record.changes, record.version)
            self._applied.append(record)
            if any(isinstance(change, ImageStated) for change in record.changes):
                self._statement.heard()
        proposal = self._proposal
        if proposal is not None and proposal.version <= committed:
            self._proposal = None
            self._state.outbox.extend(proposal.answers)
            if proposal.states_from is not None:
                self._state.outbox.extend(self._log.delete_before(proposal.states_from))
                self._statement.ended(self._log.size)

    def _leave_if_removed(self, now: Now) -> None:
        voters = self._image.voters
        if self.may_propose and voters.new and not voters.is_joint and self._me not in voters:
            self.resign(now)
