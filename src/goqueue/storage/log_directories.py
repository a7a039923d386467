"""Deleted logs whose files are still to be removed.

Their names are free already, so nobody waits for this: files are removed one at a time, between
other work. What cannot be removed, or was left by a crash, is tried again at the next start.

Logs that no known topic lays claim to: moved out of the way, never deleted.

Metadata may be older than the logs beside it, as after a restore. Then a topic that it does not
mention is not one that was deleted, and what to do about it is for a person to say.
`unclaimed/{number}` holds what one sweep found, under the names it had.

Crash points: each topic is moved by one rename, and lies in one place or in the other. A process
that dies between the rename and its syncs leaves a name that looks free: the next sweep syncs what
the last one moved, before a topic of that name can be made.

Logs that are made and thrown away, and what their directories need to be durable.

A new log is an empty directory. It is durable once each directory on the way to it was synced, so
all logs made together share one sync per directory: ten thousand partitions of a topic cost three.
No file is made before the first record comes: an empty directory opens as an empty log.

A deleted log is its directory moved into the trash, by one rename: a crash leaves all of the log in
its place or nothing of it. Its files are removed only once the rename is durable, else a power cut
could bring half of them back under the old name.

Invariant: between `finish` and the next change nothing here waits for a sync.
"""

import errno
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import count

import msgspec

from goqueue.model import LogId
from goqueue.storage.filesystem import EntryKind, FileSystem, ensure_directory
from goqueue.storage.layout import (
    LOGS,
    TRASH,
    UNCLAIMED,
    NameKind,
    classify,
    directories_above,
    is_topic,
    log_directory,
)

__all__ = ["Change", "Moved", "Trash", "TreeChanges", "move_unclaimed"]

# A log has no directories in it. Somebody who puts some there is not followed for ever.
_DEPTH_MAX = 8


class Trash:
    """The trash of one data directory."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._doomed: deque[str] = deque()
        self._removal: Iterator[None] | None = None
        self._numbers: Iterator[int] | None = None

    @property
    def path(self) -> tuple[str, str]:
        """The directories that must be synced before what was taken is in here for good."""
        return ("", TRASH)

    @property
    def has_work(self) -> bool:
        return self._removal is not None or bool(self._doomed)

    def take(self, directory: str) -> str:
        """Move a directory in here, under a name that no other has; its new path."""
        if self._numbers is None:
            ensure_directory(self._files, TRASH)
            taken = [entry.name for entry in self._files.entries(TRASH)]
            self._numbers = count(max((int(name) for name in taken if name.isdecimal()), default=0))
        path = f"{TRASH}/{next(self._numbers) + 1}"
        self._files.rename(directory, path)
        return path

    def doom(self, path: str) -> None:
        """Remove what was taken under this path: its move is durable."""
        self._doomed.append(path)

    def find_left(self) -> int:
        """Doom whatever an earlier process left; how many logs that is.

        The move of the last ones may not be durable yet, on either side, so that comes first.
        """
        if self._files.kind(TRASH) is not EntryKind.DIRECTORY:
            return 0
        left = [f"{TRASH}/{entry.name}" for entry in self._files.entries(TRASH)]
        if left:
            for path in (*self.path, *self._topics()):
                self._files.sync_directory(path)
            self._doomed.extend(sorted(left))
        return len(left)

    def _topics(self) -> list[str]:
        if self._files.kind(LOGS) is not EntryKind.DIRECTORY:
            return []
        found = self._files.entries(LOGS)
        return [f"{LOGS}/{entry.name}" for entry in found if entry.kind is EntryKind.DIRECTORY]

    def step(self) -> None:
        """Remove one file more. An error leaves the rest of that log for the next start."""
        if self._removal is None:
            self._removal = self._remove(self._doomed.popleft(), _DEPTH_MAX)
        try:
            next(self._removal)
        except (StopIteration, OSError):
            self._removal = None

    def _remove(self, path: str, depth_left: int) -> Iterator[None]:
        if self._files.kind(path) is not EntryKind.DIRECTORY:
            self._files.remove(path)
            return
        if not depth_left:
            raise OSError(errno.ELOOP, "directories in directories", path)
        for entry in self._files.entries(path):
            yield from self._remove(f"{path}/{entry.name}", depth_left - 1)
            yield
        self._files.remove_directory(path)


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The logs of a topic that were moved: from where, and where to."""

    old: str
    new: str


def move_unclaimed(files: FileSystem, topics: Collection[str]) -> tuple[Moved, ...]:
    """Move the logs of every topic but these, durably; what was moved."""
    if files.kind(LOGS) is not EntryKind.DIRECTORY:
        return ()
    _finish_last_sweep(files)
    claimed = frozenset(topics)
    names = sorted(
        entry.name
        for entry in files.entries(LOGS)
        if entry.kind is EntryKind.DIRECTORY and is_topic(entry.name) and entry.name not in claimed
    )
    if not names:
        return ()
    place = _make_place(files)
    moves = tuple(Moved(old=f"{LOGS}/{name}", new=f"{place}/{name}") for name in names)
    try:
        for move in moves:
            files.rename(move.old, move.new)
        # The new place first: if one of the two is lost, it should be the old one.
        files.sync_directory(place)
        files.sync_directory(LOGS)
    except OSError:
        _take_back(files, moves)
        raise
    return moves


def _finish_last_sweep(files: FileSystem) -> None:
    """Make durable what a sweep moved that a crash may have cut short."""
    if files.kind(UNCLAIMED) is not EntryKind.DIRECTORY:
        return
    numbers = [int(entry.name) for entry in files.entries(UNCLAIMED) if entry.name.isdecimal()]
    if numbers:
        files.sync_directory(f"{UNCLAIMED}/{max(numbers)}")
        files.sync_directory(LOGS)


def _take_back(files: FileSystem, moves: tuple[Moved, ...]) -> None:
    """A move that may not be durable never was: its name must not look free.

    A new topic of that name would else be made where, after a power cut, the old one lies.
    """
    for move in moves:
        with suppress(OSError):
            files.rename(move.new, move.old)


def _make_place(files: FileSystem) -> str:
    """A new directory, durable before anything is moved into it."""
    ensure_directory(files, UNCLAIMED)
    taken = [entry.name for entry in files.entries(UNCLAIMED)]
    number = max((int(name) for name in taken if name.isdecimal()), default=0) + 1
    place = f"{UNCLAIMED}/{number}"
    files.make_directory(place)
    files.sync_directory("")
    files.sync_directory(UNCLAIMED)
    return place


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
