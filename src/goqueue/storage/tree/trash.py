"""Deleted logs whose files are still to be removed.

Their names are free already, so nobody waits for this: files are removed one at a time, between
other work. What cannot be removed, or was left by a crash, is tried again at the next start.
"""

import errno
from collections import deque
from collections.abc import Iterator
from itertools import count

from goqueue.storage.filesystem import EntryKind, FileSystem, ensure_directory
from goqueue.storage.layout import LOGS, TRASH

__all__ = ["Trash"]

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
