"""Names in a data directory: which are ours, which may become directories."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, LogId, LogSettings, Refused
from goqueue.storage import (
    NameKind,
    Storage,
    atomic_write,
    classify,
    find_logs,
    log_directory,
    quarantine_name,
    segment_base,
    segment_name,
)
from tests.unit.storage.memory_files import MemoryFiles

BASE = "00000000000000000042"

KINDS = [
    (f"{BASE}.log", NameKind.SEGMENT),
    (f"{BASE}.index", NameKind.INDEX),
    (f"{BASE}.timeindex", NameKind.TIMEINDEX),
    (f"{BASE}.log.cleaned", NameKind.CLEANED),
    (f"{BASE}.log.quarantined", NameKind.QUARANTINED),
    ("recovery-point", NameKind.OWN),
    ("epochs.json", NameKind.OWN),
    ("recovery-point.tmp", NameKind.TEMPORARY),
    ("epochs.json.tmp", NameKind.TEMPORARY),
    ("", NameKind.FOREIGN),
    (".tmp", NameKind.FOREIGN),
    ("other.tmp", NameKind.FOREIGN),
    ("epochs.json.tmp.tmp", NameKind.FOREIGN),
    (f"{BASE}", NameKind.FOREIGN),
    (f"{BASE}.", NameKind.FOREIGN),
    (f"{BASE}.log.tmp", NameKind.FOREIGN),
    (f"{BASE}.log\n", NameKind.FOREIGN),
    (f"{BASE[1:]}.log", NameKind.FOREIGN),
    (f"0{BASE}.log", NameKind.FOREIGN),
    ("9" * 20 + ".log", NameKind.FOREIGN),
    (f"{1 << 63:020d}.log", NameKind.FOREIGN),
    ("\u0660" * 18 + "42.log", NameKind.FOREIGN),
    ("²" * 20 + ".log", NameKind.FOREIGN),
    ("-" + BASE[1:] + ".log", NameKind.FOREIGN),
]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_name_is_ours_only_if_it_is_exactly_ours(name: str, kind: NameKind) -> None:
    assert classify(name) is kind


@given(st.text(max_size=40))
def test_any_name_is_classified(name: str) -> None:
    assert classify(name) in NameKind


@given(st.integers(0, 1 << 61))
def test_the_name_of_a_segment_says_its_base(base: int) -> None:
    name = segment_name(base)
    assert classify(name) is NameKind.SEGMENT
    assert segment_base(name) == base


HOSTILE = [
    "",
    ".",
    "..",
    "../up",
    "a/b",
    "/absolute",
    "a\0b",
    "a\n",
    "a b",
    "é",
    "a\u2024b",
    "\u0430",
    "x" * 250,
    "%2e%2e",
    "a\\b",
    "a\x1b[0m",
]


@pytest.mark.parametrize("topic", HOSTILE)
def test_a_hostile_topic_never_becomes_a_path(topic: str) -> None:
    with pytest.raises(Refused) as refused:
        log_directory(LogId(topic, 0))
    assert refused.value.code is Code.NAME_INVALID


@pytest.mark.parametrize("topic", ["a", "...", "..a", "A.b_c-9", "-", "x" * 249, "lock", "__state"])
def test_a_topic_of_plain_letters_is_a_directory_of_that_name(topic: str) -> None:
    assert log_directory(LogId(topic, 3)) == f"logs/{topic}/3"


def test_a_refusal_of_a_name_does_not_repeat_it() -> None:
    with pytest.raises(Refused) as refused:
        log_directory(LogId("\x1b[31mred", 0))
    assert "\x1b" not in str(refused.value)


def test_logs_are_found_in_order_and_the_rest_is_named() -> None:
    content = {"logs/b/10/f": b"", "logs/b/2/f": b"", "logs/a/0/f": b"", "logs/a/x/f": b""}
    logs, foreign = find_logs(MemoryFiles({**content, "logs/file": b"", "logs/a/00/f": b""}))
    assert logs == [LogId("a", 0), LogId("b", 2), LogId("b", 10)]
    assert foreign == ["logs/a/x", "logs/a/00", "logs/file"]


def test_an_empty_data_directory_has_no_logs() -> None:
    assert find_logs(MemoryFiles()) == ([], [])


def test_an_atomic_write_syncs_the_content_before_the_name() -> None:
    files = MemoryFiles({"d/name": b"old"})
    atomic_write(files, "d", "name", b"new")
    assert files.copy() == {"d/name": b"new"}
    assert [call for call in files.faults.calls if call[0] != "close"] == [
        ("remove", "d/name.tmp"),
        ("create", "d/name.tmp"),
        ("write", "d/name.tmp"),
        ("sync", "d/name.tmp"),
        ("rename", "d/name.tmp"),
        ("sync_directory", "d"),
    ]


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_an_atomic_write_that_fails_leaves_the_old_content(operation: str) -> None:
    files = MemoryFiles({"d/name": b"old", "d/name.tmp": b"left over by a crash"})
    files.faults.broken[operation, ".tmp"] = 5
    with pytest.raises(OSError, match="planted"):
        atomic_write(files, "d", "name", b"new")
    assert files.copy()["d/name"] == b"old"
    files.faults.broken.clear()
    atomic_write(files, "d", "name", b"new")
    assert files.copy() == {"d/name": b"new"}


def test_a_segment_set_aside_twice_keeps_both_files_apart() -> None:
    first = quarantine_name(42, [])
    second = quarantine_name(42, [first])
    third = quarantine_name(42, [first, second])

    assert len({first, second, third}) == 3
    assert all(classify(name) is NameKind.QUARANTINED for name in (first, second, third))
    assert all(segment_base(name) == 42 for name in (first, second, third))
    assert classify(segment_name(42) + "-1") is NameKind.FOREIGN


@pytest.mark.parametrize("partition", [-1, -(10**12), 10**10, 10**20, True])
def test_a_partition_that_is_no_plain_short_number_is_refused_before_any_directory_is_made(
    partition: int,
) -> None:
    files = MemoryFiles()
    with pytest.raises(Refused) as refused:
        Storage(files).open(LogId("orders", partition), LogSettings())
    assert refused.value.code is Code.NAME_INVALID
    assert refused.value.facts == {"field": "partition"}
    assert files.faults.calls == []


@pytest.mark.parametrize("partition", [0, 7, 10**10 - 1])
def test_a_partition_up_to_ten_digits_has_a_directory(partition: int) -> None:
    assert log_directory(LogId("orders", partition)) == f"logs/orders/{partition}"
