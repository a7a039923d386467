"""Faults planted into the storage engine, one at a time, to see that the simulator finds them.

Each is a mistake that a change could really make. The patches reach into private methods on
purpose: that is where such a mistake would be made.
"""

from collections.abc import Callable

import pytest

from goqueue.log import Log, NewestOffsets, RecoveryPoint, SparseIndex, Tail, assemble
from goqueue.model import DiskEvent, Effect, Now, Synced
from goqueue.storage import FileSystem, SegmentFile, Storage, compaction, opening, storage
from goqueue.storage.log_files import LogFiles
from goqueue.storage.recovery_point import RecoveryPointFile

__all__ = ["PLANTED", "Plant"]

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogFiles, "sync_active", lambda self: None)


def commits_what_is_only_written(patch: pytest.MonkeyPatch) -> None:
    take = Log.take

    def eager(log: Log, event: DiskEvent, now: Now) -> list[Effect]:
        effects = take(log, event, now)
        if isinstance(event, Synced):
            log._high_watermark = log.end
        return effects

    patch.setattr(Log, "take", eager)


def moves_the_recovery_point_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    write = LogFiles.write

    def hasty(files: LogFiles, order: object) -> None:
        write(files, order)  # type: ignore[arg-type]  # passed through
        files._point.save_durably(files._reached())

    patch.setattr(LogFiles, "write", hasty)


def keeps_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentFile, "trim", lambda self: None)
    patch.setattr(SegmentFile, "write_again", lambda self, position: None)


def cuts_damage_like_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    def from_the_start(*_: object) -> Tail:
        return Tail(position=0, expected=-1)

    patch.setattr(opening, "tail_to_scan", from_the_start)


def believes_the_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentFile, "_fits", lambda self, before, last, upto: True)
    patch.setattr(SparseIndex, "_is_plausible", lambda self: True)


def serves_without_checking_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentFile, "_check_sums", lambda self, data, position, end: None)


def does_not_sync_the_directory(patch: pytest.MonkeyPatch) -> None:
    def create(files: FileSystem, directory: str, base: int, interval: int) -> SegmentFile:
        files.create(f"{directory}/{base:020d}.log").close()
        return SegmentFile(files, directory, base, 0, interval)  # type: ignore[arg-type]  # an Offset

    patch.setattr(SegmentFile, "create", create)


def tries_a_failed_sync_again(patch: pytest.MonkeyPatch) -> None:
    sync = SegmentFile.sync

    def stubborn(segment: SegmentFile) -> None:
        try:
            sync(segment)
        except OSError:
            sync(segment)

    patch.setattr(SegmentFile, "sync", stubborn)


def forgets_half_a_write_on_a_full_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogFiles, "trim", lambda self: None)


def drops_the_newest_value(patch: pytest.MonkeyPatch) -> None:
    survives = NewestOffsets._survives

    def backwards(newest: NewestOffsets, *args: object) -> bool:
        columns, index = args[1], args[2]
        key_length = columns.key_lengths[index]  # type: ignore[attr-defined]  # Columns
        survived = survives(newest, *args)  # type: ignore[arg-type]  # passed through
        return survived if not key_length or index % 3 else False  # type: ignore[operator]  # int

    patch.setattr(NewestOffsets, "_survives", backwards)


def swaps_before_the_new_segment_is_durable(patch: pytest.MonkeyPatch) -> None:
    finish = compaction._Rewrite.finish

    def unsynced(rewrite: compaction._Rewrite) -> object:
        rewrite._file.sync = lambda: None  # type: ignore[method-assign]  # the fault
        return finish(rewrite)

    patch.setattr(compaction._Rewrite, "finish", unsynced)


def truncates_before_lowering_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    truncate = LogFiles.truncate
    save = RecoveryPointFile.save_durably

    def careless(files: LogFiles, offset: int) -> object:
        patch.setattr(RecoveryPointFile, "save_durably", lambda self, point: None)
        try:
            return truncate(files, offset)  # type: ignore[arg-type]  # an Offset
        finally:
            patch.setattr(RecoveryPointFile, "save_durably", save)

    patch.setattr(LogFiles, "truncate", careless)


def looks_too_late_for_a_time(patch: pytest.MonkeyPatch) -> None:
    def last_mark(index: SparseIndex, timestamp: int) -> object:
        return index.entry(-1)

    patch.setattr(SparseIndex, "floor_time", last_mark)


def forgets_the_start_of_the_log(patch: pytest.MonkeyPatch) -> None:
    def without_start(checked: object, point: RecoveryPoint | None) -> object:
        return assemble(checked, None)  # type: ignore[arg-type]  # passed through

    patch.setattr(opening, "assemble", without_start)


def goes_on_after_a_failure(patch: pytest.MonkeyPatch) -> None:
    def shrug(self: Storage, desk: object, error: OSError, events: list[DiskEvent]) -> None:
        del self, desk, error, events

    patch.setattr(storage.Storage, "_fail", shrug)


PLANTED: tuple[Plant, ...] = (
    acknowledges_before_the_sync,
    commits_what_is_only_written,
    moves_the_recovery_point_before_the_sync,
    keeps_a_torn_tail,
    cuts_damage_like_a_torn_tail,
    believes_the_index,
    serves_without_checking_sums,
    does_not_sync_the_directory,
    tries_a_failed_sync_again,
    forgets_half_a_write_on_a_full_disk,
    drops_the_newest_value,
    swaps_before_the_new_segment_is_durable,
    truncates_before_lowering_the_recovery_point,
    looks_too_late_for_a_time,
    forgets_the_start_of_the_log,
    goes_on_after_a_failure,
)
