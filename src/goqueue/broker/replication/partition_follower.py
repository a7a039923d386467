"""One partition that this broker follows, in one epoch.

Says what `LogFollower` says, merged with what there is to say of other logs to the same leader.

Invariant: nothing below the own high watermark is removed, unless an operator gave it up; nothing
is confirmed, or cut, before it is noted (`RecordedEnds`).
"""

from goqueue.broker.cluster.log_follower import LogFollower
from goqueue.broker.replication.partition_leader import ClusterView
from goqueue.broker.state import NodeState
from goqueue.cluster import PartitionId, PartitionState, Voter
from goqueue.log import Log, ReplicaRole
from goqueue.model import (
    Instant,
    LogAck,
    LogSubscription,
    LogWatermark,
    Offset,
    PeerLane,
    ReplicaAck,
    ReplicaAppend,
    ReplicaKind,
    ReplicaLog,
    ReplicaRepair,
    ReplicaSubscribe,
    Send,
    WatermarkAdvanced,
)
from goqueue.records import Buffer

__all__ = ["PartitionFollower"]


class PartitionFollower(LogFollower):
    """Follows one partition in one epoch."""

    def __init__(
        self,
        state: NodeState,
        log: Log,
        where: PartitionId,
        leader: Voter,
        *,
        view: ClusterView,
        image: PartitionState,
        is_observer: bool = False,
    ) -> None:
        replica = ReplicaLog(ReplicaKind.DATA, where.topic, where.partition)
        super().__init__(state, log, replica, leader, image.epoch)
        self._where = where
        self._streams = view.streams
        self._ends = view.ends
        self._unclean_epoch = image.unclean_epoch
        self._is_observer = is_observer
        # The version that added this copy: what was said of an earlier one counts no more.
        self.added = image.added_at(state.node_id)
        # What the leader was told last.
        self._told = Offset(0)
        # Whether an append left a gap: then it is asked for again.
        self.missed = False
        log.assume_role(ReplicaRole.FOLLOWER, image.epoch)

    @property
    def where(self) -> PartitionId:
        return self._where

    def advanced(self, news: LogWatermark, asked: Instant) -> None:
        """The leader's log moved on, or it asks whether it is still followed.

        If that is the first that is heard of the leader in this epoch, it did not lead yet when it
        was asked: it is asked again at once.
        """
        was_heard = self._asked > 0
        self.heartbeat(
            WatermarkAdvanced(
                log=self._replica,
                epoch=news.epoch,
                committed=news.committed,
                start=news.start,
                sent=news.sent,
                asked=asked,
            ),
            "",
        )
        if not was_heard and not self._agrees:
            self.subscribe("")

    @property
    def is_current(self) -> bool:
        """Whether all is known here that the leader said is committed."""
        return self._agrees and self._log.high_watermark >= self._committed

    def end(self) -> None:
        """An observer wants no more."""
        topic, partition = self._where
        log = self._log
        over = LogSubscription(
            topic, partition, self._epoch, log.start, log.end, log.last_epoch, is_over=True
        )
        self._streams.subscribe(self._leader.broker, over)

    def synced(self) -> None:
        """The own disk holds more, as far as the flush policy asks for it: say so."""
        if self._agrees:
            self._apply_commit()
            if self._log.confirmed > self._told:
                self._acknowledge()

    def does_miss(self, message: ReplicaAppend) -> bool:
        """Whether an append leaves a gap: what was before it was lost, or found no space here."""
        return self._agrees and message.first > self._log.end and not self._log.is_changing

    def repair(self) -> None:
        """Ask for the first records that are damaged here, once this log agrees."""
        damaged = self._log.damaged
        if not damaged or not self._agrees or self._log.failure is not None:
            return
        message = ReplicaRepair(
            log=self._replica, epoch=self._epoch, first=damaged[0].first, below=damaged[0].below
        )
        send = Send(broker=self._leader.broker, message=message, lane=PeerLane.REPLICATION)
        self._state.outbox.append(send)

    def take_repair(self, message: ReplicaAppend, data: tuple[Buffer, ...]) -> bool:
        """Write what the leader sent again over what is damaged; whether it is such an append.

        Records that are here already also answer a late question: what is said of the commit holds.
        """
        log = self._log
        if message.next <= message.first or message.first >= log.end:
            return False
        self._hear(message.asked)
        self.commit(message.committed, message.start)
        whole = data[0] if len(data) == 1 else b"".join(data)
        self._state.outbox.extend(log.repair(message.first, whole))
        return True

    def _may_cut(self, target: Offset) -> bool:
        """What an operator's choice of a leader gave up may go even if it was committed.

        So may anything that an observer holds: nobody counts on it.
        """
        if super()._may_cut(target) or self._is_observer:
            return True
        written_in = self._log.epochs.epoch_at(target)
        return written_in < self._unclean_epoch <= self._epoch

    def _begins_cut(self, target: Offset) -> bool:
        """Not before the note of how far this log is says no more than what is left."""
        return self._ends.may_cut(self._where, target)

    def _send(self, message: ReplicaSubscribe | ReplicaAck) -> None:
        topic, partition = self._where
        if isinstance(message, ReplicaSubscribe):
            self._agrees = False
            subscription = LogSubscription(
                topic,
                partition,
                message.epoch,
                message.start,
                message.end,
                message.last,
                added=self.added,
            )
            self._streams.subscribe(self._leader.broker, subscription)
        elif message.is_agreed:
            if not self._ends.may_confirm(self._where, self._log):
                # Said again when it is noted that this log has records.
                return
            self._told = self._log.confirmed
            ack = LogAck(
                topic,
                partition,
                message.epoch,
                message.durable,
                message.written,
                message.asked,
                self.added,
            )
            self._streams.acknowledge(self._leader.broker, ack)
