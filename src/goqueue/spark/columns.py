"""Frames as record batches of pyarrow, record batches as sheets, and the schemas of both.

Owns the names and types of columns. Copies nothing but what Spark's types differ in.
"""

from collections.abc import Callable
from typing import cast

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.records.arrow import Frame, Integers, Pairs, Pieces, Sheet, Strings

__all__ = ["ColumnInvalid", "check_columns", "row_schema", "to_batch", "to_sheet"]

_NUMBERS = (ByteType, ShortType, IntegerType, LongType)
_TEXTS = (StringType, BinaryType)
_MAP = MapType(StringType(), BinaryType())
_ARRAY = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
_MAP_ARROW = pa.map_(pa.string(), pa.binary())
_STRUCT_ARROW = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TIME_ARROW = pa.timestamp("us", tz="UTC")


class ColumnInvalid(ValueError):
    """A column that cannot be written."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column

    def __str__(self) -> str:
        return f"column `{self.args[0]}` written to format goqueue: {self.args[1]}"


def row_schema(*, with_headers: bool, headers_as: str) -> StructType:
    """The columns of what is read."""
    fields: list[tuple[str, DataType]] = [
        ("topic", StringType()),
        ("partition", IntegerType()),
        ("offset", LongType()),
        ("timestamp", TimestampType()),
        ("key", BinaryType()),
        ("value", BinaryType()),
        ("priority", IntegerType()),
    ]
    if with_headers:
        fields.append(("headers", _MAP if headers_as == "map" else _ARRAY))
    return StructType([StructField(name, kind, nullable=True) for name, kind in fields])


def to_batch(frame: Frame, topic: str, partition: int, headers_as: str | None) -> pa.RecordBatch:
    """The rows of a frame as Spark wants them; the buffers are the frame's own."""
    count = frame.count
    columns: list[tuple[str, pa.Array]] = [
        ("topic", pa.repeat(pa.scalar(topic, pa.string()), count)),
        ("partition", pa.repeat(pa.scalar(partition, pa.int32()), count)),
        ("offset", _wrap(pa.int64(), count, frame.offsets)),
        ("timestamp", _wrap(_TIME_ARROW, count, frame.timestamps)),
        ("key", _strings(pa.binary(), count, frame.keys)),
        ("value", _strings(pa.binary(), count, frame.values)),
        ("priority", _wrap(pa.int32(), count, frame.priorities)),
    ]
    if headers_as is not None:
        columns.append(("headers", _headers(frame, headers_as)))
    fields = [pa.field(name, column.type, nullable=True) for name, column in columns]
    return pa.RecordBatch.from_arrays([column for _, column in columns], schema=pa.schema(fields))


def _wrap(kind: pa.DataType, count: int, numbers: object) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)])


def _strings(kind: pa.DataType, count: int, strings: Strings) -> pa.Array:
    validity = None if strings.validity is None else pa.py_buffer(strings.validity)
    buffers = [validity, pa.py_buffer(strings.offsets), pa.py_buffer(strings.data)]
    return pa.Array.from_buffers(kind, count, buffers)


def _headers(frame: Frame, headers_as: str) -> pa.Array:
    count = frame.header_rows[-1]
    names = _strings(pa.string(), count, frame.header_names)
    values = _strings(pa.binary(), count, frame.header_values)
    rows = pa.Array.from_buffers(
        pa.int32(), frame.count + 1, [None, pa.py_buffer(frame.header_rows)]
    )
    if headers_as == "map":
        return pa.MapArray.from_arrays(rows, names, values)
    pairs = pa.StructArray.from_arrays([names, values], fields=list(_STRUCT_ARROW))
    return pa.ListArray.from_arrays(rows, pairs)


def check_columns(schema: StructType, *, has_topic: bool) -> None:
    """Refuse a schema that cannot be written, before anything is."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if len(kinds) != len(schema.fields):
        raise ColumnInvalid(schema.fields[0].name, "two columns have the same name")
    allowed = {
        "topic": _one_of(StringType),
        "key": _one_of(*_TEXTS),
        "value": _one_of(*_TEXTS),
        "headers": _is_headers,
        "partition": _one_of(*_NUMBERS),
        "priority": _one_of(*_NUMBERS),
        "timestamp": _one_of(TimestampType),
        "deliver_at": _one_of(TimestampType),
    }
    for name, kind in kinds.items():
        if name not in allowed:
            raise ColumnInvalid(name, f"is none of {', '.join(sorted(allowed))}")
        if not allowed[name](kind):
            raise ColumnInvalid(name, f"cannot be of type {kind.simpleString()}")
    if "value" not in kinds:
        raise ColumnInvalid("value", "is missing")
    if has_topic and "topic" in kinds:
        raise ColumnInvalid("topic", "contradicts the option `topic`: drop one of them")
    if not has_topic and "topic" not in kinds:
        raise ColumnInvalid("topic", "is missing, and so is the option `topic`")


def _one_of(*kinds: type[DataType]) -> Callable[[DataType], bool]:
    return lambda kind: isinstance(kind, kinds)


def _is_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, _TEXTS)
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        parts = kind.elementType.fields
        return (
            len(parts) == 2
            and isinstance(parts[0].dataType, StringType)
            and isinstance(parts[1].dataType, _TEXTS)
        )
    return False


def to_sheet(batch: pa.RecordBatch) -> Sheet:
    """The columns of a record batch as their buffers."""
    return Sheet(
        batch.num_rows,
        keys=_pieces(_column(batch, "key")),
        values=_pieces(_column(batch, "value")),
        headers=_pairs(_column(batch, "headers")),
        priorities=_integers(_column(batch, "priority")),
        partitions=_integers(_column(batch, "partition")),
        timestamps=_integers(_column(batch, "timestamp")),
        dues=_integers(_column(batch, "deliver_at")),
    )


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
