"""The columns of reads and writes: their names and types, as Spark and as Arrow know them."""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.spark.decoding import LETTER
from goqueue.spark.options import Shape

__all__ = ["ColumnInvalid", "arrow_schema", "check_columns", "row_schema"]

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TEXTS = (StringType, BinaryType)
_SECONDS = (*_WHOLE, FloatType, DoubleType, DecimalType, DayTimeIntervalType)
_HEADERS: dict[str, DataType] = {
    "map": MapType(StringType(), BinaryType()),
    "array": ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
}
_KINDS: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "key": BinaryType(),
    "value": BinaryType(),
    "priority": IntegerType(),
    "origin_topic": StringType(),
    "origin_partition": IntegerType(),
    "origin_offset": LongType(),
    "origin_group": StringType(),
    "deliveries": IntegerType(),
    "cause": StringType(),
    "reason": StringType(),
    "died_at": TimestampType(),
}


class ColumnInvalid(ValueError):
    """A column that cannot be written."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column

    def __str__(self) -> str:
        return f"column `{self.args[0]}` written to format goqueue: {self.args[1]}"


def row_schema(shape: Shape) -> StructType:
    """The columns of what is read."""
    return StructType([StructField(name, _kind(shape, name)) for name in shape.columns])


def arrow_schema(shape: Shape) -> pa.Schema:
    """The same for the batches that a task hands over."""
    return to_arrow_schema(row_schema(shape), timezone="UTC")


def _kind(shape: Shape, name: str) -> DataType:
    decoding = shape.decoding
    headers = _HEADERS[shape.headers_as]
    if name == "headers":
        return headers
    if decoding is not None and name == "value":
        return decoding.schema
    if decoding is not None and name == decoding.corrupt_column:
        return BinaryType()
    if name == LETTER:
        letter = StructType().add("topic", StringType()).add("key", BinaryType())
        letter = letter.add("value", BinaryType()).add("headers", headers)
        return letter.add("priority", IntegerType())
    return _KINDS[name]


def check_columns(schema: StructType, *, has_topic: bool, needs_partition: bool = False) -> None:
    """Refuse a schema that cannot be written, before anything is."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if len(kinds) != len(schema.fields):
        raise ColumnInvalid(schema.fields[0].name, "two columns have the same name")
    allowed = {
        "topic": _one_of(StringType),
        "key": _one_of(*_TEXTS),
        "value": _one_of(*_TEXTS),
        "headers": _is_headers,
        "partition": _one_of(*_WHOLE),
        "priority": _one_of(*_WHOLE),
        "timestamp": _one_of(TimestampType),
        "delay": _one_of(*_SECONDS),
        "deliver_at": _one_of(TimestampType),
    }
    for name, kind in kinds.items():
        if name == LETTER:
            raise ColumnInvalid(name, "is a dead letter: see goqueue.spark.split_bad")
        if name not in allowed:
            raise ColumnInvalid(name, f"is none of {', '.join(sorted(allowed))}")
        if not allowed[name](kind):
            raise ColumnInvalid(name, f"cannot be of type {kind.simpleString()}")
    if "value" not in kinds:
        raise ColumnInvalid("value", "is missing")
    if "delay" in kinds and "deliver_at" in kinds:
        raise ColumnInvalid("delay", "contradicts the column `deliver_at`: drop one of them")
    if has_topic and "topic" in kinds:
        raise ColumnInvalid("topic", "contradicts the option `topic`: drop one of them")
    if not has_topic and "topic" not in kinds:
        raise ColumnInvalid("topic", "is missing, and so is the option `topic`")
    if needs_partition and "partition" not in kinds:
        raise ColumnInvalid("partition", "is missing: the option `partitioner` is `column`")


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
