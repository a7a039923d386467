"""Records as the buffers of Arrow columns, and back, with no Python object per row.

Knows how Arrow lays out a column, and nothing of pyarrow: whoever has it wraps the buffers.
"""

from goqueue.records.arrow.frame import Frame, Strings
from goqueue.records.arrow.lift import Lift
from goqueue.records.arrow.press import Press, Pressed
from goqueue.records.arrow.sheet import Integers, Pairs, Pieces, Sheet

__all__ = [
    "Frame",
    "Integers",
    "Lift",
    "Pairs",
    "Pieces",
    "Press",
    "Pressed",
    "Sheet",
    "Strings",
]
