"""`goqueue log verify`: what the command prints, and how it exits."""

from pathlib import Path

import pytest

from tests.unit.cli.data_directories import (
    Terminal,
    append,
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
