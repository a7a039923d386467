"""The smallest shell: one log, its disk thread, the lock on its directory."""

import errno
import os
import threading
from pathlib import Path

import pytest

from goqueue.model import Code, Flush, LogId, LogSettings, Message, Offset, Refused, Timestamp
from goqueue.records import build, decode, walk
from goqueue.runtime import (
    DataDirectory,
    DataDirectoryUnusable,
    LocalLog,
    read_clock,
    reserve_for,
)

LOG = LogId("orders", 0)
SMALL = LogSettings(segment_bytes=2_000, index_interval_bytes=256)
MIB = 1 << 20
GIB = 1 << 30


def put(local: LocalLog, *values: bytes) -> Offset:
    appended = local.append(build([Message(value=value) for value in values]))
    assert local.wait_for_commit(appended.next) >= appended.next
    return appended.first


def values_of(local: LocalLog) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = local.log.start
    while (data := local.read(offset)) is not None:
        values += [decode(data, position).value for position in walk(data).positions]
        offset = Offset(offset + len(walk(data)))
    return values


@pytest.mark.parametrize("flush", list(Flush))
def test_what_was_appended_is_read_now_and_after_a_restart(tmp_path: Path, flush: Flush) -> None:
    settings = LogSettings(segment_bytes=2_000, flush=flush)
    expected: list[bytes | None] = [b"%040d" % number for number in range(120)]
    with LocalLog(str(tmp_path), LOG, settings) as local:
        for value in expected:
            put(local, value or b"")
        assert values_of(local) == expected
        assert len(local.log.segments) > 3
    with LocalLog(str(tmp_path), LOG, settings) as local:
        assert local.report.is_clean
        assert local.report.scanned_bytes == 0
        assert values_of(local) == expected


def test_many_batches_in_flight_are_committed_together(tmp_path: Path) -> None:
    with LocalLog(str(tmp_path), LOG, SMALL) as local:
        ends = [local.append(build([Message(value=b"x")])).next for _ in range(100)]
        assert local.wait_for_commit(ends[-1]) == 100
        assert local.log.watermarks.durable == 100


def test_a_search_by_time_finds_the_first_record_not_earlier(tmp_path: Path) -> None:
    with LocalLog(str(tmp_path), LOG, SMALL) as local:
        for number in range(100):
            batch = build([Message(value=bytes(40), timestamp=1_000 + number)])
            local.wait_for_commit(local.append(batch).next)
        assert local.seek(Timestamp(0)) == 0
        assert local.seek(Timestamp(1_050)) == 50
        assert local.seek(Timestamp(1_100)) == 100


def test_a_reader_in_another_thread_sees_only_whole_right_records(tmp_path: Path) -> None:
    with LocalLog(str(tmp_path), LOG, SMALL) as local:
        put(local, b"%08d" % 0)
        wrong: list[bytes | None] = []
        is_over = threading.Event()

        def read() -> None:
            while not is_over.is_set():
                for number, value in enumerate(values_of(local)):
                    if value != b"%08d" % number:
                        wrong.append(value)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for number in range(1, 300):
                put(local, b"%08d" % number)
        finally:
            is_over.set()
            reader.join()
        assert not wrong


def test_damage_met_by_a_read_is_refused_and_later_reads_go_on(tmp_path: Path) -> None:
    with LocalLog(str(tmp_path), LOG, SMALL) as local:
        for number in range(100):
            put(local, b"%040d" % number)
        second = local.log.segments[1].base
    path = tmp_path / "logs" / "orders" / "0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)

    with LocalLog(str(tmp_path), LOG, SMALL) as local:
        for _ in range(2):
            with pytest.raises(Refused) as refused:
                local.read(Offset(0))
            assert refused.value.code is Code.RECORDS_DAMAGED
        assert local.read(second) is not None
        assert put(local, b"goes on") == 100


def test_a_search_goes_on_behind_damage(tmp_path: Path) -> None:
    with LocalLog(str(tmp_path), LOG, SMALL) as local:
        for number in range(100):
            put(local, b"%040d" % number)
    path = tmp_path / "logs" / "orders" / "0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)

    with LocalLog(str(tmp_path), LOG, SMALL) as local:
        assert local.seek(Timestamp(1)) == 1
        with pytest.raises(Refused) as refused:
            local.read(Offset(0))
        assert refused.value.code is Code.RECORDS_DAMAGED
        assert refused.value.facts["next_offset"] == 1


def test_a_second_user_of_the_directory_is_refused_with_the_process_named(tmp_path: Path) -> None:
    first = DataDirectory(str(tmp_path / "data"))
    with pytest.raises(DataDirectoryUnusable, match=rf"in use .*pid {os.getpid()}"):
        DataDirectory(str(tmp_path / "data"))
    first.close()
    DataDirectory(str(tmp_path / "data")).close()


def test_a_removed_lock_file_lets_no_second_user_in(tmp_path: Path) -> None:
    first = DataDirectory(str(tmp_path))
    for name in [path.name for path in tmp_path.iterdir()]:
        (tmp_path / name).unlink()
    for _ in range(2):
        with pytest.raises(DataDirectoryUnusable, match="in use"):
            DataDirectory(str(tmp_path))
    first.close()
    DataDirectory(str(tmp_path)).close()


def test_the_parents_of_a_new_data_directory_are_synced_also_by_a_second_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "parent" / "data"
    fsync = os.fsync
    synced: list[int] = []

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "planted")

    def note(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    # A process that ends here has made directories that nobody has synced.
    root.parent.mkdir()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DataDirectoryUnusable, match="planted"):
        DataDirectory(str(root))
    monkeypatch.setattr(os, "fsync", note)
    DataDirectory(str(root)).close()
    assert root.parent.stat().st_ino in synced


def test_a_directory_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataDirectoryUnusable, match="file"):
        DataDirectory(str(tmp_path / "file" / "below"))


def test_a_hostile_topic_is_refused_and_the_directory_is_free_again(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        LocalLog(str(tmp_path / "data"), LogId("../up", 0))
    assert refused.value.code is Code.NAME_INVALID
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    LocalLog(str(tmp_path / "data"), LOG).close()


def test_the_journal_reserve_is_a_twentieth_of_a_small_disk() -> None:
    assert reserve_for(64 * MIB, 0) == 0
    assert reserve_for(64 * MIB, 256 * 1024) == 256 * 1024 // 20
    assert reserve_for(64 * MIB, 1_000 * GIB) == 64 * MIB


def test_the_clock_goes_on() -> None:
    before = read_clock()
    after = read_clock()
    assert before.instant <= after.instant
    assert after.wall > 1_700_000_000_000_000_000
