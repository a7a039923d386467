"""Data directories that someone has been at: odd files where the log's own should be.

A cache that cannot be used costs nothing, a segment that cannot be used is refused and reported,
anything else is an error that names the path. Nothing is followed out of the directory.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.model import Code, LogId, LogSettings, Message, Offset, Refused
from goqueue.records import build, decode, walk
from goqueue.runtime import DataDirectoryUnusable, LocalLog, OsFileSystem
from goqueue.storage import find_logs, log_directory

LOG = LogId("orders", 0)
SETTINGS = LogSettings(segment_bytes=2_000, index_interval_bytes=256, retention_ns=None)
BASES = (0, 25, 50)
COUNT = 75

CACHES = [
    *(f"{base:020d}{ending}" for base in BASES for ending in (".index", ".timeindex")),
    "epochs.json",
]


def value_of(number: int) -> bytes:
    return b"value %3d " % number + bytes(36)


def append(local: LocalLog, *values: bytes) -> Offset:
    appended = local.append(build([Message(value=value) for value in values]))
    assert local.wait_for_commit(appended.next) == appended.next, local.log.failure
    return appended.first


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of three segments after a clean stop."""
    root = tmp_path / "data"
    with LocalLog(str(root), LOG, SETTINGS) as local:
        for number in range(COUNT):
            append(local, value_of(number))
        assert tuple(segment.base for segment in local.log.segments) == BASES
        (directory_of(root) / "epochs.json").touch()
    return root


def directory_of(root: Path) -> Path:
    return root / log_directory(LOG)


def open_log(root: Path) -> LocalLog:
    return LocalLog(str(root), LOG, SETTINGS)


def served(local: LocalLog) -> list[int]:
    """The offsets of all records that are served, each of which must be as written."""
    offsets: list[int] = []
    offset = local.log.start
    while offset < min(local.log.high_watermark, COUNT):
        try:
            data = local.read(offset)
        except Refused as refused:
            assert refused.code is Code.RECORDS_DAMAGED
            offset = Offset(int(refused.facts["next_offset"] or 0))
            continue
        assert data
        for position in walk(data).positions:
            record = decode(data, position)
            if record.offset < COUNT:
                assert record.value == value_of(record.offset)
                offsets.append(record.offset)
        offset = Offset(decode(data, walk(data).positions[-1]).offset + 1)
    return offsets


def without(base: int) -> list[int]:
    """All offsets but those of one segment."""
    return [offset for offset in range(COUNT) if not base <= offset < base + 25]


