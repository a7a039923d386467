"""`goqueue log stats`: what each log holds."""

from pathlib import Path

from goqueue.model import LogId, Message
from goqueue.storage import POINT_FILE, NameKind
from tests.unit.cli.data_directories import (
    RECORD_SIZE,
    Terminal,
    append,
    contents,
    segment,
    spoil,
    write_log,
)


def only_log(terminal: Terminal, path: Path) -> dict[str, object]:
    answer = terminal.run("log", "stats", path, "-o", "json")
    assert answer.code == 0
    document = answer.json()
    assert isinstance(document, dict)
    [log] = document["logs"]
    assert isinstance(log, dict)
    return log


def test_a_sound_log_is_told_in_full(tmp_path: Path, terminal: Terminal) -> None:
    messages = [Message(value=bytes(66), timestamp=(i + 1) * 1_000_000_000) for i in range(25)]
    write_log(tmp_path, messages=messages)
    before = contents(tmp_path)
    assert only_log(terminal, tmp_path) == {
        "topic": "orders",
        "partition": 0,
        "segments": 3,
        "bytes": 25 * RECORD_SIZE,
        "earliest": 0,
        "latest": 24,
        "offsets": 25,
        "unserved": 0,
        "earliest_timestamp": "1970-01-01T00:00:01Z",
        "latest_timestamp": "1970-01-01T00:00:25Z",
        "recovery_point": 25,
        "quarantined": 0,
        "indexes": {"usable": 3, "missing": 0, "unusable": 0},
        "cuts": [],
    }
    assert contents(tmp_path) == before


def test_an_empty_log_ends_before_it_begins(tmp_path: Path, terminal: Terminal) -> None:
    (tmp_path / "logs" / "orders" / "0").mkdir(parents=True)
    log = only_log(terminal, tmp_path)
    assert (log["earliest"], log["latest"], log["offsets"]) == (0, -1, 0)
    assert "earliest_timestamp" not in log
    assert "recovery_point" not in log


def test_indexes_are_told_apart(tmp_path: Path, terminal: Terminal) -> None:
    directory = write_log(tmp_path)
    segment(directory, 0, NameKind.INDEX).unlink()
    append(segment(directory, 10, NameKind.TIMEINDEX), b"x")
    log = only_log(terminal, tmp_path)
    assert log["indexes"] == {"usable": 1, "missing": 1, "unusable": 1}
    assert (log["latest"], log["unserved"]) == (24, 0)


def test_a_torn_tail_is_not_counted(tmp_path: Path, terminal: Terminal) -> None:
    directory = write_log(tmp_path)
    append(segment(directory, 20), b"GQ\x01")
    log = only_log(terminal, tmp_path)
    assert log["latest"] == 24
    assert log["indexes"] == {"usable": 3, "missing": 0, "unusable": 0}


def test_a_log_without_a_recovery_point_is_told_from_its_records(
    tmp_path: Path, terminal: Terminal
) -> None:
    directory = write_log(tmp_path)
    (directory / POINT_FILE).unlink()
    for path in directory.glob("*index"):
        path.unlink()
    spoil(segment(directory, 20), 250)
    log = only_log(terminal, tmp_path)
    assert (log["earliest"], log["latest"]) == (0, 21)


def test_quarantined_and_missing_offsets_are_not_served(tmp_path: Path, terminal: Terminal) -> None:
    directory = write_log(tmp_path)
    segment(directory, 0).replace(segment(directory, 0, NameKind.QUARANTINED))
    segment(directory, 20).unlink()
    log = only_log(terminal, tmp_path)
    assert (log["quarantined"], log["unserved"], log["offsets"]) == (1, 15, 25)


def test_the_table_has_a_line_per_log_and_a_sum(tmp_path: Path, terminal: Terminal) -> None:
    write_log(tmp_path, 2, LogId("a", 0))
    write_log(tmp_path, 3, LogId("b", 1))
    answer = terminal.run("log", "stats", tmp_path)
    assert "a-0" in answer.out
    assert "b-1" in answer.out
    assert answer.out.endswith("2 logs, 2 segments, 500 B, 5 offsets, 0 quarantined\n")


def test_what_a_start_cut_off_and_kept_is_named(tmp_path: Path, terminal: Terminal) -> None:
    directory = write_log(tmp_path)
    (directory / f"{20:020d}.log.cut-500").write_bytes(b"kept")
    assert only_log(terminal, tmp_path)["cuts"] == [f"{20:020d}.log.cut-500"]
    assert ".log.cut-500 was cut off at a start" in terminal.run("log", "stats", tmp_path).out
