"""The logs that this broker keeps, and what moves them on: peers, the disk and time.

Their roles: `LogRoles`. What peers say counts in the epoch of the role and for the run of the
broker that says it (C11).

Cost: an event touches the logs that it names. Every half second those are looked at that somebody
lags behind in, or that wait for something; a log that is idle and in sync is not among them.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from goqueue.broker.disk_reads import FoldFetch, RepairFetch, ReplicaFetch
from goqueue.broker.partitions import Partition
from goqueue.broker.replication.handovers import Handovers
from goqueue.broker.replication.hosted_logs import HostedLog
from goqueue.broker.replication.log_roles import ROLES_PER_TURN, TICK_NS, LogRoles
from goqueue.broker.replication.partition_follower import PartitionFollower
from goqueue.broker.replication.partition_leader import PartitionLeader
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    PartitionId,
    Voter,
)
from goqueue.log import LogState
from goqueue.model import (
    Damaged,
    DiskEvent,
    Failed,
    Filled,
    Instant,
    LogId,
    LogsAcknowledged,
    LogsAdvanced,
    LogsSubscribed,
    LogSubscription,
    Now,
    Offset,
    PartitionMessage,
    Repaired,
    ReplicaAppend,
    ReplicaDiverged,
    ReplicaRepair,
    ReplicaReset,
    ReportLogEnds,
    RequestIsrs,
    ResignLeaderships,
    Truncated,
)
from goqueue.records import Buffer

__all__ = ["LogMessage", "Replicas"]

LogMessage = (
    ReplicaAppend
    | ReplicaDiverged
    | ReplicaReset
    | ReplicaRepair
    | LogsSubscribed
    | LogsAcknowledged
    | LogsAdvanced
)


# So many leaderships are given up with one message.
_RESIGNED_MAX = 1_000
# So many ends of logs are reported with one message.
_REPORTED_MAX = 1_000


class Replicas(LogRoles):
    """Moves the hosted logs on."""

    def __init__(
        self,
        state: NodeState,
        ask_controller: Callable[[PartitionMessage], None],
        catch_up_bytes_per_second: int | None = None,
    ) -> None:
        super().__init__(state, ask_controller, catch_up_bytes_per_second)
        self.handovers = Handovers(ask_controller)

    # Peers

    def connected(self, broker: str) -> None:
        """The stream to a broker is open: ask it for what it leads, some of it in each turn."""
        for hosted in self._hosted:
            follower = hosted.follower
            if follower is not None and follower.leader.broker == broker:
                follower.missed = True
                self._to_subscribe[hosted.where] = None

    def _subscribe_some(self, now: Now) -> None:
        """Ask the leaders of the logs whose streams were opened anew."""
        for where in list(islice(self._to_subscribe, ROLES_PER_TURN)):
            del self._to_subscribe[where]
            hosted = self._hosted.get(where)
            if hosted is not None and hosted.follower is not None and hosted.follower.missed:
                hosted.follower.missed = False
                hosted.follower.subscribe("")
                self._watch(where, now.instant)

    def disconnected(self, broker: str) -> None:
        """What was on its way to a broker may be lost."""
        for hosted in self._hosted:
            if hosted.leader is not None:
                hosted.leader.disconnect(broker)

    def receive(
        self, sender: Voter, message: LogMessage, data: tuple[Buffer, ...], now: Now
    ) -> None:
        """Another broker says something of logs."""
        if isinstance(message, LogsSubscribed | LogsAcknowledged):
            self.counts.fetch_requests[sender.broker] += 1
        match message:
            case LogsSubscribed(logs=logs):
                for asked in logs:
                    leader = self._leader_at(asked.topic, asked.partition, asked.epoch)
                    if leader is not None:
                        self._subscribed(leader, sender, asked, now)
            case LogsAcknowledged():
                self._acknowledged(sender, message, now)
            case LogsAdvanced(logs=logs, asked=asked):
                for news in logs:
                    where = PartitionId(news.topic, news.partition)
                    hosted = self._follower_at(sender, where, news.epoch)
                    if hosted is not None:
                        assert hosted.follower is not None
                        hosted.follower.advanced(news, asked)
                        self._followed(hosted, now)
            case ReplicaRepair(log=log, first=first, below=below):
                leader = self._leader_at(log.topic, log.partition, message.epoch)
                if leader is not None:
                    leader.send_range(sender, Offset(first), Offset(below))
            case ReplicaAppend() | ReplicaDiverged() | ReplicaReset():
                self._hear_leader(sender, message, data, now)

    def _subscribed(
        self, leader: PartitionLeader, sender: Voter, asked: LogSubscription, now: Now
    ) -> None:
        """A replica, or the coordinator of groups, wants what comes behind its log."""
        if leader.progress(sender.broker) is None and asked.is_over:
            leader.keep_observer(None)
        elif leader.progress(sender.broker) is not None or sender.broker == self._observer:
            leader.subscribed(sender, asked, now.instant)
            self._watch(leader.where, now.instant)

    def _leader_at(self, topic: int, partition: int, epoch: int) -> PartitionLeader | None:
        hosted = self._hosted.get(PartitionId(topic, partition))
        if hosted is None or hosted.leader is None or hosted.is_resigned:
            return None
        return hosted.leader if hosted.leader.epoch == epoch else None

    def _follower_at(self, sender: Voter, where: PartitionId, epoch: int) -> HostedLog | None:
        hosted = self._hosted.get(where)
        follower = None if hosted is None else hosted.follower
        if follower is None or (follower.leader, follower.epoch) != (sender, epoch):
            return None
        return hosted

    def _acknowledged(self, sender: Voter, message: LogsAcknowledged, now: Now) -> None:
        known = self._image.brokers.get(sender.broker)
        if known is None or known.epoch != message.broker_epoch:
            # An earlier run of it, or a later one that the image does not show yet.
            return
        for ack in message.logs:
            leader = self._leader_at(ack.topic, ack.partition, ack.epoch)
            if leader is None:
                continue
            leader.acknowledged(sender, ack, message.broker_epoch, now.instant)
            self._advance(leader, now.instant)
            self._check_held(leader.where)
            if sender.broker not in leader.image.isr:
                self._wish(leader, now.instant)

    def _check_held(self, where: PartitionId) -> None:
        """Others confirmed that this broker leads: publishers may wait for that alone."""
        hosted = self._hosted.get(where)
        partition = None if hosted is None else hosted.partition
        if partition is not None and partition.is_held:
            self._risen[partition.log_id] = partition

    def _hear_leader(
        self,
        sender: Voter,
        message: ReplicaAppend | ReplicaDiverged | ReplicaReset,
        data: tuple[Buffer, ...],
        now: Now,
    ) -> None:
        where = PartitionId(message.log.topic, message.log.partition)
        hosted = self._follower_at(sender, where, message.epoch)
        if hosted is None or hosted.follower is None or hosted.partition is None:
            return
        follower = hosted.follower
        refusal = None
        match message:
            case ReplicaAppend() if follower.take_repair(message, data):
                pass
            case ReplicaAppend():
                if follower.does_miss(message):
                    follower.missed = True
                    self._watch(where, now.instant)
                appended = follower.append(message, data, now)
                if appended is not None:
                    self._state.arm_flush(hosted.partition)
                    self.counts.bytes_copied[hosted.log_id.topic] += sum(map(len, data))
                    if appended.stating_bytes:
                        whole = data[0] if len(data) == 1 else b"".join(data)
                        stating = bytes(memoryview(whole)[: appended.stating_bytes])
                        self._derived.appended(
                            hosted.partition, appended.first, appended.next, stating
                        )
            case ReplicaDiverged():
                refusal = follower.diverged(message)
            case ReplicaReset():
                refusal = follower.reset(message)
        if refusal is not None:
            self._refusals[where] = refusal.reason
        elif follower.agrees:
            self._refusals.pop(where, None)
        self._followed(hosted, now)

    def _followed(self, hosted: HostedLog, now: Now) -> None:
        """A follower moved on: fold what is committed."""
        assert hosted.partition is not None
        self._derived.committed(hosted.partition, now)
        self._check_caught_up(hosted, hosted.partition)
        self._followed_up[hosted.log_id] = hosted.partition
        if hosted.follower is not None and not hosted.follower.agrees:
            self._watch(hosted.where, now.instant)

    def _check_caught_up(self, hosted: HostedLog, partition: Partition) -> None:
        """Whether a copy has, and knows what it says of, all that was committed."""
        if not partition.has_caught_up and hosted.follower is not None:
            fold = partition.fold
            is_known = fold is None or fold.folded >= partition.log.high_watermark
            partition.has_caught_up = is_known and hosted.follower.is_current

    # The disk

    def opened(self, log: LogId, found: LogState, now: Now) -> None:
        """A hosted log was recovered, or made."""
        hosted = self._hosted.find(log)
        created = None
        if hosted is not None and hosted.where.topic in self._image.table.topics:
            created = self._image.table.created_at(hosted.where.topic)
        whole = self._hosted.opened(log, found, created)
        if whole is not None:
            assert whole.partition is not None
            state = self._image.table.get(*whole.where)
            whole.partition.has_caught_up = state is not None and self._me in state.isr
            self._derived.begin(whole.partition, whole.where)
        if hosted is not None:
            self._look_at(hosted.where, now)

    def ends_durable(self, number: int, now: Now) -> None:
        """Notes about logs are durable: what waited for them goes on."""
        for where in self.ends.durable(number):
            hosted = self._hosted.get(where)
            if hosted is None:
                continue
            if hosted.lost is not None:
                self._look_at(where, now)
            elif hosted.leader is not None and not hosted.is_resigned:
                self._advance(hosted.leader, now.instant)
            elif hosted.follower is not None:
                hosted.follower.synced()

    def handle_disk(self, partition: Partition, event: DiskEvent, now: Now) -> None:
        """The disk did something to a log, which knows it already."""
        hosted = self._hosted.find(partition.log_id)
        if hosted is None or hosted.partition is not partition:
            return
        leader, follower = hosted.leader, hosted.follower
        is_cut = isinstance(event, Truncated | Filled)
        if not is_cut:
            self.ends.moved(hosted.where, partition.log, now.instant)
        if is_cut and leader is None and not self._derived.truncated(partition):
            self._derived.begin(partition, hosted.where)
        if isinstance(event, Failed):
            self._failed(hosted, partition)
        elif leader is not None:
            self._handle_led(hosted, leader, now, is_cut=is_cut)
            self._check_damage(hosted)
        elif follower is not None:
            self._handle_followed(hosted, follower, event, now)
        else:
            state = self._image.table.get(*hosted.where)
            if state is not None and self._should_lead(state):
                self._try_to_lead(hosted, partition, state, now)

    def _handle_followed(
        self, hosted: HostedLog, follower: PartitionFollower, event: DiskEvent, now: Now
    ) -> None:
        partition = hosted.partition
        assert partition is not None
        follower.synced()
        if isinstance(event, Repaired):
            self._derived.repaired(partition, hosted.where)
        if isinstance(event, Damaged) or (isinstance(event, Repaired) and partition.log.damaged):
            self._watch(hosted.where, now.instant)
            if isinstance(event, Damaged) or event.first < event.below:
                follower.repair()
        if isinstance(event, Truncated):
            follower.settled("")
        if isinstance(event, Truncated | Filled):
            self._watch(hosted.where, now.instant)
        self._derived.committed(partition, now)
        self._check_caught_up(hosted, partition)
        self._followed_up[hosted.log_id] = partition

    def _handle_led(
        self, hosted: HostedLog, leader: PartitionLeader, now: Now, *, is_cut: bool
    ) -> None:
        if hosted.is_resigned:
            return
        if is_cut and leader.has_followers:
            # What was sent is not here: the same offsets must not get other bytes.
            self._resign(hosted, leader.epoch, is_able=True)
            return
        if is_cut and hosted.partition is not None:
            leader.take_back(hosted.partition.log.end)
        self._advance(leader, now.instant)
        leader.resume(now.instant)

    def _check_damage(self, hosted: HostedLog) -> None:
        """Let a copy lead that is whole, if there may be one: this one is repaired from it."""
        leader, partition = hosted.leader, hosted.partition
        if leader is None or partition is None or hosted.is_resigned:
            return
        damaged = partition.log.damaged
        if not damaged:
            hosted.gave_up_for = ()
        elif damaged != hosted.gave_up_for and leader.live_members > 1:
            hosted.gave_up_for = damaged
            self._resign(hosted, leader.epoch, is_able=True)

    def _failed(self, hosted: HostedLog, partition: Partition) -> None:
        """This log takes nothing more in this run."""
        if hosted.leader is not None:
            self._resign(hosted, hosted.leader.epoch, is_able=False)
        hosted.follower = None
        partition.fold = None

    @property
    def leads_copies(self) -> bool:
        """Whether this broker leads anything that another one could lead."""
        return any(
            hosted.leader is not None and hosted.leader.has_followers for hosted in self._hosted
        )

    def resign_all(self) -> None:
        """This broker is about to stop: let others lead what it leads."""
        led = [
            (*hosted.where, hosted.leader.epoch)
            for hosted in self._hosted
            if hosted.leader is not None and hosted.leader.has_followers
        ]
        for first in range(0, len(led), _RESIGNED_MAX):
            partitions = tuple(led[first : first + _RESIGNED_MAX])
            self._ask_controller(ResignLeaderships(partitions=partitions, is_able=False))

    def dropped(self, log: LogId) -> None:
        """A log begins later, for good: its followers do the same."""
        hosted = self._hosted.find(log)
        if hosted is not None and hosted.leader is not None:
            hosted.leader.tell_all()

    def expects(self, name: str) -> bool:
        """Whether a snapshot was asked for here."""
        return self._derived.expects(name)

    def loaded(self, name: str, data: bytes | None, now: Now) -> None:
        self._folded(self._derived.loaded(name, data, now), now)

    def fetched(
        self, purpose: ReplicaFetch | RepairFetch | FoldFetch, data: memoryview | None, now: Now
    ) -> None:
        """Something was read: for a follower, or for what a log says."""
        if isinstance(purpose, FoldFetch):
            self._folded(self._derived.fetched(purpose, data, now), now)
            return
        if isinstance(purpose, RepairFetch):
            log = purpose.log
            leader = self._leader_at(log.topic, log.partition, purpose.epoch)
            if leader is not None and data is not None and len(data):
                leader.range_fetched(purpose, data, now.instant)
            return
        self._view.catch_up.done(purpose, 0 if data is None else len(data), now.instant)
        where = PartitionId(purpose.log.topic, purpose.log.partition)
        hosted = self._hosted.get(where)
        if hosted is not None and hosted.leader is not None and not hosted.is_resigned:
            hosted.leader.fetched(purpose, data, now.instant)

    def _folded(self, partition: Partition | None, now: Now) -> None:
        hosted = None if partition is None else self._hosted.find(partition.log_id)
        if hosted is None or partition is None or hosted.leader is not None:
            return
        state = self._image.table.get(*hosted.where)
        if state is not None and self._should_lead(state) and partition.log.failure is None:
            self._try_to_lead(hosted, partition, state, now)
        else:
            self._derived.committed(partition, now)
            self._check_caught_up(hosted, partition)
            # Readers of the copy may see more of it.
            self._followed_up[partition.log_id] = partition

    # Time

    def next_deadline(self) -> Instant | None:
        catch_up_at = self._view.catch_up.next_deadline()
        parts = (
            self._tick_at,
            self._tell_at,
            self._resume_at,
            self.ends.next_deadline(),
            self.handovers.next_deadline(),
            catch_up_at,
        )
        return min((each for each in parts if each is not None), default=None)

    def appended(self, where: PartitionId, now: Instant) -> None:
        """Somebody waits for the copies of a log."""
        if where not in self._watched:
            self._watch(where, now)

    def wake(self, now: Now) -> None:
        """A deadline may have come."""
        self.ends.wake(now.instant)
        self._view.catch_up.wake(now.instant)
        if self._tell_at is not None and now.instant >= self._tell_at:
            self._tell_at = None
            told, self._untold = self._untold, {}
            for where in told:
                hosted = self._hosted.get(where)
                if hosted is not None and hosted.leader is not None:
                    hosted.leader.tell_watermarks()
        if self._tick_at is not None and now.instant >= self._tick_at:
            self._tick()

    def _tick(self) -> None:
        """Look at the logs that wait for something, in as many turns as that takes."""
        self._tick_at = None
        self._to_attend.update(self._watched)

    def _attend_some(self, now: Now) -> None:
        for where in list(islice(self._to_attend, ROLES_PER_TURN)):
            del self._to_attend[where]
            hosted = self._hosted.get(where)
            self._watched.pop(where, None)
            if hosted is None:
                continue
            if hosted.lost is not None:
                self._look_at(where, now)
            elif hosted.partition is not None and self._attend(hosted, now):
                self._watched[where] = None

    def _attend(self, hosted: HostedLog, now: Now) -> bool:
        """Look at a log that waits for something; whether it still does."""
        partition, leader, follower = hosted.partition, hosted.leader, hosted.follower
        assert partition is not None
        state = self._image.table.get(*hosted.where)
        if state is None:
            return False
        if hosted.is_resigned:
            if state.epoch == (leader.epoch if leader is not None else state.epoch):
                is_able = partition.log.failure is None
                self._resign(hosted, state.epoch, is_able=is_able)
            return True
        if leader is not None:
            return self._attend_leader(leader, partition, now)
        if follower is not None:
            if not follower.agrees or follower.missed:
                follower.missed = False
                follower.subscribe("")
                return True
            follower.repair()
            return bool(partition.log.damaged)
        if self._should_lead(state) and partition.log.failure is None:
            self._try_to_lead(hosted, partition, state, now)
            return hosted.leader is None or hosted.leader.needs_attention
        return self._report_end(hosted, state, now)

    def _attend_leader(self, leader: PartitionLeader, partition: Partition, now: Now) -> bool:
        self._wish(leader, now.instant)
        if leader.needs_attention:
            leader.tell_all()
        return leader.needs_attention or partition.is_awaited

    def lags(self) -> dict[tuple[str, str], int]:
        """How many records each follower lacks at most of a partition that is led here.

        By topic and broker. Cost: one pass over the hosted logs.
        """
        lags: dict[tuple[str, str], int] = {}
        for hosted in self._hosted:
            if hosted.leader is not None:
                for broker, lag in hosted.leader.lags():
                    key = (hosted.log_id.topic, broker)
                    lags[key] = max(lag, lags.get(key, 0))
        return lags

    def high_watermarks(self) -> dict[str, int]:
        """The high watermarks of the partitions that are led here, summed by topic."""
        sums: dict[str, int] = {}
        for hosted in self._hosted:
            if hosted.leader is not None:
                topic = hosted.log_id.topic
                sums[topic] = sums.get(topic, 0) + hosted.leader.log.high_watermark
        return sums

    def awaited(self) -> Iterator[Partition]:
        """The led logs for whose copies somebody may wait."""
        for where in self._watched:
            hosted = self._hosted.get(where)
            if hosted is not None and hosted.leader is not None and hosted.partition is not None:
                yield hosted.partition

    # Turns

    def finish_turn(self, now: Now) -> None:
        """Take roles, as many as a turn may, and send what was collected."""
        if self._to_look:
            for where in list(islice(self._to_look, ROLES_PER_TURN)):
                del self._to_look[where]
                self._look_at(where, now)
        if self._to_subscribe:
            self._subscribe_some(now)
        if self._to_attend:
            self._attend_some(now)
        for partition in self._derived.take_unfolded():
            self._folded(partition, now)
        # The rest follows in the next turn.
        has_more = bool(self._to_look or self._to_subscribe or self._to_attend)
        has_more |= self._derived.has_unfolded
        self.handovers.finish_turn(self._leader_at, now.instant)
        self._resume_at = now.instant if has_more else None
        if self._watched and self._tick_at is None:
            self._tick_at = Instant(now.instant + TICK_NS)
        self._follow_coordinator()
        if self._news:
            self._tell_coordinator()
        if self._wishes:
            wishes, self._wishes = self._wishes, {}
            self._ask_controller(RequestIsrs(wishes=tuple(wishes.values())))
        if self._ends_to_report and self._broker_epoch is not None:
            self._report_ends(self._broker_epoch)
        self.ends.finish_turn(now)
        if not self._streams.is_empty:
            self._streams.flush(self._broker_epoch or 0, now.instant)

    def _tell_coordinator(self) -> None:
        """Let the broker that coordinates groups know at once what its copies may show."""
        news, self._news = self._news, {}
        if self._observer in {None, self._me}:
            return
        for where in news:
            hosted = self._hosted.get(where)
            if hosted is not None and hosted.leader is not None:
                hosted.leader.tell_watermarks(self._observer)

    def _report_ends(self, broker_epoch: int) -> None:
        reports = tuple(self._ends_to_report.values())
        self._ends_to_report = {}
        for first in range(0, len(reports), _REPORTED_MAX):
            logs = reports[first : first + _REPORTED_MAX]
            self._ask_controller(ReportLogEnds(broker_epoch=broker_epoch, logs=logs))

    def take_risen(self) -> list[Partition]:
        """The led logs whose high watermarks rose since the last call."""
        risen, self._risen = list(self._risen.values()), {}
        return risen

    def take_followed(self) -> list[Partition]:
        """The followed logs of which more may be committed since the last call."""
        followed, self._followed_up = list(self._followed_up.values()), {}
        return followed

    def take_demoted(self) -> list[Partition]:
        """The logs that lost their leadership since the last call."""
        demoted, self._demoted = self._demoted, []
        return demoted

    def take_unobserved(self) -> list[Partition]:
        """The logs of which no copy is kept any more, since the last call."""
        gone, self._unobserved = self._unobserved, []
        return gone

    def take_ready(self) -> list[LogId]:
        """The logs that this broker leads and serves since the last call."""
        ready, self._ready = self._ready, []
        return ready
