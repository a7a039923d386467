"""The leader's side of a replicated log: what each follower was sent, and what it has synced.

Owns the progress of followers in one leader epoch, and the newest batches, kept until followers got
them. Decides neither who leads nor what is committed: its owner asks for the durable ends and
commits by its own rule.

Invariants
- Only what a follower acknowledged after it agreed in this epoch counts.
- Sent and acknowledged are apart: several appends may be on their way (a reply says nothing about
  those behind it).
- What goes to a follower from the disk is durable here; what goes from memory was written in the
  same turn. A leader whose write fails, or finds no space, must resign: its offsets may have other
  bytes elsewhere.

Cost per batch: one message per follower, no copy. A follower that is behind costs one read of at
most 1 MiB at a time, beside the event loop, when it is its turn (`CatchUp`); what is kept in memory
is what a connected follower has not confirmed, and at most 4 MiB, and 64 MiB of all logs together
(`KeptBytes`).
"""

from collections import deque

import msgspec

from goqueue.broker.cluster.catch_up import CatchUp, CatchUpRate
from goqueue.broker.disk_reads import ReplicaFetch
from goqueue.broker.state import NodeState
from goqueue.cluster import Voter
from goqueue.log import Log
from goqueue.model import (
    Instant,
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
    Slice,
    WatermarkAdvanced,
)
from goqueue.records import Buffer, last_offset

__all__ = ["KEPT_BYTES_MAX", "KeptBytes", "LogLeader"]

_READ_BYTES = 1024 * 1024
_KEPT_BYTES = 4 * 1024 * 1024
KEPT_BYTES_MAX = 64 * 1024 * 1024
# So much may be on its way to a follower; then it is sent more when it has confirmed some.
_WINDOW_BYTES = 4 * 1024 * 1024


class _Follower(msgspec.Struct):
    """How far a follower is. It is sent nothing until it subscribed and agrees."""

    sent: Offset | None = None
    durable: Offset = Offset(0)
    is_reading: bool = False
    # Counts subscriptions: what was read for an earlier one is dropped.
    stream: int = 0
    # What it was sent and has not confirmed: the end and the size of each, and all sizes together.
    in_flight: deque[tuple[Offset, int]] = msgspec.field(default_factory=deque)
    in_flight_bytes: int = 0

    def restart(self) -> None:
        """What was on its way may be lost."""
        self.sent = None
        self.is_reading = False
        self.stream += 1
        self.in_flight.clear()
        self.in_flight_bytes = 0

    def sending(self, following: Offset, size: int) -> None:
        self.sent = following
        self.in_flight.append((following, size))
        self.in_flight_bytes += size

    def confirm(self, durable: Offset) -> None:
        self.durable = max(self.durable, durable)
        while self.in_flight and self.in_flight[0][0] <= durable:
            self.in_flight_bytes -= self.in_flight.popleft()[1]


class _Kept(msgspec.Struct, frozen=True):
    """A batch in memory."""

    first: Offset
    next: Offset
    data: Buffer


