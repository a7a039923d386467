"""Defects of sizes, times and turns, planted back: each is found in the worlds that meet it."""

import pytest

from tests.simulation.bench import first_seed_that_notices
from tests.simulation.planted_in_limits import PLANTED_IN_LIMITS, Plant

_SEEDS = 300


@pytest.mark.parametrize("plant", PLANTED_IN_LIMITS, ids=lambda plant: plant.__name__)
def test_a_fault_planted_into_limits_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert first_seed_that_notices(_SEEDS) is not None
