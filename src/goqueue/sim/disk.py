"""A file system in memory that forgets, tears, fills up and lies as real ones do.

Keeps two pictures: what a process sees, and what a power cut would leave. Writes move from the
first to the second by `sync`, names by `sync_directory`. At a crash each 512-byte sector of what
was not synced, and each change of a name, survives or not on its own, and some sectors are torn.
A disk that tears at pages also keeps or loses whole runs of them, so that of a batch of many pages
every part is left at times, and a process that is killed may have written only some of them.
A directory is moved as one, and for certain only once both directories above were synced.

A failed sync behaves as on ext4 and XFS: the pages are dropped from what will ever be written, the
process still reads them, and the next sync reports success.
"""

import errno
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from goqueue.model import MILLISECOND
from goqueue.records import Buffer
from goqueue.sim.faults import Faults
from goqueue.storage import Entry, EntryKind, FileCommit, commit_in_turn

__all__ = ["Crashed", "DiskClock", "SimulatedFileSystem"]

_SECTOR = 512
_PAGE = 4096
# How large the pieces are that survive on their own, and how probable that is.
_GRAINS = ((_SECTOR, 0.5), (_SECTOR, 0.95), (_PAGE, 0.5), (_PAGE, 0.9))


# How long a turn of the disk takes; long enough at times that its recovery point is due at once.
_TURNS_NS = (0, 0, 50 * MILLISECOND, 200 * MILLISECOND)


class DiskClock:
    """The clock that storage reads: it also advances while the disk works."""

    def __init__(self, random: Random, now: Callable[[], int]) -> None:
        """`random` is a separate source, so that it changes no other draws."""
        self._random = random
        self._now = now
        self._ahead_ns = 0

    def work(self) -> None:
        """The disk is busy for a while."""
        self._ahead_ns += self._random.choice(_TURNS_NS)

    def read(self) -> int:
        return self._now() + self._ahead_ns


class Crashed(BaseException):
    """Power loss, or the death of the process, in the middle of a file operation.

    Not an Exception: nothing in the code under test may catch it.
    """


class _Inode:
    """The content of one file: as seen, as durable, and the writes in between."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.durable = bytearray()
        self.unsynced: list[tuple[int, bytes | None]] = []
        self.flips: list[tuple[int, int]] = []
        self.is_unreadable = False

    def write(self, position: int, data: bytes) -> None:
        _put(self.seen, position, data)
        self.unsynced.append((position, data))
        end = position + len(data)
        self.flips = [flip for flip in self.flips if not position <= flip[0] < end]

    def truncate(self, size: int) -> None:
        _resize(self.seen, size)
        self.unsynced.append((size, None))
        self.flips = [flip for flip in self.flips if flip[0] < size]
        # What is written from now on is in other sectors.
        self.is_unreadable = self.is_unreadable and size > 0

    def sync(self) -> None:
        for position, data in self.unsynced:
            _apply(self.durable, position, data)
        self.unsynced.clear()

    def lose_power(self, random: Random, pages: Random | None) -> None:
        """Keep some of what was not synced, sector by sector, or page by page."""
        for position, data in self.unsynced:
            if pages is not None and data is not None:
                self._keep_pages(position, data, pages)
                continue
            if data is None:
                if random.random() < 0.5:
                    _apply(self.durable, position, None)
                continue
            for start in range(0, len(data), _SECTOR):
                sector = data[start : start + _SECTOR]
                fate = random.random()
                if fate < 0.1:
                    sector = sector[: random.randrange(len(sector))]
                if fate < 0.6:
                    _apply(self.durable, position + start, sector)
        self.unsynced.clear()
        self.flips.clear()
        self.seen = bytearray(self.durable)

    def _keep_pages(self, position: int, data: bytes, random: Random) -> None:
        """Keep the first pages of a write, or some of them in any order."""
        grain, share = random.choice(_GRAINS)
        ends = [*range(position - position % grain + grain, position + len(data), grain)]
        ends.append(position + len(data))
        is_in_order = random.random() < 0.5
        start = position
        for end in ends:
            if random.random() < share:
                _apply(self.durable, start, data[start - position : end - position])
            elif is_in_order:
                return
            start = end


class _NameChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a directory: a name created, removed or renamed."""

    old: str | None = None
    new: str | None = None
    inode: _Inode

    def apply(self, names: dict[str, _Inode]) -> None:
        if self.old is not None:
            names.pop(self.old, None)
        if self.new is not None:
            names[self.new] = self.inode

    def renamed(self, rename: Callable[[str], str]) -> "_NameChange":
        """The same change in a directory that has another name."""
        old = None if self.old is None else rename(self.old)
        new = None if self.new is None else rename(self.new)
        return _NameChange(old=old, new=new, inode=self.inode)


