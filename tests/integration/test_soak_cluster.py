"""The soak of a cluster: a short run of it, and proof that its verdict sees what it should."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import goqueue
from goqueue.client.retries import Retries
from soak.cluster.faults import FAULTS
from soak.cluster.verdict import Acknowledged, Copy, judge
from tests.examples import IS_EXHAUSTIVE
from tests.integration.frail_node import FrailDisk, program_on
from tests.integration.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
SECONDS, FAULT_EVERY = (60, 3) if IS_EXHAUSTIVE else (9, 1.2)
PROCESSES = ("kill", "stop", "freeze", "cut", "drop", "kill all")
DISKS = ("power", "power of all", "fill", "fail")
# What is done to several nodes at once, to one at a bad moment, or for good.
HARSH = tuple(each for each in FAULTS if each not in (*PROCESSES, *DISKS))


def counts_of_soak(folder: Path, faults: Sequence[str]) -> dict[str, int]:
    """What a sound run counted; it fails the test if a promise was broken."""
    command = [sys.executable, "-m", "soak.cluster", "--directory", str(folder)]
    command += ["--seconds", f"{SECONDS}", "--fault-every", f"{FAULT_EVERY}", "--faults", *faults]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = (line.rsplit(None, 1) for line in ran.stdout.splitlines() if line.startswith("  "))
    counts = {name.strip(): int(count) for name, count in rows}
    assert counts["acknowledged"] > 0
    assert counts["copies compared"] == 18
    return counts


def test_a_cluster_whose_nodes_fail_under_load_keeps_every_promise(tmp_path: Path) -> None:
    counts_of_soak(tmp_path / "soak", PROCESSES)


def test_a_cluster_whose_disks_fail_and_lose_power_keeps_every_promise(tmp_path: Path) -> None:
    """Files are cut to what was synced, on one node and on all; disks fill up and fail."""
    counts = counts_of_soak(tmp_path / "soak", DISKS)

    assert any(counts.get(name) for name in DISKS)


@pytest.mark.long
def test_a_cluster_keeps_every_promise_when_several_nodes_fail_at_bad_moments(
    tmp_path: Path,
) -> None:
    """Disks are wiped and clocks jump as well."""
    counts_of_soak(tmp_path / "soak", HARSH)


def test_a_power_cut_takes_what_was_not_synced_and_nothing_else(tmp_path: Path) -> None:
    """Else a run in which power was lost would show nothing."""
    disk = FrailDisk(tmp_path / "disk", tmp_path / "data")
    node = ServerProcess(disk.data, program=program_on(disk))
    node.start()
    try:
        with goqueue.connect_sync(node.url) as q:
            q.topics.create("safe", partitions=1)
            q.topics.create("late", partitions=1, flush_policy="interval", flush_interval_ms=60_000)
            for topic in ("safe", "late"):
                assert q.publish(topic, "value").offset == 0
        node.kill()
        assert disk.cut_to_synced() > 0
        node.start()
        with goqueue.connect_sync(node.url) as q:
            ends = {each: q.topics.partitions(each)[0].high_watermark for each in ("safe", "late")}
    finally:
        node.kill()

    assert ends == {"safe": 1, "late": 0}


def test_the_clock_of_a_node_can_be_wrong(tmp_path: Path) -> None:
    """Else a run in which clocks jumped would show nothing."""
    disk = FrailDisk(tmp_path / "disk", tmp_path / "data")
    disk.skew_clock(-3600)
    node = ServerProcess(disk.data, program=program_on(disk))
    node.start()
    try:
        with goqueue.connect_sync(node.url) as q:
            q.topics.create("orders", partitions=1)
            sent = q.publish("orders", "value")
    finally:
        node.kill()

    assert -3700 < sent.timestamp / 1e9 - time.time() < -3500


def test_a_disk_that_fails_refuses_what_it_cannot_keep_until_it_is_another_one(
    tmp_path: Path,
) -> None:
    disk = FrailDisk(tmp_path / "disk", tmp_path / "data")
    node = ServerProcess(disk.data, program=program_on(disk))
    node.start()
    try:
        with goqueue.connect_sync(node.url, retries=Retries(total_s=0)) as q:
            q.topics.create("orders", partitions=1)
            q.publish("orders", "before")
            disk.fail("/logs/orders/")
            with pytest.raises(goqueue.GoQueueError) as refused:
                q.publish("orders", "meanwhile")
            assert refused.value.code == "storage_failed"
            disk.heal()
            node.restart()
            assert q.publish("orders", "after").offset == 1
    finally:
        node.kill()


FIRST = Acknowledged("a", 0, 0)
SECOND = Acknowledged("b", 0, 1)
HELD = {(0, 0): "a", (0, 1): "b"}


def test_a_run_in_which_all_is_stored_once_and_everywhere_is_sound() -> None:
    copies = [Copy("n1", 0, b"ab"), Copy("n2", 0, b"ab"), Copy("n1", 1, b"")]
    assert judge([FIRST, SECOND], HELD, copies).violations == []


def test_what_was_not_acknowledged_may_be_there_or_not() -> None:
    assert judge([FIRST], HELD, []).violations == []


def test_a_message_that_is_gone_or_elsewhere_is_found() -> None:
    assert "b was acknowledged" in judge([FIRST, SECOND], {(0, 0): "a"}, []).violations[0]
    moved = {(0, 0): "b", (0, 1): "a"}
    assert len(judge([FIRST, SECOND], moved, []).violations) == 2


def test_a_message_that_is_stored_twice_is_found() -> None:
    assert judge([FIRST], {(0, 0): "a", (1, 4): "a"}, []).violations == ["a is stored 2 times"]


def test_copies_that_differ_are_found() -> None:
    copies = [Copy("n1", 0, b"abc"), Copy("n2", 0, b"abd"), Copy("n3", 0, b"ab")]
    assert judge([], {}, copies).violations == [
        "partition 0 differs on n1 and n2 at byte 2",
        "partition 0 differs on n1 and n3 at byte 2",
    ]
