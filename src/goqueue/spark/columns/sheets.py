"""Record batches of Spark as sheets to be pressed. Copies nothing but what the types differ in."""

from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.records.arrow import Integers, Pairs, Pieces, Sheet

__all__ = ["to_sheet"]

_MICROSECONDS = 1_000_000
# Stands for a delay that is none: no time of delivery, so that the row is refused by its number.
_NEVER = -1


def to_sheet(batch: pa.RecordBatch, now_us: int = 0) -> Sheet:
    """The columns of a record batch as their buffers. Delays count from `now_us`."""
    dues = _column(batch, "deliver_at")
    delays = _column(batch, "delay")
    return Sheet(
        batch.num_rows,
        keys=_pieces(_column(batch, "key")),
        values=_pieces(_column(batch, "value")),
        headers=_pairs(_column(batch, "headers")),
        priorities=_integers(_column(batch, "priority")),
        partitions=_integers(_column(batch, "partition")),
        timestamps=_integers(_column(batch, "timestamp")),
        dues=_integers(dues if delays is None else _due(delays, now_us)),
    )


def _due(delays: pa.Array, now_us: int) -> pa.Array:
    """When rows are due that wait so long, which is an interval or a number of seconds."""
    kind = delays.type
    if pa.types.is_duration(kind):
        waits = delays.cast(pa.duration("us")).cast(pa.int64())
    elif pa.types.is_integer(kind):
        # No more than a century, whose microseconds are still a number.
        seconds = delays.cast(pa.int64())
        is_some = pc.less(seconds, 100 * 366 * 86_400)
        waits = pc.multiply(pc.if_else(is_some, seconds, _NEVER), _MICROSECONDS)
    else:
        seconds = delays.cast(pa.float64())
        is_some = pc.and_(pc.is_finite(seconds), pc.less(seconds, 100.0 * 366 * 86_400))
        waits = pc.multiply(pc.if_else(is_some, seconds, float(_NEVER)), float(_MICROSECONDS))
        waits = pc.round(waits).cast(pa.int64())
    return pc.if_else(pc.greater_equal(waits, 0), pc.add(waits, now_us), _NEVER)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _pieces(column: pa.Array | None) -> Pieces | None:
    if column is None:
        return None
    if column.type not in (pa.binary(), pa.string()):
        column = column.cast(pa.binary())
    validity, offsets, data = column.buffers()
    return Pieces(
        len(column),
        bytes(4) if offsets is None else offsets,
        b"" if data is None else data,
        validity,
        column.offset,
    )


def _integers(column: pa.Array | None) -> Integers | None:
    if column is None:
        return None
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64())
    elif column.type != pa.int64():
        column = column.cast(pa.int64())
    validity, numbers = column.buffers()
    return Integers(len(column), b"" if numbers is None else numbers, validity, column.offset)


def _pairs(column: pa.Array | None) -> Pairs | None:
    if column is None:
        return None
    if pa.types.is_map(column.type):
        names, values = column.keys, column.items
    else:
        # Not flattened: offsets of the list count from the first of its values.
        structs = cast("pa.StructArray", column.values)
        names, values = structs.field(0), structs.field(1)
    buffers = column.buffers()
    found_names, found_values = _pieces(names), _pieces(values)
    assert found_names is not None
    assert found_values is not None
    return Pairs(
        len(column),
        bytes(4) if buffers[1] is None else buffers[1],
        found_names,
        found_values,
        validity=buffers[0],
        start=column.offset,
    )
