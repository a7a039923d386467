"""A short run of the rolling upgrade: three nodes of an earlier release become this one."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from soak.cluster.evidence import QueueEvidence, TransactionEvidence
from soak.upgrade.__main__ import EARLIER

ROOT = Path(__file__).resolve().parents[2]


def has_history() -> bool:
    """Whether this tree has the commit to upgrade from; an unpacked archive has none."""
    command = ["git", "cat-file", "-e", f"{EARLIER}^{{commit}}"]
    return not subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode


@pytest.mark.skipif(not has_history(), reason="the earlier release is not in this tree's history")
def test_nodes_are_replaced_by_a_newer_release_one_by_one_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    """Under load; what older nodes do not understand is refused until the last one is new."""
    command = [sys.executable, "-m", "soak.upgrade", "--directory", str(tmp_path / "upgrade")]
    command += ["--pause", "0.3", "--rounds", "1"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = (line.rsplit(None, 1) for line in ran.stdout.splitlines() if line.startswith("  "))
    counts = {name.strip(): int(count) for name, count in rows}
    assert counts["restarts"] == 6
    for name in ("acknowledged", "acks confirmed", "transactions committed"):
        assert counts[name] > 0


PLACE = (0, 7)


def test_a_message_that_is_handed_out_after_its_ack_was_confirmed_is_found() -> None:
    queue = QueueEvidence()
    queue.deliver(PLACE, asked_at=1.0)
    queue.acked[PLACE] = 2.0
    # This one was asked for before the ack was confirmed.
    queue.deliver(PLACE, asked_at=1.5)
    assert queue.violations([PLACE], lag=0) == []

    queue.deliver(PLACE, asked_at=2.5)

    assert "after its ack was confirmed" in queue.violations([PLACE], lag=0)[0]


def test_a_message_of_a_queue_that_nobody_got_or_settled_is_found() -> None:
    queue = QueueEvidence()
    queue.deliver(PLACE, asked_at=1.0)
    assert len(queue.violations([PLACE, (0, 8)], lag=1)) == 2
    assert len(queue.violations([], lag=0)) == 1


def test_transactions_that_are_lost_kept_halved_or_doubled_are_found() -> None:
    outcomes = TransactionEvidence(committed={"a"}, aborted={"b"}, unknown={"c", "d"})
    sound = {"debits": Counter(["a", "c"]), "credits": Counter(["a", "c"])}
    assert outcomes.violations(sound) == []

    for broken in (
        {"debits": Counter(["a"]), "credits": Counter[str]()},
        {"debits": Counter(["a", "b"]), "credits": Counter(["a"])},
        {"debits": Counter(["a", "c"]), "credits": Counter(["a"])},
        {"debits": Counter(["a", "a"]), "credits": Counter(["a"])},
        {"debits": Counter(["a", "x"]), "credits": Counter(["a"])},
    ):
        assert len(outcomes.violations(broken)) == 1, broken
