"""Runs of the simulator: new seeds, and those that once found a bug."""

import pytest

from goqueue.sim import Run, Trace
from tests.examples import IS_EXHAUSTIVE
from tests.simulation.replays import replay

_SEEDS_PER_TEST = 50
_TESTS = 100 if IS_EXHAUSTIVE else 4

# Each of these broke an invariant once. What it found is named by a unit test as well.
_KEPT = (
    *(1, 2, 3, 4, 10, 41, 48, 130, 201, 242, 257, 284, 408, 434, 617, 1050, 1081, 1157, 1771),
    *(1931, 2114, 2190, 2249, 2418, 4607, 5421, 6562, 6569, 12060, 12237, 21726, 117973),
)


@pytest.mark.parametrize("block", range(_TESTS))
def test_no_seed_breaks_an_invariant(block: int) -> None:
    first = block * _SEEDS_PER_TEST

    for seed in range(first, first + _SEEDS_PER_TEST):
        trace = Trace()
        Run(seed, trace).live()
        assert len(trace) > _SEEDS_PER_TEST, "a run that does nothing proves nothing"


@pytest.mark.parametrize("seed", _KEPT)
def test_a_seed_that_once_found_a_bug_finds_none(seed: int) -> None:
    trace = Trace()

    Run(seed, trace).live()

    assert len(trace) > 0


# Found only by lives that were six times as long.
@pytest.mark.parametrize("seed", [391, 624, 1363, 15658, 25776, 35032, *range(10)])
def test_a_long_life_breaks_no_invariant(seed: int) -> None:
    trace = Trace()

    Run(seed, trace, steps=1500).live()

    assert len(trace) > _SEEDS_PER_TEST


@pytest.mark.parametrize("seed", [7, pytest.param(1771, marks=pytest.mark.long)])
def test_a_seed_replays_exactly_whatever_the_hash_seed(seed: int) -> None:
    first = replay("log", seed, "1")

    assert first == replay("log", seed, "4242")
    assert "hash " in first
    assert first != replay("log", seed + 1, "1")
