"""Output of the Arrow reader: rows that were read, as the buffers of their Arrow columns.

Every buffer is an array.array or a bytearray of just the size that is used, in the layout of
Arrow: validity bits from the lowest on, 32-bit offsets of which there is one more than rows.

Invariant: all columns of an OutputColumns have `count` rows.
"""

from array import array

__all__ = ["BinaryBuffers", "OutputColumns"]


class BinaryBuffers:
    """A column of byte strings. Without `validity` none is null."""

    __slots__ = ("data", "offsets", "validity")

    def __init__(self, count: int, size_bytes: int, *, may_be_null: bool) -> None:
        self.offsets = array("i", bytes(4 * (count + 1)))
        self.data = bytearray(size_bytes)
        self.validity = bytearray((count + 7) // 8) if may_be_null else None


class OutputColumns:
    """The rows of consecutive records.

    Timestamps are in microseconds. `header_rows` says where among the headers those of each row
    begin; it is as long as the offsets of a column of lists. Keys or values are None if nobody
    asked for them.
    """

    __slots__ = (
        "count",
        "flags",
        "header_names",
        "header_rows",
        "header_values",
        "keys",
        "offsets",
        "priorities",
        "timestamps",
        "values",
    )

    def __init__(
        self, count: int, keys: BinaryBuffers | None, values: BinaryBuffers | None
    ) -> None:
        zeros = bytes(8 * count)
        self.count = count
        self.offsets = array("q", zeros)
        self.timestamps = array("q", zeros)
        self.priorities = array("i", zeros[: 4 * count])
        self.flags = array("B", zeros[:count])
        self.keys = keys
        self.values = values
        self.header_rows = array("i", bytes(4 * (count + 1)))
        self.header_names = BinaryBuffers(0, 0, may_be_null=False)
        self.header_values = BinaryBuffers(0, 0, may_be_null=False)
