"""Record batches of Spark as input of the Arrow writer, and rows that no topic accepts.

Only columns of another type are copied. A row that is refused becomes a dead letter with the
reason. It fits its dead-letter topic whatever the row was: a value is cut, a key or headers that no
record can have are left out, and headers say so. It names no partition and no offset, because the
row never had any; so it cannot be redriven by mistake.
"""

import datetime as dt
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.model import (
    DEAD_LETTER_PREFIX,
    GIVEN_HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    RESERVED_PREFIX,
    VALUE_BYTES_MAX,
)
from goqueue.records.arrow import BinaryColumn, HeaderColumn, InputColumns, IntegerColumn

__all__ = ["refused_row", "to_input_columns"]

_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_OURS = (RESERVED_PREFIX, DEAD_LETTER_PREFIX)
_REASON_MAX = 1000
# Kept free for the headers of a dead letter.
_FACTS_BYTES_MAX = 4096

HeaderPairs = list[tuple[str, bytes]]


def refused_row(
    row: pa.RecordBatch, topic: str, reason: str, now: dt.datetime, bytes_max: int
) -> pa.RecordBatch:
    """The dead letter of a row that `topic` did not accept, in at most `bytes_max`."""
    given = row.to_pylist()[0]
    facts = {
        "topic": topic,
        "group": "spark",
        "time": now.astimezone(dt.UTC).isoformat().replace("+00:00", "Z"),
        "cause": "rejected",
        "reason": reason[:_REASON_MAX],
    }
    key = _bytes(given.get("key"))
    if key and (len(key) > KEY_BYTES_MAX or key.startswith(RESERVED_PREFIX.encode())):
        facts["key-dropped"] = str(len(key))
        key = None
    headers = _pairs(given.get("headers"))
    kept = [each for each in headers if each[0] and not each[0].startswith(_OURS)]
    if _size(kept) > GIVEN_HEADERS_BYTES_MAX - _FACTS_BYTES_MAX:
        kept = []
    if len(kept) < len(headers):
        facts["headers-dropped"] = str(len(headers) - len(kept))
    value = _bytes(given.get("value"))
    room = min(VALUE_BYTES_MAX, bytes_max - len(key or b"") - _size(kept) - _FACTS_BYTES_MAX)
    if value is not None and len(value) > room:
        facts["value-bytes"] = str(len(value))
        value = value[: max(0, room)]
    pairs = kept + [(DEAD_LETTER_PREFIX + name, fact.encode()) for name, fact in facts.items()]
    columns = {
        "key": pa.array([key], pa.binary()),
        "value": pa.array([value], pa.binary()),
        "headers": pa.array([[{"key": name, "value": fact} for name, fact in pairs]], _PAIRS),
    }
    return pa.RecordBatch.from_pydict(columns)


def _bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    assert value is None or isinstance(value, bytes)
    return value


def _pairs(headers: object) -> HeaderPairs:
    """Of a map as pairs, of an array as structs."""
    found: HeaderPairs = []
    for each in headers if isinstance(headers, list) else ():
        name, value = each.values() if isinstance(each, dict) else each
        found.append((name or "", _bytes(value) or b""))
    return found


def _size(pairs: HeaderPairs) -> int:
    return sum(4 + len(name.encode()) + len(value) for name, value in pairs)


_MICROSECONDS = 1_000_000
# Stands for a delay that is none: no time of delivery, so that the row is refused by its number.
_NEVER = -1


def to_input_columns(batch: pa.RecordBatch, now_us: int = 0) -> InputColumns:
    """The columns of a record batch as their buffers. Delays count from `now_us`."""
    dues = _column(batch, "deliver_at")
    delays = _column(batch, "delay")
    return InputColumns(
        batch.num_rows,
        keys=_pieces(_column(batch, "key")),
        values=_pieces(_column(batch, "value")),
        headers=_header_pairs(_column(batch, "headers")),
        priorities=_integers(_column(batch, "priority")),
        partitions=_integers(_column(batch, "partition")),
        timestamps=_integers(_column(batch, "timestamp")),
        dues=_integers(dues if delays is None else _due(delays, now_us)),
    )


def _due(delays: pa.Array, now_us: int) -> pa.Array:
    """The due times of rows by their delay, an interval or a number of seconds."""
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


def _pieces(column: pa.Array | None) -> BinaryColumn | None:
    if column is None:
        return None
    if column.type not in (pa.binary(), pa.string()):
        column = column.cast(pa.binary())
    validity, offsets, data = column.buffers()
    return BinaryColumn(
        len(column),
        bytes(4) if offsets is None else offsets,
        b"" if data is None else data,
        validity,
        column.offset,
    )


def _integers(column: pa.Array | None) -> IntegerColumn | None:
    if column is None:
        return None
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64())
    elif column.type != pa.int64():
        column = column.cast(pa.int64())
    validity, numbers = column.buffers()
    return IntegerColumn(len(column), b"" if numbers is None else numbers, validity, column.offset)


def _header_pairs(column: pa.Array | None) -> HeaderColumn | None:
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
    return HeaderColumn(
        len(column),
        bytes(4) if buffers[1] is None else buffers[1],
        found_names,
        found_values,
        validity=buffers[0],
        start=column.offset,
    )
