"""How many examples a property is tried with, in every run and in a long one."""

import os

__all__ = ["IS_EXHAUSTIVE", "LOST_SEED", "examples"]

# The property of a test whose planted fault is no longer found by the seed that is remembered.
LOST_SEED = "lost_seed"

IS_EXHAUSTIVE = os.environ.get("GOQUEUE_EXHAUSTIVE") == "1"
_FACTOR = 50


def examples(count: int) -> int:
    """`count` in `make test`, fifty times as many in `make test-exhaustive`."""
    return count * _FACTOR if IS_EXHAUSTIVE else count
