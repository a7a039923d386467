"""`goqueue log verify` as a command: what it prints, how it exits, and beside a running broker."""

import errno
from pathlib import Path

import pytest

from goqueue.cli.log.directory import look_at
from goqueue.cli.log.verify import Kind, verify
from goqueue.runtime import OsFile, OsFileSystem
from goqueue.storage import Entry
from tests.unit.cli.data_directories import (
    Terminal,
    append,
    cut,
    encode_at,
    segment,
    spoil,
    write_log,
)


def test_the_json_has_exactly_the_fields_of_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_log(tmp_path)
    segment(directory, 10).unlink()
    segment(directory, 10).mkdir()
    spoil(segment(directory, 0), 50)
    append(segment(directory, 20), b"GQ")
    answer = Terminal(capsys).run("log", "verify", tmp_path, "-o", "json")
    assert answer.code == 1
    document = answer.json()
    assert document == {
        "records": 14,
        "segments": 2,
        "bytes": 1502,
        "problems": [
            {
                "topic": "orders",
                "partition": 0,
                "segment": 0,
                "position": 0,
                "offset": 0,
                "kind": "damage",
                "reason": "crc: the bytes do not match their checksum",
            },
            {
                "topic": "orders",
                "partition": 0,
                "segment": 10,
                "position": 0,
                "kind": "not_a_file",
                "reason": "00000000000000000010.log is a directory, not a file",
            },
        ],
        "torn": [
            {
                "topic": "orders",
                "partition": 0,
                "segment": 20,
                "position": 500,
                "offset": 25,
                "kind": "torn",
                "reason": "truncated: the record is cut off; "
                "the last 2 bytes are cut at the next start",
            }
        ],
    }


def test_a_torn_tail_alone_exits_with_0(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(segment(directory, 20), b"GQ")
    answer = Terminal(capsys).run("log", "verify", directory)
    assert answer.code == 0
    assert "1 torn tail" in answer.out


def test_the_table_shows_problems_and_notes(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(segment(directory, 0), 50)
    (directory / "evil\x1b[31m[red]").write_text("")
    answer = Terminal(capsys).run("log", "verify", directory)
    assert answer.code == 1
    assert "damage" in answer.out
    assert "evil\\x1b[31m[red]: a file that is not ours" in answer.out
    assert "\x1b" not in answer.out
    assert answer.out.endswith("24 records in 3 segments (2.4 KiB): 1 problem\n")


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
