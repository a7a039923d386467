"""The roles of the logs that this broker keeps, as the committed image gives them.

    closed        hosted, not opened yet
    follower      the image names another leader or none, or an epoch not above the broker epoch
    observer      a follower that is no replica: it counts for nothing, and holds what is committed
    leader-elect  the image names this broker, above its broker epoch: until its producers
                  and delays are known and all that it found is committed in this epoch
    leader        serves, until a newer epoch, or a full or failed disk once something was sent
    resigned      asked the controller for another epoch; serves nothing
    lost          lacks what it confirmed; waits until it is in no ISR, then follows

Only the committed image gives a role, and only to a process that registered before the epoch began
(C5). Roles are taken at the end of a turn, as many as a turn may: 500.
"""

from collections.abc import Callable, Collection, Mapping

from goqueue.broker.cluster.catch_up import CatchUpRate
from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG
from goqueue.broker.partitions import Partition
from goqueue.broker.replication.derived_state import DerivedState
from goqueue.broker.replication.hosted_logs import HostedLog, HostedLogs
from goqueue.broker.replication.partition_follower import PartitionFollower
from goqueue.broker.replication.partition_leader import ClusterView, PartitionLeader
from goqueue.broker.replication.recorded_ends import RecordedEnds
from goqueue.broker.replication.replication_counts import ElectionType
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    BrokerState,
    MetadataImage,
    PartitionId,
    PartitionState,
    RegisteredBroker,
)
from goqueue.delivery import Delays
from goqueue.log import LogState, ReplicaRole
from goqueue.model import (
    MILLISECOND,
    Code,
    Instant,
    IsrWish,
    LogId,
    MoveProgress,
    Now,
    PartitionMessage,
    Refused,
    ReportLostReplicas,
    ResignLeaderships,
)

__all__ = ["ROLES_PER_TURN", "TICK_NS", "LogRoles"]


# How often logs that wait for something are looked at, and a wish is repeated.
TICK_NS = 500 * MILLISECOND
# How long the news of a high watermark waits for an append that carries it.
_TELL_NS = 100 * MILLISECOND
# So many logs take their roles in one turn.
ROLES_PER_TURN = 500


