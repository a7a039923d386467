"""Which faults are planted into which world of the simulator, and the first seed that finds each.

`first_seeds.json` remembers that seed, so that a test need not search. A change of behaviour gives
the seeds other lives; then the search begins anew, and the program writes what it found:
`python -m tests.simulation.faults`, for all faults or for those that it is told.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec
import pytest

from goqueue.model import Refused
from goqueue.records import Corrupt
from goqueue.sim import NodeRun, Run, Trace, Violation
from goqueue.sim.cluster import (
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
    StoreRun,
    TransactionRun,
)
from tests.simulation.planted import PLANTED
from tests.simulation.planted_in_cluster_schedules import PLANTED_IN_CLUSTER_SCHEDULES
from tests.simulation.planted_in_cluster_schemas import PLANTED_IN_CLUSTER_SCHEMAS
from tests.simulation.planted_in_cluster_transactions import PLANTED_IN_CLUSTER_TRANSACTIONS
from tests.simulation.planted_in_cooperation import PLANTED_IN_COOPERATION
from tests.simulation.planted_in_delays import PLANTED_IN_DELAYS, PLANTED_IN_LANES
from tests.simulation.planted_in_failovers import PLANTED_IN_FAILOVERS, PLANTED_IN_ROT
from tests.simulation.planted_in_groups import PLANTED_IN_GROUPS
from tests.simulation.planted_in_limits import PLANTED_IN_LIMITS
from tests.simulation.planted_in_node import PLANTED_IN_NODE
from tests.simulation.planted_in_observers import PLANTED_IN_OBSERVERS
from tests.simulation.planted_in_quorum import PLANTED_IN_QUORUM
from tests.simulation.planted_in_reassignments import PLANTED_IN_REASSIGNMENTS
from tests.simulation.planted_in_receives import PLANTED_IN_RECEIVES
from tests.simulation.planted_in_replicated_delays import (
    PLANTED_IN_LATER_EPOCHS,
    PLANTED_IN_REPLICATED_DELAYS,
)
from tests.simulation.planted_in_replication import PLANTED_IN_REPLICATION
from tests.simulation.planted_in_schedules import PLANTED_IN_SCHEDULES
from tests.simulation.planted_in_schemas import PLANTED_IN_SCHEMAS
from tests.simulation.planted_in_stores import PLANTED_IN_STORES
from tests.simulation.planted_in_tenants import PLANTED_IN_TENANTS
from tests.simulation.planted_in_transactions import PLANTED_IN_TRANSACTIONS
from tests.simulation.tight import tighten

__all__ = ["FAULTS", "FIRST_SEEDS", "RARE", "SEEDS_MAX", "Fault"]

SEEDS_MAX = 1000
# No seed that finds them is known now, and a short search does not find one.
RARE = frozenset(
    {
        "forgets_a_decision_before_all_have_its_marker",
        "forgets_a_later_move_when_an_earlier_one_ends",
    }
)
_REMEMBERED = Path(__file__).with_name("first_seeds.json")
# An error that leaves the node or its storage ends the process: that is a finding, too.
_FINDINGS = (
    *(Violation, AssertionError, Refused, Corrupt),
    *(LookupError, OSError, StopIteration, ValueError),
)

FIRST_SEEDS = msgspec.json.decode(_REMEMBERED.read_bytes(), type=dict[str, int])


class Fault(msgspec.Struct, frozen=True):
    """A mistake that is made on purpose, and the world that is to notice it."""

    plant: Callable[[pytest.MonkeyPatch], None]
    live: Callable[[int], None]
    is_tight: bool = False

    @property
    def name(self) -> str:
        return self.plant.__name__

    def is_noticed_by(self, seed: int) -> bool:
        """Whether the run of this seed goes wrong."""
        with pytest.MonkeyPatch.context() as patch:
            if self.is_tight:
                tighten(patch)
            self.plant(patch)
            try:
                self.live(seed)
            except _FINDINGS:
                return True
        return False

    def first_seed(self, searched: int = SEEDS_MAX) -> int | None:
        return next((seed for seed in range(searched) if self.is_noticed_by(seed)), None)


def _live_log(seed: int) -> None:
    Run(seed, Trace()).live()


def _live_plain(seed: int) -> None:
    NodeRun(seed, Trace(), is_plain=True).live()


def _live_without_transactions(seed: int) -> None:
    NodeRun(seed, Trace(), has_transactions=False, has_receives=False).live()


def _live_whole(seed: int) -> None:
    NodeRun(seed, Trace(), has_receives=False).live()


def _live_with_receives(seed: int) -> None:
    NodeRun(seed, Trace()).live()


def _live_schedules(seed: int) -> None:
    NodeRun(seed, Trace(), has_schedules=True).live()


def _live_tenants(seed: int) -> None:
    NodeRun(seed, Trace(), has_tenants=True).live()


def _live_quorum(seed: int) -> None:
    QuorumRun(seed, Trace()).live()


def _live_store(seed: int) -> None:
    StoreRun(seed, Trace()).live()


def _live_replication(seed: int) -> None:
    ReplicationRun(seed, Trace()).live()


def _live_failovers(seed: int) -> None:
    FailoverRun(seed, Trace()).live()


def _live_groups(seed: int) -> None:
    GroupRun(seed, Trace()).live()


def _live_reassignments(seed: int) -> None:
    ReassignmentRun(seed, Trace()).live()


def _live_observers(seed: int) -> None:
    ObserverRun(seed, Trace()).live()


def _live_cluster_schedules(seed: int) -> None:
    ScheduleRun(seed, Trace()).live()


def _live_cluster_schemas(seed: int) -> None:
    SchemaRun(seed, Trace()).live()


def _live_delayed(seed: int) -> None:
    DelayRun(seed, Trace()).live()


def _live_in_later_epochs(seed: int) -> None:
    DelayRun(seed, Trace(), 20, deposes=False).live()


def _live_rot(seed: int) -> None:
    RotRun(seed, Trace()).live()


def _live_cluster_transactions(seed: int) -> None:
    TransactionRun(seed, Trace()).live()


def _live_cooperation(seed: int) -> None:
    NodeRun(seed, Trace(), has_cooperation=True).live()


def _live_schemas(seed: int) -> None:
    NodeRun(seed, Trace(), has_schemas=True).live()


FAULTS = (
    *(Fault(plant, _live_log) for plant in PLANTED),
    *(Fault(plant, _live_plain) for plant in PLANTED_IN_NODE),
    *(
        Fault(plant, _live_without_transactions, is_tight=True)
        for plant in PLANTED_IN_DELAYS + PLANTED_IN_LANES
    ),
    *(Fault(plant, _live_whole) for plant in PLANTED_IN_TRANSACTIONS + PLANTED_IN_LIMITS),
    *(Fault(plant, _live_with_receives) for plant in PLANTED_IN_RECEIVES),
    *(Fault(plant, _live_schedules) for plant in PLANTED_IN_SCHEDULES),
    *(Fault(plant, _live_tenants) for plant in PLANTED_IN_TENANTS),
    *(Fault(plant, _live_quorum) for plant in PLANTED_IN_QUORUM),
    *(Fault(plant, _live_store) for plant in PLANTED_IN_STORES),
    *(Fault(plant, _live_replication) for plant in PLANTED_IN_REPLICATION),
    *(Fault(plant, _live_failovers) for plant in PLANTED_IN_FAILOVERS),
    *(Fault(plant, _live_delayed) for plant in PLANTED_IN_REPLICATED_DELAYS),
    *(Fault(plant, _live_in_later_epochs) for plant in PLANTED_IN_LATER_EPOCHS),
    *(Fault(plant, _live_rot) for plant in PLANTED_IN_ROT),
    *(Fault(plant, _live_groups) for plant in PLANTED_IN_GROUPS),
    *(Fault(plant, _live_reassignments) for plant in PLANTED_IN_REASSIGNMENTS),
    *(Fault(plant, _live_observers) for plant in PLANTED_IN_OBSERVERS),
    *(Fault(plant, _live_cluster_schedules) for plant in PLANTED_IN_CLUSTER_SCHEDULES),
    *(Fault(plant, _live_cluster_schemas) for plant in PLANTED_IN_CLUSTER_SCHEMAS),
    *(Fault(plant, _live_cluster_transactions) for plant in PLANTED_IN_CLUSTER_TRANSACTIONS),
    *(Fault(plant, _live_cooperation) for plant in PLANTED_IN_COOPERATION),
    *(Fault(plant, _live_schemas) for plant in PLANTED_IN_SCHEMAS),
)


def _seed_of(name: str) -> int | None:
    """The remembered seed if it still finds this fault, or the first that does."""
    fault = next(each for each in FAULTS if each.name == name)
    seed = FIRST_SEEDS.get(name)
    return seed if seed is not None and fault.is_noticed_by(seed) else fault.first_seed()


def _write(seeds: dict[str, int]) -> None:
    """In the order of the faults; those that were not looked for keep what they had."""
    ordered = {fault.name: seeds[fault.name] for fault in FAULTS if fault.name in seeds}
    text = msgspec.json.format(msgspec.json.encode(ordered), indent=2)
    _REMEMBERED.write_bytes(text + b"\n")


def main(*names: str) -> int:
    """Look for a seed where the remembered one finds nothing, of these faults or of all.

    What was found is written at once: a search that is ended early is not lost.
    """
    seeds = dict(FIRST_SEEDS)
    lost: list[str] = []
    with ProcessPoolExecutor() as processes:
        wanted = names or tuple(fault.name for fault in FAULTS)
        searches = {processes.submit(_seed_of, name): name for name in wanted}
        for search in as_completed(searches):
            name, seed = searches[search], search.result()
            if seed is None:
                lost.append(name)
                seeds.pop(name, None)
            else:
                seeds[name] = seed
            _write(seeds)
            sys.stdout.write(f"{name}: {seed}\n")
            sys.stdout.flush()
    if lost:
        sys.stdout.write(f"not found within {SEEDS_MAX} seeds: {', '.join(lost)}\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
