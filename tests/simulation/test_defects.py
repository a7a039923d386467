"""The table of defects is true: each plant and each test that it names is there."""

from pathlib import Path

import pytest

from tests.simulation.defects import DEFECTS, Defect
from tests.simulation.planted_in_limits import PLANTED_IN_LIMITS

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.what)
def test_whoever_finds_a_defect_is_there(defect: Defect) -> None:
    path, _, name = defect.found_by.partition("::")

    if name:
        assert f"def {name}(" in (_ROOT / path).read_text()
    else:
        assert path in {plant.__name__ for plant in PLANTED_IN_LIMITS}
