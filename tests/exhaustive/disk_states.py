"""What a disk may hold after the power went at some moment of a record.

Nothing that was synced is lost. Of the rest each 512-byte sector of each write, each change of a
length and each change of a name is there or not, in any combination.
"""

from collections.abc import Sequence
from random import Random

import msgspec

from tests.exhaustive.recording_files import Change, NamesSynced, Renamed, Synced, Written

SECTOR = 512
HOWS = ("all", "nothing", "in order", "mostly", "some", "hardly any")
_SHARES = {"all": 1.0, "nothing": 0.0, "mostly": 0.9, "some": 0.5, "hardly any": 0.1}


class _File(msgspec.Struct):
    durable: bytearray
    pending: list[tuple[int, Written]]


class Disk:
    """Takes in a record, change by change; can be asked at any moment what a cut would leave."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._changes = changes
        self._done = 0
        self._files: dict[int, _File] = {}
        self._names: dict[str, int] = {}
        self._directories: dict[str, None] = {"": None}
        self._pending: list[tuple[int, Renamed]] = []

    def advance(self, upto: int) -> None:
        """Let everything below `upto` happen."""
        for index in range(self._done, upto):
            self._take(index, self._changes[index])
        self._done = upto

    def _take(self, index: int, change: Change) -> None:
        match change:
            case Written():
                self._files[change.file].pending.append((index, change))
            case Synced():
                file = self._files[change.file]
                for at, write in file.pending:
                    if at < change.upto:
                        _put(file.durable, write.position, write.data)
                file.pending = [each for each in file.pending if each[0] >= change.upto]
            case Renamed():
                if change.old is None and change.file is not None:
                    self._files[change.file] = _File(bytearray(), [])
                self._pending.append((index, change))
            case NamesSynced():
                for at, rename in self._pending:
                    if at < change.upto and _parent(rename) == change.directory:
                        _apply(rename, self._names, self._directories)
                self._pending = [
                    (at, rename)
                    for at, rename in self._pending
                    if at >= change.upto or _parent(rename) != change.directory
                ]

    def after_a_cut(self, how: str, random: Random) -> dict[str, bytes]:
        """One of the states that the disk may be in now, as files by path."""
        names, directories = dict(self._names), dict(self._directories)
        renames = [rename for _, rename in self._pending]
        if how == "in order":
            renames = renames[: random.randrange(len(renames) + 1)]
        else:
            renames = [each for each in renames if random.random() < _SHARES[how]]
        for rename in renames:
            _apply(rename, names, directories)
        return {
            path: self._content(number, how, random)
            for path, number in names.items()
            if all(above in directories for above in _above(path))
        }

    def _content(self, number: int, how: str, random: Random) -> bytes:
        file = self._files[number]
        content = bytearray(file.durable)
        writes = [write for _, write in file.pending]
        if how == "in order" and writes:
            last = random.randrange(len(writes))
            for write in writes[:last]:
                _put(content, write.position, write.data)
            _put_first_sectors(content, writes[last], random)
            return bytes(content)
        for write in writes:
            _put_some_sectors(content, write, _SHARES.get(how, 0.0), random)
        return bytes(content)


def _put_first_sectors(content: bytearray, write: Written, random: Random) -> None:
    if write.data is None:
        if random.random() < 0.5:
            _put(content, write.position, None)
        return
    pieces = _sectors(write)
    for position, data in pieces[: random.randrange(len(pieces) + 1)]:
        _put(content, position, data)


def _put_some_sectors(content: bytearray, write: Written, share: float, random: Random) -> None:
    if write.data is None:
        if random.random() < share:
            _put(content, write.position, None)
        return
    for position, data in _sectors(write):
        if random.random() < share:
            _put(content, position, data)


def _sectors(write: Written) -> list[tuple[int, bytes]]:
    """The parts of a write that lie in one sector of the file each."""
    assert write.data is not None
    pieces = []
    done = 0
    while done < len(write.data):
        position = write.position + done
        size = min(SECTOR - position % SECTOR, len(write.data) - done)
        pieces.append((position, write.data[done : done + size]))
        done += size
    return pieces


def _put(content: bytearray, position: int, data: bytes | None) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _apply(rename: Renamed, names: dict[str, int], directories: dict[str, None]) -> None:
    if rename.file is None:
        assert rename.new is not None
        directories[rename.new] = None
        return
    if rename.old is not None:
        names.pop(rename.old, None)
    if rename.new is not None:
        names[rename.new] = rename.file


def _parent(rename: Renamed) -> str:
    path = rename.new if rename.old is None else rename.old
    assert path is not None
    assert rename.new is None or path.rpartition("/")[0] == rename.new.rpartition("/")[0]
    return path.rpartition("/")[0]


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(len(parts))]
