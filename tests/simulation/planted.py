"""Faults planted into the storage engine, one at a time, to see that the simulator finds them."""

from typing import Any

import msgspec
import pytest

from goqueue.log import Log, SparseIndex, Tail, assemble
from goqueue.model import DiskEvent, Effect, Now, Synced
from goqueue.storage import FileCommit, FileSystem, SegmentFile
from tests.simulation.planted_patches import Plant, attribute, does_nothing

__all__ = ["PLANTED"]

_LOG_FILES = "goqueue.storage.log_files.LogFiles"
_SEGMENT_FILE = "goqueue.storage.segment.segment_file.SegmentFile"
_POINT_FILE = "goqueue.storage.recovery_point.RecoveryPointFile"


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileCommit, "sync", does_nothing)


def commits_what_is_only_written(patch: pytest.MonkeyPatch) -> None:
    handle = Log.handle

    def eager(log: Log, event: DiskEvent, now: Now) -> list[Effect]:
        effects = handle(log, event, now)
        if isinstance(event, Synced):
            log._watermarks.advance(log.end, is_durable=False)
            log._watermarks.commit(log.end)
        return effects

    patch.setattr(Log, "handle", eager)


def moves_the_recovery_point_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    commit = attribute(f"{_LOG_FILES}.commit")

    def hasty(files: Any, writes: Any, **how: Any) -> object:
        if writes:
            point = files._reached()
            size = sum(len(write.data) for write in writes)
            position, offset = point.position + size, writes[-1].next_offset
            files._point.save_durably(
                msgspec.structs.replace(point, position=position, offset=offset)
            )
        return commit(files, writes, **how)

    patch.setattr(f"{_LOG_FILES}.commit", hasty)


def saves_the_point_of_what_is_only_written(patch: pytest.MonkeyPatch) -> None:
    save = attribute(f"{_LOG_FILES}.save_point")

    def hasty(files: Any) -> None:
        if files._point.is_behind:
            files._point.advance(files._reached())
        save(files)

    patch.setattr(f"{_LOG_FILES}.save_point", hasty)


def saves_a_noted_point_over_a_truncation(patch: pytest.MonkeyPatch) -> None:
    save = attribute(f"{_POINT_FILE}.save_durably")

    def forgetful(point_file: Any, point: object) -> None:
        noted = point_file._noted
        save(point_file, point)
        point_file._noted = noted

    patch.setattr(f"{_POINT_FILE}.save_durably", forgetful)


def keeps_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_SEGMENT_FILE}.trim", does_nothing)
    patch.setattr(f"{_SEGMENT_FILE}.write_again", does_nothing)


def cuts_damage_like_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    def from_the_start(*_: object) -> Tail:
        return Tail(position=0, expected=-1)

    patch.setattr("goqueue.storage.log_opener.tail_to_scan", from_the_start)


def believes_the_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_SEGMENT_FILE}._fits", lambda *_: True)
    patch.setattr(SparseIndex, "_is_plausible", lambda *_: True)


def serves_without_checking_sums(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_SEGMENT_FILE}._check_sums", does_nothing)


def does_not_sync_the_directory(patch: pytest.MonkeyPatch) -> None:
    def create(files: FileSystem, directory: str, base: Any, interval: int) -> SegmentFile:
        files.create(f"{directory}/{base:020d}.log").close()
        return SegmentFile(files, directory, base, 0, interval)

    patch.setattr(SegmentFile, "create", create)


def tries_a_failed_sync_again(patch: pytest.MonkeyPatch) -> None:
    sync = FileCommit.sync

    def stubborn(commit: FileCommit) -> None:
        sync(commit)
        if commit.sync_error is not None:
            commit.sync_error = None
            sync(commit)

    patch.setattr(FileCommit, "sync", stubborn)


def forgets_half_a_write_on_a_full_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(f"{_LOG_FILES}.trim", does_nothing)


def drops_the_newest_value(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.log.compaction.NewestOffsets._survives"
    survives = attribute(name)

    def absent_minded(
        newest: object, view: object, columns: Any, index: int, *rest: object
    ) -> bool:
        is_forgotten = columns.key_lengths[index] and not index % 3
        return not is_forgotten and bool(survives(newest, view, columns, index, *rest))

    patch.setattr(name, absent_minded)


def swaps_before_the_new_segment_is_durable(patch: pytest.MonkeyPatch) -> None:
    name = "goqueue.storage.compaction._Rewrite.finish"
    finish = attribute(name)

    def unsynced(rewrite: Any) -> object:
        rewrite._file.sync = does_nothing
        return finish(rewrite)

    patch.setattr(name, unsynced)


def truncates_before_lowering_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    truncate = attribute(f"{_LOG_FILES}.truncate")
    save = attribute(f"{_POINT_FILE}.save_durably")

    def careless(files: object, offset: int) -> object:
        patch.setattr(f"{_POINT_FILE}.save_durably", does_nothing)
        try:
            return truncate(files, offset)
        finally:
            patch.setattr(f"{_POINT_FILE}.save_durably", save)

    patch.setattr(f"{_LOG_FILES}.truncate", careless)


def looks_too_late_for_a_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SparseIndex, "floor_time", lambda index, _: index.entry(-1))


def forgets_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.storage.log_opener.assemble", lambda checked, _: assemble(checked, None))


def continues_after_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("goqueue.storage.storage.Storage._fail", does_nothing)


def reports_a_deletion_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    def hasty(files: Any, start: Any) -> None:
        files.sync()
        files._point.save(files._reached(start))

    patch.setattr(f"{_LOG_FILES}.drop", hasty)


PLANTED: tuple[Plant, ...] = (
    acknowledges_before_the_sync,
    commits_what_is_only_written,
    moves_the_recovery_point_before_the_sync,
    saves_the_point_of_what_is_only_written,
    saves_a_noted_point_over_a_truncation,
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
    forgets_the_recovery_point,
    continues_after_a_failure,
    reports_a_deletion_before_it_is_durable,
)
