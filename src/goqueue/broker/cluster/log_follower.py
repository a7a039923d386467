"""The follower's side of a replicated log: takes what continues it, and removes what differs.

Owns whether this log agrees with its leader in the present epoch. Never decides what is committed:
that is what the leader says, as far as it is durable here.

Invariants
- Records are taken only in the current epoch, where this log ends, behind the same last epoch.
- Before the first append was accepted in an epoch, also an empty one, nothing is acknowledged in it
  and no high watermark of it is believed: a tail that differs must not count.
- An answer to an earlier subscription changes nothing once the log ends otherwise.
- Nothing below the own high watermark is removed.

Cost per message: one pass over the records attached, one write, one sync.
"""

import msgspec

from goqueue.broker.state import NodeState
from goqueue.cluster import Voter
from goqueue.log import Appended, Log
from goqueue.model import (
    Instant,
    Now,
    Offset,
    PeerLane,
    Refused,
    ReplicaAck,
    ReplicaAppend,
    ReplicaDiverged,
    ReplicaLog,
    ReplicaReset,
    ReplicaSubscribe,
    Send,
    WatermarkAdvanced,
)
from goqueue.records import Buffer

__all__ = ["LeaderMessage", "LogFollower", "Refusal"]

LeaderMessage = ReplicaAppend | ReplicaDiverged | ReplicaReset | WatermarkAdvanced


class Refusal(msgspec.Struct, frozen=True):
    """Why this log does not follow its leader: an operator must look at it."""

    reason: str


