"""Every fault planted into producers and transactions is found within a thousand seeds.

`GOQUEUE_EXHAUSTIVE=1` tries all of them; otherwise `tests/simulation` tries those found soon.
"""

import os

import pytest

from tests.simulation.bench import first_seed_that_notices
from tests.simulation.planted_in_node import Plant
from tests.simulation.planted_in_transactions import PLANTED_IN_TRANSACTIONS

_SEEDS = 1000
_IS_EXHAUSTIVE = os.environ.get("GOQUEUE_EXHAUSTIVE") == "1"


@pytest.mark.skipif(not _IS_EXHAUSTIVE, reason="takes minutes: make test-exhaustive")
@pytest.mark.parametrize("plant", PLANTED_IN_TRANSACTIONS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found_within_a_thousand_seeds(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert first_seed_that_notices(_SEEDS) is not None
