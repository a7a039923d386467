"""A node as a member of its cluster: from the start of its logs to the end of each turn.

Owns who is connected, the bootstrap and the registration of this run. Passes what peers and the
disk say to the part that it concerns, and calls the controller once at the end of each turn.

Order of a start: the own state is read, this run is numbered and that is durable; the metadata log
is read; then peers may hear of this broker.

Invariants
- No message leaves before the number of this run is durable.
- A broker says that it belongs to a cluster only once that is durable.
- A peer of another cluster is not listened to.

Cost per turn without news of the cluster: a few comparisons.
"""

from goqueue.broker.cluster.broker_state import (
    BROKER_STATE_LOG,
    BrokerStateJournal,
    misplaced_metadata,
)
from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG, ClusterConfig
from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.cluster.cluster_producers import ClusterProducers
from goqueue.broker.cluster.controller import Controller, Registration
from goqueue.broker.cluster.controller_line import ControllerLine
from goqueue.broker.cluster.external_metadata import ExternalMetadata
from goqueue.broker.cluster.heartbeats import Heartbeats
from goqueue.broker.cluster.image_follower import ImageFollower
from goqueue.broker.cluster.level_gate import halt_if_too_old
from goqueue.broker.cluster.member_messages import connect_peers, registration_of
from goqueue.broker.cluster.member_reports import MemberReports
from goqueue.broker.cluster.metadata_records import MetadataRecord, attempted_voters
from goqueue.broker.cluster.own_logs import OwnLogs
from goqueue.broker.cluster.partition_controller import PartitionController
from goqueue.broker.cluster.presence import Presence
from goqueue.broker.cluster.quorum_metadata import QuorumMetadata
from goqueue.broker.disk_reads import ClusterFetch, FoldFetch, RepairFetch, ReplicaFetch
from goqueue.broker.replication.partition_leader import PartitionLeader
from goqueue.broker.replication.replicas import Replicas
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.cluster import (
    BROKERS_MAX,
    Bootstrap,
    BrokerAddresses,
    BrokerState,
    FollowCluster,
    FormCluster,
    Liveness,
    Misconfigured,
    PeerFacts,
    RegisteredBroker,
    Voter,
    Voters,
    WaitForPeers,
)
from goqueue.log import Log, LogState
from goqueue.model import (
    SECOND,
    Code,
    DiskEvent,
    Halt,
    Instant,
    LeadershipOffer,
    LogId,
    LogsAcknowledged,
    LogsAdvanced,
    LogsSubscribed,
    Now,
    PartitionMessage,
    PeerConnected,
    PeerDisconnected,
    PeerEvent,
    PeerIdentity,
    PeerLane,
    PeerMessageReceived,
    Refused,
    RegisterBroker,
    RegistrationRefused,
    ReplicaAppend,
    ReplicaDiverged,
    ReplicaKind,
    ReplicaMessage,
    ReplicaRepair,
    ReplicaReset,
    ResignLeaderships,
    Send,
    StoreEvent,
    VoteReply,
    VoteRequest,
    is_internal,
)
from goqueue.schemas import CLUSTER_LIMITS

__all__ = ["ClusterMember"]

# So long a node that stops lets others take over what it leads.
_LEAVE_NS = 3 * SECOND
# A node that has known no leader for so long is not ready; it keeps trying.
_QUORUM_NS = 60 * SECOND


