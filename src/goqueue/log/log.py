"""One partition's log: assigns offsets, decides what is committed, readable and removed.

Owns the metadata of the log and nothing else: bytes pass through `append` to the shell; files and
positions belong to storage. Never waits: work for the disk is returned as effects, and its results
come back as events.

Invariants
- An offset is assigned once. Only `Filled` and `Truncated` take offsets back, and neither takes one
  below the high watermark of a leader.
- Only what is below the high watermark is readable. It passes a record after the disk reported it
  synced (`flush=commit`) or written (`flush=interval`), and its owner commits it if replicated.
- A failed log never commits again in this process.

Cost per batch: one pass over the records (stamp), one `Write`, one `Sync`; no work per record
in this module.
"""

import msgspec

from goqueue.log.batch_mark import BatchMark, label
from goqueue.log.batches import Appended, check_stored
from goqueue.log.control import Marker, epoch_start, marker_of
from goqueue.log.epochs import Epochs
from goqueue.log.log_facts import LogFacts
from goqueue.log.producer_replay import replay
from goqueue.log.producer_state import ProducersStated, ProducerState, TransactionEnd
from goqueue.log.replica import STANDALONE, ReplicaRole
from goqueue.log.retention import CompactionPlanner, is_outlived, retained_from
from goqueue.log.segments import Segments
from goqueue.log.watermarks import Watermarks
from goqueue.model import (
    Change,
    Code,
    Compacted,
    Damaged,
    DiskEvent,
    Drop,
    Dropped,
    Effect,
    Failed,
    Filled,
    Flush,
    Instant,
    LogSettings,
    Now,
    Offset,
    Refused,
    Repair,
    Repaired,
    Reset,
    Reshape,
    Rewind,
    Roll,
    SaveEpochs,
    Seek,
    Slice,
    Sync,
    Synced,
    Timestamp,
    Truncate,
    Truncated,
    Write,
)
from goqueue.records import Buffer, build, stamp, walk

__all__ = ["Log"]