def listing(directory: Path) -> dict[str, bytes | None]:
    """What is below a directory, to show that it was left alone."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def empty(path: Path) -> None:
    path.write_bytes(b"")


def make_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "inside").write_bytes(b"keep me")


def make_link(path: Path) -> None:
    """A link to a file outside that looks just like what it replaces."""
    outside = path.parents[4] / "outside"
    outside.mkdir(exist_ok=True)
    (outside / path.name).write_bytes(path.read_bytes() if path.is_file() else b"")
    path.unlink(missing_ok=True)
    path.symlink_to(outside / path.name)


REPLACEMENTS: list[Callable[[Path], None]] = [empty, make_directory, make_link]


@pytest.mark.parametrize("replace", REPLACEMENTS)
@pytest.mark.parametrize("name", CACHES)
def test_a_cache_that_cannot_be_used_costs_nothing(
    root: Path, name: str, replace: Callable[[Path], None]
) -> None:
    replace(directory_of(root) / name)
    outside = listing(root.parent / "outside")

    with open_log(root) as local:
        assert served(local) == list(range(COUNT))
        assert append(local, b"goes on") == COUNT
    assert listing(root.parent / "outside") == outside


@pytest.mark.parametrize("replace", REPLACEMENTS)
@pytest.mark.parametrize("base", BASES)
def test_a_segment_that_cannot_be_used_is_refused_and_the_rest_is_served(
    root: Path, base: int, replace: Callable[[Path], None]
) -> None:
    replace(directory_of(root) / f"{base:020d}.log")
    outside = listing(root.parent / "outside")

    for _ in range(2):
        with open_log(root) as local:
            assert served(local) == without(base)
            assert [(gap.first, gap.below) for gap in local.report.damaged] == [(base, base + 25)]
            with pytest.raises(Refused) as refused:
                local.read(Offset(base + 3))
            assert refused.value.code is Code.RECORDS_DAMAGED
            assert append(local, b"goes on") >= COUNT
    assert listing(root.parent / "outside") == outside


def test_an_empty_recovery_point_means_that_the_tail_is_scanned(root: Path) -> None:
    empty(directory_of(root) / "recovery-point")

    with open_log(root) as local:
        assert local.report.scanned_bytes > 0
        assert served(local) == list(range(COUNT))
        assert append(local, b"goes on") == COUNT


@pytest.mark.parametrize("replace", [make_directory, make_link])
def test_a_recovery_point_that_is_no_file_is_an_error_that_names_it(
    root: Path, replace: Callable[[Path], None]
) -> None:
    replace(directory_of(root) / "recovery-point")
    before = listing(root.parent)

    with pytest.raises(OSError, match="recovery-point"):
        open_log(root)
    before["data/lock"] = (root / "lock").read_bytes()
    assert listing(root.parent) == before


def test_after_an_opening_that_failed_the_directory_is_free_again(root: Path) -> None:
    point = directory_of(root) / "recovery-point"
    kept = point.read_bytes()
    point.unlink()
    point.mkdir()
    with pytest.raises(OSError, match="recovery-point"):
        open_log(root)
    point.rmdir()
    point.write_bytes(kept)

    with open_log(root) as local:
        assert served(local) == list(range(COUNT))


def test_an_empty_lock_file_does_not_matter(root: Path) -> None:
    empty(root / "lock")

    with open_log(root) as local:
        assert served(local) == list(range(COUNT))


@pytest.mark.parametrize("kind", ["directory", "link", "pipe"])
def test_a_lock_that_is_no_file_is_refused_in_words(root: Path, kind: str) -> None:
    lock = root / "lock"
    lock.unlink()
    outside = root.parent / "outside"
    outside.write_bytes(b"untouched")
    match kind:
        case "directory":
            lock.mkdir()
        case "link":
            lock.symlink_to(outside)
        case _:
            os.mkfifo(lock)

    with pytest.raises(DataDirectoryUnusable, match=r"cannot lock .*lock"):
        open_log(root)
    assert outside.read_bytes() == b"untouched"


def test_a_data_directory_that_is_a_file_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    with pytest.raises(DataDirectoryUnusable, match="is a file"):
        open_log(tmp_path / "data")


@pytest.mark.parametrize("level", ["logs", "logs/orders", "logs/orders/0"])
def test_a_directory_that_is_a_link_is_not_followed(root: Path, level: str) -> None:
    outside = root.parent / "outside"
    (root / level).rename(outside)
    (root / level).symlink_to(outside)
    before = listing(outside)

    with pytest.raises((OSError, DataDirectoryUnusable), match=level):
        open_log(root)
    assert listing(outside) == before


@pytest.mark.parametrize("level", ["logs", "logs/orders", "logs/orders/0"])
def test_a_file_where_a_directory_should_be_is_an_error_that_names_it(
    tmp_path: Path, level: str
) -> None:
    path = tmp_path / level
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"a file")

    with pytest.raises((OSError, DataDirectoryUnusable), match=level):
        open_log(tmp_path)
    assert path.read_bytes() == b"a file"


FOREIGN = [
    "notes.txt",
    ".hidden",
    "00000000000000000025.log.bak",
    "25.log",
    "0000000000000000025.log",
    "000000000000000000025.log",
    "00000000000000000025.LOG",
    "99999999999999999999.log",
    "09223372036854775808.log",
    "\u0660" * 18 + "\u0662\u0665.log",
    "-0000000000000000025.log",
    "+0000000000000000025.log",
    "0000000000000000_025.log",
    "00000000000000000025.log ",
    "00000000000000000025.log\n",
    "line\nbreak\x1b[31m",
]


def test_foreign_files_are_reported_and_left_alone(root: Path) -> None:
    for name in FOREIGN:
        (directory_of(root) / name).write_bytes(b"not ours")
    (directory_of(root) / "undecodable-").with_name(os.fsdecode(b"bad-\xff")).write_bytes(b"")
    (directory_of(root) / "folder").mkdir()

    with open_log(root) as local:
        assert served(local) == list(range(COUNT))
        assert local.report.is_clean
        expected = [*FOREIGN, os.fsdecode(b"bad-\xff"), "folder"]
        assert sorted(local.report.foreign) == sorted(expected)
    for name in FOREIGN:
        assert (directory_of(root) / name).read_bytes() == b"not ours"


def test_foreign_names_beside_logs_are_no_logs(root: Path) -> None:
    (root / "logs" / "bad name").mkdir()
    (root / "logs" / "orders" / "01").mkdir()
    (root / "logs" / "orders" / "\u0663").mkdir()
    (root / "logs" / "linked").symlink_to(root / "logs" / "orders")

    logs, foreign = find_logs(OsFileSystem(str(root)))

    assert logs == [LOG]
    assert sorted(foreign) == [
        "logs/bad name",
        "logs/linked",
        "logs/orders/01",
        "logs/orders/\u0663",
    ]


@pytest.mark.parametrize("base", BASES)
def test_a_gap_in_the_segments_is_refused_and_the_rest_is_served(root: Path, base: int) -> None:
    for path in directory_of(root).glob(f"{base:020d}*"):
        path.unlink()

    with open_log(root) as local:
        assert served(local) == without(base)
        assert [(gap.first, gap.below) for gap in local.report.damaged] == [(base, base + 25)]
        assert append(local, b"goes on") == COUNT


@pytest.mark.parametrize("base", [60, 100, (1 << 63) - 1])
def test_an_empty_segment_with_a_name_of_its_own_loses_nothing(root: Path, base: int) -> None:
    (directory_of(root) / f"{base:020d}.log").write_bytes(b"")

    with open_log(root) as local:
        assert served(local) == list(range(COUNT))
        append(local, b"goes on")


@pytest.mark.parametrize(("old", "new"), [(25, 30), (25, 20), (50, 1 << 62), (0, 10)])
def test_a_renamed_segment_never_serves_a_record_at_a_wrong_offset(
    root: Path, old: int, new: int
) -> None:
    (directory_of(root) / f"{old:020d}.log").rename(directory_of(root) / f"{new:020d}.log")

    with open_log(root) as local:
        offsets = served(local)
        assert set(without(old)) <= set(offsets)
        for offset in range(COUNT):
            is_refused = any(gap.first <= offset < gap.below for gap in local.log.damaged)
            assert (offset in offsets) != is_refused


def test_a_segment_copied_under_another_name_never_serves_a_record_twice(root: Path) -> None:
    first = directory_of(root) / f"{0:020d}.log"
    (directory_of(root) / f"{25:020d}.log").write_bytes(first.read_bytes())

    with open_log(root) as local:
        assert served(local) == without(25)
        with pytest.raises(Refused) as refused:
            local.read(Offset(30))
        assert refused.value.code is Code.RECORDS_DAMAGED