class LogRoles:
    """Gives every hosted log its role."""

    def __init__(
        self,
        state: NodeState,
        ask_controller: Callable[[PartitionMessage], None],
        catch_up_bytes_per_second: int | None = None,
    ) -> None:
        self._state = state
        self._me = state.node_id
        self._ask_controller = ask_controller
        self._view = ClusterView(state, catch_up_bytes_per_second)
        self._streams = self._view.streams
        self._derived = DerivedState(state)
        self._hosted = HostedLogs(state, self._view.ends)
        # Logs that lack what they confirmed.
        self._lost: dict[PartitionId, HostedLog] = {}
        self._image = MetadataImage()
        self._broker_epoch: int | None = None
        # Logs that are looked at every half second, and when that is next.
        self._watched = self._view.watched
        self._tick_at: Instant | None = None
        # Led logs whose followers do not all know the high watermark, and when they are told.
        self._untold: dict[PartitionId, None] = {}
        self._tell_at: Instant | None = None
        # Those of them that rose in this turn: the group coordinator is told at once.
        self._news: dict[PartitionId, None] = {}
        self._wishes: dict[PartitionId, IsrWish] = {}
        # How logs end that nobody leads and that may have lost their tails: said with the turn.
        self._ends_to_report: dict[PartitionId, tuple[int, int, int, int, int]] = {}
        # Logs of which the image says something new, and followed logs whose streams were opened.
        self._to_look: dict[PartitionId, None] = {}
        self._to_subscribe: dict[PartitionId, None] = {}
        self._to_attend: dict[PartitionId, None] = {}
        self._resume_at: Instant | None = None
        # What the node has to do at the end of the turn.
        self._risen: dict[LogId, Partition] = {}
        self._followed_up: dict[LogId, Partition] = {}
        self._demoted: list[Partition] = []
        self._unobserved: list[Partition] = []
        self._ready: list[LogId] = []
        # Who observes what is led here: the broker that coordinates groups.
        self._observer: str | None = None
        self._refusals: dict[PartitionId, str] = {}
        self.counts = self._view.counts

    # What others see

    @property
    def image(self) -> MetadataImage:
        return self._image

    @property
    def hosted(self) -> HostedLogs:
        return self._hosted

    @property
    def ends(self) -> RecordedEnds:
        """How far each log was known to reach."""
        return self._view.ends

    @property
    def live(self) -> Mapping[str, int]:
        """The broker epochs of those that are registered, not fenced and not leaving."""
        return self._view.epochs

    @property
    def refusals(self) -> dict[PartitionId, str]:
        """Why logs do not follow their leaders: an operator must look at them."""
        return self._refusals

    def role(self, hosted: HostedLog) -> str:
        """The role of a log, for people and checks."""
        if hosted.partition is None:
            return "closed" if hosted.lost is None else "lost"
        if hosted.leader is not None:
            if hosted.is_resigned:
                return "resigned"
            return "leader" if hosted.leader.is_serving else "leader-elect"
        if hosted.is_observed:
            return "observer"
        state = self._image.table.get(*hosted.where)
        return "leader-elect" if state is not None and self._should_lead(state) else "follower"

    def delays(self, hosted: HostedLog) -> Delays | None:
        """What is known of delayed messages in a log, for checks; None if it never had any."""
        return self._state.delays.get(hosted.log_id)

    def check_leads(self, topic: int, partition: int, log: LogId) -> PartitionLeader:
        """The leader of a partition, if it is here and serves; refuses otherwise."""
        state = self._image.table.get(topic, partition)
        if state is None:
            raise Refused(Code.PARTITION_NOT_FOUND, partition=partition)
        hosted = self._hosted.find(log)
        if hosted is not None and hosted.where.topic == topic and hosted.leader is not None:
            if hosted.leader.is_serving and not hosted.is_resigned:
                return hosted.leader
        if state.leader is None or state.leader == self._me:
            raise Refused(Code.LEADER_UNAVAILABLE, partition=partition)
        raise self.not_leader(state)

    def not_leader(self, state: PartitionState) -> Refused:
        """The refusal that says who leads."""
        leader = "" if state.leader is None else state.leader
        known = self._image.brokers.get(leader)
        address = "" if known is None else known.registration.addresses.http
        return Refused(Code.NOT_LEADER, leader=leader, leader_address=address)

    # The image

    def follow_brokers(self, image: MetadataImage, registered: RegisteredBroker | None) -> None:
        """The image says something new of brokers, this one perhaps."""
        self._image = image
        self._view.epochs.clear()
        self._view.epochs.update(
            (name, each.epoch)
            for name, each in image.brokers.items()
            if each.state is BrokerState.ACTIVE
        )
        self._broker_epoch = None if registered is None else registered.epoch
        self.counts.keep_followers(image.brokers)

    def begin(self, internal: tuple[str, ...]) -> None:
        """This run is registered for the first time: open what it hosts."""
        self._hosted.begin(self._image, internal)
        self.look_at_all()

    def look_at_all(self) -> None:
        """Brokers came or went: what they have to do with changes."""
        self._to_look.update(dict.fromkeys(hosted.where for hosted in self._hosted))

    def look_at(self, where: PartitionId) -> None:
        """The image says something new of a log: it takes its role before the turn ends."""
        self._to_look[where] = None

    def host(self, topic: int) -> None:
        """A topic was created: keep what this broker has to keep of it."""
        table = self._image.table
        if not self._hosted.has_begun:
            return
        name = table.topics[topic].name
        for number, state in enumerate(table.partitions_of(topic)):
            if self._me in state.copies:
                where = PartitionId(topic, number)
                self._hosted.host(where, name)
                self._to_look[where] = None

    # Moves

    def rehost(self, where: PartitionId) -> None:
        """Other brokers keep a partition: copy it if this one does, drop what it keeps if not."""
        state = self._image.table.get(*where)
        if state is None or not self._hosted.has_begun:
            return
        name = self._image.table.topics[where.topic].name
        if self._me in state.copies:
            self._hosted.host(where, name)
            self._to_look[where] = None
            return
        hosted = self._hosted.get(where)
        if hosted is not None and not hosted.is_observed:
            if hosted.leader is not None and hosted.partition is not None:
                self._demote(hosted, hosted.partition)
            gone = self._drop(where)
            if gone is not None and gone.partition is not None:
                self._unobserved.append(gone.partition)
            if self._observer == self._me:
                # Groups may read it here.
                self._hosted.host(where, name, is_observed=True)

    def drop_moved(self) -> None:
        """Drop whatever other brokers keep now: the changes that said so were not heard."""
        mine = self._image.table.hosted_by(self._me)
        for where in [each.where for each in self._hosted if each.where not in mine]:
            self.rehost(where)

    def follow_moves(self) -> None:
        """Others move, or not as fast."""
        running = {each.number: each for each in self._image.reassignments.running}
        self._view.rates.clear()
        self._view.rates.update(
            (where, CatchUpRate(number, running[number].bytes_per_second))
            for where, number in self._image.reassignments.moving.items()
        )

    def move_progress(self) -> tuple[MoveProgress, ...]:
        """How far the learners of the partitions are that this broker leads."""
        found: list[MoveProgress] = []
        for where in self._view.rates:
            hosted = self._hosted.get(where)
            leader = None if hosted is None or hosted.is_resigned else hosted.leader
            if leader is not None and leader.image.target:
                found.append(leader.move_progress())
        return tuple(found)

    # Observers

    def observe(self, topic: int) -> None:
        """Keep a copy of each partition of a topic, also where this broker is no replica."""
        stated = self._image.table.topics.get(topic)
        if stated is None or not self._hosted.has_begun:
            return
        for number in range(len(self._image.table.partitions_of(topic))):
            self._hosted.host(PartitionId(topic, number), stated.name, is_observed=True)

    def end_observing(self, kept: Collection[int]) -> None:
        """Drop the copies that were only kept to be observed, but for those of some topics."""
        for hosted in self._hosted.observed:
            if hosted.where.topic in kept:
                continue
            if hosted.follower is not None:
                hosted.follower.end()
            self._watched.pop(hosted.where, None)
            self._refusals.pop(hosted.where, None)
            self._hosted.drop(hosted.where)
            if hosted.partition is not None:
                self._unobserved.append(hosted.partition)

    def _follow_coordinator(self) -> None:
        """Only the broker that coordinates groups observes."""
        log = COORDINATOR_LOG
        topic = self._image.topic(log.topic)
        state = None if topic is None else self._image.partition(topic.number, log.partition)
        coordinator = None if state is None else state.leader
        if coordinator != self._observer:
            self._observer = coordinator
            for hosted in self._hosted:
                if hosted.leader is not None and hosted.leader.has_observers:
                    hosted.leader.keep_observer(coordinator)

    # Roles

    def drop(self, topic: int, partitions: int) -> list[Partition]:
        """A topic was deleted: remove what this broker keeps of it; what was open."""
        gone: list[Partition] = []
        name = ""
        for number in range(partitions):
            hosted = self._drop(PartitionId(topic, number))
            if hosted is not None and hosted.partition is not None:
                gone.append(hosted.partition)
                name = hosted.log_id.topic
        self.counts.forget(name)
        return gone

    def _drop(self, where: PartitionId) -> HostedLog | None:
        """Remove what this broker keeps of a partition; what it was, if it was opened."""
        self._watched.pop(where, None)
        self._untold.pop(where, None)
        self._wishes.pop(where, None)
        self._refusals.pop(where, None)
        self._lost.pop(where, None)
        hosted = self._hosted.drop(where)
        if hosted is not None and hosted.leader is not None:
            hosted.leader.release()
        if hosted is not None and hosted.partition is not None:
            hosted.partition.leader = None
        return hosted

    def _look_at(self, where: PartitionId, now: Now) -> None:
        """Take the role that the image gives to a log."""
        hosted = self._hosted.get(where)
        state = self._image.table.get(*where)
        if hosted is None or state is None:
            return
        if hosted.lost is not None:
            self._look_at_lost(hosted, hosted.lost, state, now)
        if hosted.partition is None:
            return
        if hosted.leader is not None and hosted.leader.epoch == state.epoch:
            if self._should_lead(state):
                self._follow_leader_image(hosted, hosted.leader, state, now)
                return
        elif hosted.follower is not None and hosted.follower.epoch == state.epoch:
            if hosted.follower.added == state.added_at(self._me):
                return
        self._take_role(hosted, hosted.partition, state, now)

    def _look_at_lost(
        self, hosted: HostedLog, found: LogState, state: PartitionState, now: Now
    ) -> None:
        """A log lacks what it confirmed: once it is in no ISR, it goes on with what is left."""
        where = hosted.where
        self._lost[where] = hosted
        epoch = self._broker_epoch
        if self._me in state.isr or epoch is None:
            if epoch is not None:
                lost = ((where.topic, where.partition),)
                self._ask_controller(ReportLostReplicas(broker_epoch=epoch, partitions=lost))
            self._watch(where, now.instant)
        elif self.ends.may_cut(where, found.end):
            del self._lost[where]
            self._hosted.restore(hosted)
            assert hosted.partition is not None
            hosted.partition.has_caught_up = False
            self._derived.begin(hosted.partition, where)

    def _follow_leader_image(
        self, hosted: HostedLog, leader: PartitionLeader, state: PartitionState, now: Now
    ) -> None:
        assert hosted.partition is not None
        self.counts.change_isr(hosted.log_id.topic, len(leader.image.isr), len(state.isr))
        has_risen = leader.follow_image(state, self._minimum(hosted.where), now.instant)
        if has_risen or hosted.partition.is_held:
            # Those who left the ISR need not confirm any more that this broker leads.
            self._note_risen(hosted, hosted.partition, now.instant)
        self._wish(leader, now.instant)
        self._watch(hosted.where, now.instant)

    def _minimum(self, where: PartitionId) -> int:
        topic = self._image.table.topics.get(where.topic)
        return 1 if topic is None else topic.config.min_insync_replicas

    def _should_lead(self, state: PartitionState) -> bool:
        """Only a process that registered before the epoch began leads in it."""
        epoch = self._broker_epoch
        return state.leader == self._me and epoch is not None and state.epoch > epoch

    def _take_role(
        self, hosted: HostedLog, partition: Partition, state: PartitionState, now: Now
    ) -> None:
        if hosted.leader is not None:
            self._demote(hosted, partition)
        hosted.follower = None
        hosted.is_resigned = False
        is_vacant = state.leader is None or self._should_lead(state)
        hosted.vacant_at = (hosted.vacant_at or now.instant) if is_vacant else None
        self._wishes.pop(hosted.where, None)
        log = partition.log
        if log.failure is not None:
            if self._should_lead(state):
                self._resign(hosted, state.epoch, is_able=False)
            return
        if self._should_lead(state):
            self._try_to_lead(hosted, partition, state, now)
            return
        log.assume_role(ReplicaRole.FOLLOWER, state.epoch)
        self._derived.follow(partition, hosted.where)
        self._report_end(hosted, state, now)
        known = None if state.leader is None else self._image.brokers.get(state.leader)
        if known is not None and state.leader != self._me:
            hosted.follower = PartitionFollower(
                self._state,
                log,
                hosted.where,
                known.voter,
                view=self._view,
                image=state,
                is_observer=hosted.is_observed,
            )
            hosted.follower.subscribe("")
            self._watch(hosted.where, now.instant)

    def _report_end(self, hosted: HostedLog, state: PartitionState, now: Now) -> bool:
        """Say how a log ends of which nobody is sure to have all; whether that is so."""
        partition = hosted.partition
        if state.leader is not None or partition is None or not state.is_unsure(self._me):
            return False
        log = partition.log
        if log.failure is None and not log.is_changing:
            report = (*hosted.where, state.version, log.last_epoch, int(log.end))
            self._ends_to_report[hosted.where] = report
        self._watch(hosted.where, now.instant)
        return True

    def _demote(self, hosted: HostedLog, partition: Partition) -> None:
        """Another epoch began: nothing that is not committed is known to be kept."""
        if hosted.leader is not None:
            hosted.leader.release()
        hosted.leader = None
        partition.leader = None
        self._untold.pop(hosted.where, None)
        self._demoted.append(partition)

    def _try_to_lead(
        self, hosted: HostedLog, partition: Partition, state: PartitionState, now: Now
    ) -> None:
        """Lead if all is known that the log says, and it takes records; else later."""
        self._watch(hosted.where, now.instant)
        log = partition.log
        if log.is_changing or not self._derived.complete(partition, now):
            return
        created = self._image.table.created_at(hosted.where.topic)
        try:
            leader = PartitionLeader(
                self._view,
                log,
                hosted.where,
                image=state,
                minimum=self._minimum(hosted.where),
                is_first=state.epoch == created,
                now=now,
            )
        except Refused:
            # No space for the record of the epoch: it is tried again.
            return
        hosted.leader = leader
        partition.leader = leader
        partition.has_caught_up = True
        if state.epoch != created:
            self.counts.elections[hosted.log_id.topic, self._election_type(state)] += 1
        leader.invite()
        self._note_risen(hosted, partition, now.instant)
        if leader.is_serving:
            self._serve(hosted, now.instant)
        self._wish(leader, now.instant)

    def _election_type(self, state: PartitionState) -> ElectionType:
        if state.unclean_epoch == state.epoch:
            return ElectionType.UNCLEAN
        is_preferred = state.replicas[0] == self._me
        return ElectionType.PREFERRED if is_preferred else ElectionType.FAILOVER

    def _note_risen(self, hosted: HostedLog, partition: Partition, now: Instant) -> None:
        self._risen[hosted.log_id] = partition
        if hosted.leader is not None and hosted.leader.is_followed:
            hosted.leader.send_committed(now)
            self._untold[hosted.where] = None
            self._news[hosted.where] = None
            if self._tell_at is None:
                self._tell_at = Instant(now + _TELL_NS)

    def _watch(self, where: PartitionId, now: Instant) -> None:
        self._watched[where] = None
        if self._tick_at is None:
            self._tick_at = Instant(now + TICK_NS)

    def _wish(self, leader: PartitionLeader, now: Instant) -> None:
        wish = leader.wish(now, TICK_NS)
        if wish is not None:
            self._wishes[leader.where] = wish
            self._watch(leader.where, now)

    def _resign(self, hosted: HostedLog, epoch: int, *, is_able: bool) -> None:
        hosted.is_resigned = True
        self._watched[hosted.where] = None
        where = hosted.where
        self._ask_controller(
            ResignLeaderships(partitions=((where.topic, where.partition, epoch),), is_able=is_able)
        )

    def _advance(self, leader: PartitionLeader, now: Instant) -> None:
        was_serving = leader.is_serving
        hosted = self._hosted.get(leader.where)
        if hosted is None or hosted.partition is None:
            return
        if leader.advance():
            self._note_risen(hosted, hosted.partition, now)
        if leader.is_serving and not was_serving:
            self._serve(hosted, now)

    def _serve(self, hosted: HostedLog, now: Instant) -> None:
        """This broker leads from now on."""
        self._ready.append(hosted.log_id)
        created = self._image.table.created_at(hosted.where.topic)
        is_elected = hosted.leader is not None and hosted.leader.epoch != created
        if is_elected and hosted.vacant_at is not None:
            self.counts.elect(hosted.log_id.topic, now - hosted.vacant_at)
        hosted.vacant_at = None
