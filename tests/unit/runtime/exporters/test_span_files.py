"""Files of spans: rotation, compression, torn lines, and files that others take away."""

import errno
import gzip
import json
import os
from pathlib import Path

import pytest

from goqueue.runtime.exporters.exporter import NotShipped
from goqueue.runtime.exporters.span_files import FileSink

LINE = b'{"n":"%06d","fill":"' + b"x" * 80 + b'"}\n'


def lines(first: int, count: int) -> list[bytes]:
    return [LINE % number for number in range(first, first + count)]


def numbers(data: bytes) -> list[int]:
    return [int(json.loads(line)["n"]) for line in data.splitlines()]


def sink(path: Path, bytes_max: int = 1000, count_max: int = 4) -> FileSink:
    return FileSink(str(path), bytes_max, count_max, "node-1")


def tidy(file: FileSink) -> None:
    while file.tidy():
        pass


def kept(folder: Path) -> dict[str, list[int]]:
    """What each file holds."""
    return {
        path.name: numbers(
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        )
        for path in sorted(folder.iterdir())
    }


def test_full_files_are_numbered_compressed_and_the_oldest_removed(tmp_path: Path) -> None:
    path = tmp_path / "traces" / "spans.jsonl"
    file = sink(path)
    for first in range(0, 60, 6):
        file.ship(lines(first, 6))
        tidy(file)
    file.close()
    found = kept(path.parent)
    assert list(found) == [
        "spans-00000004.jsonl.gz",
        "spans-00000005.jsonl.gz",
        "spans-00000006.jsonl.gz",
        "spans.jsonl",
    ]
    together = [number for part in found.values() for number in part]
    assert together == list(range(60 - len(together), 60))
    assert all(len(LINE) * len(part) <= 1000 for part in found.values())


def test_one_batch_may_fill_many_files(tmp_path: Path) -> None:
    file = sink(tmp_path / "spans.jsonl", count_max=100)
    file.ship(lines(0, 95))
    tidy(file)
    file.close()
    assert [number for part in kept(tmp_path).values() for number in part] == list(range(95))
    assert len(kept(tmp_path)) > 9


def test_with_a_count_of_one_only_the_present_file_stays(tmp_path: Path) -> None:
    file = sink(tmp_path / "spans.jsonl", count_max=1)
    file.ship(lines(0, 25))
    tidy(file)
    file.close()
    assert list(kept(tmp_path)) == ["spans.jsonl"]


def test_a_line_longer_than_a_file_may_be_has_a_file_of_its_own(tmp_path: Path) -> None:
    file = sink(tmp_path / "spans.jsonl", bytes_max=50)
    file.ship(lines(0, 3))
    file.close()
    assert list(kept(tmp_path).values()) == [[0], [1], [2]]


def test_a_later_start_appends_and_ends_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(LINE % 0 + b'{"n":1,"fil')
    file = sink(path)
    file.ship(lines(2, 1))
    file.close()
    assert path.read_bytes() == LINE % 0 + b'{"n":1,"fil\n' + LINE % 2


def test_a_later_start_goes_on_with_the_numbers_and_finishes_what_a_crash_left(
    tmp_path: Path,
) -> None:
    # Not compressed yet; compressed but not removed; half compressed.
    (tmp_path / "spans-00000003.jsonl").write_bytes(LINE % 3)
    (tmp_path / "spans-00000004.jsonl").write_bytes(LINE % 4)
    (tmp_path / "spans-00000004.jsonl.gz").write_bytes(gzip.compress(LINE % 4))
    (tmp_path / ".spans-00000003.jsonl.gz").write_bytes(b"\x1f\x8b half")
    file = sink(tmp_path / "spans.jsonl", count_max=10)
    file.ship(lines(10, 15))
    tidy(file)
    file.close()
    found = kept(tmp_path)
    assert found["spans-00000003.jsonl.gz"] == [3]
    assert found["spans-00000004.jsonl.gz"] == [4]
    assert list(found) == [
        "spans-00000003.jsonl.gz",
        "spans-00000004.jsonl.gz",
        "spans-00000005.jsonl.gz",
        "spans.jsonl",
    ]


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_file_that_somebody_takes_away_is_made_anew(tmp_path: Path, is_renamed: bool) -> None:
    path = tmp_path / "spans.jsonl"
    file = sink(path)
    file.ship(lines(0, 1))
    if is_renamed:
        path.rename(tmp_path / "elsewhere")
    else:
        path.unlink()
    file.ship(lines(1, 1))
    file.close()
    assert numbers(path.read_bytes()) == [1]


def test_a_folder_that_somebody_removes_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "traces" / "spans.jsonl"
    file = sink(path)
    file.ship(lines(0, 1))
    path.unlink()
    path.parent.rmdir()
    file.ship(lines(1, 1))
    file.close()
    assert numbers(path.read_bytes()) == [1]


def test_a_name_that_is_no_regular_file_is_refused_and_does_not_hold_up(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    os.mkfifo(path)
    file = sink(path)
    with pytest.raises(NotShipped, match="not a regular file"):
        file.ship(lines(0, 1))
    path.unlink()
    file.ship(lines(1, 1))
    file.close()
    assert numbers(path.read_bytes()) == [1]


def test_a_disk_that_fills_within_a_line_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spans.jsonl"
    file = sink(path, bytes_max=100_000)
    file.ship(lines(0, 3))
    really, room = os.write, 150

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = really(descriptor, data[:room])
        room -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(NotShipped, match="No space left"):
        file.ship(lines(3, 3))
    monkeypatch.undo()
    file.ship(lines(6, 1))
    file.close()
    assert numbers(path.read_bytes()) == [0, 1, 2, 6]


def test_a_disk_without_room_for_compression_keeps_the_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sink(tmp_path / "spans.jsonl")
    file.ship(lines(0, 15))

    def refuse(_: int, __: memoryview, ___: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", refuse)
        with pytest.raises(NotShipped, match="old files cannot be compressed"):
            tidy(file)
    assert list(kept(tmp_path)) == ["spans-00000001.jsonl", "spans.jsonl"]
    file.ship(lines(15, 10))
    tidy(file)
    file.close()
    assert "spans-00000001.jsonl.gz" in kept(tmp_path)
