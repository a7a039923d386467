"""One partition that this broker leads, in one epoch: its followers, its ISR, its high watermark.

A leader-elect serves nothing until all that it found is committed in its own epoch; it does all
else that a leader does, or an ISR at the minimum with a dead member would never commit the record
of its epoch. Rules: `cluster/isr_rules`.

Invariants
- The high watermark is the lowest confirmed end of the ISR and of those who join it (C7), passes
  nothing before the first record of the own epoch is held by all of them, and never falls.
- What a follower confirmed counts for the run of the broker that confirmed it, after it agreed in
  this epoch (C11).
- An observer, which is no replica, is sent nothing that is not committed, and counts for nothing.
- A learner, which is to become a replica, is a follower outside the ISR, with a rate of its own.
  What its broker said of a copy that it had before and dropped does not count.
- One change of the ISR is on its way. While it is not answered the same is asked for again, and
  whoever joins by it counts, until the partition version moves or the image says that it cannot
  commit any more.

Cost per batch: one message for each follower, from memory; per acknowledgement a minimum over the
ISR. Nothing while nobody writes.
"""

from collections.abc import Iterator, Mapping

import msgspec

from goqueue.broker.cluster.catch_up import CatchUp, CatchUpRate
from goqueue.broker.cluster.log_leader import KeptBytes, LogLeader
from goqueue.broker.disk_reads import RepairFetch
from goqueue.broker.replication.recorded_ends import RecordedEnds
from goqueue.broker.replication.replication_counts import ReplicationCounts
from goqueue.broker.replication.streams import ReplicaStreams
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    FollowerProgress,
    PartitionId,
    PartitionState,
    Voter,
    committed_end,
    wanted_isr,
)
from goqueue.log import Log, ReplicaRole
from goqueue.model import (
    SECOND,
    Instant,
    IsrWish,
    LogAck,
    LogSubscription,
    LogWatermark,
    MoveProgress,
    Now,
    Offset,
    Refused,
    ReplicaAck,
    ReplicaKind,
    ReplicaLog,
    ReplicaSubscribe,
    Slice,
    Write,
)
from goqueue.records import Buffer, last_offset

# For so long the confirmation of a follower counts.
_CONFIRMED_NS = SECOND
# So much of a damaged range is sent at once.
_REPAIR_BYTES = 1024 * 1024
# So much is read for an observer at once, and so much for a learner, by its rate.
_READ_BYTES = 1024 * 1024
_LEARNER_BYTES_MIN = 64 * 1024
_READS_PER_SECOND = 4

__all__ = ["ClusterView", "PartitionLeader"]


class ClusterView:
    """What all partitions of a broker share.

    `epochs` has the broker epochs of those that may be in an ISR: registered, not fenced, not
    leaving. Whoever made the view keeps it true.
    """

    def __init__(self, state: NodeState, catch_up_bytes_per_second: int | None = None) -> None:
        self.state = state
        self.catch_up = CatchUp(state, catch_up_bytes_per_second)
        self.streams = ReplicaStreams(state.outbox)
        self.epochs: dict[str, int] = {}
        self.ends = RecordedEnds()
        self.counts = ReplicationCounts()
        self.kept = KeptBytes()
        # Logs that are looked at every half second.
        self.watched: dict[PartitionId, None] = {}
        # The partitions that are moved, and how fast their learners may be sent what they lack.
        self.rates: dict[PartitionId, CatchUpRate] = {}


class _Timed(msgspec.Struct, frozen=True):
    """A batch that a follower was sent, and when."""

    next: Offset
    sent_at: Instant


