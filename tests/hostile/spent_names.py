"""Names for topics and groups, each used once."""

import itertools

__all__ = ["spent_name"]

_NUMBERS = itertools.count()


def spent_name() -> str:
    """A name that no other test of this process uses."""
    return f"name{next(_NUMBERS)}"