class _Move:
    """A renamed directory whose two parent directories are not both synced yet."""

    def __init__(self, old: str, new: str) -> None:
        self.old = old
        self.new = new
        self.waits_for = {_parent(old): None, _parent(new): None}

    def forth(self, path: str) -> str:
        return _with_prefix(path, self.old, self.new)

    def back(self, path: str) -> str:
        return _with_prefix(path, self.new, self.old)


class _Handle:
    """An open file: usable after its name is removed, and not after it was closed."""

    def __init__(self, files: "SimulatedFileSystem", inode: _Inode) -> None:
        self._files = files
        self._inode: _Inode | None = inode
        files.open_handles += 1

    @property
    def _open(self) -> _Inode:
        assert self._inode is not None, "used after close"
        return self._inode

    def read_at(self, position: int, size: int) -> bytes:
        if self._open.is_unreadable:
            raise OSError(errno.EIO, "simulated unreadable sector")
        return bytes(self._open.seen[position : position + size])

    def write_at(self, position: int, data: Buffer) -> None:
        self._files.begin_write(self._open, position, bytes(data))
        self._files.write(self._open, position, bytes(data))

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        # The parts reach the page cache in order, as the pages of one write do.
        self.write_at(position, b"".join(parts))

    def truncate(self, size: int) -> None:
        self._files.step("truncate")
        self._files.faults.give_back(max(0, len(self._open.seen) - size))
        self._open.truncate(size)

    def allocate(self, size: int) -> None:
        self._files.step("allocate")
        present = len(self._open.seen)
        if size > present:
            self._files.write(self._open, present, bytes(size - present))

    def sync(self) -> None:
        self._files.step("sync")
        if self._files.faults.fails_sync():
            self._open.unsynced.clear()
            number = self._files.random.choice([errno.EIO, errno.ENOSPC])
            raise OSError(number, "simulated sync error")
        self._open.sync()

    def size(self) -> int:
        return len(self._open.seen)

    def close(self) -> None:
        assert self._inode is not None, "closed twice"
        self._inode = None
        self._files.open_handles -= 1


