"""One simulated life of a log: appends, reads, crashes and repairs, all drawn from one seed.

The log machine and the storage code are the real ones; only the disk, the clock and the order of
things are simulated. Events and effects wait in queues, and the run chooses what moves next, so
every order that threads could produce is possible here.
"""

from collections.abc import Callable, Sequence
from random import Random

from goqueue.log import Log
from goqueue.model import (
    HOUR,
    MILLISECOND,
    SECOND,
    Code,
    Compacted,
    DiskEvent,
    Dropped,
    Effect,
    Failed,
    Filled,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    Timestamp,
    Truncated,
    Write,
)
from goqueue.sim.disk import Crashed, DiskClock, SimulatedFileSystem
from goqueue.sim.faults import Faults, Swarm
from goqueue.sim.machine import Machine
from goqueue.sim.oracle import Oracle, Violation
from goqueue.sim.sabotage import Sabotage
from goqueue.sim.trace import Trace
from goqueue.sim.workload import Workload, draw_settings
from goqueue.storage import DamageFound, RecoveryReport

__all__ = ["Run"]

_LOG = LogId("simulated", 0)
_DELETION_SHARE = 0.3
_READ_BYTES = (1, 200, 2000, 1 << 20)


class Run:
    """The world of one seed."""

    def __init__(
        self, seed: int, trace: Trace, steps: int = 250, *, tears_pages: bool = False
    ) -> None:
        self._steps = steps
        self._random = Random(seed)  # noqa: S311 - chance that can be repeated is the point
        self._trace = trace
        self._swarm = Swarm.draw(self._random)
        self._faults = Faults()
        pages = Random(seed + 1) if tears_pages else None  # noqa: S311 - not for secrets
        self._files = SimulatedFileSystem(self._random, self._faults, pages)
        self._settings = draw_settings(self._random, self._swarm)
        self._workload = Workload(self._random)
        self._oracle = Oracle(compacts=self._swarm.compaction)
        self._sabotage = Sabotage(self._files, self._random, _LOG)
        self._now = Now(Instant(0), Timestamp(1_700_000_000 * SECOND))
        self._epoch = 0
        ticks = Random(seed + 2)  # noqa: S311 - not for secrets
        clock = DiskClock(ticks, lambda: self._now.instant)
        self._machine = Machine(_LOG, self._files, self._settings, trace, clock)
        # Beside the other choices, so that older seeds still mean what they meant.
        self._deletions = Random(seed + 3)  # noqa: S311 - not for secrets
        self._is_truncating = False
        self._cleaned_upto = Offset(0)
        trace.note("swarm", self._swarm)
        self._open(is_power_lost=False)

    @property
    def _log(self) -> Log:
        return self._machine.log

    def live(self) -> None:
        """The whole run: with faults, then without, when every promise must be kept."""
        actions = self._actions()
        for _ in range(self._steps):
            action = self._random.choice(actions)
            self._trace.note("do", action.__name__)
            try:
                action()
            except Crashed as crash:
                self._trace.note("crashed", str(crash))
                self._crash(is_power_lost=self._is_power_to_be_lost())
        self._heal()
        self._prove()

    def _actions(self) -> list[Callable[[], None]]:
        swarm = self._swarm
        actions = [self._append] * 8 + [self._disk_turn] * 8 + [self._deliver] * 10
        actions += [self._read] * 4 + [self._pass_time] * 3 + [self._seek]
        optional: list[tuple[bool, Callable[[], None]]] = [
            (swarm.power_loss or swarm.process_kill, self._crash_now),
            (swarm.crash_inside, self._arm_crash),
            (swarm.sync_errors, self._faults.arm_sync_error),
            (swarm.write_errors, self._faults.arm_write_error),
            (swarm.name_errors, self._arm_name_error),
            (swarm.full_disk, self._change_space),
            (swarm.clock_jumps, self._jump_clock),
            (swarm.truncation, self._truncate),
            (swarm.compaction or swarm.retention, self._maintain),
            (swarm.compaction, self._compaction_step),
            (swarm.compaction, self._compaction_step),
            (swarm.rot, self._rot),
            (swarm.index_trouble, self._sabotage.spoil_index),
            (swarm.epochs, self._start_epoch),
        ]
        return actions + [action for is_on, action in optional if is_on]

    # What clients do

    def _append(self) -> None:
        batch = self._workload.batch()
        try:
            appended = self._log.append(batch, self._now)
        except Refused as refused:
            self._check_refusal(refused)
            return
        self._oracle.appended(batch)
        self._submit(appended.effects)

    def _check_refusal(self, refused: Refused) -> None:
        expected = {
            Code.STORAGE_FULL: self._swarm.full_disk,
            Code.STORAGE_FAILED: self._log.failure is not None,
            Code.LOG_BUSY: self._is_truncating or self._swarm.rot,
        }
        if not expected.get(refused.code, False):
            raise Violation("refused-without-reason", str(refused))

    def _start_epoch(self) -> None:
        self._epoch += 1
        try:
            appended = self._log.start_epoch(self._epoch, self._now)
        except Refused as refused:
            self._check_refusal(refused)
            return
        for effect in appended.effects:
            if isinstance(effect, Write):
                self._oracle.appended(effect.data)
        self._submit(appended.effects)

    def _read(self) -> None:
        if self._log.start < self._log.high_watermark:
            offset = self._random.randrange(self._log.start, self._log.high_watermark)
            self._read_at(Offset(offset), self._random.choice(_READ_BYTES))

    def _read_at(self, offset: Offset, bytes_max: int) -> Offset | None:
        """Read once; the offset of the next read, or None if there was nothing."""
        try:
            wanted = self._log.read(offset, bytes_max)
        except Refused as refused:
            return self._refused_read(offset, refused)
        if wanted is None:
            return None
        try:
            data = self._machine.storage.read(wanted)
        except DamageFound as found:
            self._trace.note("damage", found.event)
            self._take(found.event)
            return self._read_damaged(offset)
        if not data:
            self._oracle.check_nothing(offset, wanted.below)
            return wanted.below
        return self._oracle.check_read(offset, data, self._log.high_watermark)

    def _read_damaged(self, offset: Offset) -> Offset | None:
        """A read met damage: from now on it is refused, or as soon as writes have settled."""
        try:
            self._log.read(offset, 1)
        except Refused as refused:
            return self._refused_read(offset, refused)
        return None

    def _refused_read(self, offset: Offset, refused: Refused) -> Offset:
        if refused.code is not Code.RECORDS_DAMAGED:
            raise Violation("refused-without-reason", str(refused))
        for damage in self._log.damaged:
            self._oracle.must_accept(damage)
            if damage.first <= offset < damage.below:
                return damage.below
        raise Violation("refused-without-reason", str(refused))

    def _seek(self) -> None:
        if self._swarm.compaction or self._swarm.rot:
            return
        stamps = self._oracle.timestamps()
        if not stamps:
            return
        timestamp = Timestamp(self._random.choice(stamps) + self._random.randint(-1, 1))
        found = self._machine.storage.time_search.find(self._log.seek(timestamp))
        expected = self._oracle.first_since(timestamp)
        if found != expected:
            raise Violation("seek-wrong", f"{timestamp}: found {found}, expected {expected}")

    # What the shell does

    def _submit(self, effects: Sequence[Effect]) -> None:
        self._machine.submit(effects)

    def _disk_turn(self) -> None:
        self._machine.disk_turn(self._random.randint(1, 6))

    def _compaction_step(self) -> None:
        self._machine.work()

    def _deliver(self) -> None:
        event = self._machine.next_event()
        if event is not None:
            self._take(event)

    def _take(self, event: DiskEvent) -> None:
        self._trace.note("event", event)
        had_failed = self._log.failure is not None
        before = self._log.high_watermark
        self._submit(self._log.handle(event, self._now))
        if had_failed and self._log.high_watermark != before:
            raise Violation("commit-after-failure", f"{event}")
        match event:
            case Filled(offset=offset) if not self._is_truncating:
                self._oracle.refused_from(offset)
            case Truncated():
                self._is_truncating = False
                self._oracle.truncated(event.active.end)
            case Dropped():
                self._oracle.dropped(event.start)
            case Compacted():
                self._cleaned_upto = max(self._cleaned_upto, event.cleaned_upto)
            case Failed():
                self._is_truncating = False
        self._oracle.advanced(self._log.high_watermark, self._log.watermarks.durable, self._log.end)

    def _pass_time(self) -> None:
        elapsed = self._random.choice([0, 1, 20 * MILLISECOND, SECOND, HOUR // 4])
        self._now = Now(Instant(self._now.instant + elapsed), Timestamp(self._now.wall + elapsed))
        self._submit(self._log.expire(self._now))

    def _jump_clock(self) -> None:
        jump = self._random.randint(-2 * HOUR, 2 * HOUR)
        self._now = Now(self._now.instant, Timestamp(self._now.wall + jump))

    def _maintain(self) -> None:
        if self._deletions.random() < _DELETION_SHARE:
            self._delete_before()
        start, unreadable = self._log.start, self._log.damaged
        self._oracle.compaction_planned()
        self._oracle.tombstones_expire_before(self._now.wall - self._settings.tombstone_ns)
        self._submit(self._log.maintain(self._now))
        if self._log.start != start:
            kept_ns = self._settings.retention_ns
            oldest_kept = None if kept_ns is None else self._now.wall - kept_ns
            self._oracle.retained_from(self._log.start, oldest_kept, unreadable)

    def _delete_before(self) -> None:
        if self._is_truncating or self._log.failure is not None:
            return
        stable = self._log.watermarks.stable
        wanted = Offset(self._deletions.randint(min(self._log.start, stable), stable))
        self._trace.note("delete before", wanted)
        self._submit(self._log.delete_before(wanted))
        self._oracle.deleted_before(self._log.start)

    def _truncate(self) -> None:
        if self._is_truncating or self._log.failure is not None:
            return
        lowest = max(self._log.start, self._log.end - 12)
        offset = Offset(self._random.randint(lowest, self._log.end))
        self._submit(self._log.truncate(offset))
        self._is_truncating = True
        self._oracle.truncation_asked(offset)

    # What goes wrong

    def _change_space(self) -> None:
        if self._faults.is_full:
            self._faults.free()
        else:
            self._faults.fill(self._random.choice([0, 30, 300, 3000]))

    def _rot(self) -> None:
        if self._random.random() < 0.2:
            harm = self._sabotage.lose_sector()
        else:
            harm = self._sabotage.flip_durable_bit()
        if harm is not None:
            self._trace.note("rot", harm)
            self._oracle.damaged(harm)

    def _arm_name_error(self) -> None:
        self._faults.arm_name_error(self._random.randint(1, 4))

    def _arm_crash(self) -> None:
        self._faults.arm_crash(self._random.randint(1, 12))

    def _crash_now(self) -> None:
        self._crash(is_power_lost=self._is_power_to_be_lost())

    def _is_power_to_be_lost(self) -> bool:
        if self._swarm.power_loss and self._swarm.process_kill:
            return self._random.random() < 0.5
        return self._swarm.power_loss

    def _crash(self, *, is_power_lost: bool) -> None:
        self._trace.note("crash", is_power_lost)
        if is_power_lost:
            self._files.lose_power()
        if self._swarm.point_rot and self._random.random() < 0.5:
            self._sabotage.spoil_point_slot()
            self._oracle.point_spoiled()
        elif self._swarm.rot and not self._swarm.point_rot and self._random.random() < 0.1:
            harm = self._sabotage.shorten_last(self._oracle.committed)
            if harm is not None:
                self._trace.note("shortened", harm)
                self._oracle.damaged(harm)
        if self._swarm.index_trouble:
            self._sabotage.spoil_index()
        self._files.restart()
        self._faults.disarm_crash()
        if self._swarm.crash_inside and self._random.random() < 0.3:
            self._arm_crash()
        self._open(is_power_lost=is_power_lost)

    def _open(self, *, is_power_lost: bool) -> None:
        """Start the process, repeatedly if it crashes."""
        self._is_truncating = False
        report: RecoveryReport | None = None
        while report is None:
            try:
                report = self._machine.open()
            except Crashed:
                if self._is_power_to_be_lost():
                    is_power_lost = True
                    self._files.lose_power()
                self._files.restart()
            except OSError as error:
                self._trace.note("cannot open", str(error))
                self._faults.calm()
        self._trace.note("opened", report)
        self._oracle.reopened(self._log.start, self._log.end, is_power_lost=is_power_lost)
        # The judge reads everything, and reads may write caches: nobody crashes the judge.
        self._faults.disarm_crash()
        for damage in self._log.damaged:
            self._oracle.must_accept(damage)
        self._check_epochs()
        self._read_all()

    def _check_epochs(self) -> None:
        if self._swarm.rot:
            return
        known = list(self._log.epochs.history)
        expected = self._oracle.epochs()
        if known[-len(expected) :] != expected and expected:
            raise Violation("epochs-wrong", f"{known} is not {expected}")

    def _read_all(self) -> None:
        """Read everything there is, from the start to the high watermark."""
        offset = self._log.start
        while offset < self._log.high_watermark:
            following = self._read_at(offset, self._random.choice(_READ_BYTES))
            if following is None or following <= offset:
                raise Violation("reader-stuck", f"at {offset} of {self._log.high_watermark}")
            offset = following

    # The end

    def _settle(self) -> None:
        """Finish everything in flight."""
        while not self._machine.is_idle:
            self._disk_turn()
            self._compaction_step()
            self._deliver()

    def _heal(self) -> None:
        """Stop all faults: the log must work again, by itself or after a restart."""
        self._faults.calm()
        self._trace.note("heal", None)
        self._settle()
        if self._log.failure is not None:
            self._crash(is_power_lost=True)
            self._faults.calm()
        self._now = Now(Instant(self._now.instant + 10 * SECOND), self._now.wall)
        before = self._log.end
        self._append()
        self._submit(self._log.expire(Now(Instant(self._now.instant + HOUR), self._now.wall)))
        self._settle()
        if self._log.high_watermark != self._log.end or self._log.end == before:
            raise Violation("does-not-heal", f"{self._log.high_watermark} of {self._log.end}")

    def _prove(self) -> None:
        """Check every promise, before and after a clean stop, after which no scan is needed."""
        if self._swarm.compaction:
            self._maintain()
            self._settle()
            if not self._swarm.rot:
                # What is set aside is not seen by a compaction, so it supersedes nothing.
                self._oracle.expect_compacted_below(self._cleaned_upto)
        self._read_all()
        self._machine.storage.close()
        self._trace.note("closed", None)
        if self._files.open_handles:
            raise Violation("files-left-open", f"{self._files.open_handles} after a clean stop")
        report = self._machine.open()
        swarm = self._swarm
        # An index that could not be written, was spoilt, or says what the last records do not is
        # made again by a scan.
        is_index_lost = any(
            (
                *(swarm.index_trouble, swarm.rot, swarm.clock_jumps),
                *(swarm.full_disk, swarm.write_errors, swarm.name_errors),
            )
        )
        if report.scanned_bytes and not is_index_lost:
            raise Violation("scan-after-clean-stop", f"{report}")
        self._oracle.reopened(self._log.start, self._log.end, is_power_lost=False)
        self._read_all()
