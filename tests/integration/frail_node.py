"""A node on a disk that fails: `python frail_node.py DIRECTORY serve …`.

In DIRECTORY it notes how long each file was when it was last synced. So whoever kills the node can
take away what a power cut takes (`cut_to_synced`). While there is a file `eio`, nothing is written
to, or synced in, files whose paths contain what that says. The wall clock is wrong by as many
seconds as a file `clock` says.
"""

import errno
import os
import pkgutil
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from goqueue.cli.program import main
from goqueue.runtime.os_files import OsFile, OsFileSystem
from goqueue.storage import FileCommit

__all__ = ["FrailDisk", "program_on"]

# An inode, and how much of it is synced.
_NOTE = struct.Struct("<QQ")
_NOTES, _EIO, _CLOCK = "synced", "eio", "clock"
# How often a node looks how wrong its clock is.
_CLOCK_S = 0.05
# What is written by the storage of a node, and by nobody else.
_STORED = ("logs", "snapshots")


class FrailDisk:
    """The disk of a node as a test sees it: `data` is the node's directory."""

    def __init__(self, folder: Path, data: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.data = data

    def fail(self, part: str) -> None:
        """Let all writes and syncs fail in files whose paths contain this."""
        (self.folder / _EIO).write_text(part)

    def heal(self) -> None:
        (self.folder / _EIO).unlink(missing_ok=True)

    def skew_clock(self, seconds: int) -> None:
        """Let the wall clock of the node be wrong by that much."""
        # Replaced in one step: the node must not read half of it.
        written = self.folder / f"{_CLOCK}.new"
        written.write_text(str(seconds))
        written.rename(self.folder / _CLOCK)

    def cut_to_synced(self) -> int:
        """Take away all that the node, which was killed, had not synced; how many bytes."""
        notes = (self.folder / _NOTES).read_bytes()
        whole = len(notes) - len(notes) % _NOTE.size
        synced: dict[int, int] = dict(_NOTE.iter_unpack(notes[:whole]))
        lost = 0
        for part in _STORED:
            for path in (self.data / part).rglob("*"):
                found = path.lstat()
                kept = synced.get(found.st_ino, 0)
                if path.is_file() and found.st_size > kept:
                    os.truncate(path, kept)
                    lost += found.st_size - kept
        return lost


def program_on(disk: FrailDisk) -> Sequence[str]:
    """What Python runs for a node on this disk."""
    return (__file__, str(disk.folder))


class _Notes:
    """Writes the notes of one life; they outlive the process, as they are in a file."""

    def __init__(self, folder: Path, data: Path) -> None:
        self._flag = folder / _EIO
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._descriptor = os.open(folder / _NOTES, flags, 0o600)
        for part in _STORED:
            for path in (data / part).rglob("*"):
                # What was found at a start is there after the next power cut, too.
                self._write(path.lstat())

    def _write(self, status: os.stat_result, size: int | None = None) -> None:
        noted = status.st_size if size is None else size
        os.write(self._descriptor, _NOTE.pack(status.st_ino, noted))

    def created(self, file: OsFile) -> None:
        self._write(os.fstat(file.descriptor), 0)

    def synced(self, file: OsFile) -> None:
        self._write(os.fstat(file.descriptor))

    def fails(self, file: OsFile) -> bool:
        try:
            part = self._flag.read_text()
        except FileNotFoundError:
            return False
        return bool(part) and part in os.readlink(f"/proc/self/fd/{file.descriptor}")


class _WrongClock:
    """The wall clock, wrong by what a file says."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _CLOCK
        self._looked_at = 0.0
        self._error_ns = 0

    def __call__(self) -> int:
        now = time.monotonic()
        if now - self._looked_at >= _CLOCK_S:
            self._looked_at = now
            try:
                self._error_ns = int(self._file.read_text()) * 10**9
            except FileNotFoundError:
                self._error_ns = 0
        return time.time_ns() + self._error_ns


def _plant(notes: _Notes, wall_clock: _WrongClock) -> None:
    sync, create, commit = OsFile.sync, OsFileSystem.create, OsFileSystem.commit

    def noted_sync(file: OsFile) -> None:
        if notes.fails(file):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)
        notes.synced(file)

    def noted_create(files: OsFileSystem, path: str) -> OsFile:
        file = create(files, path)
        notes.created(file)
        return file

    def noted_commit(files: OsFileSystem, commits: Sequence[FileCommit]) -> None:
        sound: list[FileCommit] = []
        for each in commits:
            assert isinstance(each.file, OsFile)
            if notes.fails(each.file):
                each.write_error = OSError(errno.EIO, os.strerror(errno.EIO))
            else:
                sound.append(each)
        commit(files, sound)
        for each in sound:
            assert isinstance(each.file, OsFile)
            if each.is_synced and each.write_error is None and each.sync_error is None:
                notes.synced(each.file)

    planted: tuple[tuple[object, str, object], ...] = (
        (pkgutil.resolve_name("goqueue.runtime.clock"), "_read_wall", wall_clock),
        (OsFile, "sync", noted_sync),
        (OsFileSystem, "create", noted_create),
        (OsFileSystem, "commit", noted_commit),
    )
    for owner, name, method in planted:
        setattr(owner, name, method)


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    data = Path(sys.argv[sys.argv.index("--data-dir") + 1])
    _plant(_Notes(folder, data), _WrongClock(folder))
    main()