class Log(LogFacts):
    """The log of one partition on one node."""

    __slots__ = ()

    # Append

    def append(self, batch: bytearray, now: Now, mark: BatchMark | None = None) -> Appended:
        """Assign offsets to the records of a verified batch; they are not committed yet.

        With a mark the batch belongs to a producer: it may be refused, or be a repeat.
        """
        if mark is None:
            return self._append(batch, now)
        repeat = self._producers.check(mark)
        if repeat is not None:
            if repeat.next > self.high_watermark:
                # A failed write is never committed, so no caller may wait for it.
                self._condition.check_not_failed()
            return Appended(first=repeat.first, next=repeat.next, effects=(), is_repeat=True)
        self._check_writable(now)
        label(batch, mark)
        appended = self._append(batch, now)
        self._producers.append(mark, appended.first)
        self._hold_stable()
        return appended

    def end_transaction(
        self, marker: Marker, now: Now, *, is_forced: bool = False
    ) -> Appended | None:
        """Append the marker of a transaction; None if it wrote nothing here, or has one.

        With `is_forced` the marker is appended all the same.
        """
        if not is_forced and not self._producers.is_open(marker.producer, marker.transaction):
            return None
        appended = self._append(build([marker_of(marker)]), now)
        self._producers.end(
            marker.producer,
            marker.epoch,
            marker.transaction,
            appended.first,
            is_commit=marker.is_commit,
        )
        return appended

    def _append(self, batch: bytearray, now: Now) -> Appended:
        self._check_writable(now)
        limit = self._settings.batch_bytes_max
        if len(batch) > limit:
            raise Refused(Code.MESSAGE_TOO_LARGE, size=len(batch), limit=limit)
        first = self._end
        stamped = stamp(batch, first, now.wall)
        if not stamped.count:
            raise Refused(Code.REQUEST_INVALID, field="batch", reason="no records")
        following = Offset(first + stamped.count)
        return self._extend(batch, following, Timestamp(stamped.max_timestamp), now)

    def _extend(
        self, batch: Buffer, following: Offset, max_timestamp: Timestamp, now: Now
    ) -> Appended:
        """Put records with their offsets at the end of the log."""
        first = self._end
        active = self._segments.active
        effects: list[Effect] = []
        if active.size and active.size + len(batch) > self._settings.segment_bytes:
            effects.append(self._roll())
            active = self._segments.active
        self._end = following
        self._segments.grow(len(batch), self._end, max_timestamp)
        base, size = active.base, active.size
        write = Write(log=self._log, segment=base, position=size, data=batch, next_offset=self._end)
        effects.extend((write, self._sync_after_write(now)))
        return Appended(first=first, next=self._end, effects=tuple(effects))

    def start_epoch(self, epoch: int, now: Now) -> Appended:
        """Start a leader epoch with a record that every replica gets."""
        latest = self._epochs.latest
        if latest is not None and epoch <= latest:
            raise Refused(Code.REQUEST_INVALID, field="epoch", latest=latest)
        appended = self.append(build([epoch_start(epoch)]), now)
        self._epochs.begin(epoch, appended.first)
        # Saved before it is written: an entry without its record is dropped by recovery, a record
        # without its entry would be overlooked.
        save = self._reshape(SaveEpochs(self._epochs.history))
        return msgspec.structs.replace(appended, effects=(save, *appended.effects))

    def begin_epoch(self, epoch: int) -> list[Effect]:
        """Start the first leader epoch of an empty log without a record: offset 0 is a message's.

        Nobody wrote before, so there is nothing to compare with; a later epoch needs a record.
        """
        assert self._end == 0, "only the first epoch of a log needs no record"
        self._epochs.begin(epoch, self._end)
        return [self._reshape(SaveEpochs(self._epochs.history))]

    def _check_writable(self, now: Now) -> None:
        in_flight_max = self._settings.batches_in_flight_max
        self._condition.check_writable(now, self._segments.in_flight, in_flight_max)

    def _sync_after_write(self, now: Now) -> Sync:
        is_durable = self._settings.flush is Flush.COMMIT
        if not is_durable and self._flush_at is None:
            self._flush_at = Instant(now.instant + self._settings.flush_interval_ns)
        if self._replica is STANDALONE:
            return Sync(log=self._log, upto=self._end, is_durable=is_durable)
        committed = self.high_watermark
        return Sync(log=self._log, upto=self._end, is_durable=is_durable, committed=committed)

    def next_deadline(self) -> Instant | None:
        """When to call `expire`: the next flush of `flush=interval`."""
        return self._flush_at

    def expire(self, now: Now) -> list[Effect]:
        """Flush records that were acknowledged from the page cache."""
        if self._flush_at is None or now.instant < self._flush_at:
            return []
        self._flush_at = None
        return self.save_committed()

    # Replication

    @property
    def is_followed(self) -> bool:
        """Whether this is a copy of what another broker leads."""
        return self._replica.role is ReplicaRole.FOLLOWER

    def assume_role(self, role: ReplicaRole, epoch: int) -> None:
        """Lead or follow in a leader epoch; `commit` moves the high watermark from now on."""
        self._replica = self._replica.succeeded_by(role, epoch, self.high_watermark)

    def append_as_follower(self, data: Buffer, following: Offset, epoch: int, now: Now) -> Appended:
        """Append records of the leader as they are; the first was written in leader epoch `epoch`.

        Raises Refused, before any change, if they do not continue this log.
        """
        self._check_writable(now)
        stored = check_stored(data, self._end, following)
        before = self._epochs.history
        if self._start == self._end:
            # What an epoch before the start was is of no use: nothing is compared with it.
            self._epochs = Epochs([(epoch, self._end)])
        elif epoch != self.last_epoch and stored.epochs[:1] != ((epoch, self._end),):
            raise Refused(Code.REQUEST_INVALID, field="epoch", epoch=epoch)
        for each, start in stored.epochs:
            self._epochs.begin(each, Offset(start))
        appended = self._extend(data, following, stored.max_timestamp, now)
        effects = appended.effects
        if self._epochs.history != before:
            effects = (self._reshape(SaveEpochs(self._epochs.history)), *effects)
        return msgspec.structs.replace(
            appended, effects=effects, stating_bytes=stored.stating_bytes
        )

    def read_for_follower(self, offset: Offset, bytes_max: int) -> Slice | None:
        """Where to read durable records, committed or not; None when there is none yet."""
        self._check_in_range(offset)
        return self._segments.slice(self._log, offset, self._watermarks.durable, bytes_max)

    def repair(self, first: Offset, data: Buffer) -> list[Effect]:
        """Write the records of another copy over damaged ones; `Repaired` says how far that is."""
        if not self._condition.is_sound or not self.is_damaged_at(first):
            return []
        return [self._reshape(Repair(first, memoryview(data)))]

    def reset(self, start: Offset) -> list[Effect]:
        """Give up every record and continue at `start`, below which all is committed."""
        self._condition.check_not_failed()
        self._condition.check_not_truncating()
        self._condition.truncating_to = min(self._end, start)
        self._segments.confirm_all()
        # What was decided about the records that go says nothing of those that take their offsets.
        self._replica.lower_to(start)
        return [self._reshape(Reset(start))]

    def commit(self, upto: Offset) -> bool:
        """Everything below `upto` is committed: decided by the owner of a replicated log.

        What the own disk does not hold yet follows when it does. Returns whether the high watermark
        rose.
        """
        self._replica.decide(upto)
        has_risen = self._condition.failure is None and self._commit_decided()
        self._end_transactions()
        return has_risen

    def save_committed(self) -> list[Effect]:
        """Flush; the recovery point of a replicated log then saves its high watermark."""
        if self._condition.failure is not None:
            return []
        committed = Offset(0) if self._replica is STANDALONE else self.high_watermark
        return [Sync(log=self._log, upto=self._end, committed=committed)]

    def _commit_decided(self) -> bool:
        """Commit what the owner decided, as far as the own disk holds it."""
        return self._watermarks.commit(self._replica.committable(self.confirmed))

    def _end_transactions(self) -> None:
        ended = self._producers.commit(self.high_watermark)
        if ended:
            self._ended.extend(ended)
            self._hold_stable()

    # Producers and transactions

    def take_ended(self) -> list[TransactionEnd]:
        """The transactions whose markers were committed since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def restore_producers(self, stated: ProducersStated) -> bool:
        """Restore producer state below the offset of a snapshot; False if it is unusable."""
        is_restored = self._producers.restore(stated)
        self._producers.drop_below(self._start)
        self._hold_stable()
        return is_restored

    def replay_producers(self, data: Buffer, start: Offset) -> None:
        """Update producer state from stored records from `start` on."""
        replay(self._producers, data, walk(data), start)
        self._producers.interrupt(self._end)
        self._hold_stable()

    def fold_producers(self, data: Buffer, start: Offset) -> None:
        """Update producer state from committed records, piece after piece, as a follower."""
        replay(self._producers, data, walk(data), start)
        self._hold_stable()

    def finish_producers(self) -> None:
        """All records up to the end were folded: a batch that the end cuts off is not a batch."""
        self._producers.interrupt(self._end)
        self._hold_stable()

    def forget_producers(self) -> None:
        """Producer state may say what was never committed: it is folded anew."""
        self._producers = ProducerState()
        self._hold_stable()

    def fold_below(self, offset: Offset | None) -> None:
        """Producers are known below this offset only, so nothing behind it is stable; None: all."""
        self._folded = offset
        self._hold_stable()

    def _hold_stable(self) -> None:
        unstable, folded = self._producers.unstable_from, self._folded
        if unstable is None or (folded is not None and folded < unstable):
            unstable = folded
        self._watermarks.hold_stable_at(unstable)

    # Disk events

    def handle(self, event: DiskEvent, now: Now) -> list[Effect]:
        """Process a result of the disk; more effects may follow."""
        match event:
            case Synced():
                self._synced(event)
            case Failed():
                self._condition.failure = self._condition.failure or event.reason
                self._segments.confirm_all()
            case Filled():
                return self._filled(event, now)
            case Truncated():
                return self._truncated(event)
            case Damaged():
                self._damaged(event)
            case Repaired():
                self._segments.accept(event.first, event.below)
            case Compacted():
                self._compaction.compacted(event, self._segments)
            case Dropped():
                # The start was moved when the deletion was decided.
                pass
        return []

    def _synced(self, event: Synced) -> None:
        if self._condition.failure is not None:
            return
        upto, end = event.upto, self._condition.truncating_to
        if end is not None and end < upto:
            upto = end
        self._segments.confirm(upto)
        is_alone = self._replica is STANDALONE
        self._watermarks.advance(upto, is_durable=event.is_durable, is_committed=is_alone)
        if not is_alone:
            self._commit_decided()
        self._end_transactions()

    def _filled(self, event: Filled, now: Now) -> list[Effect]:
        if self._condition.truncating_to is not None:
            # The running truncation ends below the unwritten bytes, or replaces them.
            return []
        self._segments.take_back(event.offset, event.segment)
        self._end = event.offset
        self._producers.take_back(event.offset)
        self._hold_stable()
        self._condition.full_until = Instant(now.instant + self._settings.full_retry_ns)
        if self._watermarks.durable < self._end and self._settings.flush is Flush.INTERVAL:
            # A flush in progress may have met the full disk.
            self._flush_at = self._flush_at or self._condition.full_until
        rewind = self._reshape(Rewind(event.offset))
        return [rewind, *self._take_back_epochs()]

    def _damaged(self, event: Damaged) -> None:
        """Refuse exactly the damaged records; an unknown segment has none."""
        if self._condition.truncating_to is None and self._segments.known(event.segment):
            # Uncommitted records may still be acknowledged, and are not refused before.
            below = min(event.below, self.high_watermark)
            self._segments.refuse(event.first, below, event.reason)

    # Read

    def read(self, offset: Offset, bytes_max: int, *, below: Offset | None = None) -> Slice | None:
        """Where to read committed records from `offset` on; None when there is none yet.

        A read ends with its segment, or before damage; a reader continues at the offset after the
        last record it got. `below` bounds the read further, for example at the last stable offset.
        """
        self._check_in_range(offset)
        limit = self.high_watermark if below is None else min(below, self.high_watermark)
        return self._segments.slice(self._log, offset, limit, bytes_max)

    def _check_in_range(self, offset: Offset) -> None:
        if not self._start <= offset <= self._end:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE, offset=offset, earliest=self._start, end=self._end
            )

    def seek(self, timestamp: Timestamp) -> list[Seek]:
        """Where to look for the first committed record with this `timestamp` or a later one.

        The shell uses the first result; if there is none, the answer is the high watermark.
        """
        return self._segments.seeks(self._log, timestamp, self._start, self.high_watermark)

    # Removal

    def maintain(
        self, now: Now, floor: Offset | None = None, *, may_retire: bool = True
    ) -> list[Effect]:
        """Retention, then compaction; nothing at or above `floor` is touched.

        Followers do not retire: where their log begins, their leader says.
        """
        if not self._condition.is_sound:
            return []
        stable = self._watermarks.stable
        limit = stable if floor is None else min(floor, stable)
        effects: list[Effect] = []
        if may_retire and self._settings.cleanup.deletes:
            effects.extend(self._retire(now, limit))
        plan = self._compaction.plan(
            self._segments, limit, self._settings, now.wall, self._producers.aborted
        )
        if plan is not None:
            effects.append(self._reshape(plan))
        return effects

    def _retire(self, now: Now, limit: Offset) -> list[Effect]:
        effects: list[Effect] = []
        active = self._segments.active
        if active.size and active.end <= limit and is_outlived(active, self._settings, now.wall):
            # Only sealed segments are deleted, and an idle topic would never seal this one.
            effects.append(self._roll())
        start = retained_from(
            self._segments.sealed, self._segments.size, limit, self._settings, now.wall
        )
        if start is not None:
            effects.extend(self._drop(start))
        return effects

    def _drop(self, start: Offset) -> list[Effect]:
        self._segments.drop_below(start)
        self._start = start
        self._epochs.drop_below(start)
        self._producers.drop_below(start)
        return [self._reshape(Drop(start))]

    def delete_before(self, offset: Offset) -> list[Effect]:
        """Delete every record below `offset`; `Dropped` tells that the start is durable.

        The start may be inside a segment, which keeps its file until it ends below the start. An
        offset that was deleted before changes nothing, and is answered all the same: the earlier
        deletion may not be durable yet.

        The start is never inside aborted records: the mark of their batch would be before it, and
        without the mark a restart would take the rest of the batch for messages. It is moved
        behind them, which deletes nothing that anybody could read.
        """
        assert offset <= self.removable_upto, "uncommitted records are never deleted"
        offset = self._producers.aborted.skip(offset)
        self._condition.check_not_failed()
        self._condition.check_not_truncating()
        active = self._segments.active
        # Only sealed segments are removed.
        sealed = [self._roll()] if active.size and active.end <= offset else []
        return [*sealed, *self._drop(max(offset, self._start))]

    def begin_segment(self) -> list[Effect]:
        """Seal the active segment, so that everything below the end can be dropped later."""
        return [self._roll()] if self._segments.active.size else []

    def drop_below(self, offset: Offset) -> list[Effect]:
        """Remove sealed segments that end at or below `offset`: the owner no longer needs them.

        For journals, whose state is written again; retention cannot know that.
        """
        ends = [sealed.end for sealed in self._segments.sealed if sealed.end <= offset]
        if not ends or not self._condition.is_sound:
            return []
        return self._drop(Offset(max(ends)))

    def configure(self, settings: LogSettings) -> None:
        """Change the settings of the log."""
        self._settings = settings

    def truncate(self, offset: Offset) -> list[Effect]:
        """Remove every record from `offset` on. Appends are refused until it is done."""
        self._check_in_range(offset)
        self._condition.check_not_failed()
        self._condition.check_not_truncating()
        self._condition.truncating_to = offset
        self._segments.confirm_all()
        self._watermarks.lower_to(offset)
        self._replica.lower_to(offset)
        return [self._reshape(Truncate(offset))]

    def _truncated(self, event: Truncated) -> list[Effect]:
        if event.is_reset:
            self._start = event.active.base
            self._segments = Segments((event.active,))
            self._watermarks = Watermarks(self._start)
            self._epochs = Epochs()
            self._producers = ProducerState()
            self._compaction = CompactionPlanner(self._start)
        self._segments.restore_active(event.active)
        self._end = event.active.end
        self._producers.take_back(self._end)
        self._hold_stable()
        self._condition.truncating_to = None
        self._compaction.truncate(self._end)
        return self._take_back_epochs()

    def _take_back_epochs(self) -> list[Effect]:
        before = self._epochs.history
        self._epochs.truncate(self._end)
        if self._epochs.history == before:
            return []
        return [self._reshape(SaveEpochs(self._epochs.history))]

    def _roll(self) -> Reshape:
        self._segments.roll(self._end)
        return self._reshape(Roll(self._end))

    def _reshape(self, change: Change) -> Reshape:
        return Reshape(log=self._log, change=change)
