"""The simulator is only worth what it finds: each fault planted into the node, in 200 seeds."""

import pytest

from tests.simulation.bench import first_seed_that_notices
from tests.simulation.planted_in_delays import PLANTED_IN_DELAYS, PLANTED_IN_LANES
from tests.simulation.planted_in_node import PLANTED_IN_NODE, Plant
from tests.simulation.tight import tighten

_SEEDS = 200
# Found within a thousand seeds, and looked for near the first that notices.
_RARE_FROM = {"keeps_places_beyond_a_lost_tail": 600}


@pytest.mark.parametrize("plant", PLANTED_IN_NODE, ids=lambda plant: plant.__name__)
def test_a_fault_planted_into_the_node_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    first = _RARE_FROM.get(plant.__name__, 0)
    assert first_seed_that_notices(_SEEDS, first=first, is_plain=True) is not None


@pytest.mark.parametrize(
    "plant", PLANTED_IN_DELAYS + PLANTED_IN_LANES, ids=lambda plant: plant.__name__
)
def test_a_fault_planted_into_delays_or_lanes_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    tighten(monkeypatch)
    plant(monkeypatch)

    assert first_seed_that_notices(_SEEDS, has_transactions=False) is not None
