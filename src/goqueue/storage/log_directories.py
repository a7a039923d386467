"""Creating, deleting and quarantining the directories of logs.

Creation (`TreeChanges`): a new log is an empty directory. It is durable once each parent directory
was synced, so logs that are created together share one sync per directory: ten thousand partitions
of a topic cost three. No file is created before the first record: an empty directory opens as an
empty log.

Deletion (`Trash`): a log is deleted by one rename of its directory into the trash, so a crash
leaves the whole log in its place or nothing of it. Its files are removed only once the rename is
durable; otherwise a power cut could restore half of them under the old name. The name is free at
once, so files are removed one at a time between other work, and again at the next start if that
fails.

Unclaimed logs (`move_unclaimed`): a log without a known topic is moved away, never deleted.
Metadata may be older than the logs, as after a restore; then an unknown topic was not deleted, and
the operator decides. `unclaimed/{number}` holds what one sweep found, under the old names. Each
topic is moved by one rename. A crash between the rename and its syncs leaves a name that looks
free: the next sweep syncs what the last one moved, before a topic of that name can be created.

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

# A log has no subdirectories; foreign ones are followed to a limited depth only.
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
        """The directories that must be synced before a move into the trash is durable."""
        return ("", TRASH)

    @property
    def has_work(self) -> bool:
        return self._removal is not None or bool(self._doomed)

    def take(self, directory: str) -> str:
        """Move a directory into the trash under a unique name; its new path."""
        if self._numbers is None:
            ensure_directory(self._files, TRASH)
            taken = [entry.name for entry in self._files.entries(TRASH)]
            self._numbers = count(max((int(name) for name in taken if name.isdecimal()), default=0))
        path = f"{TRASH}/{next(self._numbers) + 1}"
        self._files.rename(directory, path)
        return path

    def doom(self, path: str) -> None:
        """Schedule the removal of this path: its move is durable."""
        self._doomed.append(path)

    def find_left(self) -> int:
        """Schedule the removal of what an earlier process left; how many logs that is.

        The last moves may not be durable yet, on either side, so they are synced first.
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
        """Remove one more file. An error leaves the rest of that log to the next start."""
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
    """The logs of a topic that were moved: source and target."""

    old: str
    new: str


def move_unclaimed(files: FileSystem, topics: Collection[str]) -> tuple[Moved, ...]:
    """Move the logs of all other topics, durably; what was moved."""
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
        # The new location first: if one of the two is lost, it should be the old one.
        files.sync_directory(place)
        files.sync_directory(LOGS)
    except OSError:
        _take_back(files, moves)
        raise
    return moves


def _finish_last_sweep(files: FileSystem) -> None:
    """Sync the moves of the last sweep, which a crash may have interrupted."""
    if files.kind(UNCLAIMED) is not EntryKind.DIRECTORY:
        return
    numbers = [int(entry.name) for entry in files.entries(UNCLAIMED) if entry.name.isdecimal()]
    if numbers:
        files.sync_directory(f"{UNCLAIMED}/{max(numbers)}")
        files.sync_directory(LOGS)


def _take_back(files: FileSystem, moves: tuple[Moved, ...]) -> None:
    """Undo a move that may not be durable: its name must not look free.

    Otherwise a new topic of that name could collide with the old one after a power cut.
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
    """A log that was created or deleted, and the error, if any."""

    log: LogId
    error: OSError | None
    is_new: bool


class TreeChanges:
    """Changes of the tree that share their syncs."""

    def __init__(self, files: FileSystem, trash: Trash) -> None:
        self._files = files
        self._trash = trash
        # The directories to sync for each log, in order; for a new log all its parents.
        self._made: dict[LogId, list[str]] = {}
        self._thrown: dict[LogId, list[str]] = {}
        self._doomed: dict[LogId, str] = {}
        self._ensured: set[str] = set()

    def __contains__(self, log: LogId) -> bool:
        """Whether a change of this log waits for `finish`."""
        return log in self._made or log in self._thrown

    def make(self, log: LogId) -> bool:
        """Create the directory of a new log; False if there was one without records.

        Raises OSError if that fails, or if there are records: they must not be overwritten.
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
        """Whether an existing directory has any contents."""
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
        """Move a log's directory into the trash; does nothing if there is none."""
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
        """Forget a log that was just created; its files stay."""
        self._made.pop(log, None)

    def finish(self) -> list[Change]:
        """Make every change durable; the result of each."""
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
        # Removed with the last partition. If a crash restores it, it is empty and harmless.
        self._remove_empty(log_directory(log).rpartition("/")[0])

    def _remove_empty(self, directory: str) -> None:
        with suppress(OSError):
            self._files.remove_directory(directory)
