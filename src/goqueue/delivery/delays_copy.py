"""A copy of the delayed messages of a partition, for a snapshot, made block by block.

Columns of millions of entries are tens of megabytes: copied at once they would stop the node. The
columns only grow at their end, and single outcomes change in place: the block of an entry that is
about to change is copied first. So a copy says what was true when it began, however long it takes.

Never changes the columns, and never lives on when entries were dropped from their front: its owner
abandons it then.
"""

from array import array
from collections.abc import Generator, Sequence

import msgspec

__all__ = [
    "BLOCK_ENTRIES",
    "ColumnCopy",
    "DelaysCopy",
    "DelaysStated",
    "decode_in_steps",
    "read_column",
]

# 96 KiB of each column: copied in some ten microseconds, and the base64 of it needs no padding.
BLOCK_ENTRIES = 12_288

# Bytes of 64-bit integers; older versions wrote a column as one piece.
_Column = tuple[bytes, ...] | bytes


class DelaysStated(msgspec.Struct, frozen=True, kw_only=True):
    """All that the log says about delays below an offset; columns as bytes of 64-bit integers."""

    topic: int
    upto: int
    offsets: _Column
    dues: _Column
    outcomes: _Column
    controls: _Column
    # Producer and number of each open transaction, with the messages in it.
    held: list[tuple[int, int, list[int]]] = []


class _DelaysRead(msgspec.Struct, frozen=True, kw_only=True):
    """The same with columns that are not decoded yet."""

    topic: int
    upto: int
    offsets: msgspec.Raw
    dues: msgspec.Raw
    outcomes: msgspec.Raw
    controls: msgspec.Raw
    held: list[tuple[int, int, list[int]]] = []


_read_decoder = msgspec.json.Decoder(_DelaysRead)
_pieces_decoder = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_piece_decoder = msgspec.json.Decoder(bytes)


class ColumnCopy:
    """The first entries of a column as they were when this began."""

    def __init__(self, column: "array[int]") -> None:
        self._column = column
        self._count = len(column)
        self._blocks: list[bytes | None] = [None] * -(-self._count // BLOCK_ENTRIES)

    def keep(self, entry: int) -> None:
        """An entry is about to change: copy its block, unless that was done."""
        block = entry // BLOCK_ENTRIES
        if block < len(self._blocks) and self._blocks[block] is None:
            first = block * BLOCK_ENTRIES
            end = min(first + BLOCK_ENTRIES, self._count)
            self._blocks[block] = self._column[first:end].tobytes()

    def blocks(self) -> range:
        """The first entries of all blocks."""
        return range(0, self._count, BLOCK_ENTRIES)

    def pieces(self) -> tuple[bytes, ...]:
        """The whole copy; every block was copied."""
        pieces = tuple(block for block in self._blocks if block is not None)
        assert len(pieces) == len(self._blocks)
        return pieces


class DelaysCopy:
    """The columns of one partition, and what was held, as of one moment."""

    def __init__(
        self,
        columns: Sequence["array[int]"],
        held: list[tuple[int, int, list[int]]],
        changes: int,
    ) -> None:
        self._columns = [ColumnCopy(column) for column in columns]
        self._outcomes = self._columns[2]
        self._held = held
        self._left = [(each, entry) for each in self._columns for entry in each.blocks()]
        # How much had changed since the statement before.
        self.changes = changes

    def keep_outcome(self, entry: int) -> None:
        """The outcome of an entry is about to change."""
        self._outcomes.keep(entry)

    def copy_block(self) -> bool:
        """Copy one block more; False if there is none left."""
        if not self._left:
            return False
        column, entry = self._left.pop()
        column.keep(entry)
        return True

    def stated(self, topic: int, upto: int) -> DelaysStated:
        """The statement; every block was copied."""
        offsets, dues, outcomes, controls = (column.pieces() for column in self._columns)
        return DelaysStated(
            topic=topic,
            upto=upto,
            offsets=offsets,
            dues=dues,
            outcomes=outcomes,
            controls=controls,
            held=self._held,
        )


def decode_in_steps(data: bytes) -> Generator[int, None, DelaysStated | None]:
    """Decode a statement, and yield after each block how many entries it has; None: it is none."""
    columns: list[tuple[bytes, ...]] = []
    try:
        read = _read_decoder.decode(data)
        for column in (read.offsets, read.dues, read.outcomes, read.controls):
            # Older versions wrote one piece.
            is_list = bytes(memoryview(column)[:1]) == b"["
            pieces = []
            for piece in _pieces_decoder.decode(column) if is_list else (column,):
                pieces.append(_piece_decoder.decode(piece))
                yield BLOCK_ENTRIES
            columns.append(tuple(pieces))
    except msgspec.MsgspecError:
        return None
    offsets, dues, outcomes, controls = columns
    return DelaysStated(
        topic=read.topic,
        upto=read.upto,
        offsets=offsets,
        dues=dues,
        outcomes=outcomes,
        controls=controls,
        held=read.held,
    )


def read_column(stated: _Column) -> "array[int] | None":
    """A column of a statement; None if that makes no sense."""
    column = array("q")
    for piece in (stated,) if isinstance(stated, bytes) else stated:
        if len(piece) % column.itemsize:
            return None
        column.frombytes(piece)
    return column
