"""Journals of a data directory that are replaced all at once, while no node runs on it.

The new logs are written beside the old ones, under names of their own (`STAGED_PREFIX`). Then one
small file says that they are the logs of this directory from now on: that is the replacement. What
follows only carries it out: old journals move to `unclaimed`, new ones to their names, snapshots of
journals go, and the file goes last.

Invariants
- Before the file is there the directory is what it was: a node may start on it, and moves what was
  staged to `unclaimed`.
- While it is there no node may start; `finish` may be called as often as it is cut short.
- Nothing is deleted but what was staged and snapshots, which only save time.

Crash points: staged log written | synced | file written | old journal moved | new one moved |
snapshots removed | file removed. Whoever begins again before the file clears what was staged.
"""

from collections.abc import Sequence

import msgspec

from goqueue.model import LogId, LogSettings, Message, Now, Offset
from goqueue.storage.filesystem import (
    EntryKind,
    FileSystem,
    atomic_write,
    ensure_directory,
    remove_if_there,
)
from goqueue.storage.layout import LOGS, REPLACEMENT, REPLACEMENT_FILE, SNAPSHOTS, UNCLAIMED
from goqueue.storage.log_directories import Trash
from goqueue.storage.offline_log import OfflineLog

__all__ = ["StagedLogs"]

STAGED_PREFIX = "__staged"
_JOURNALS = "__"
_DECISION = f"{REPLACEMENT}/{REPLACEMENT_FILE}"
_BYTES_MAX = 64 * 1024
_FIRST = Offset(0)


class _Replacement(msgspec.Struct, frozen=True):
    """Which journals are put aside and where, and which are new."""

    place: str
    old: tuple[str, ...]
    new: tuple[str, ...]


class StagedLogs:
    """New journals for the data directory of these files; every method may raise OSError."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._written: dict[str, None] = {}

    @property
    def is_pending(self) -> bool:
        """Whether a replacement was decided and is not carried out yet."""
        return self._files.kind(_DECISION) is not None

    # Staging

    def clear(self) -> None:
        """Remove what an attempt left that decided nothing."""
        assert not self.is_pending, "what was decided is carried out"
        if self._files.kind(LOGS) is not EntryKind.DIRECTORY:
            return
        left = [
            entry.name
            for entry in self._files.entries(LOGS)
            if entry.name.startswith(STAGED_PREFIX)
        ]
        trash = Trash(self._files)
        paths = [trash.take(f"{LOGS}/{name}") for name in left]
        for directory in (*trash.path, LOGS) if left else ():
            self._files.sync_directory(directory)
        for path in paths:
            trash.doom(path)
        while trash.has_work:
            trash.step()

    def write(
        self,
        log: LogId,
        settings: LogSettings,
        records: Sequence[Message],
        now: Now,
        *,
        start: Offset = _FIRST,
    ) -> None:
        """Write a journal that is to replace that of this name, durably, from `start` on."""
        assert log.partition == 0, "a journal has one partition"
        written = OfflineLog(self._files, LogId(f"{STAGED_PREFIX}{log.topic}", 0), settings)
        if start:
            written.begin_at(start, now)
        for record in records:
            written.append([record], now)
        written.close()
        self._written[log.topic] = None

    # Replacing

    def replace(self, old: tuple[str, ...]) -> None:
        """Decide that the journals written are those of this directory, and `old` are not.

        Nothing can be taken back afterwards.
        """
        self._files.sync_directory(LOGS)
        ensure_directory(self._files, UNCLAIMED)
        taken = [entry.name for entry in self._files.entries(UNCLAIMED)]
        number = max((int(name) for name in taken if name.isdecimal()), default=0) + 1
        place = f"{UNCLAIMED}/{number}"
        self._files.make_directory(place)
        ensure_directory(self._files, REPLACEMENT)
        self._files.sync_directory(UNCLAIMED)
        self._files.sync_directory("")
        decided = _Replacement(place, old, tuple(self._written))
        atomic_write(self._files, REPLACEMENT, REPLACEMENT_FILE, msgspec.json.encode(decided))

    def finish(self) -> str:
        """Carry out what was decided; where the old journals are now."""
        decided = self._decided()
        for topic in decided.old:
            self._put_aside(topic, decided)
        for topic in decided.new:
            staged = f"{LOGS}/{STAGED_PREFIX}{topic}"
            if self._files.kind(staged) is not None:
                self._files.rename(staged, f"{LOGS}/{topic}")
        self._files.sync_directory(LOGS)
        self._remove_snapshots()
        self._files.remove(_DECISION)
        self._files.sync_directory(REPLACEMENT)
        self._files.remove_directory(REPLACEMENT)
        self._files.sync_directory("")
        return decided.place

    def _decided(self) -> _Replacement:
        file = self._files.open(_DECISION)
        try:
            return msgspec.json.decode(file.read_at(0, _BYTES_MAX), type=_Replacement)
        finally:
            file.close()

    def _put_aside(self, topic: str, decided: _Replacement) -> None:
        """Move an old journal away, unless the new one has its name already."""
        is_replaced = topic in decided.new and (
            self._files.kind(f"{LOGS}/{STAGED_PREFIX}{topic}") is None
        )
        if is_replaced or self._files.kind(f"{LOGS}/{topic}") is None:
            return
        target, number = f"{decided.place}/{topic}", 1
        while self._files.kind(target) is not None:
            # A power cut left its directory in both places.
            number += 1
            target = f"{decided.place}/{topic}.{number}"
        self._files.rename(f"{LOGS}/{topic}", target)
        # The new location first: if one of the two is lost, it should be the old one.
        self._files.sync_directory(decided.place)
        self._files.sync_directory(LOGS)

    def _remove_snapshots(self) -> None:
        """They say what the old journals said."""
        if self._files.kind(SNAPSHOTS) is not EntryKind.DIRECTORY:
            return
        for entry in self._files.entries(SNAPSHOTS):
            if entry.name.startswith(_JOURNALS):
                remove_if_there(self._files, f"{SNAPSHOTS}/{entry.name}")
        self._files.sync_directory(SNAPSHOTS)
