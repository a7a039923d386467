"""Seeds that nobody has run before: each run of the tests looks at other lives.

The base comes from the clock of the test run and is printed at its end; with the same
`SIM_SEED_BASE` the same seeds run again.
"""

import os

import pytest

from goqueue.sim import NodeRun, Run, Trace
from goqueue.sim.cluster import (
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
from tests.examples import IS_EXHAUSTIVE
from tests.simulation.replays import named_when_it_fails
from tests.simulation.tight import tighten

_SEEDS_PER_TEST = 12
_TESTS = 40 if IS_EXHAUSTIVE else 2


def _fresh(block: int) -> range:
    first = int(os.environ["SIM_SEED_BASE"]) + block * _SEEDS_PER_TEST
    return range(first, first + _SEEDS_PER_TEST)


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_breaks_a_promise_of_the_node(block: int) -> None:
    for seed in _fresh(block):
        trace = Trace()
        with named_when_it_fails("node", seed):
            NodeRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_breaks_a_promise_of_a_node_with_tight_limits(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tighten(monkeypatch)

    for seed in _fresh(_TESTS + block):
        trace = Trace()
        with named_when_it_fails("tight", seed):
            NodeRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_loses_or_doubles_a_tick_of_a_schedule(block: int) -> None:
    for seed in _fresh(3 * _TESTS + block):
        trace = Trace()
        with named_when_it_fails("schedules", seed):
            NodeRun(seed, trace, has_schedules=True).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_lets_a_tenant_do_or_see_what_it_may_not(block: int) -> None:
    for seed in _fresh(4 * _TESTS + block):
        trace = Trace()
        with named_when_it_fails("tenants", seed):
            NodeRun(seed, trace, has_tenants=True).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_loses_a_schema_or_reuses_its_id(block: int) -> None:
    for seed in _fresh(8 * _TESTS + block):
        trace = Trace()
        with named_when_it_fails("schemas", seed):
            NodeRun(seed, trace, has_schemas=True).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_interrupts_what_stays_in_a_cooperative_group(block: int) -> None:
    for seed in _fresh(5 * _TESTS + block):
        trace = Trace()
        with named_when_it_fails("cooperation", seed):
            NodeRun(seed, trace, has_cooperation=True).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_breaks_an_invariant_of_the_log(block: int) -> None:
    for seed in _fresh(2 * _TESTS + block):
        trace = Trace()
        with named_when_it_fails("log", seed):
            Run(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_breaks_a_promise_of_the_metadata_quorum(block: int) -> None:
    for seed in _fresh(6 * _TESTS + block):
        trace = Trace()
        with named_when_it_fails("quorum", seed):
            QuorumRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_loses_what_a_cluster_acknowledged(block: int) -> None:
    seeds = _fresh(7 * _TESTS + block)
    # A run takes a second and more.
    for seed in seeds if IS_EXHAUSTIVE else seeds[:2]:
        trace = Trace()
        with named_when_it_fails("replication", seed):
            ReplicationRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_loses_or_repeats_what_a_group_of_a_cluster_settled(block: int) -> None:
    seeds = _fresh(9 * _TESTS + block)
    # A run takes three seconds and more.
    for seed in seeds if IS_EXHAUSTIVE else seeds[:1]:
        trace = Trace()
        with named_when_it_fails("groups", seed):
            GroupRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_reads_less_where_the_coordinator_keeps_no_replica(block: int) -> None:
    seeds = _fresh(12 * _TESTS + block)
    # A run takes three seconds and more.
    for seed in seeds if IS_EXHAUSTIVE else seeds[:1]:
        trace = Trace()
        with named_when_it_fails("observers", seed):
            ObserverRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_loses_what_moves_or_leaves_a_copy_behind(block: int) -> None:
    seeds = _fresh(15 * _TESTS + block)
    # A run takes a second.
    for seed in seeds if IS_EXHAUSTIVE else seeds[:1]:
        trace = Trace()
        with named_when_it_fails("reassignments", seed):
            ReassignmentRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_loses_or_repeats_a_tick_of_a_cluster(block: int) -> None:
    seeds = _fresh(13 * _TESTS + block)
    # A run takes two seconds and more.
    for seed in seeds if IS_EXHAUSTIVE else seeds[:1]:
        trace = Trace()
        with named_when_it_fails("cluster-schedules", seed):
            ScheduleRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_divides_a_transaction_of_a_cluster(block: int) -> None:
    seeds = _fresh(11 * _TESTS + block)
    # A run takes three seconds and more.
    for seed in seeds if IS_EXHAUSTIVE else seeds[:1]:
        trace = Trace()
        with named_when_it_fails("transactions", seed):
            TransactionRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_loses_or_doubles_a_delayed_message_of_a_cluster(block: int) -> None:
    seeds = _fresh(10 * _TESTS + block)
    for seed in seeds if IS_EXHAUSTIVE else seeds[:3]:
        trace = Trace()
        with named_when_it_fails("delays", seed):
            DelayRun(seed, trace).live()
        assert len(trace) > 0, seed


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_fresh_seed_loses_a_schema_of_a_cluster_or_gives_its_id_again(block: int) -> None:
    seeds = _fresh(14 * _TESTS + block)
    # A run takes a second.
    for seed in seeds if IS_EXHAUSTIVE else seeds[:2]:
        trace = Trace()
        with named_when_it_fails("cluster-schemas", seed):
            SchemaRun(seed, trace).live()
        assert len(trace) > 0, seed