class SimulatedFileSystem:
    """One machine's disk. Survives crashes; the handles that a process had do not."""

    def __init__(self, random: Random, faults: Faults, pages: Random | None = None) -> None:
        """`pages` is the random source of a disk that tears at pages, separate from the others."""
        self.random = random
        self.faults = faults
        self._pages = pages
        self.open_handles = 0
        self._directories: dict[str, None] = {"": None}
        self._durable_directories: dict[str, None] = {"": None}
        self._seen: dict[str, _Inode] = {}
        self._durable: dict[str, _Inode] = {}
        self._unsynced: dict[str, list[_NameChange]] = {"": []}
        self._moves: list[_Move] = []
        self._removed: dict[str, None] = {}

    # What storage uses

    def entries(self, directory: str) -> list[Entry]:
        if directory not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        prefix = f"{directory}/" if directory else ""
        found = [
            Entry(path[len(prefix) :], EntryKind.FILE, len(inode.seen))
            for path, inode in self._seen.items()
            if _parent(path) == directory
        ]
        found.extend(
            Entry(path[len(prefix) :], EntryKind.DIRECTORY, 0)
            for path in self._directories
            if path and _parent(path) == directory
        )
        return found

    def kind(self, path: str) -> EntryKind | None:
        if path in self._seen:
            return EntryKind.FILE
        return EntryKind.DIRECTORY if path in self._directories else None

    def open(self, path: str) -> _Handle:
        if path not in self._seen:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return _Handle(self, self._seen[path])

    def create(self, path: str) -> _Handle:
        self.step("create")
        if path in self._seen:
            raise FileExistsError(errno.EEXIST, "exists", path)
        self.faults.check_space()
        inode = _Inode()
        self._change(_NameChange(new=path, inode=inode))
        return _Handle(self, inode)

    def make_directory(self, path: str) -> None:
        self.step("make_directory")
        if self.kind(path) is not None:
            raise FileExistsError(errno.EEXIST, "exists", path)
        if _parent(path) not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.faults.check_space()
        for move in [each for each in self._moves if each.old == path]:
            # A rename moves what had the name then, never what gets it later.
            self._moves.remove(move)
            self._move_durable(move)
        self._directories[path] = None
        self._unsynced.setdefault(path, [])
        self._removed.pop(path, None)

    def sync_directory(self, path: str) -> None:
        self.step("sync_directory")
        self.faults.check_names()
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        for move in list(self._moves):
            move.waits_for.pop(path, None)
            if not move.waits_for:
                self._moves.remove(move)
                self._move_durable(move)
        for directory in self._directories:
            if directory and _parent(directory) == path:
                self._durable_directories[self._durable_path(directory)] = None
        for directory in [gone for gone in self._removed if _parent(gone) == path]:
            del self._removed[directory]
            self._durable_directories.pop(self._durable_path(directory), None)
            self._unsynced.pop(directory)
        for change in self._unsynced[path]:
            self._apply_durably(change)
        self._unsynced[path].clear()

    def rename(self, old: str, new: str) -> None:
        self.step("rename")
        self.faults.check_names()
        if _parent(new) not in self._directories or self.kind(old) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        if old in self._directories:
            assert self.kind(new) is None, "only files are replaced"
            self._move_directory(_Move(old, new))
        else:
            self._change(_NameChange(old=old, new=new, inode=self._seen[old]))

    def link(self, old: str, new: str) -> None:
        self.step("link")
        self.faults.check_names()
        if old not in self._seen or _parent(new) not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        if self.kind(new) is not None:
            raise FileExistsError(errno.EEXIST, "exists", new)
        self._change(_NameChange(new=new, inode=self._seen[old]))

    def remove_directory(self, path: str) -> None:
        self.step("remove_directory")
        if self.entries(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self.faults.check_names()
        del self._directories[path]
        self._removed[path] = None

    def remove(self, path: str) -> None:
        self.step("remove")
        if path not in self._seen:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.faults.check_names()
        self._change(_NameChange(old=path, inode=self._seen[path]))

    def free_bytes(self) -> int:
        return self.faults.free_bytes()

    def commit(self, commits: Sequence[FileCommit]) -> None:
        commit_in_turn(commits)

    # What the simulation uses

    def step(self, operation: str) -> None:
        """Called before every change of the disk, so that a crash can happen at any of them."""
        if self.faults.crashes_now():
            raise Crashed(operation)

    def begin_write(self, inode: _Inode, position: int, data: bytes) -> None:
        """A crash before a write, or in the middle of it, between two pages."""
        if not self.faults.crashes_now():
            return
        if self._pages is not None:
            ends = range(position - position % _PAGE + _PAGE, position + len(data), _PAGE)
            end = self._pages.choice([position, *ends])
            if end > position:
                self.write(inode, position, data[: end - position])
        raise Crashed("write")

    def write(self, inode: _Inode, position: int, data: bytes) -> None:
        if self.faults.fails_write():
            raise OSError(errno.EIO, "simulated write error")
        growth = max(0, position + len(data) - len(inode.seen))
        room = self.faults.room_for(growth)
        if room < growth:
            part = data[: max(0, len(data) - growth + room)]
            if part:
                inode.write(position, part)
            raise OSError(errno.ENOSPC, "simulated full disk")
        inode.write(position, data)

    def lose_power(self) -> None:
        """Lose what was not synced, except for some of it."""
        for directory in sorted(self._unsynced):
            for change in self._unsynced[directory]:
                if self.random.random() < 0.5:
                    self._apply_durably(change)
        returning = [gone for gone in self._removed if self.random.random() < 0.5]
        self._directories = {
            self._durable_path(directory): None
            for directory in [*self._directories, *returning]
            if directory in self._directories
            or self._durable_path(directory) in self._durable_directories
        }
        for move in self._moves:
            if self.random.random() < 0.5:
                self._directories = {move.forth(path): None for path in self._directories}
                self._move_durable(move)
        self._moves.clear()
        self._removed.clear()
        for directory in sorted(self._directories, key=lambda path: path.count("/")):
            is_kept = directory in self._durable_directories or self.random.random() < 0.5
            if not is_kept or (directory and _parent(directory) not in self._directories):
                del self._directories[directory]
        self._unsynced = {directory: [] for directory in self._directories}
        self._durable_directories = dict(self._directories)
        self._durable = {
            path: inode
            for path, inode in self._durable.items()
            if _parent(path) in self._directories
        }
        for _, inode in sorted(self._durable.items()):
            inode.lose_power(self.random, self._pages)
        self._seen = dict(self._durable)

    def paths(self) -> list[str]:
        return sorted(self._seen)

    def content(self, path: str) -> bytes:
        return bytes(self._seen[path].seen)

    def durable_content(self, path: str) -> bytes:
        """What a power cut would certainly leave of this file; nothing if not even its name."""
        inode = self._durable.get(path)
        return b"" if inode is None else bytes(inode.durable)

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Bit rot: one bit changes on disk. Readers see it after the process is gone."""
        inode = self._seen[path]
        if position < len(inode.durable):
            inode.durable[position] ^= 1 << bit
            inode.flips.append((position, bit))

    def make_unreadable(self, path: str) -> None:
        """An unreadable sector: reads of it fail."""
        self._seen[path].is_unreadable = True

    def restart(self) -> None:
        """The process is gone; later reads come from the disk, not from the page cache."""
        self.open_handles = 0
        for inode in self._seen.values():
            for position, bit in inode.flips:
                if position < len(inode.seen):
                    inode.seen[position] ^= 1 << bit
            inode.flips.clear()

    def replace_content(self, path: str, data: bytes) -> None:
        """Replace a file by another version, as an operator could."""
        inode = self._seen[path]
        inode.seen = bytearray(data)
        inode.durable = bytearray(data)
        inode.unsynced.clear()

    def delete(self, path: str) -> None:
        """Remove a file, as an operator could."""
        self._seen.pop(path, None)
        self._durable.pop(path, None)

    def _move_directory(self, move: _Move) -> None:
        if move.new in self._removed:
            # The name was another directory's, whose end is certain before this one has it.
            del self._removed[move.new]
            self._durable_directories.pop(move.new, None)
            for change in self._unsynced.pop(move.new):
                self._apply_durably(change)
        self._directories = {move.forth(path): None for path in self._directories}
        self._removed = {move.forth(path): None for path in self._removed}
        self._seen = {move.forth(path): inode for path, inode in self._seen.items()}
        self._unsynced = {
            move.forth(path): [change.renamed(move.forth) for change in changes]
            for path, changes in self._unsynced.items()
        }
        self._moves.append(move)

    def _move_durable(self, move: _Move) -> None:
        self._durable_directories = {move.forth(p): None for p in self._durable_directories}
        self._durable = {move.forth(path): inode for path, inode in self._durable.items()}

    def _durable_path(self, path: str) -> str:
        """The durable path of a file below a directory whose rename is not synced."""
        for move in reversed(self._moves):
            path = move.back(path)
        return path

    def _apply_durably(self, change: _NameChange) -> None:
        change.renamed(self._durable_path).apply(self._durable)

    def _change(self, change: _NameChange) -> None:
        change.apply(self._seen)
        self._unsynced[_parent(change.new or change.old or "")].append(change)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _with_prefix(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path


def _put(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        _resize(content, position)
    else:
        _put(content, position, data)
