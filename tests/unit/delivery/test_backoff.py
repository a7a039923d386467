"""How long a message rests that was given back."""

import pytest

from goqueue.delivery import backoff_ns
from goqueue.model import SECOND


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60), (1_000_000, 60)],
)
def test_a_rest_doubles_with_each_delivery_up_to_a_minute(attempt: int, seconds: int) -> None:
    assert backoff_ns(attempt) == seconds * SECOND
