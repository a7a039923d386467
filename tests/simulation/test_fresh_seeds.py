"""Seeds that nobody has run before: each run of the tests looks at other lives.

The base comes from the clock of the test run and is printed at its end; with the same
`SIM_SEED_BASE` the same seeds run again.
"""

import os

import pytest

from goqueue.sim import NodeRun, Run, Trace
from tests.simulation.replays import named_when_it_fails
from tests.simulation.tight import tighten

_SEEDS_PER_TEST = 25
_TESTS = 4


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
def test_no_fresh_seed_breaks_an_invariant_of_the_log(block: int) -> None:
    for seed in _fresh(2 * _TESTS + block):
        trace = Trace()
        with named_when_it_fails("log", seed):
            Run(seed, trace).live()
        assert len(trace) > 0, seed
