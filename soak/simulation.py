"""The program: `python -m soak.simulation --hours 8`.

Runs fresh seeds in every world of the simulator on all cores until the time is over or it is
interrupted. A finding does not stop it: the seed, its world, the violation and a hash of the
traceback are appended to a file, and each kind of finding is printed once. Exit code 1 when
anything was found.
"""

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import queue
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing.queues import Queue
from pathlib import Path

import msgspec
import pytest

from goqueue.sim import NodeRun, Run, Trace, Violation
from goqueue.sim.cluster import (
    ClusterRun,
    DelayRun,
    FailoverRun,
    GroupRun,
    ObserverRun,
    QuorumRun,
    ReassignmentRun,
    ReplicationRun,
    RotRun,
    ScheduleRun,
    SchemaRun,
    TransactionRun,
)
from tests.simulation.tight import tighten

REPORT_S = 60
FRAMES_SHOWN = 4

_Live = Callable[[int], None]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One seed that found something, as it is kept in the file."""

    world: str
    seed: int
    what: str
    # Findings with one hash have one cause, most likely.
    trace_hash: str
    frames: tuple[str, ...] = ()


def _live_log(seed: int) -> None:
    Run(seed, Trace()).live()


def _live_node(seed: int) -> None:
    NodeRun(seed, Trace()).live()


def _live_tight(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tighten(patch)
        NodeRun(seed, Trace()).live()


def _live_long(seed: int) -> None:
    NodeRun(seed, Trace(), steps=1500).live()


def _live_schedules(seed: int) -> None:
    NodeRun(seed, Trace(), has_schedules=True).live()


def _live_tenants(seed: int) -> None:
    NodeRun(seed, Trace(), has_tenants=True).live()


def _live_schemas(seed: int) -> None:
    NodeRun(seed, Trace(), has_schemas=True).live()


def _live_cooperation(seed: int) -> None:
    NodeRun(seed, Trace(), has_cooperation=True).live()


def _live_cluster(seed: int) -> None:
    ClusterRun(seed, Trace()).live()


def _live_quorum(seed: int) -> None:
    QuorumRun(seed, Trace()).live()


def _live_replication(seed: int) -> None:
    ReplicationRun(seed, Trace()).live()


def _live_cluster_schemas(seed: int) -> None:
    SchemaRun(seed, Trace()).live()


def _live_transactions(seed: int) -> None:
    TransactionRun(seed, Trace()).live()


def _live_groups(seed: int) -> None:
    GroupRun(seed, Trace()).live()


def _live_cluster_schedules(seed: int) -> None:
    ScheduleRun(seed, Trace()).live()


def _live_reassignments(seed: int) -> None:
    ReassignmentRun(seed, Trace()).live()


def _live_observers(seed: int) -> None:
    ObserverRun(seed, Trace()).live()


def _live_failovers(seed: int) -> None:
    FailoverRun(seed, Trace()).live()


def _live_delays(seed: int) -> None:
    DelayRun(seed, Trace()).live()


def _live_rot(seed: int) -> None:
    RotRun(seed, Trace()).live()


# The node has most to get wrong: each seed is one of the node, every other of a tight node too.
WORLDS: dict[str, _Live] = {
    "node": _live_node,
    "tight": _live_tight,
    "log": _live_log,
    "long": _live_long,
    "schedules": _live_schedules,
    "tenants": _live_tenants,
    "schemas": _live_schemas,
    "cooperation": _live_cooperation,
    "cluster": _live_cluster,
    "quorum": _live_quorum,
    "replication": _live_replication,
    "failovers": _live_failovers,
    "groups": _live_groups,
    "observers": _live_observers,
    "reassignments": _live_reassignments,
    "cluster-schedules": _live_cluster_schedules,
    "cluster-schemas": _live_cluster_schemas,
    "transactions": _live_transactions,
    "delays": _live_delays,
    "rot": _live_rot,
}
_SHARES = {
    "node": 1,
    "tight": 2,
    "log": 4,
    "long": 16,
    "schedules": 2,
    "tenants": 2,
    "schemas": 2,
    "cooperation": 2,
    "cluster": 8,
    "quorum": 4,
    "replication": 4,
    "failovers": 4,
    "groups": 4,
    "transactions": 4,
    "observers": 4,
    "reassignments": 4,
    "cluster-schedules": 4,
    "cluster-schemas": 4,
    "delays": 4,
    "rot": 8,
}


def main() -> int:
    options = _options()
    if options.seed is not None:
        finding = run_seed(options.worlds[0], options.seed)
        _say("no violation" if finding is None else _told(finding))
        return 0 if finding is None else 1
    base = int(time.time()) * 1000 if options.base is None else options.base
    place = Path(options.findings)
    place.parent.mkdir(parents=True, exist_ok=True)
    worlds = " ".join(options.worlds)
    _say(f"fresh seeds from base {base} in {worlds}; findings go to {place}")
    return _soak(base, place, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak.simulation", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--seeds", type=int, help="end after this many seeds")
    parser.add_argument("--base", type=int, help="the first seed (default: from the clock)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--seed", type=int, help="run this seed in the first world, and no other")
    parser.add_argument("--findings", default="build/soak-sim/findings.jsonl")
    return parser.parse_args()


def run_seed(world: str, seed: int) -> Finding | None:
    """One run; whatever leaves it but the end of the program is a finding."""
    try:
        WORLDS[world](seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - all that leaves a run is a finding
        frames = [
            f"{Path(frame.filename).name}:{frame.name}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        code = error.invariant if isinstance(error, Violation) else type(error).__name__
        digest = hashlib.blake2b(repr((code, frames[-FRAMES_SHOWN:])).encode(), digest_size=6)
        what = str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
        return Finding(
            world=world,
            seed=seed,
            what=what[:500],
            trace_hash=digest.hexdigest(),
            frames=tuple(frames[-FRAMES_SHOWN:]),
        )
    return None


def _soak(base: int, place: Path, options: argparse.Namespace) -> int:
    context = multiprocessing.get_context("spawn")
    results: Queue[Finding | str] = context.Queue()
    until = time.time() + options.hours * 3600
    workers = [
        context.Process(target=_work, args=(base, number, until, options, results), daemon=True)
        for number in range(options.workers)
    ]
    # Told to stop, it says what it found, and leaves no worker.
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    for worker in workers:
        worker.start()
    runs: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    said_at = time.monotonic()
    try:
        while not told and (not results.empty() or any(each.is_alive() for each in workers)):
            with contextlib.suppress(queue.Empty):
                result = results.get(timeout=1)
                if isinstance(result, Finding):
                    _keep(result, place, kinds)
                else:
                    runs[result] += 1
            if time.monotonic() > said_at + REPORT_S:
                said_at = time.monotonic()
                _say(_summary(runs, kinds))
    except KeyboardInterrupt:
        pass
    finally:
        # Whatever ended it: a worker that is left would run on for hours.
        for worker in workers:
            worker.terminate()
    _say(f"base {base}: {_summary(runs, kinds)}")
    has_died = any(worker.exitcode not in {0, None, -signal.SIGTERM} for worker in workers)
    return 1 if kinds or has_died else 0


def _work(
    base: int,
    number: int,
    until: float,
    options: argparse.Namespace,
    results: "Queue[Finding | str]",
) -> None:
    """One of the workers: every n-th seed, as long as somebody waits for the results."""
    parent = multiprocessing.parent_process()
    index = number
    with contextlib.suppress(KeyboardInterrupt):
        while time.time() < until and (options.seeds is None or index < options.seeds):
            if parent is not None and not parent.is_alive():
                return
            for world in options.worlds:
                if index % _SHARES[world] == 0 or len(options.worlds) == 1:
                    finding = run_seed(world, base + index)
                    if finding is not None:
                        results.put(finding)
                    results.put(world)
            index += options.workers


def _keep(finding: Finding, place: Path, kinds: Counter[str]) -> None:
    with place.open("ab") as file:
        file.write(msgspec.json.encode(finding) + b"\n")
    kinds[finding.trace_hash] += 1
    if kinds[finding.trace_hash] == 1:
        _say(_told(finding))


def _told(finding: Finding) -> str:
    replay = f"python -m soak.simulation --worlds {finding.world} --seed {finding.seed}"
    where = " < ".join(reversed(finding.frames))
    return f"{finding.world} {finding.seed}: {finding.what}\n  at {where}\n  replay: {replay}"


def _summary(runs: Counter[str], kinds: Counter[str]) -> str:
    counted = ", ".join(f"{count} {world}" for world, count in sorted(runs.items()))
    return f"seeds: {counted}; findings: {kinds.total()} of {len(kinds)} kinds"


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
