"""Real disks that refuse: full, read-only, failing to sync, or held by another process."""

import contextlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from goqueue.model import MILLISECOND, Code, LogId, LogSettings, Message, Offset, Refused
from goqueue.records import build, decode, walk
from goqueue.runtime import DataDirectoryUnusable, LocalLog
from tests.integration.small_disk import mounted

LOG = LogId("orders", 0)
PAGE = 4096
DEADLINE_S = 60.0


def open_log(root: Path, full_retry_ns: int = 200 * MILLISECOND) -> LocalLog:
    settings = LogSettings(
        segment_bytes=40_000, index_interval_bytes=512, full_retry_ns=full_retry_ns
    )
    return LocalLog(str(root), LOG, settings)


def read_values(local: LocalLog) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = local.log.start
    while offset < local.log.high_watermark:
        data = local.read(offset)
        assert data
        values += [decode(data, position).value for position in walk(data).positions]
        offset = Offset(offset + len(walk(data)))
    return values


def append_until_full(local: LocalLog) -> list[bytes]:
    """Append until a batch is not committed; returns the values of those that were."""
    committed: list[bytes] = []
    while local.log.failure is None:
        values = [b"%06d" % (len(committed) + index) * 20 for index in range(7)]
        appended = local.append(build([Message(value=value) for value in values]))
        if local.wait_for_commit(appended.next) < appended.next:
            break
        committed += values
    return committed


# The ballast leaves other numbers of pages, so that each kind of file is the one without space.
@pytest.mark.parametrize("spare_pages", range(8))
def test_a_full_disk_refuses_writes_serves_reads_and_recovers(
    tmp_path: Path, spare_pages: int
) -> None:
    with mounted(tmp_path / "disk", 64 * PAGE) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes((20 + spare_pages) * PAGE))
        with open_log(disk / "data") as local:
            committed = append_until_full(local)
            assert local.log.failure is None
            with pytest.raises(Refused) as refused:
                local.append(build([Message(value=b"no room")]))
            assert refused.value.code is Code.STORAGE_FULL
            assert refused.value.code.is_retriable
            assert read_values(local) == committed

            ballast.unlink()
            committed.append(append_when_possible(local, b"room again"))
            assert read_values(local) == committed
        with open_log(disk / "data") as local:
            assert local.report.is_clean
            assert read_values(local) == committed


def append_when_possible(local: LocalLog, value: bytes) -> bytes:
    """Do as a producer does with a retriable refusal: try again."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            appended = local.append(build([Message(value=value)]))
        except Refused as refused:
            assert refused.code is Code.STORAGE_FULL, refused
        else:
            assert local.wait_for_commit(appended.next) == appended.next, local.log.failure
            return value
    raise AssertionError("space was back, and the log did not notice")


@pytest.mark.parametrize("is_lock_kept", [True, False])
def test_a_log_on_a_full_disk_can_be_reopened_and_read(tmp_path: Path, is_lock_kept: bool) -> None:
    with mounted(tmp_path / "disk", 64 * PAGE) as disk:
        with open_log(disk / "data") as local:
            committed = append_until_full(local)
        if not is_lock_kept:
            # Then there is not even space for the number of this process.
            (disk / "data" / "lock").unlink()
        with contextlib.suppress(OSError):
            (disk / "ballast").write_bytes(bytes(64 * PAGE))

        with open_log(disk / "data") as local:
            assert read_values(local) == committed


def test_a_read_only_disk_is_refused_in_words_and_left_alone(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 256 * PAGE) as disk:
        with open_log(disk / "data") as local:
            appended = local.append(build([Message(value=b"kept")]))
            local.wait_for_commit(appended.next)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = {path: path.stat().st_mtime_ns for path in disk.rglob("*")}

        with pytest.raises(DataDirectoryUnusable, match=r"(?i)read-only"):
            open_log(disk / "data")

        assert {path: path.stat().st_mtime_ns for path in disk.rglob("*")} == before
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        with open_log(disk / "data") as local:
            assert read_values(local) == [b"kept"]


HOLDING = """
import sys
from goqueue.model import LogId
from goqueue.runtime import LocalLog
with LocalLog(sys.argv[1], LogId("orders", 0)):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_who_holds_the_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        with pytest.raises(DataDirectoryUnusable, match=rf"pid {holder.pid}\b"):
            open_log(tmp_path)
        holder.kill()
    open_log(tmp_path).close()


APPENDING = """
import json, sys
from goqueue.model import LogId, LogSettings, Message, Refused
from goqueue.records import build, walk
from goqueue.runtime import LocalLog
local = LocalLog(sys.argv[1], LogId("orders", 0), LogSettings(segment_bytes=4_000))
acked = 0
while local.log.failure is None and acked < 1_000:
    appended = local.append(build([Message(value=b"%04d" % acked)]))
    if local.wait_for_commit(appended.next) == appended.next:
        acked = appended.next
try:
    local.append(build([Message(value=b"more")]))
    code = None
except Refused as refused:
    code = refused.code
readable = 0
while (data := local.read(readable)) is not None:
    readable += len(walk(data))
local.close()
said = {"acked": acked, "failure": local.log.failure, "code": code, "readable": readable}
print(json.dumps(said))
"""


@pytest.mark.parametrize("when", [5, 30, 31, 32, 90])
def test_after_one_failed_sync_nothing_is_acknowledged_or_synced_again(
    tmp_path: Path, when: int
) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace, which plants the error, is not installed")
    trace = tmp_path / "trace"
    inject = f"inject=fdatasync:error=EIO:when={when}"
    # Only this one call fails: a second attempt is told that all is well.
    command = [strace, "-f", "-o", str(trace), "-e", "trace=fdatasync", "-e", inject]
    command += [sys.executable, "-c", APPENDING, str(tmp_path / "data")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ptrace" in ran.stderr:
        pytest.skip("tracing is not permitted here")
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)

    assert said["failure"].startswith("EIO")
    assert said["code"] == "storage_failed"
    assert said["acked"] == said["readable"] > 0
    calls = [line for line in trace.read_text().splitlines() if "fdatasync(" in line]
    planted = next(index for index, line in enumerate(calls) if "INJECTED" in line)
    assert calls[planted + 1 :] == [], "after a failed sync there is no other"
    with open_log(tmp_path / "data") as local:
        values = read_values(local)
    assert values[: said["acked"]] == [b"%04d" % number for number in range(said["acked"])]