class ClusterMember:
    """This broker in its cluster."""

    def __init__(self, state: NodeState, config: ClusterConfig) -> None:
        self._state = state
        self._config = config
        self._me = config.voter(state.node_id)
        self._liveness = Liveness(config.liveness)
        self.heartbeats = Heartbeats(state.node_id, self._liveness, config.liveness)
        self._own_logs = OwnLogs(state)
        # What the cluster agreed on, and which of the two it is kept by.
        self._metadata: ClusterMetadata | None = None
        self._quorum: QuorumMetadata | None = None
        self._external: ExternalMetadata | None = None
        self._controller: Controller | None = None
        self._bootstrap: Bootstrap | None = None
        self._peers: dict[str, PeerIdentity] = {}
        self._entered = ""
        self._awaited: int | None = None
        self._heartbeat_at = Instant(0)
        self._leave_by = Instant(0)
        # The controller that was asked to let others lead what this broker leads.
        self._left_to: Voter | None = None
        self._to_follow: list[MetadataRecord] = []
        self._has_news = False
        self._problem: str | None = None
        # When there was last a leader, or this run began.
        self._leader_seen_at = Instant(0)
        self.reports = MemberReports(state)
        # When this broker last said that it runs.
        self.ticked_at = Instant(0)
        self.line = ControllerLine(state)
        self.replicas = Replicas(state, self.line.ask, config.catch_up_bytes_per_second)
        self.presence = Presence(state, self._liveness, self.heartbeats, self.replicas)
        self.departure = self.presence.departure
        self.producers = ClusterProducers(state, self.line.ask)
        self.admit = self.producers.admit_batch
        self.image_follower = ImageFollower(state, self.replicas, self.producers)
        state.cluster = self
        state.security.keys.is_current = False
        state.catalog.copies_max = BROKERS_MAX
        state.schemas.limits = CLUSTER_LIMITS

    @property
    def logs(self) -> tuple[LogId, ...]:
        return self._own_logs.ids

    @property
    def me(self) -> Voter:
        return self._me

    @property
    def config(self) -> ClusterConfig:
        return self._config

    @property
    def metadata(self) -> ClusterMetadata | None:
        """What the cluster agreed on, once this broker knows what it knew itself."""
        return self._metadata

    @property
    def controller(self) -> Controller | None:
        return self._controller

    @property
    def broker_state(self) -> BrokerStateJournal | None:
        return self._own_logs.broker_state

    @property
    def liveness(self) -> Liveness:
        return self._liveness

    @property
    def problem(self) -> str | None:
        """Why this broker is not in a cluster, or does not follow its leader."""
        return (self._metadata and self._metadata.refusal) or self._problem

    @property
    def registered(self) -> RegisteredBroker | None:
        """The registration of this run, if it is committed and not fenced."""
        if self._metadata is None or self._own_logs.broker_state is None:
            return None
        found = self._metadata.image.brokers.get(self._me.broker)
        if found is None or found.voter != self._me or found.state is BrokerState.FENCED:
            return None
        incarnation = self._own_logs.broker_state.state.incarnation
        return found if found.registration.incarnation == incarnation else None

    @property
    def has_left(self) -> bool:
        """Whether a node that stops need not wait for others to take over what it leads."""
        return self.ticked_at >= self._leave_by or not self.replicas.leads_copies

    @property
    def partition_controller(self) -> PartitionController:
        """Who decides about topics while this broker is the controller."""
        if self._controller is None:
            raise Refused(Code.NOT_CONTROLLER)
        return self._controller.partitions

    def check_leads(self, topic: int, partition: int, log: LogId) -> PartitionLeader:
        """The partition, if this broker leads it and may serve it."""
        return self.replicas.check_leads(topic, partition, log)

    def check_joined(self) -> None:
        """Refuse until the image has the registration of this run: it may lack topics till then."""
        if not self.replicas.hosted.has_begun:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="joining its cluster")

    # Start

    def begin(self) -> None:
        self._own_logs.open_broker_state()

    def hosts(self, log: LogId) -> bool:
        """Whether a log is one of this member or of its replicas, not of the node."""
        return log in self.logs or log == COORDINATOR_LOG or not is_internal(log.topic)

    def opened(self, log: LogId, found: LogState, now: Now) -> None:
        """A log of this member, or of its replicas, was recovered."""
        if log in self.logs:
            self._own_logs.opened(log, found)
        else:
            self.replicas.opened(log, found, now)

    def _continue_start(self, now: Now) -> None:
        """A log was read to its end."""
        own = self._own_logs.broker_state
        assert own is not None
        if self._own_logs.metadata is not None:
            self._follow_log(own, self._own_logs.metadata, now)
        elif self._awaited is None:
            state = own.state
            was_cut_off = state.incarnation > 0 and not self._config.is_clean
            self._awaited = own.save(state.begin_run(is_unclean=was_cut_off), now)

    def _begin_metadata(self, own: BrokerStateJournal, now: Now) -> None:
        """This run has its number: metadata come from the own log, or from a store."""
        is_external = self._config.store_prefix is not None
        problem = misplaced_metadata(own.state, is_external=is_external)
        if problem is not None:
            self._state.outbox.append(Halt(reason=problem, is_misconfigured=True))
        elif is_external:
            self._external = ExternalMetadata(self._state, self._config, own, now)
            self._run(own, self._external, now)
            self._state.alarms.set(Errand.CLUSTER, now.instant)
        else:
            self._own_logs.open_metadata()

    def _follow_log(self, own: BrokerStateJournal, log: Log, now: Now) -> None:
        if lost := own.state.lost_metadata(log.end):
            self._state.outbox.append(Halt(reason=lost))
            return
        records = self._own_logs.take_records()
        self._quorum = QuorumMetadata(
            self._state, self._config, own, log=log, records=records, now=now
        )
        self._run(own, self._quorum, now)
        if not self._entered:
            self._bootstrap = Bootstrap(
                self._me,
                self._config.addresses.peers,
                self._config.peers,
                quorum=self._config.quorum,
                now=now.instant,
            )

    def _run(self, own: BrokerStateJournal, metadata: ClusterMetadata, now: Now) -> None:
        self._metadata = metadata
        self._controller = Controller(self._state, metadata, self.presence)
        self.line.connect(metadata, self._controller)
        self.replicas.ends.connect(own)
        self._entered = own.state.cluster_id
        self._heartbeat_at = self._leader_seen_at = now.instant
        self._say_who(own, metadata)

    def _say_who(self, own: BrokerStateJournal, metadata: ClusterMetadata) -> None:
        attempt = () if self._quorum is None else attempted_voters(self._quorum.pending())
        effect = connect_peers(
            self._me,
            self._config,
            own.state,
            entered=self._entered,
            attempt=attempt or metadata.image.voters.new,
            image=metadata.image,
        )
        self._state.outbox.append(effect)

    # Peers

    def handle_peer(self, event: PeerEvent, now: Now) -> None:
        """Something came from another broker, or it was reached or lost."""
        if self._metadata is None:
            return
        self._has_news = self._has_news or not isinstance(event, PeerMessageReceived)
        match event:
            case PeerConnected():
                if event.lane is PeerLane.CONTROL:
                    self._connect(event.identity, self._metadata, now)
                elif event.lane is PeerLane.REPLICATION:
                    self.replicas.connected(event.identity.broker)
            case PeerDisconnected():
                self._disconnect(event, self._metadata, now)
            case _:
                self._receive(event, self._metadata, now)

    def _connect(self, peer: PeerIdentity, metadata: ClusterMetadata, now: Now) -> None:
        if self._entered and peer.cluster_id not in {"", self._entered}:
            self._problem = f"{peer.broker} belongs to another cluster ({peer.cluster_id})"
            return
        if peer.broker == self._me.broker:
            self._problem = f"{peer.address} uses the id of this node"
            return
        self._peers[peer.broker] = peer
        who = Voter(peer.broker, peer.directory)
        if metadata.image.brokers.get(peer.broker) is not None:
            self._liveness.hear(peer.broker, now.instant)
        metadata.connect(who)
        if self._bootstrap is not None:
            self._bootstrap.meet(PeerFacts.of(peer))

    def _disconnect(self, event: PeerDisconnected, metadata: ClusterMetadata, now: Now) -> None:
        known = self._peers.get(event.broker)
        if event.is_refused:
            if known is None or known.incarnation <= event.incarnation:
                self._liveness.refuse(event.broker)
                metadata.lose(event.broker, now)
        elif event.lane is PeerLane.REPLICATION:
            self.replicas.disconnected(event.broker)
        elif event.lane is PeerLane.CONTROL and known is not None:
            if known.incarnation == event.incarnation:
                del self._peers[event.broker]
                metadata.disconnect(event.broker)
                if self._bootstrap is not None:
                    self._bootstrap.lose(known.address)

    def _receive(self, event: PeerMessageReceived, metadata: ClusterMetadata, now: Now) -> None:
        peer = self._peers.get(event.broker)
        if peer is None or peer.incarnation != event.incarnation:
            return
        sender = Voter(event.broker, event.directory)
        message = event.message
        heartbeat = self.presence.hear(sender, message, metadata.image, now)
        if heartbeat is not None and self._external is not None:
            self._external.hear_version(heartbeat.metadata_version, now)
        match message:
            case ReplicaAppend() | ReplicaDiverged() | ReplicaReset() if (
                message.log.kind is not ReplicaKind.METADATA
            ):
                self.replicas.receive(sender, message, event.data, now)
                return
            case LogsSubscribed() | LogsAcknowledged() | LogsAdvanced() | ReplicaRepair():
                self.replicas.receive(sender, message, (), now)
                return
            case VoteRequest() | VoteReply() | LeadershipOffer() if self._quorum is not None:
                self._quorum.handle_vote(sender, message, now)
            case ResignLeaderships(heirs=(_, *_)) if sender == metadata.election.leader:
                self.replicas.handovers.request(message)
            case RegisterBroker():
                self._register(sender, event.incarnation, peer, message)
            case RegistrationRefused():
                self._problem = message.reason
            case _:
                # The edge of the cluster has what is forwarded.
                if isinstance(message, PartitionMessage):
                    self.line.want(event.broker, message)
                elif isinstance(message, ReplicaMessage) and self._quorum is not None:
                    self._quorum.handle_replica(sender, message, event.data, now)
        # What is said of copies is followed up by `replicas` alone: most messages are about those.
        self._has_news = True

    def _register(
        self, who: Voter, incarnation: int, peer: PeerIdentity, asked: RegisterBroker
    ) -> None:
        assert self._controller is not None
        if asked.lineage == self._entered:
            addresses = BrokerAddresses(peers=peer.address, http=asked.client_address)
            self._controller.register(
                Registration(voter=who, incarnation=incarnation, addresses=addresses, asked=asked)
            )

    # The disk

    def handle_disk(self, event: DiskEvent, now: Now) -> None:
        """The disk did something to a log of this member."""
        self._has_news = True
        if event.log == BROKER_STATE_LOG:
            own = self._own_logs.broker_state
            durable = None if own is None else own.handle(event, now)
            if durable is not None:
                self._state_durable(durable, now)
        elif self._quorum is not None:
            self._quorum.handle_disk(event, now)

    def handle_store(self, event: StoreEvent, now: Now) -> None:
        """The store of the metadata replied, or may have changed."""
        if self._external is not None:
            self._has_news = True
            self._external.handle_store(event, now)

    def _state_durable(self, number: int, now: Now) -> None:
        own = self._own_logs.broker_state
        assert own is not None
        if self._awaited is not None and number >= self._awaited:
            self._awaited = None
            if self._metadata is None and self._own_logs.metadata is None:
                self._begin_metadata(own, now)
            elif self._metadata is not None:
                self._entered = own.state.cluster_id
                self._bootstrap = None
                self._problem = None
                self._say_who(own, self._metadata)
        if self._metadata is not None:
            self._metadata.broker_state_durable(number, now)
            self.replicas.ends_durable(number, now)

    def fetched(
        self,
        purpose: ClusterFetch | ReplicaFetch | RepairFetch | FoldFetch,
        data: memoryview | None,
        now: Now,
    ) -> None:
        """A part of a log was read: at a start, or for a follower."""
        self._has_news = True
        if isinstance(purpose, ClusterFetch):
            self._own_logs.replayed(purpose, data)
        elif not isinstance(purpose, ReplicaFetch) or purpose.log.kind is ReplicaKind.DATA:
            self.replicas.fetched(purpose, data, now)
        elif self._quorum is not None:
            self._quorum.fetched(purpose, data, now)

    # Time

    def wake(self, now: Now) -> None:
        """A deadline has come, or the start continues."""
        self._has_news = True
        if self._metadata is None:
            if self._awaited is None and self._own_logs.broker_state is not None:
                self._continue_start(now)
            elif self._own_logs.broker_state is not None:
                self._own_logs.broker_state.expire(now)
            return
        if self._own_logs.broker_state is not None:
            self._own_logs.broker_state.expire(now)
        if now.instant >= self._heartbeat_at:
            self._tick(self._metadata, now)
        self._metadata.wake(now)
        self.replicas.wake(now)
        self.producers.wake(now)

    def _tick(self, metadata: ClusterMetadata, now: Now) -> None:
        """Every half second: say that this broker runs, and ask to be registered."""
        self.presence.lag_ns = now.instant - self._heartbeat_at
        self._liveness.detect_pause(self._heartbeat_at, now.instant)
        self.heartbeats.count_silence(metadata.image.brokers, now.instant)
        self.ticked_at = now.instant
        self._heartbeat_at = Instant(now.instant + self._config.liveness.heartbeat_ns)
        if self.presence.is_stopping:
            self.replicas.resign_all()
        self._send_heartbeats(now)
        if metadata.election.leader is not None:
            self._leader_seen_at = now.instant
        is_lost = now.instant - self._leader_seen_at >= _QUORUM_NS
        reason = self.problem or "no leader is known"
        self._state.no_quorum = f"no quorum: {reason}" if is_lost else None
        if self._entered and self.registered is None:
            self._ask_to_register(metadata)

    def _send_heartbeats(self, now: Now) -> None:
        version = self.image_follower.version
        self.presence.send(self._peers, self.registered, version=version, now=now)

    def _ask_to_register(self, metadata: ClusterMetadata) -> None:
        leader, own = metadata.election.leader, self._own_logs.broker_state
        if leader is None or own is None or self.presence.is_leaving:
            return
        message = registration_of(
            self._config, own.state, entered=self._entered, version=metadata.image.version
        )
        if leader != self._me:
            self._state.outbox.append(Send(broker=leader.broker, message=message))
        elif self._controller is not None:
            self._controller.register(
                Registration(
                    voter=self._me,
                    incarnation=own.state.incarnation,
                    addresses=self._config.addresses,
                    asked=message,
                )
            )

    def serve(self) -> None:
        """The node has read what it knew by itself: topics and logs may follow."""
        self._has_news = True

    def leave(self, now: Now) -> None:
        """The node is about to stop: it serves on, and others lead first what it leads."""
        self._has_news = True
        self.departure.begin(now.instant)
        if self._metadata is None:
            self.departure.advance(None, now.instant)
        else:
            self._send_heartbeats(now)

    def stop(self, now: Now) -> None:
        """The node stops: let another broker lead, and save what is committed."""
        self._has_news = True
        self.presence.is_stopping = True
        # What has departed need not wait for others once more.
        wait_ns = 0 if self.departure.is_over else _LEAVE_NS
        self._leave_by = Instant(now.instant + wait_ns)
        self.replicas.resign_all()
        if self._metadata is not None:
            # Others need not wait for the next heartbeat to hear of it.
            self._send_heartbeats(now)
            self._metadata.resign(now)
        if self._quorum is not None:
            self._state.outbox.extend(self._quorum.log.save_committed())

    # Turns

    def finish_turn(self, now: Now) -> None:
        """Follow what was committed, decide, and set the alarm."""
        metadata, own = self._metadata, self._own_logs.broker_state
        if metadata is None or own is None or self._controller is None:
            self._retry_start(own)
            return
        if not self._has_news:
            self.replicas.finish_turn(now)
            self._state.alarms.bring_forward(Errand.CLUSTER, self.replicas.next_deadline())
            if not self.line.take_news():
                return
        if self._bootstrap is not None and self._quorum is not None:
            self._decide_bootstrap(self._bootstrap, self._quorum, now)
        applied = metadata.take_applied()
        if applied:
            self._follow_image(metadata, own, now)
            self.reports.tell_changes(applied, metadata.image)
            self._to_follow += applied
        if self._to_follow and self._state.has_served:
            # Before, the node reads what it knew by itself.
            applied, self._to_follow = self._to_follow, []
            self.image_follower.follow(applied, metadata.image, self.registered, now)
            if self.image_follower.take_changed():
                # Whoever changed what callers may do, or a schema, waits until all decide by it.
                self._send_heartbeats(now)
        self.reports.tell_state(metadata.election, self.problem, now.instant)
        if self.presence.is_stopping and metadata.election.leader not in {None, self._left_to}:
            self._left_to = metadata.election.leader
            self.replicas.resign_all()
        if self.departure.advance(metadata, now.instant):
            self._send_heartbeats(now)
        self.replicas.finish_turn(now)
        self._has_news = False
        # Before anybody is accused: a loop that stood still has heard nobody.
        self._liveness.detect_pause(self._heartbeat_at, now.instant)
        self._controller.decide(now)
        access, departure = self._controller.access, self.departure
        parts = (metadata, own, self.replicas, self.producers, access, departure)
        later = (each.next_deadline() for each in parts)
        deadlines = [self._heartbeat_at, *(each for each in later if each is not None)]
        self._state.alarms.set(Errand.CLUSTER, min(deadlines))

    def _retry_start(self, own: BrokerStateJournal | None) -> None:
        """The number of this run found no space; without it the start does not go on."""
        retry = None if own is None else own.next_deadline()
        if self._has_news and retry is not None:
            self._state.alarms.set(Errand.CLUSTER, retry)
        self._has_news = False

    def _follow_image(self, metadata: ClusterMetadata, own: BrokerStateJournal, now: Now) -> None:
        halt_if_too_old(self._state, metadata.image.feature_level)
        is_entered, is_registered = bool(own.state.cluster_id), self.registered is not None
        followed = own.state.followed(metadata.image.cluster_id, is_registered=is_registered)
        if followed != own.state:
            number = own.save(followed, now)
            self._awaited = self._awaited if is_entered else number
        self.reports.record_recovery(own, now)
        self._problem = None if is_registered else self._problem
        self.presence.moves.follow(metadata.image)
        for broker in metadata.image.brokers:
            self._liveness.expect(broker, now.instant, is_connected=broker in self._peers)

    def _decide_bootstrap(self, bootstrap: Bootstrap, metadata: QuorumMetadata, now: Now) -> None:
        match bootstrap.decide(now.instant):
            case FormCluster(voters=voters):
                metadata.form(voters, now)
            case FollowCluster():
                metadata.abstain(now)
            case WaitForPeers() as waiting:
                metadata.form(Voters(()), now)
                self._problem = waiting.reason
            case Misconfigured(reason=reason, is_fatal=is_fatal):
                self._problem = reason
                if is_fatal:
                    self._state.outbox.append(Halt(reason=reason, is_misconfigured=True))
