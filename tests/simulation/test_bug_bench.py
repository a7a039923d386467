"""The simulator is only worth what it finds: every planted fault, within 1,000 seeds."""

import pytest

from goqueue.sim import Run, Trace, Violation
from tests.simulation.planted import PLANTED, Plant

_SEEDS = 1000


def _first_seed_that_notices() -> int | None:
    for seed in range(_SEEDS):
        try:
            Run(seed, Trace()).live()
        except (Violation, AssertionError):
            return seed
    return None


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found_within_a_thousand_seeds(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert _first_seed_that_notices() is not None
