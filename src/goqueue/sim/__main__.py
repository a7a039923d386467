"""`python -m goqueue.sim`: run seeds, or replay one and show every step."""

import argparse
import sys
import time
from collections.abc import Callable

from goqueue.sim.cluster import (
    ClusterRun,
    DelayRun,
    GroupRun,
    ObserverRun,
    QuorumRun,
    ReassignmentRun,
    ReplicationRun,
    ScheduleRun,
    SchemaRun,
    TransactionRun,
)
from goqueue.sim.node import NodeRun
from goqueue.sim.oracle import Violation
from goqueue.sim.run import Run
from goqueue.sim.trace import Trace

_Live = Callable[[int, Trace, int], None]


def _live_log(seed: int, trace: Trace, steps: int) -> None:
    Run(seed, trace, steps).live()


def _live_node(seed: int, trace: Trace, steps: int) -> None:
    NodeRun(seed, trace, steps).live()


def _live_schedules(seed: int, trace: Trace, steps: int) -> None:
    NodeRun(seed, trace, steps, has_schedules=True).live()


def _live_tenants(seed: int, trace: Trace, steps: int) -> None:
    NodeRun(seed, trace, steps, has_tenants=True).live()


def _live_cluster(seed: int, trace: Trace, steps: int) -> None:
    ClusterRun(seed, trace, steps).live()


def _live_quorum(seed: int, trace: Trace, steps: int) -> None:
    QuorumRun(seed, trace, steps).live()


def _live_replication(seed: int, trace: Trace, steps: int) -> None:
    ReplicationRun(seed, trace, steps).live()


def _live_reassignments(seed: int, trace: Trace, steps: int) -> None:
    ReassignmentRun(seed, trace, steps).live()


def _live_observers(seed: int, trace: Trace, steps: int) -> None:
    ObserverRun(seed, trace, steps).live()


def _live_cluster_schedules(seed: int, trace: Trace, steps: int) -> None:
    ScheduleRun(seed, trace, steps).live()


def _live_cluster_schemas(seed: int, trace: Trace, steps: int) -> None:
    SchemaRun(seed, trace, steps).live()


def _live_groups(seed: int, trace: Trace, steps: int) -> None:
    GroupRun(seed, trace, steps).live()


def _live_transactions(seed: int, trace: Trace, steps: int) -> None:
    TransactionRun(seed, trace, steps).live()


def _live_delays(seed: int, trace: Trace, steps: int) -> None:
    DelayRun(seed, trace, steps).live()


def _live_cooperation(seed: int, trace: Trace, steps: int) -> None:
    NodeRun(seed, trace, steps, has_cooperation=True).live()


def _live_schemas(seed: int, trace: Trace, steps: int) -> None:
    NodeRun(seed, trace, steps, has_schemas=True).live()


# Each world with the length of a run in it.
_WORLDS: dict[str, tuple[_Live, int]] = {
    "log": (_live_log, 250),
    "node": (_live_node, 300),
    "schedules": (_live_schedules, 300),
    "tenants": (_live_tenants, 300),
    "cluster": (_live_cluster, 60),
    "quorum": (_live_quorum, 40),
    "replication": (_live_replication, 30),
    "reassignments": (_live_reassignments, 24),
    "groups": (_live_groups, 24),
    "observers": (_live_observers, 24),
    "cluster-schedules": (_live_cluster_schedules, 16),
    "cluster-schemas": (_live_cluster_schemas, 40),
    "transactions": (_live_transactions, 16),
    "delays": (_live_delays, 30),
    "cooperation": (_live_cooperation, 300),
    "schemas": (_live_schemas, 300),
}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m goqueue.sim",
        description="Run the storage engine, and the whole node, on a simulated disk that fails.",
    )
    parser.add_argument("--world", choices=_WORLDS, help="only this one (default: each in turn)")
    parser.add_argument("--seed", type=int, help="replay this seed")
    parser.add_argument("--seeds", type=int, default=100, help="run this many seeds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--steps", type=int, help="length of a run (default 30 to 300)")
    parser.add_argument("--verbose", action="store_true", help="show every step")
    return parser.parse_args()


def _run(world: str, options: argparse.Namespace) -> bool:
    """Run the seeds in one world; False if one of them found something."""
    live, steps = _WORLDS[world]
    steps = options.steps or steps
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    started = time.monotonic()
    for seed in seeds:
        trace = Trace(print if options.verbose else None)
        try:
            live(seed, trace, steps)
        except Violation as violation:
            print(f"seed {seed}: {violation}", file=sys.stderr)
            replay = f"--world {world} --seed {seed} --steps {steps} --verbose"
            print(f"replay with: python -m goqueue.sim {replay}", file=sys.stderr)
            return False
        except BaseException:
            print(f"seed {seed} of the world {world}: a bug, told below", file=sys.stderr)
            raise
        if options.seed is not None:
            print(f"seed {seed}: {len(trace)} notes, hash {trace.digest}")
    elapsed = time.monotonic() - started
    print(f"{world}: {len(seeds)} seeds without a violation in {elapsed:.1f} s")
    return True


def main() -> int:
    options = _parse()
    worlds = [options.world] if options.world else list(_WORLDS)
    return 0 if all(_run(world, options) for world in worlds) else 1


if __name__ == "__main__":
    sys.exit(main())
