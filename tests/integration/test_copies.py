"""Copying in transactions while broker and workers die, and proof that the verdict sees faults."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from soak.copies.notes import Note, read_notes
from soak.copies.verdict import Copy, judge

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = 20_000


@pytest.mark.parametrize(
    ("mode", "blow_every"), [pytest.param("stream", "1", marks=pytest.mark.long), ("queue", "0.7")]
)
def test_each_message_is_copied_exactly_once_whoever_is_killed(
    mode: str, blow_every: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "soak.copies", "--mode", mode, "--blow-every", blow_every]
    command += ["--messages", str(MESSAGES), "--directory", str(tmp_path / "copies")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = (line.rsplit(None, 1) for line in ran.stdout.splitlines() if line.startswith("  "))
    counts = {name.strip(): int(count) for name, count in rows}
    assert counts["copies"] == MESSAGES
    for name in ("broker", "worker", "zombie"):
        assert counts[f"blows: {name}"] > 0, name
    # Otherwise nothing was to be hidden, and nothing was shown.
    assert counts["uncommitted"] > 0


@pytest.mark.parametrize(
    ("mode", "messages"), [("stream", 4_000), pytest.param("queue", 10_000, marks=pytest.mark.long)]
)
def test_each_message_is_copied_exactly_once_whichever_node_of_a_cluster_is_killed(
    mode: str, messages: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "soak.copies", "--nodes", "3", "--mode", mode]
    command += ["--blow-every", "1", "--messages", str(messages)]
    command += ["--directory", str(tmp_path / "copies")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = (line.rsplit(None, 1) for line in ran.stdout.splitlines() if line.startswith("  "))
    counts = {name.strip(): int(count) for name, count in rows}
    assert counts["copies"] == messages
    assert counts["blows: coordinator"] > 0


COPIES = (Copy(0, "a", "1-1"), Copy(2, "a", "1-1"), Copy(1, "b", "1-2"))
NOTES = (
    Note("filled", "1-1", 2),
    Note("committed", "1-1"),
    # Its worker died before it knew.
    Note("filled", "1-2", 1),
    Note("filled", "1-3", 2),
    Note("aborted", "1-3"),
)


def test_a_sound_copy_is_found_sound() -> None:
    verdict = judge(3, COPIES, NOTES, is_ordered=True)
    assert verdict.violations == []
    assert verdict.counts["transactions seen"] == 2


@pytest.mark.parametrize(
    ("copies", "notes", "words"),
    [
        (COPIES[:2], (), "lost: 1"),
        ((*COPIES, COPIES[2]), (), "2 copies of 1"),
        ((*COPIES, Copy(7, "a", "1-2")), (), "unexpected: 7"),
        (COPIES[1:], (), "attempt 1-1: 1 of 2 are seen"),
        ((*COPIES[:2], Copy(1, "b", "1-3")), (), "attempt 1-3 was aborted and is seen"),
        ((*COPIES[:2], Copy(1, "b", "1-9")), (), "attempt 1-9 was never complete and is seen"),
        (COPIES, (Note("committed", "1-4"),), "attempt 1-4 was committed and is not seen"),
        ((COPIES[1], COPIES[0], COPIES[2]), (), "key a: 0 after 2"),
    ],
)
def test_a_copy_that_is_not_sound_is_seen(
    copies: Sequence[Copy], notes: Sequence[Note], words: str
) -> None:
    violations = judge(3, copies, (*NOTES, *notes), is_ordered=True).violations
    assert any(words in violation for violation in violations), violations


def test_a_group_that_promises_no_order_is_not_judged_by_it() -> None:
    verdict = judge(3, (COPIES[1], COPIES[0], COPIES[2]), NOTES, is_ordered=False)
    assert verdict.violations == []


def test_a_line_that_a_killed_worker_did_not_finish_is_no_note(tmp_path: Path) -> None:
    (tmp_path / "1.notes").write_bytes(b'{"what":"filled","attempt":"1-1","count":2}\n{"what":"com')
    assert list(read_notes(tmp_path)) == [Note("filled", "1-1", 2)]
