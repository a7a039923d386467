"""Each fault planted into producers and transactions is found, most of them within a few seeds.

The others are rarer than this is long: `make test-exhaustive` looks for all of them.
"""

import pytest

from tests.simulation.bench import first_seed_that_notices
from tests.simulation.planted_in_node import Plant
from tests.simulation.planted_in_transactions import FOUND_SOON

_SEEDS = 150


@pytest.mark.parametrize("plant", FOUND_SOON, ids=lambda plant: plant.__name__)
def test_a_fault_planted_into_transactions_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert first_seed_that_notices(_SEEDS) is not None