class KeptBytes:
    """How much all led logs of a broker keep in memory for their followers."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = 0


class LogLeader:
    """One log that this broker leads, in one epoch."""

    def __init__(
        self,
        state: NodeState,
        log: Log,
        replica: ReplicaLog,
        epoch: int,
        *,
        lane: PeerLane = PeerLane.REPLICATION,
        kept: KeptBytes | None = None,
        catch_up: CatchUp | None = None,
    ) -> None:
        """`kept` counts what all led logs keep, `catch_up` orders the reads for all of them.

        Whoever brings `catch_up` tells it of each read that is done.
        """
        self._state = state
        self._log = log
        self._replica = replica
        self._epoch = epoch
        self._lane = lane
        self._followers: dict[Voter, _Follower] = {}
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = 0
        self._all_kept = KeptBytes() if kept is None else kept
        self._catch_up = catch_up

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def log(self) -> Log:
        return self._log

    def durable_ends(self, me: Voter) -> dict[Voter, Offset]:
        """How much of the log each replica has synced, as far as it counts in this epoch."""
        ends = {who: follower.durable for who, follower in self._followers.items()}
        ends[me] = self._log.watermarks.durable
        return ends

    def holds_all(self, who: Voter) -> bool:
        """Whether a follower has synced everything."""
        follower = self._followers.get(who)
        return follower is not None and follower.durable >= self._log.end

    # What followers say

    def subscribe(self, who: Voter, asked: ReplicaSubscribe, lineage: str, now: Instant) -> None:
        """A follower says how its log ends: it agrees, or learns what to remove."""
        if asked.epoch != self._epoch:
            return
        log = self._log
        follower = self._followers.setdefault(who, _Follower())
        self._restart(who, follower)
        is_blank = asked.start == asked.end
        if is_blank and log.start <= asked.end <= log.end:
            # It holds nothing, and all before its start is committed: nothing can differ.
            self._agree(who, follower, asked.end, now)
        elif asked.lineage not in {"", lineage}:
            # Its records are those of another attempt to form a cluster, whatever their epochs.
            self._diverge(who, asked, 0, log.start, now)
        elif asked.end <= log.start:
            self._reset(who, asked, now)
        elif asked.end <= log.end and log.epochs.epoch_at(Offset(asked.end - 1)) == asked.last:
            self._agree(who, follower, asked.end, now)
        else:
            common = log.epochs.end_of(asked.last, log.end)
            if common is None or common[1] <= log.start:
                self._reset(who, asked, now)
            else:
                self._diverge(who, asked, common[0], common[1], now)

    def _agree(self, who: Voter, follower: _Follower, end: Offset, now: Instant) -> None:
        follower.sent = end
        self._send_batch(who, end, end, (), now)
        self._send_more(who, follower, now)

    def _diverge(
        self, who: Voter, asked: ReplicaSubscribe, common: int, end: Offset, now: Instant
    ) -> None:
        message = ReplicaDiverged(
            log=self._replica,
            epoch=self._epoch,
            subscribed_last=asked.last,
            subscribed_end=asked.end,
            common=common,
            end=end,
            asked=now,
        )
        self._state.outbox.append(Send(broker=who.broker, message=message, lane=self._lane))

    def _reset(self, who: Voter, asked: ReplicaSubscribe, now: Instant) -> None:
        message = ReplicaReset(
            log=self._replica,
            epoch=self._epoch,
            subscribed_last=asked.last,
            subscribed_end=asked.end,
            start=self._log.start,
            asked=now,
        )
        self._state.outbox.append(Send(broker=who.broker, message=message, lane=self._lane))

    def acknowledge(self, who: Voter, ack: ReplicaAck, now: Instant) -> None:
        """A follower synced more."""
        follower = self._followers.get(who)
        if ack.epoch != self._epoch or not ack.is_agreed or follower is None:
            return
        if ack.durable > self._log.end:
            return
        follower.confirm(ack.durable)
        has_all_sent = follower.sent is not None and follower.durable >= follower.sent
        if self._catch_up is not None and has_all_sent:
            self._catch_up.confirmed(self._replica, who, now)
        self._forget_kept()
        self._send_more(who, follower, now)

    def disconnect(self, broker: str) -> None:
        """What was on its way to a broker may be lost: it will subscribe again."""
        for who, follower in self._followers.items():
            if who.broker == broker:
                self._restart(who, follower)
        self._forget_kept()

    def _restart(self, who: Voter, follower: _Follower) -> None:
        """What was on its way to a follower may be lost, and what is read for it is not wanted."""
        follower.restart()
        if self._catch_up is not None:
            self._catch_up.cancel(self._replica, who)

    def _forget_kept(self) -> None:
        """Drop what everybody who is connected has confirmed."""
        if not self._kept:
            return
        connected = [each.durable for each in self._followers.values() if each.sent is not None]
        needed = min(connected, default=self._log.end)
        while self._kept and self._kept[0].next <= needed:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        size = len(self._kept.popleft().data)
        self._kept_bytes -= size
        self._all_kept.used -= size

    def take_back(self, end: Offset) -> None:
        """Records from `end` on are no longer in the log, and nobody was sent them."""
        while self._kept and self._kept[-1].next > end:
            size = len(self._kept.pop().data)
            self._kept_bytes -= size
            self._all_kept.used -= size

    @property
    def kept_bytes(self) -> int:
        """What is in memory for followers."""
        return self._kept_bytes

    def release(self) -> None:
        """This broker leads no longer: keep nothing, and read for nobody."""
        for who, follower in self._followers.items():
            self._restart(who, follower)
        while self._kept:
            self._drop_oldest()

    # Sending

    def appended(self, first: Offset, following: Offset, data: Buffer, now: Instant) -> None:
        """A batch was appended here: send it to everybody who has what is before it."""
        if all(follower.sent is None for follower in self._followers.values()):
            # Whoever subscribes later gets it from the disk.
            return
        self._kept.append(_Kept(first, following, data))
        self._kept_bytes += len(data)
        self._all_kept.used += len(data)
        for who, follower in self._followers.items():
            self._send_more(who, follower, now)
        while self._kept_bytes > _KEPT_BYTES or self._all_kept.used > KEPT_BYTES_MAX:
            if not self._kept:
                break
            self._drop_oldest()

    def resume(self, now: Instant) -> None:
        """More is durable here: read it for those who need it from the disk."""
        for who, follower in self._followers.items():
            self._send_more(who, follower, now)

    def _send_more(self, who: Voter, follower: _Follower, now: Instant) -> None:
        if follower.sent is None or follower.is_reading or follower.sent >= self._sent_below(who):
            return
        if follower.in_flight_bytes > _WINDOW_BYTES:
            return
        if self._send_kept(who, follower, follower.sent, now):
            return
        if follower.durable < follower.sent:
            # The next read follows the acknowledgement of the last.
            return
        try:
            wanted = self._find_unsent(who, follower.sent)
        except Refused:
            # Below the start meanwhile, or damaged: the next heartbeat makes it subscribe again.
            follower.sent = None
            return
        if wanted is not None:
            follower.is_reading = True
            purpose = ReplicaFetch(self._replica, who, self._epoch, follower.stream)
            if self._catch_up is None:
                self._state.fetch(wanted, purpose, in_background=True)
            else:
                self._catch_up.request(
                    wanted, purpose, now, in_sync=self._is_in_sync(who), rate=self._rate_of(who)
                )

    def _rate_of(self, _who: Voter) -> CatchUpRate | None:
        """How fast a follower is read for that is not in sync; None: as all such followers are."""
        return None

    def _is_in_sync(self, _who: Voter) -> bool:
        """Whether a follower is read for before others."""
        return True

    def _sent_below(self, _who: Voter) -> Offset:
        """How far a follower may be sent what is in memory."""
        return self._log.end

    def _find_unsent(self, _who: Voter, sent: Offset) -> Slice | None:
        """Where to read what a follower is sent next from the disk."""
        return self._log.read_for_follower(sent, _READ_BYTES)

    def _is_kept(self, offset: Offset) -> bool:
        """Whether a batch that begins here is in memory."""
        return any(each.first == offset for each in self._kept)

    def _send_kept(self, who: Voter, follower: _Follower, sent: Offset, now: Instant) -> bool:
        """Send batches from memory; False if the next one is not there."""
        kept = self._kept
        index = len(kept)
        while index and kept[index - 1].first >= sent:
            index -= 1
        below = self._sent_below(who)
        if index == len(kept) or kept[index].first != sent or kept[index].next > below:
            return False
        for place in range(index, len(kept)):
            batch = kept[place]
            if batch.next > below:
                break
            self._send_batch(who, batch.first, batch.next, (batch.data,), now)
            follower.sending(batch.next, len(batch.data))
            if follower.in_flight_bytes > _WINDOW_BYTES:
                break
        return True

    def fetched(self, purpose: ReplicaFetch, data: memoryview | None, now: Instant) -> None:
        """Records for a follower were read."""
        follower = self._followers.get(purpose.follower)
        if purpose.epoch != self._epoch or follower is None or follower.stream != purpose.stream:
            return
        follower.is_reading = False
        if data is None or follower.sent is None or not len(data):
            follower.sent = None
            return
        first, following = follower.sent, Offset(last_offset(data) + 1)
        self._send_batch(purpose.follower, first, following, (data,), now)
        follower.sending(following, len(data))
        self._send_more(purpose.follower, follower, now)

    def _send_batch(
        self, who: Voter, first: Offset, following: Offset, data: tuple[Buffer, ...], now: Instant
    ) -> None:
        epochs = self._log.epochs
        at_start = first == self._log.start
        message = ReplicaAppend(
            log=self._replica,
            epoch=self._epoch,
            before=0 if at_start else epochs.epoch_at(Offset(first - 1)),
            wrote=epochs.epoch_at(first),
            first=first,
            next=following,
            committed=self._log.high_watermark,
            start=self._log.start,
            asked=now,
        )
        send = Send(broker=who.broker, message=message, data=data, lane=self._lane)
        self._state.outbox.append(send)

    def heartbeat(self, brokers: list[str], lineage: str, now: Instant) -> None:
        """Say to brokers that this one leads, and what is committed."""
        sent = {who.broker: follower.sent for who, follower in self._followers.items()}
        for broker in brokers:
            message = WatermarkAdvanced(
                log=self._replica,
                epoch=self._epoch,
                committed=self._log.high_watermark,
                start=self._log.start,
                sent=sent.get(broker) or self._log.end,
                asked=now,
                lineage=lineage,
            )
            self._state.outbox.append(Send(broker=broker, message=message, lane=self._lane))
