"""Logs that are made and thrown away, and what their directories need to be durable.

A new log is an empty directory. It is durable once each directory on the way to it was synced, so
all logs made together share one sync per directory: ten thousand partitions of a topic cost three.
No file is made before the first record comes: an empty directory opens as an empty log.

A deleted log is its directory moved into the trash, by one rename: a crash leaves all of the log in
its place or nothing of it. Its files are removed only once the rename is durable, else a power cut
could bring half of them back under the old name.

Invariant: between `finish` and the next change nothing here waits for a sync.
"""

import errno
from contextlib import suppress

import msgspec

from goqueue.model import LogId
from goqueue.storage.filesystem import EntryKind, FileSystem, ensure_directory
from goqueue.storage.layout import NameKind, classify, directories_above, log_directory
from goqueue.storage.tree.trash import Trash

__all__ = ["Change", "TreeChanges"]


class Change(msgspec.Struct, frozen=True):
    """A log that was made or thrown away, and what went wrong with that, if anything did."""

    log: LogId
    error: OSError | None
    is_new: bool


class TreeChanges:
    """Changes of the tree that share their syncs."""

    def __init__(self, files: FileSystem, trash: Trash) -> None:
        self._files = files
        self._trash = trash
        # The directories to sync for each log, in order; those of a new log are all above it.
        self._made: dict[LogId, list[str]] = {}
        self._thrown: dict[LogId, list[str]] = {}
        self._doomed: dict[LogId, str] = {}
        self._ensured: set[str] = set()

    def __contains__(self, log: LogId) -> bool:
        """Whether a change of this log waits for `finish`."""
        return log in self._made or log in self._thrown

    def make(self, log: LogId) -> bool:
        """Make the directory of a new log; False if there was one that holds no record.

        Raises OSError where that cannot be done, or where records lie already: they are nobody's to
        overwrite.
        """
        directory = log_directory(log)
        above = directories_above(directory)
        for path in above[1:]:
            if path not in self._ensured:
                ensure_directory(self._files, path)
                self._ensured.add(path)
        is_new = True
        try:
            self._files.make_directory(directory)
        except FileExistsError:
            is_new = not self._look_into(directory)
        self._made[log] = above
        return is_new

    def _look_into(self, directory: str) -> bool:
        """Whether a directory that was there has anything in it."""
        if self._files.kind(directory) is not EntryKind.DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, "in the way of a log", directory)
        entries = self._files.entries(directory)
        for entry in entries:
            kind = classify(entry.name)
            if kind is NameKind.QUARANTINED or (kind is NameKind.SEGMENT and entry.size):
                raise FileExistsError(
                    errno.EEXIST, "a log that was not known of holds records", directory
                )
        return bool(entries)

    def throw_away(self, log: LogId) -> None:
        """Take a log's directory out of the way; nothing happens where there is none."""
        directory = log_directory(log)
        above = directories_above(directory)
        for path in [*above[1:], directory]:
            kind = self._files.kind(path)
            if kind is None:
                self._thrown[log] = []
                return
            if kind is not EntryKind.DIRECTORY:
                raise NotADirectoryError(errno.ENOTDIR, f"a {kind}, not a directory", path)
        self._doomed[log] = self._trash.take(directory)
        self._thrown[log] = [*self._trash.path, above[-1]]
        self._ensured.clear()

    def forget(self, log: LogId) -> None:
        """A log that was just made is not wanted after all; what is there stays as it is."""
        self._made.pop(log, None)

    def finish(self) -> list[Change]:
        """Make every change durable; what came of each."""
        if not self._made and not self._thrown:
            return []
        errors: dict[str, OSError | None] = {}
        for paths in (*self._made.values(), *self._thrown.values()):
            for path in paths:
                if path not in errors:
                    errors[path] = self._sync(path)
        changes = [
            Change(log, next((errors[path] for path in paths if errors[path]), None), is_new=is_new)
            for group, is_new in ((self._made, True), (self._thrown, False))
            for log, paths in group.items()
        ]
        for change in changes:
            if change.is_new and change.error:
                self._remove_empty(log_directory(change.log))
            elif not change.is_new and not change.error:
                self._tidy_up(change.log)
        self._made.clear()
        self._thrown.clear()
        self._doomed.clear()
        self._ensured.clear()
        return changes

    def _sync(self, path: str) -> OSError | None:
        try:
            self._files.sync_directory(path)
        except OSError as error:
            return error
        return None

    def _tidy_up(self, log: LogId) -> None:
        doomed = self._doomed.get(log)
        if doomed is not None:
            self._trash.doom(doomed)
        # Gone with the last partition. If a crash brings it back it is empty, and does no harm.
        self._remove_empty(log_directory(log).rpartition("/")[0])

    def _remove_empty(self, directory: str) -> None:
        with suppress(OSError):
            self._files.remove_directory(directory)
