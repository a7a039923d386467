"""The simulator is only worth what it finds: each fault planted into the node, in 200 seeds."""

import pytest

from goqueue.model import Refused
from goqueue.sim import NodeRun, Trace, Violation
from tests.simulation.planted_in_delays import PLANTED_IN_DELAYS, PLANTED_IN_LANES
from tests.simulation.planted_in_node import PLANTED_IN_NODE, Plant
from tests.simulation.tight import tighten

_SEEDS = 200

# An error that leaves the node or its storage ends the process: that is a finding, too.
_FINDINGS = (Violation, AssertionError, Refused, LookupError, OSError, StopIteration)


def _first_seed_that_notices(*, is_plain: bool) -> int | None:
    for seed in range(_SEEDS):
        try:
            NodeRun(seed, Trace(), is_plain=is_plain).live()
        except _FINDINGS:
            return seed
    return None


@pytest.mark.parametrize("plant", PLANTED_IN_NODE, ids=lambda plant: plant.__name__)
def test_a_fault_planted_into_the_node_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert _first_seed_that_notices(is_plain=True) is not None


@pytest.mark.parametrize(
    "plant", PLANTED_IN_DELAYS + PLANTED_IN_LANES, ids=lambda plant: plant.__name__
)
def test_a_fault_planted_into_delays_or_lanes_is_found(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    tighten(monkeypatch)
    plant(monkeypatch)

    assert _first_seed_that_notices(is_plain=False) is not None
