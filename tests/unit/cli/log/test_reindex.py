"""`goqueue log rebuild-index`: the only command that writes."""

import shutil
from pathlib import Path

import pytest

from goqueue.runtime import DataDirectory
from goqueue.storage import NameKind
from tests.unit.cli.data_directories import (
    Terminal,
    append,
    contents,
    problems,
    segment,
    spoil,
    write_log,
)


@pytest.mark.parametrize("state", ["missing", "lying", "malformed"])
def test_an_index_in_any_state_becomes_sound(
    tmp_path: Path, terminal: Terminal, state: str
) -> None:
    directory = write_log(tmp_path)
    index = segment(directory, 10, NameKind.INDEX)
    match state:
        case "missing":
            index.unlink()
        case "lying":
            spoil(index, 30)
        case _:
            append(index, b"x")
    terminal.run("log", "rebuild-index", tmp_path)
    assert index.stat().st_size
    assert not problems(tmp_path)


def test_the_answer_counts_what_was_rebuilt(tmp_path: Path, terminal: Terminal) -> None:
    write_log(tmp_path)
    answer = terminal.run("log", "rebuild-index", tmp_path, "-o", "json")
    assert answer.code == 0
    assert answer.json() == {
        "rebuilt": 3,
        "segments": 3,
        "bytes": 2500,
        "problems": [],
        "torn": [],
    }


def test_records_are_never_touched(tmp_path: Path, terminal: Terminal) -> None:
    directory = write_log(tmp_path)
    append(segment(directory, 20), b"GQ\x01")
    before = {path: path.read_bytes() for path in directory.glob("*.log")}
    terminal.run("log", "rebuild-index", tmp_path)
    assert {path: path.read_bytes() for path in directory.glob("*.log")} == before


def test_a_data_directory_that_a_process_holds_is_refused(
    tmp_path: Path, terminal: Terminal
) -> None:
    directory = write_log(tmp_path)
    holder = DataDirectory(str(tmp_path))
    before = contents(tmp_path)
    for path in (tmp_path, directory):
        answer = terminal.run("log", "rebuild-index", path)
        assert answer.code == 1
        assert "in use by another process" in answer.err
    assert contents(tmp_path) == before
    holder.close()


def test_damage_is_told_and_the_other_segments_are_indexed(
    tmp_path: Path, terminal: Terminal
) -> None:
    directory = write_log(tmp_path)
    spoil(segment(directory, 10), 250)
    for path in directory.glob("*index"):
        path.unlink()
    answer = terminal.run("log", "rebuild-index", tmp_path)
    assert answer.code == 1
    assert "2 indexes of 3 segments" in answer.out
    assert "1 problem" in answer.out
    assert "1" in answer.out
    assert sorted(path.name for path in directory.glob("*.index")) == [
        "00000000000000000000.index",
        "00000000000000000010.index",
        "00000000000000000020.index",
    ]


def test_a_torn_tail_gets_no_index_entry_and_is_no_failure(
    tmp_path: Path, terminal: Terminal
) -> None:
    directory = write_log(tmp_path)
    append(segment(directory, 20), b"GQ\x01")
    answer = terminal.run("log", "rebuild-index", tmp_path)
    assert answer.code == 0
    assert "1 torn tail" in answer.out
    assert not problems(tmp_path)


@pytest.mark.parametrize("kind", [NameKind.SEGMENT, NameKind.INDEX])
def test_a_directory_in_the_way_is_a_problem(
    tmp_path: Path, terminal: Terminal, kind: NameKind
) -> None:
    directory = write_log(tmp_path)
    segment(directory, 10, kind).unlink()
    segment(directory, 10, kind).mkdir()
    answer = terminal.run("log", "rebuild-index", tmp_path)
    assert answer.code == 1
    assert "is a directory, not a file" in answer.out


def test_a_copy_outside_of_any_data_directory_needs_no_lock(
    tmp_path: Path, terminal: Terminal
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(write_log(tmp_path / "data"), copy)
    for path in copy.glob("*index"):
        path.unlink()
    answer = terminal.run("log", "rebuild-index", copy)
    assert answer.code == 0
    assert len(list(copy.glob("*.index"))) == 3
    assert not (copy / "lock").exists()
