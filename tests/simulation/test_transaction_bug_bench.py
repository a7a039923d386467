"""Each fault planted into producers and transactions is found, most of them within a few seeds.

The others are rarer than this is long: `make test-exhaustive` looks for all of them.
"""

import pytest

from tests.simulation.bench import first_seed_that_notices
from tests.simulation.planted_in_node import Plant
from tests.simulation.planted_in_transactions import FOUND_SOON

_SEEDS = 150
# Found within a thousand seeds, and looked for near the first that notices.
_RARE_FROM = {
    "forgets_that_a_letter_counts": 600,
    "leaves_newcomers_under_an_old_key_prepared": 350,
}


@pytest.mark.parametrize("plant", FOUND_SOON, ids=lambda plant: plant.__name__)
def test_a_fault_planted_into_transactions_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    first = _RARE_FROM.get(plant.__name__, 0)
    assert first_seed_that_notices(_SEEDS, first=first) is not None