class LogFollower:
    """One log that follows a leader, in one epoch."""

    def __init__(
        self,
        state: NodeState,
        log: Log,
        replica: ReplicaLog,
        leader: Voter,
        epoch: int,
        *,
        lane: PeerLane = PeerLane.REPLICATION,
    ) -> None:
        self._state = state
        self._log = log
        self._replica = replica
        self._leader = leader
        self._epoch = epoch
        self._lane = lane
        self._agrees = False
        # The newest instant of the leader that was heard, and the high watermark it named.
        self._asked = Instant(0)
        self._committed = Offset(0)
        # Where the leader's log begins, as far as it said so.
        self._start = Offset(0)
        # Where the log ended at the last heartbeat that named more: then it is asked for again.
        self._behind_at: Offset | None = None
        self._acknowledged = Offset(0)
        self.broker_epoch = 0

    @property
    def leader(self) -> Voter:
        return self._leader

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def agrees(self) -> bool:
        return self._agrees

    # Asking

    def subscribe(self, lineage: str) -> None:
        """Ask the leader for what comes behind this log."""
        if self._log.is_changing:
            # The end is not known yet; `settled` asks again.
            return
        self._behind_at = None
        message = ReplicaSubscribe(
            log=self._replica,
            epoch=self._epoch,
            start=self._log.start,
            end=self._log.end,
            last=self._log.last_epoch,
            lineage=lineage,
            asked=self._asked,
        )
        self._send(message)

    def _send(self, message: ReplicaSubscribe | ReplicaAck) -> None:
        send = Send(broker=self._leader.broker, message=message, lane=self._lane)
        self._state.outbox.append(send)

    # What the leader says

    def append(self, message: ReplicaAppend, data: tuple[Buffer, ...], now: Now) -> Appended | None:
        """Take records; None if there are none, or they do not continue this log."""
        self._hear(message.asked)
        log = self._log
        is_blank = log.start == log.end
        does_fit = message.first == log.end and (is_blank or message.before == log.last_epoch)
        if log.is_changing or not does_fit:
            # An answer to a question of before: what it says of the commit holds all the same.
            self.commit(message.committed, message.start)
            return None
        did_agree, self._agrees = self._agrees, True
        appended: Appended | None = None
        if message.next > message.first:
            try:
                appended = log.append_as_follower(
                    b"".join(data) if len(data) != 1 else data[0], message.next, message.wrote, now
                )
            except Refused:
                # Damaged on its way, or no space here: the next heartbeat asks for it again.
                return None
            self._state.outbox.extend(appended.effects)
        self.commit(message.committed, message.start)
        if not did_agree:
            self._acknowledge()
        return appended

    def diverged(self, message: ReplicaDiverged) -> Refusal | None:
        """The leader's log differs from what this one subscribed with: remove what it lacks."""
        self._hear(message.asked)
        log = self._log
        is_current = (message.subscribed_last, message.subscribed_end) == (
            log.last_epoch,
            log.end,
        )
        if self._agrees or log.is_changing or not is_current:
            return None
        own = log.epochs.end_of(message.common, log.end)
        target = log.start if own is None else min(own[1], message.end)
        target = max(target, log.start)
        if not self._may_cut(target):
            return Refusal(
                f"the leader {self._leader.broker} lacks committed records from {target} on"
            )
        if self._begins_cut(target):
            self._state.outbox.extend(log.truncate(target))
        return None

    def reset(self, message: ReplicaReset) -> Refusal | None:
        """Nothing in this log continues in the leader's: begin where that begins.

        A log that agreed may have fallen behind the start meanwhile; all below that is committed.
        """
        self._hear(message.asked)
        log = self._log
        is_current = (message.subscribed_last, message.subscribed_end) == (
            log.last_epoch,
            log.end,
        )
        if log.is_changing or not is_current or (self._agrees and message.start <= log.end):
            return None
        if not self._may_cut(message.start):
            return Refusal(f"the leader {self._leader.broker} starts below what is committed here")
        self._agrees = False
        if self._begins_cut(message.start):
            self._state.outbox.extend(log.reset(message.start))
        return None

    def _may_cut(self, target: Offset) -> bool:
        """Whether records from `target` on may be removed."""
        return target >= self._log.high_watermark

    def _begins_cut(self, _target: Offset) -> bool:
        """Whether records from `target` on may be removed now; else they are later."""
        return True

    def heartbeat(self, message: WatermarkAdvanced, lineage: str) -> None:
        """The leader runs: confirm it, and ask again for what should be here and is not."""
        self._hear(message.asked)
        self.commit(message.committed, message.start)
        self._acknowledge()
        end = self._log.end
        if self._agrees and message.sent <= end:
            self._behind_at = None
        elif self._behind_at == end:
            self.subscribe(lineage)
        else:
            self._behind_at = end

    def is_news(self, leader: Voter, message: LeaderMessage) -> bool:
        """Whether a message was sent later than all that was heard of this leader before."""
        is_other = (leader, message.epoch) != (self._leader, self._epoch)
        return is_other or message.asked > self._asked

    def _hear(self, asked: Instant) -> None:
        self._asked = max(self._asked, asked)

    def commit(self, committed: Offset, start: Offset) -> None:
        """The leader's log is committed so far, and begins at `start`."""
        if not self._agrees:
            return
        self._committed = max(self._committed, committed)
        self._start = max(self._start, start)
        self._apply_commit()

    def _apply_commit(self) -> None:
        """Commit what the leader named, as far as it is durable here, and begin where it begins."""
        log = self._log
        log.commit(min(self._committed, log.end))
        if log.start < self._start <= log.removable_upto and not log.is_changing:
            self._state.outbox.extend(log.delete_before(self._start))

    # What the disk says

    def synced(self) -> None:
        """More is durable here: say so, and commit what the leader named meanwhile."""
        if self._agrees:
            self._apply_commit()
            if self._log.watermarks.durable > self._acknowledged:
                self._acknowledge()

    def settled(self, lineage: str) -> None:
        """A truncation or a reset is done: ask again."""
        self.subscribe(lineage)

    def _acknowledge(self) -> None:
        durable = self._log.watermarks.durable
        if self._agrees:
            self._acknowledged = durable
        self._send(
            ReplicaAck(
                log=self._replica,
                epoch=self._epoch,
                asked=self._asked,
                is_agreed=self._agrees,
                durable=durable if self._agrees else Offset(0),
                written=self._log.watermarks.written if self._agrees else Offset(0),
                broker_epoch=self.broker_epoch,
            )
        )
