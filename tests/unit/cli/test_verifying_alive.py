"""`goqueue log verify` beside a broker that goes on writing."""

import errno
from pathlib import Path

import pytest

from goqueue.cli.log.directory import look_at
from goqueue.cli.log.verify import Kind, verify
from goqueue.runtime import OsFile, OsFileSystem
from goqueue.storage import Entry
from tests.unit.cli.data_directories import (
    append,
    cut,
    encode_at,
    segment,
    spoil,
)


class Racing(OsFileSystem):
    """A file system in which something happens to a segment while it is checked."""

    def __init__(self, root: str, name: str, is_removed: bool) -> None:
        super().__init__(root, is_read_only=True)
        self._name = name
        self._is_removed = is_removed
        self._disk = Path(root)

    def open(self, path: str) -> OsFile:
        if path.endswith(self._name):
            if self._is_removed:
                (self._disk / path).unlink()
            else:
                cut(self._disk / path, 50)
        return super().open(path)


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_segment_that_a_broker_changes_meanwhile_is_noted_not_blamed(
    directory: Path, is_removed: bool
) -> None:
    tree = look_at(str(directory))
    files = Racing(tree.root, "00010.log", is_removed)
    verification = verify(files, tree.places, lambda _: None)
    assert not verification.verdict.problems
    assert len(verification.notes) == 1


class Growing(OsFileSystem):
    """A file system in which a broker appends to a segment while it is checked."""

    def __init__(self, root: str) -> None:
        super().__init__(root, is_read_only=True)
        self._disk = Path(root)

    def open(self, path: str) -> OsFile:
        file = super().open(path)
        if path.endswith("00020.log"):
            append(self._disk / path, encode_at(25))
        return file


def test_a_segment_that_grows_meanwhile_is_sound_up_to_its_old_end(directory: Path) -> None:
    append(segment(directory, 20), b"GQ")
    tree = look_at(str(directory))
    verification = verify(Growing(tree.root), tree.places, lambda _: None)
    assert not verification.verdict.problems
    assert not verification.verdict.torn
    assert "grew while it was being checked" in verification.notes[0]


def test_damage_in_a_segment_that_grows_meanwhile_is_still_damage(directory: Path) -> None:
    spoil(segment(directory, 20), 150)
    tree = look_at(str(directory))
    verdict = verify(Growing(tree.root), tree.places, lambda _: None).verdict
    assert [problem.kind for problem in verdict.problems] == [Kind.DAMAGE]


class Vanishing(OsFileSystem):
    """A file system in which a file is removed while its directory is listed, twice."""

    left = 2

    def entries(self, directory: str) -> list[Entry]:
        if self.left:
            self.left -= 1
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", directory)
        return super().entries(directory)


def test_a_file_that_is_removed_while_its_directory_is_listed_stops_nothing(
    directory: Path,
) -> None:
    tree = look_at(str(directory))
    files = Vanishing(tree.root, is_read_only=True)
    assert verify(files, tree.places, lambda _: None).verdict.records == 25
