"""The interpreted twin of `column.pxd`: growing a column of 64-bit integers.

Never compiled: `column.pxd` gives the same name to compiled modules as a C function.
"""

from array import array

__all__ = ["push"]


def push(column: "array[int]", number: int) -> None:
    """Add a number at the end."""
    column.append(number)
