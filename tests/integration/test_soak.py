"""The soak program: a short run of it, and proof that its verdict sees what it should."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from soak.journal import Delivered, Event, Published, Seen, Sent, Settled
from soak.verdict import Holdings, Letter, judge
from tests.examples import IS_EXHAUSTIVE
from tests.integration.cluster_nodes import wait_until

ROOT = Path(__file__).resolve().parents[2]
SECONDS, KILL_EVERY, KILLS_MIN = (60, 8, 4) if IS_EXHAUSTIVE else (8, 3, 2)
SECOND = 10**9


def test_a_node_that_is_killed_again_and_again_keeps_every_promise(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "soak", "--directory", str(tmp_path / "soak")]
    command += ["--seconds", str(SECONDS), "--kill-every", str(KILL_EVERY)]
    command += ["--kills-min", str(KILLS_MIN)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = (line.rsplit(None, 1) for line in ran.stdout.splitlines() if line.startswith("  "))
    counts = {name.strip(): int(count) for name, count in rows}
    assert counts["kills"] >= KILLS_MIN
    for name in ("publishes confirmed", "acks confirmed", "redeliveries", "dead letters"):
        assert counts[name] > 0, name


def delivered(offset: int = 0, count: int = 1, at: int = 1, group: str = "g") -> Delivered:
    return Delivered(
        group=group,
        partition=0,
        offset=offset,
        value=f"v{offset}",
        key="k",
        count=count,
        leased_at=at * SECOND,
        deadline=(at + 3) * SECOND,
    )


def settled(
    verb: str = "ack", offset: int = 0, at: int = 2, outcome: str = "done", group: str = "g"
) -> Settled:
    return Settled(
        group=group,
        partition=0,
        offset=offset,
        count=1,
        verb=verb,
        outcome=outcome,
        sent_at=at * SECOND - 1,
        answered_at=at * SECOND,
    )


SOUND: tuple[Event, ...] = (
    Sent("v0", "k"),
    Published("v0", 0, 0),
    Sent("v1", "k"),
    Published("v1", 0, 1),
    Sent("doubtful", "k"),
    Seen(0, 0, "v0"),
    Seen(0, 1, "v1"),
    delivered(0),
    settled("ack", 0),
    delivered(1, at=2),
    settled("reject", 1, at=3),
)
HOLDINGS = Holdings(
    messages={(0, 0): "v0", (0, 1): "v1"},
    keys={(0, 0): "k", (0, 1): "k"},
    letters=(Letter("g", 0, 1, "v1"),),
    lags={"g": 0},
    kills=(),
)


def holding(**changes: object) -> Holdings:
    return msgspec.structs.replace(HOLDINGS, **changes)


def test_fresh_seeds_run_in_every_world(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "soak.simulation", "--seeds", "1", "--workers", "1"]
    command += ["--worlds", "log", "cluster", "quorum", "--base", "7"]
    command += ["--findings", str(tmp_path / "findings.jsonl")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "seeds: 1 cluster, 1 log, 1 quorum; findings: 0" in ran.stdout


def test_a_sound_run_is_found_sound() -> None:
    verdict = judge(SOUND, HOLDINGS)
    assert verdict.violations == []
    assert verdict.counts["publishes of unknown outcome"] == 1


@pytest.mark.parametrize(
    ("events", "holdings", "words"),
    [
        ((), holding(messages={(0, 0): "v0"}), "lost: v1"),
        ((), holding(messages={(0, 0): "v1", (0, 1): "v1"}), "lost: v0"),
        ((), holding(messages={**HOLDINGS.messages, (0, 2): "v1"}), "duplicated: v1"),
        ((), holding(messages={**HOLDINGS.messages, (0, 2): "alien"}), "unexpected: alien"),
        ((), holding(messages={**HOLDINGS.messages, (0, 3): "doubtful"}), "has gaps"),
        ((Seen(0, 0, "v0"),), HOLDINGS, "saw (0, 0) 2 times"),
        ((Seen(0, 2, "gone"),), HOLDINGS, "a reader saw gone"),
        ((delivered(0, count=2, at=9),), HOLDINGS, "after its settlement"),
        ((delivered(0, count=3, at=0), delivered(0, count=2)), HOLDINGS, "count fell"),
        ((delivered(0, count=4, at=1),), HOLDINGS, "delivered 4 times"),
        ((delivered(0, count=2, at=1),), HOLDINGS, "leased twice"),
        ((), holding(letters=HOLDINGS.letters * 2), "died 2 times"),
        ((), holding(letters=(Letter("g", 0, 1, "v0"),)), "is another message"),
        ((), holding(letters=(*HOLDINGS.letters, Letter("g", 0, 0, "v0"))), "acked and is a dead"),
        ((), holding(letters=()), "rejected and is no dead letter"),
        ((), holding(lags={"g": 0, "h": 0}), "neither acked"),
        ((), holding(lags={"g": 1}), "never settled"),
        (
            (
                delivered(0, at=5, group="key_ordered"),
                settled(at=7, group="key_ordered"),
                delivered(1, at=6, group="key_ordered"),
            ),
            HOLDINGS,
            "was delivered before",
        ),
    ],
)
def test_a_broken_promise_is_seen(
    events: tuple[Event, ...], holdings: Holdings, words: str
) -> None:
    violations = judge((*SOUND, *events), holdings).violations
    assert any(words in violation for violation in violations), violations


def test_a_crash_excuses_a_lease_that_ends_early() -> None:
    events = (*SOUND, delivered(2, at=5), delivered(2, at=6), settled("ack", 2, at=7))
    stored = holding(
        messages={**HOLDINGS.messages, (0, 2): "v2"}, keys={**HOLDINGS.keys, (0, 2): "k"}
    )
    more = (*events, Sent("v2", "k"), Seen(0, 2, "v2"))
    assert judge(more, stored).violations == ["('g', 0, 2) was leased twice at the same time"]
    crashed = msgspec.structs.replace(stored, kills=(5 * SECOND + 1,))
    assert judge(more, crashed).violations == []


def test_a_crash_during_the_last_delivery_lets_the_key_go_on() -> None:
    events = (
        *SOUND,
        delivered(0, count=3, at=5, group="key_ordered"),
        delivered(1, at=6, group="key_ordered"),
    )
    assert any("was delivered before" in words for words in judge(events, HOLDINGS).violations)
    crashed = judge(events, holding(kills=(5 * SECOND + 1,)))
    assert not any("was delivered before" in words for words in crashed.violations)


def test_a_simulation_that_is_told_to_stop_leaves_no_worker_and_says_what_it_found(
    tmp_path: Path,
) -> None:
    findings = str(tmp_path / "findings.jsonl")
    command = [sys.executable, "-m", "soak.simulation", "--workers", "2", "--worlds", "log"]
    command += ["--findings", findings]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as soak:
        assert soak.stdout is not None
        soak.stdout.readline()
        children = Path(f"/proc/{soak.pid}/task/{soak.pid}/children")
        # Two workers, and the process that frees what they share.
        wait_until(lambda: len(children.read_text().split()) >= 3, "the workers run")
        workers = children.read_text().split()
        soak.terminate()
        assert b"findings: 0" in soak.stdout.read()
        assert soak.wait(60) == 0
    wait_until(lambda: not any(map(_is_running, workers)), "no worker is left")


def _is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
