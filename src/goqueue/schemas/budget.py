"""How much work a check of schemas may be."""

__all__ = ["CheckBudget", "TooComplex"]

# About a second of one processor: a thread beside the event loop takes every other turn from it.
_UNITS = 500_000


class TooComplex(Exception):
    """A check is given up: nobody may keep the node busy with it."""


class CheckBudget:
    """Counts the pairs of types that are compared, and the parts of texts that are parsed."""

    def __init__(self, units: int = _UNITS) -> None:
        self._left = units

    def spend(self, units: int = 1) -> None:
        self._left -= units
        if self._left < 0:
            raise TooComplex
