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

from goqueue.broker.cluster.broker_state import BROKER_STATE_LOG, BrokerStateJournal
from goqueue.broker.cluster.cluster_config import METADATA_LOG, METADATA_SETTINGS, ClusterConfig
from goqueue.broker.cluster.cluster_producers import ClusterProducers
from goqueue.broker.cluster.controller import Controller, Registration
from goqueue.broker.cluster.controller_line import ControllerLine
from goqueue.broker.cluster.image_follower import ImageFollower
from goqueue.broker.cluster.level_gate import halt_if_too_old
from goqueue.broker.cluster.member_reports import MemberReports
from goqueue.broker.cluster.metadata_records import attempted_voters
from goqueue.broker.cluster.partition_controller import PartitionController
from goqueue.broker.cluster.quorum_metadata import MetadataRecord, QuorumMetadata, decode_records
from goqueue.broker.disk_reads import ClusterFetch, FoldFetch, RepairFetch, ReplicaFetch
from goqueue.broker.journal import JOURNAL_SETTINGS
from goqueue.broker.replication.partition_leader import PartitionLeader
from goqueue.broker.replication.replicas import Replicas
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.cluster import (
    BROKERS_MAX,
    FEATURE_LEVEL,
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
from goqueue.log import Log, LogState, Replica, ReplicaRole
from goqueue.model import (
    MILLISECOND,
    SECOND,
    Code,
    ConnectPeers,
    DiskEvent,
    Halt,
    Heartbeat,
    Instant,
    LeadershipOffer,
    LogId,
    LogsAcknowledged,
    LogsAdvanced,
    LogsSubscribed,
    Now,
    Offset,
    Open,
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
    Send,
    VoteReply,
    VoteRequest,
)

__all__ = ["ClusterMember"]

_READ_BYTES = 256 * 1024
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
        self._broker_state: BrokerStateJournal | None = None
        self._metadata_log: Log | None = None
        self._records: list[MetadataRecord] = []
        self._metadata: QuorumMetadata | None = None
        self._controller: Controller | None = None
        self._bootstrap: Bootstrap | None = None
        self._peers: dict[str, PeerIdentity] = {}
        self._entered = ""
        self._awaited: int | None = None
        self._heartbeat_at = Instant(0)
        self._lag_ns = 0
        self.is_leaving = False
        self._leave_by = Instant(0)
        # The controller that was asked to let others lead what this broker leads.
        self._left_to: Voter | None = None
        self._to_follow: list[MetadataRecord] = []
        self._has_news = False
        self._problem: str | None = None
        # When there was last a leader, or this run began.
        self._leader_seen_at = Instant(0)
        self._reports = MemberReports(state)
        # When this broker last said that it runs.
        self.ticked_at = Instant(0)
        self.line = ControllerLine(state)
        self.replicas = Replicas(state, self.line.ask, config.catch_up_bytes_per_second)
        self.producers = ClusterProducers(state, self.line.ask)
        self.admit = self.producers.admit_batch
        self.image_follower = ImageFollower(state, self.replicas, self.producers)
        state.cluster = self
        state.security.keys.is_current = False
        state.catalog.copies_max = BROKERS_MAX

    @property
    def logs(self) -> tuple[LogId, ...]:
        return (BROKER_STATE_LOG, METADATA_LOG)

    @property
    def me(self) -> Voter:
        return self._me

    @property
    def config(self) -> ClusterConfig:
        return self._config

    @property
    def metadata(self) -> QuorumMetadata | None:
        """The metadata log, once it was read."""
        return self._metadata

    @property
    def controller(self) -> Controller | None:
        return self._controller

    @property
    def broker_state(self) -> BrokerStateJournal | None:
        return self._broker_state

    @property
    def liveness(self) -> Liveness:
        return self._liveness

    @property
    def elections_total(self) -> int:
        """How often this broker heard of another controller."""
        return self._reports.elections_total

    @property
    def problem(self) -> str | None:
        """Why this broker is not in a cluster, or does not follow its leader."""
        return (self._metadata and self._metadata.refusal) or self._problem

    @property
    def registered(self) -> RegisteredBroker | None:
        """The registration of this run, if it is committed and not fenced."""
        if self._metadata is None or self._broker_state is None:
            return None
        found = self._metadata.image.brokers.get(self._me.broker)
        if found is None or found.voter != self._me or found.state is BrokerState.FENCED:
            return None
        incarnation = self._broker_state.state.incarnation
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

    # Start

    def begin(self) -> None:
        self._state.outbox.append(Open(log=BROKER_STATE_LOG, settings=JOURNAL_SETTINGS))

    def opened(self, log: LogId, found: LogState) -> None:
        """A log of this member was recovered."""
        if found.damaged:
            ranges = ", ".join(f"{each.first}-{each.below}" for each in found.damaged)
            damage = f"the log {log} is damaged (offsets {ranges})"
            self._state.outbox.append(Halt(reason=damage))
        elif log == BROKER_STATE_LOG:
            self._broker_state = BrokerStateJournal(self._state.outbox, found)
            self._fetch(log, found.start)
        else:
            replica = Replica(ReplicaRole.FOLLOWER)
            self._metadata_log = Log(log, METADATA_SETTINGS, found, replica)
            self._fetch(log, found.start)

    def _fetch(self, log: LogId, offset: Offset) -> None:
        """Read on; when all was read the start continues with the next turn."""
        if log == BROKER_STATE_LOG:
            assert self._broker_state is not None
            wanted = self._broker_state.next_read(offset)
        else:
            assert self._metadata_log is not None
            wanted = self._metadata_log.read_for_follower(offset, _READ_BYTES)
        if wanted is not None:
            self._state.fetch(wanted, ClusterFetch(log, wanted.below))
        else:
            self._state.alarms.set(Errand.CLUSTER, Instant(0))

    def _replayed(self, purpose: ClusterFetch, data: memoryview | None) -> None:
        """A part of a log was read."""
        if data is None:
            self._state.outbox.append(Halt(reason=f"the log {purpose.log} cannot be read"))
        elif purpose.log == BROKER_STATE_LOG:
            assert self._broker_state is not None
            self._fetch(purpose.log, self._broker_state.replay(purpose, data))
        else:
            self._records.extend(decode_records(data))
            following = self._records[-1].version if self._records else purpose.upto
            self._fetch(purpose.log, following)

    def _continue_start(self, now: Now) -> None:
        """A log was read to its end."""
        own = self._broker_state
        assert own is not None
        if self._metadata_log is not None:
            self._run(own, self._metadata_log, now)
        elif self._awaited is None:
            state = own.state
            was_cut_off = state.incarnation > 0 and not self._config.is_clean
            self._awaited = own.save(state.begin_run(is_unclean=was_cut_off), now)

    def _run(self, own: BrokerStateJournal, log: Log, now: Now) -> None:
        if lost := own.state.lost_metadata(log.end):
            self._state.outbox.append(Halt(reason=lost))
            return
        self._metadata = QuorumMetadata(
            self._state, self._config, own, log=log, records=self._records, now=now
        )
        self._records = []
        self._controller = Controller(self._state, self._metadata, self._liveness)
        self.line.connect(self._metadata, self._controller.partitions)
        self.replicas.ends.connect(own)
        self._entered = own.state.cluster_id
        if not self._entered:
            self._bootstrap = Bootstrap(
                self._me,
                self._config.addresses.peers,
                self._config.peers,
                quorum=self._config.quorum,
                now=now.instant,
            )
        self._heartbeat_at = self._leader_seen_at = now.instant
        self._say_who(own, self._metadata)

    def _say_who(self, own: BrokerStateJournal, metadata: QuorumMetadata) -> None:
        attempt = attempted_voters(metadata.pending()) or metadata.image.voters.new
        identity = PeerIdentity(
            broker=self._me.broker,
            directory=self._me.directory,
            incarnation=own.state.incarnation,
            address=self._config.addresses.peers,
            client_address=self._config.addresses.http,
            cluster_id=self._entered,
            peers=self._config.peers,
            attempt=() if self._entered else attempt,
        )
        brokers = metadata.image.brokers.values()
        known = [each.registration.addresses.peers for each in brokers]
        addresses = tuple(sorted({each for each in known if each} - {identity.address}))
        self._state.outbox.append(ConnectPeers(identity=identity, addresses=addresses))

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

    def _connect(self, peer: PeerIdentity, metadata: QuorumMetadata, now: Now) -> None:
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

    def _disconnect(self, event: PeerDisconnected, metadata: QuorumMetadata, now: Now) -> None:
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

    def _receive(self, event: PeerMessageReceived, metadata: QuorumMetadata, now: Now) -> None:
        peer = self._peers.get(event.broker)
        if peer is None or peer.incarnation != event.incarnation:
            return
        sender = Voter(event.broker, event.directory)
        known = metadata.image.brokers.get(event.broker)
        message = event.message
        if known is not None and known.voter == sender:
            self._liveness.hear(event.broker, now.instant)
            if isinstance(message, Heartbeat):
                self._liveness.hear_heartbeat(event.broker, message)
                self._state.security.meters.charge_elsewhere(message.uses, now.instant)
        match message:
            case ReplicaAppend() | ReplicaDiverged() | ReplicaReset() if (
                message.log.kind is not ReplicaKind.METADATA
            ):
                self.replicas.receive(sender, message, event.data, now)
                return
            case LogsSubscribed() | LogsAcknowledged() | LogsAdvanced() | ReplicaRepair():
                self.replicas.receive(sender, message, (), now)
                return
            case VoteRequest() | VoteReply() | LeadershipOffer():
                metadata.handle_vote(sender, message, now)
            case RegisterBroker():
                self._register(sender, event.incarnation, peer, message)
            case RegistrationRefused():
                self._problem = message.reason
            case _:
                # The edge of the cluster has what is forwarded.
                if isinstance(message, PartitionMessage):
                    self.line.want(event.broker, message)
                elif isinstance(message, ReplicaMessage):
                    metadata.handle_replica(sender, message, event.data, now)
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
            own = self._broker_state
            durable = None if own is None else own.handle(event, now)
            if durable is not None:
                self._state_durable(durable, now)
        elif self._metadata is not None:
            self._metadata.handle_disk(event, now)

    def _state_durable(self, number: int, now: Now) -> None:
        own = self._broker_state
        assert own is not None
        if self._awaited is not None and number >= self._awaited:
            self._awaited = None
            if self._metadata_log is None:
                self._state.outbox.append(Open(log=METADATA_LOG, settings=METADATA_SETTINGS))
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
            self._replayed(purpose, data)
        elif not isinstance(purpose, ReplicaFetch) or purpose.log.kind is ReplicaKind.DATA:
            self.replicas.fetched(purpose, data, now)
        elif self._metadata is not None:
            self._metadata.fetched(purpose, data, now)

    # Time

    def wake(self, now: Now) -> None:
        """A deadline has come, or the start continues."""
        self._has_news = True
        if self._metadata is None:
            if self._awaited is None and self._broker_state is not None:
                self._continue_start(now)
            elif self._broker_state is not None:
                self._broker_state.expire(now)
            return
        if self._broker_state is not None:
            self._broker_state.expire(now)
        if now.instant >= self._heartbeat_at:
            self._tick(self._metadata, now)
        self._metadata.wake(now)
        self.replicas.wake(now)
        self.producers.wake(now)

    def _tick(self, metadata: QuorumMetadata, now: Now) -> None:
        """Every half second: say that this broker runs, and ask to be registered."""
        self._lag_ns = now.instant - self._heartbeat_at
        self._liveness.detect_pause(self._heartbeat_at, now.instant)
        self.ticked_at = now.instant
        self._heartbeat_at = Instant(now.instant + self._config.liveness.heartbeat_ns)
        if self.is_leaving:
            self.replicas.resign_all()
        self._send_heartbeats(now)
        if metadata.quorum.leader is not None:
            self._leader_seen_at = now.instant
        is_lost = now.instant - self._leader_seen_at >= _QUORUM_NS
        reason = self.problem or "no leader is known"
        self._state.no_quorum = f"no quorum: {reason}" if is_lost else None
        if self._entered and self.registered is None:
            self._ask_to_register(metadata)

    def _send_heartbeats(self, now: Now) -> None:
        message = Heartbeat(
            broker_epoch=self.registered.epoch if self.registered else 0,
            metadata_version=self.image_follower.version,
            loop_lag_ms=self._lag_ns // MILLISECOND,
            sent_at=now.wall,
            is_leaving=self.is_leaving,
            is_full=bool(self._state.storage.full),
            uses=self._state.security.meters.take_untold(),
        )
        self._state.outbox.extend(Send(broker=each, message=message) for each in self._peers)

    def _ask_to_register(self, metadata: QuorumMetadata) -> None:
        leader = metadata.quorum.leader
        if leader is None or self.is_leaving:
            return
        message = RegisterBroker(
            lineage=self._entered,
            client_address=self._config.addresses.http,
            rack=self._config.rack,
            level_max=FEATURE_LEVEL,
            release=self._config.release,
            version=metadata.image.version,
            is_clean=self._broker_state is not None and not self._broker_state.state.is_unclean,
        )
        if leader != self._me:
            self._state.outbox.append(Send(broker=leader.broker, message=message))
        elif self._controller is not None and self._broker_state is not None:
            self._controller.register(
                Registration(
                    voter=self._me,
                    incarnation=self._broker_state.state.incarnation,
                    addresses=self._config.addresses,
                    asked=message,
                )
            )

    def serve(self) -> None:
        """The node has read what it knew by itself: topics and logs may follow."""
        self._has_news = True

    def stop(self, now: Now) -> None:
        """The node stops: let another broker lead, and save what is committed."""
        self._has_news = True
        self.is_leaving = True
        self._leave_by = Instant(now.instant + _LEAVE_NS)
        self.replicas.resign_all()
        if self._metadata is not None:
            # Others need not wait for the next heartbeat to hear of it.
            self._send_heartbeats(now)
            self._metadata.resign(now)
            self._state.outbox.extend(self._metadata.log.save_committed())

    # Turns

    def finish_turn(self, now: Now) -> None:
        """Follow what was committed, decide, and set the alarm."""
        metadata, own = self._metadata, self._broker_state
        if metadata is None or own is None or self._controller is None:
            self._retry_start(own)
            return
        if not self._has_news:
            self.replicas.finish_turn(now)
            self._state.alarms.bring_forward(Errand.CLUSTER, self.replicas.next_deadline())
            if not self.line.take_news():
                return
        if self._bootstrap is not None:
            self._decide_bootstrap(self._bootstrap, metadata, now)
        applied = metadata.take_applied()
        if applied:
            self._follow_image(metadata, own, now)
            self._reports.tell_changes(applied, metadata.image)
            self._to_follow += applied
        if self._to_follow and self._state.has_served:
            # Before, the node reads what it knew by itself.
            applied, self._to_follow = self._to_follow, []
            self.image_follower.follow(applied, metadata.image, self.registered, now)
            if self.image_follower.access.take_changed():
                # Whoever changed what callers may do waits until all brokers decide by it.
                self._send_heartbeats(now)
        self._reports.tell_state(metadata.quorum, self.problem)
        if self.is_leaving and metadata.quorum.leader not in {None, self._left_to}:
            self._left_to = metadata.quorum.leader
            self.replicas.resign_all()
        self.replicas.finish_turn(now)
        self._has_news = False
        # Before anybody is accused: a loop that stood still has heard nobody.
        self._liveness.detect_pause(self._heartbeat_at, now.instant)
        self._controller.decide(now)
        parts = (metadata, own, self.replicas, self.producers, self._controller.access)
        later = (each.next_deadline() for each in parts)
        deadlines = [self._heartbeat_at, *(each for each in later if each is not None)]
        self._state.alarms.set(Errand.CLUSTER, min(deadlines))

    def _retry_start(self, own: BrokerStateJournal | None) -> None:
        """The number of this run found no space; without it the start does not go on."""
        retry = None if own is None else own.next_deadline()
        if self._has_news and retry is not None:
            self._state.alarms.set(Errand.CLUSTER, retry)
        self._has_news = False

    def _follow_image(self, metadata: QuorumMetadata, own: BrokerStateJournal, now: Now) -> None:
        halt_if_too_old(self._state, metadata.image.feature_level)
        is_entered, is_registered = bool(own.state.cluster_id), self.registered is not None
        followed = own.state.followed(metadata.image.cluster_id, is_registered=is_registered)
        if followed != own.state:
            number = own.save(followed, now)
            self._awaited = self._awaited if is_entered else number
        self._reports.record_recovery(own, now)
        self._problem = None if is_registered else self._problem
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
