"""The simulator is only worth what it finds: every planted fault, within 1,000 seeds."""

import pytest

from tests.examples import IS_EXHAUSTIVE
from tests.simulation.faults import FAULTS, FIRST_SEEDS, SEEDS_MAX, Fault


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_within_a_thousand_seeds(fault: Fault) -> None:
    remembered = FIRST_SEEDS.get(fault.name, SEEDS_MAX)
    if not IS_EXHAUSTIVE and remembered < SEEDS_MAX and fault.is_noticed_by(remembered):
        return
    assert fault.first_seed() is not None
