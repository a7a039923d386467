"""Elections by chance, over many seeds; and the faults that must not go unnoticed."""

import os

import pytest

from tests.simulation.election_chance import ChanceWorld
from tests.simulation.planted_in_elections import PLANTED, Plant

_PHASES = 20
_SEEDS_MAX = 1000


def _run(seed: int) -> ChanceWorld:
    world = ChanceWorld(3 + seed % 3, seed, first_voters=3)
    world.run(_PHASES)
    return world


def _first_failure(seeds: range) -> int | None:
    for seed in seeds:
        try:
            _run(seed)
        except AssertionError:
            return seed
    return None


def test_no_seed_breaks_an_election() -> None:
    base = int(os.environ["SIM_SEED_BASE"])
    worlds = [_run(seed) for seed in (*range(100), *range(base, base + 100))]
    assert sum(world.elections for world in worlds) > len(worlds)
    assert sum(len(world.committed) for world in worlds) > len(worlds)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert _first_failure(range(_SEEDS_MAX)) is not None