class PartitionLeader(LogLeader):
    """Leads one partition in one epoch."""

    def __init__(
        self,
        view: ClusterView,
        log: Log,
        where: PartitionId,
        *,
        image: PartitionState,
        minimum: int,
        is_first: bool,
        now: Now,
    ) -> None:
        """`is_first`: this is the epoch with which the partition was created."""
        replica = ReplicaLog(ReplicaKind.DATA, where.topic, where.partition)
        super().__init__(
            view.state, log, replica, image.epoch, kept=view.kept, catch_up=view.catch_up
        )
        self._where = where
        self._me = view.state.node_id
        self._streams = view.streams
        self._image = image
        self._minimum = minimum
        self._epochs: Mapping[str, int] = view.epochs
        self._watched = view.watched
        self._ends = view.ends
        self._counts = view.counts
        # By follower, the batch whose confirmation is timed.
        self._timed: dict[str, _Timed] = {}
        self._is_first = is_first
        self._progress: dict[str, FollowerProgress] = {}
        self._wish: IsrWish | None = None
        self._joining: tuple[str, ...] = ()
        self._wished_at = Instant(0)
        # The first record of this epoch; None until there is one.
        self._epoch_first: Offset | None = None
        self._is_serving = False
        # Where a follower's log begins; records before were deleted by an earlier leader.
        self._start = Offset(0)
        # The high watermark that each broker was told last, and whether that of all is the newest.
        self._told: dict[str, Offset] = {}
        self._rates: Mapping[PartitionId, CatchUpRate] = view.rates
        # What learners were sent in this epoch.
        self._learner_bytes = 0
        # Whether another broker is about to lead: see `Handovers`.
        self.is_handing_over = False
        log.assume_role(ReplicaRole.LEADER, image.epoch)
        self._follow_copies(now.instant)
        if log.high_watermark == log.end:
            # All that is here is committed: the first append brings the record of the epoch.
            self._is_serving = True
        else:
            self.begin_epoch(now)
        self.advance()

    # What others see

    @property
    def where(self) -> PartitionId:
        return self._where

    @property
    def image(self) -> PartitionState:
        """What the image says of the partition."""
        return self._image

    @property
    def is_serving(self) -> bool:
        """Whether all that was found is committed: before, nothing may be shown or appended."""
        return self._is_serving

    @property
    def has_followers(self) -> bool:
        """Whether others keep copies: what was sent to them cannot be taken back."""
        return bool(self._progress)

    @property
    def is_followed(self) -> bool:
        """Whether anybody is told of commits: replicas, or whoever observes the log."""
        return bool(self._progress or self._followers)

    @property
    def has_observers(self) -> bool:
        return any(self._is_observer(who) for who in self._followers)

    @property
    def minimum(self) -> int:
        return self._minimum

    @property
    def live_members(self) -> int:
        """How many members of the ISR, this broker among them, are registered and not fenced."""
        epochs, me = self._epochs, self._me
        return sum(1 for broker in self._image.isr if broker == me or broker in epochs)

    @property
    def needs_attention(self) -> bool:
        """Whether time changes something: a wish is not answered, or somebody lacks something.

        A live replica outside the ISR is asked how far it is until it joins: what it said before
        the image showed its run did not count.
        """
        if self._wish is not None:
            return True
        end, isr, committed = self._log.end, self._image.isr, self._log.high_watermark
        return any(
            follower.durable < committed
            for who, follower in self._followers.items()
            if self._is_observer(who)
        ) or any(
            progress.held < end if broker in isr else broker in self._epochs
            for broker, progress in self._progress.items()
        )

    def is_held_by(self, broker: str) -> bool:
        """Whether another replica holds all that is here, and all of it is committed."""
        progress, log = self._progress.get(broker), self._log
        return progress is not None and min(progress.held, log.high_watermark) >= log.end

    def progress(self, broker: str) -> FollowerProgress | None:
        return self._progress.get(broker)

    def lags(self) -> Iterator[tuple[str, int]]:
        """How many records each follower lacks, as far as it has confirmed any."""
        end, start = self._log.end, self._log.start
        for broker, progress in self._progress.items():
            yield broker, end - max(start, progress.held)

    # Appending

    def begin_epoch(self, now: Now) -> None:
        """Before the first append of an epoch: say in the log where it begins.

        Raises Refused, before any change, if the log takes nothing now. The epoch with which a
        partition was created needs no record in an empty log: nobody wrote before.
        """
        if self._epoch_first is not None:
            return
        log = self._log
        if self._is_first and log.end == 0:
            self._state.outbox.extend(log.begin_epoch(self._epoch))
            self._epoch_first = Offset(-1)
            return
        appended = log.start_epoch(self._epoch, now)
        self._state.outbox.extend(appended.effects)
        self._epoch_first = appended.first
        (data,) = (each.data for each in appended.effects if isinstance(each, Write))
        self.appended(appended.first, appended.next, data, now.instant)

    def appended(self, first: Offset, following: Offset, data: Buffer, now: Instant) -> None:
        """A batch was appended here: it goes to everybody who has what is before it."""
        for progress in self._progress.values():
            if progress.held >= first:
                # It had everything until now.
                progress.since = now
        if self.is_followed:
            self._watched[self._where] = None
            super().appended(first, following, data, now)

    # What followers say

    def subscribed(self, who: Voter, asked: LogSubscription, now: Instant) -> None:
        if asked.epoch != self._epoch:
            return
        progress = self._progress.get(who.broker)
        if progress is not None:
            if progress.added != asked.added:
                # Of another copy: it asks again when both images say the same.
                return
            progress.subscribe(self._log.end)
        elif not self._is_serving:
            # How far the log is committed is not known yet: an observer asks again.
            return
        self._told.pop(who.broker, None)
        self._timed.pop(who.broker, None)
        message = ReplicaSubscribe(
            log=self._replica,
            epoch=asked.epoch,
            start=asked.start,
            end=asked.end,
            last=asked.last,
        )
        self.subscribe(who, message, "", now)
        if progress is not None:
            self._take_start(who, asked.start)

    def _take_start(self, who: Voter, start: Offset) -> None:
        """A follower that agrees begins later: an earlier leader had deleted what is before it."""
        follower = self._followers.get(who)
        if follower is not None and follower.sent is not None:
            self._start = max(self._start, start)
            self._delete_before_start()

    def _delete_before_start(self) -> None:
        log = self._log
        if log.start < self._start <= log.watermarks.stable and not log.is_changing:
            self._state.outbox.extend(log.delete_before(self._start))

    def acknowledged(self, who: Voter, ack: LogAck, broker_epoch: int, now: Instant) -> None:
        """A follower that agrees confirms what it has."""
        progress = self._progress.get(who.broker)
        if ack.epoch != self._epoch or ack.durable > self._log.end:
            return
        if progress is None:
            self.acknowledge(who, self._confirmed(ack, ack.durable, now), now)
            return
        if progress.join_at is None or progress.added != ack.added or ack.written > self._log.end:
            # It did not subscribe in this epoch, or speaks of another copy.
            return
        held = ack.written if self._log.commits_written else ack.durable
        progress.hold(held, broker_epoch, self._log.end, now)
        timed = self._timed.get(who.broker)
        if timed is not None and held >= timed.next:
            del self._timed[who.broker]
            self._counts.confirm(who.broker, now - timed.sent_at)
        progress.confirmed_at = max(progress.confirmed_at, min(ack.asked, now))
        self.acknowledge(who, self._confirmed(ack, held, now), now)

    def _confirmed(self, ack: LogAck, held: Offset, now: Instant) -> ReplicaAck:
        return ReplicaAck(
            log=self._replica, epoch=ack.epoch, asked=now, is_agreed=True, durable=held
        )

    # Observers

    def _is_observer(self, who: Voter) -> bool:
        return who.broker not in self._progress

    def keep_observer(self, broker: str | None) -> None:
        """End the subscriptions of all observers but one."""
        for who in [each for each in self._followers if self._is_observer(each)]:
            if who.broker != broker:
                self._restart(who, self._followers.pop(who))
                self._told.pop(who.broker, None)
        self._forget_kept()

    def send_committed(self, now: Instant) -> None:
        """More is committed: observers get it."""
        for who, follower in self._followers.items():
            if self._is_observer(who):
                self._send_more(who, follower, now)

    def _sent_below(self, who: Voter) -> Offset:
        # What is not committed may be replaced by other bytes, and nobody could tell an observer.
        return self._log.high_watermark if self._is_observer(who) else self._log.end

    def _find_unsent(self, who: Voter, sent: Offset) -> Slice | None:
        if self._is_observer(who):
            return self._log.read(sent, _READ_BYTES)
        rate = self._rate_of(who)
        if rate is not None:
            size = max(_LEARNER_BYTES_MIN, rate.bytes_per_second // _READS_PER_SECOND)
            return self._log.read_for_follower(sent, min(_READ_BYTES, size))
        return super()._find_unsent(who, sent)

    # Learners

    def _is_learning(self, broker: str) -> bool:
        """Whether a broker copies the log to become a replica, and is not in sync yet."""
        image = self._image
        return broker in image.target and not (broker in image.isr or broker in image.replicas)

    def _rate_of(self, who: Voter) -> CatchUpRate | None:
        if not self._is_learning(who.broker):
            return None
        rate = self._rates.get(self._where)
        return rate if rate is not None and rate.bytes_per_second else None

    def move_progress(self) -> MoveProgress:
        """How far the learners are; all of them, if none is left that is not in sync."""
        log, held, is_near = self._log, 1000, True
        for broker in self._image.learners:
            if not self._is_learning(broker):
                continue
            known = [each for who, each in self._followers.items() if who.broker == broker]
            durable = max((each.durable for each in known), default=Offset(0))
            share = 1000 * max(0, durable - log.start) // max(1, log.end - log.start)
            held = min(held, share if log.end > log.start else 1000)
            sent = max((each.sent or Offset(0) for each in known), default=Offset(0))
            is_near &= bool(known) and (sent >= log.end or self._is_kept(sent))
        return MoveProgress(
            topic=self._where.topic,
            partition=self._where.partition,
            epoch=self._epoch,
            sent=self._learner_bytes,
            held=held,
            is_near=is_near,
        )

    # Repair

    def send_range(self, who: Voter, first: Offset, below: Offset) -> None:
        """A follower has committed records damaged: read them for it, if they are whole here."""
        log = self._log
        if who not in self._followers or not log.start <= first < below:
            return
        try:
            wanted = log.read(first, _REPAIR_BYTES, below=below)
        except Refused:
            return
        if wanted is not None:
            purpose = RepairFetch(self._replica, who, self._epoch, first)
            self._state.fetch(wanted, purpose, in_background=True)

    def range_fetched(self, purpose: RepairFetch, data: memoryview, now: Instant) -> None:
        """Records for a repair were read: they go as an append that continues nothing."""
        if purpose.epoch == self._epoch:
            following = Offset(last_offset(data) + 1)
            super()._send_batch(purpose.follower, purpose.first, following, (data,), now)

    # Commits

    def advance(self) -> bool:
        """Commit what everybody holds that must; whether the high watermark rose."""
        log, first = self._log, self._epoch_first
        if first is None or not self._ends.may_confirm(self._where, log):
            return False
        isr = self._image.isr
        if len(isr) == 1 and not self._joining:
            upto = log.confirmed
        else:
            members = [each for each in (*isr, *self._joining) if each != self._me]
            upto = committed_end(log.confirmed, self._progress, members)
        has_risen = upto > first and log.commit(min(upto, log.end))
        if has_risen:
            self._is_serving = True
            self._delete_before_start()
        return has_risen

    def tell_watermarks(self, only: str | None = None) -> None:
        """Say how far the log is committed to those whom no append told it, or to one of them."""
        log = self._log
        committed = log.high_watermark
        for who, follower in self._followers.items():
            is_told = self._told.get(who.broker, Offset(-1)) >= committed
            if not is_told and follower.sent is not None and only in {None, who.broker}:
                self._tell(who.broker, follower.sent)

    def invite(self) -> None:
        """Say to all that this broker leads: a subscription that came before was not heard."""
        for broker in self._progress:
            self._tell(broker, self._log.end)

    def tell_all(self) -> None:
        """Say the same to everybody: something may have been lost, or the log begins later."""
        for who, follower in self._followers.items():
            self._tell(who.broker, self._log.end if follower.sent is None else follower.sent)

    def _tell(self, broker: str, sent: Offset) -> None:
        log = self._log
        self._told[broker] = log.high_watermark
        watermark = LogWatermark(
            self._where.topic,
            self._where.partition,
            self._epoch,
            log.high_watermark,
            log.start,
            sent,
        )
        self._streams.advance(broker, watermark)

    def _send_batch(
        self, who: Voter, first: Offset, following: Offset, data: tuple[Buffer, ...], now: Instant
    ) -> None:
        self._told[who.broker] = self._log.high_watermark
        if data and who.broker in self._progress:
            self._timed.setdefault(who.broker, _Timed(following, now))
        if self._is_learning(who.broker):
            self._learner_bytes += sum(map(len, data))
        super()._send_batch(who, first, following, data, now)

    def _is_in_sync(self, who: Voter) -> bool:
        return who.broker in self._image.isr

    def is_confirmed(self, now: Instant) -> bool:
        """Whether no other broker can lead already: all others of the ISR followed a moment ago.

        Any successor is one of them, or of those whose joining may be committed already. If not
        they are asked, and the answer is known soon.
        """
        since = now - _CONFIRMED_NS
        members = [each for each in (*self._image.isr, *self._joining) if each != self._me]
        if all(self._progress[each].confirmed_at >= since for each in members):
            return True
        self.tell_all()
        return False

    # The ISR

    def _follow_copies(self, now: Instant) -> None:
        """Count on those who keep copies, and on nobody else."""
        copies = [each for each in self._image.copies if each != self._me]
        for broker, known in list(self._progress.items()):
            if broker in copies and known.added == self._image.added_at(broker):
                continue
            del self._progress[broker]
            self._told.pop(broker, None)
            for who in [each for each in self._followers if each.broker == broker]:
                self._restart(who, self._followers.pop(who))
            self._forget_kept()
        for broker in copies:
            if broker not in self._progress:
                added = self._image.added_at(broker)
                self._progress[broker] = FollowerProgress(since=now, added=added)

    def follow_image(self, image: PartitionState, minimum: int, now: Instant) -> bool:
        """The image says something new of this epoch; whether the high watermark rose."""
        if image.version != self._image.version:
            self._wish, self._joining = None, ()
        self._image = image
        self._minimum = minimum
        self._follow_copies(now)
        if self._wish is not None and any(
            self._epochs.get(broker) != epoch
            for broker, epoch in self._wish.isr
            if broker in self._joining
        ):
            # It can never commit: whoever wanted to join is fenced, or began anew.
            self._wish, self._joining = None, ()
        if self._wish is not None and not self._joining and self._is_too_small(self._wish):
            # It is refused since the minimum was raised. One by which somebody joins stays: it may
            # have committed, and whoever joined by it counts.
            self._wish = None
        return self.advance()

    def _is_too_small(self, wish: IsrWish) -> bool:
        return len(wish.isr) < min(self._minimum, len(self._image.isr))

    def wish(self, now: Instant, repeat_ns: int) -> IsrWish | None:
        """The change of the ISR to ask for now, if there is one."""
        if self._wish is not None:
            if now - self._wished_at < repeat_ns:
                return None
            self._wished_at = now
            return self._wish
        wanted = wanted_isr(
            self._me,
            self._image.isr,
            self._progress,
            epochs=self._epochs,
            end=self._log.end,
            high_watermark=self._log.high_watermark,
            minimum=self._minimum,
            now=now,
        )
        if wanted is None and self._has_unsure_in_sync():
            # Stated anew: it holds all again.
            wanted = self._image.isr
        if wanted is None:
            return None
        self._joining = tuple(each for each in wanted if each not in self._image.isr)
        members = tuple((broker, self._epoch_in_sync(broker)) for broker in wanted)
        self._wish = IsrWish(
            self._where.topic, self._where.partition, self._epoch, self._image.version, members
        )
        self._wished_at = now
        return self._wish

    def _has_unsure_in_sync(self) -> bool:
        """Whether a member that may have lost its tail was found in sync since."""
        return any(
            each.broker != self._me
            and self._epochs.get(each.broker) == self._epoch_in_sync(each.broker)
            for each in self._image.unsure
        )

    def _epoch_in_sync(self, broker: str) -> int:
        """The run of a broker that was found in sync in this epoch; 0 if none was."""
        if broker == self._me:
            return self._epochs.get(broker, 0)
        progress = self._progress[broker]
        return progress.broker_epoch if progress.may_join(self._log.high_watermark) else 0
