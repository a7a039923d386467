"""Columns of reads and writes, and the record batches that a read returns to Spark.

Owns names and types of columns, for Spark and for Arrow, and the lookup of headers in many rows at
once. Filters run first, so nothing is decoded in vain, and only rows behind a filter are copied.

Invariant: every batch has exactly the schema that Spark was told.
"""

import datetime as dt
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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

from goqueue.client.schemas import SchemaSet
from goqueue.model import DEAD_LETTER_PREFIX
from goqueue.records.arrow import BinaryBuffers, OutputColumns
from goqueue.spark.options import Filters, Match
from goqueue.spark.read_options import ORIGIN, Shape
from goqueue.spark.registered_values import RegisteredValues
from goqueue.spark.value_decoder import LETTER, Decoded, JsonValues, Origin, letter_headers

__all__ = [
    "RAW_VALUE",
    "Batches",
    "ColumnInvalid",
    "Headings",
    "Undecodable",
    "arrow_schema",
    "check_columns",
    "is_match",
    "row_schema",
    "schema_id_of",
    "strings",
]

_SCHEMA_ID = "goqueue.schemaId"
RAW_VALUE = "raw_value"
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
    return StructType([_field(shape, name) for name in shape.columns])


def schema_id_of(schema: StructType) -> int | None:
    """The schema of the registry that the columns were made from, if there is one."""
    for field in schema.fields:
        id_ = field.metadata.get(_SCHEMA_ID) if field.name == "value" else None
        if isinstance(id_, int):
            return id_
    return None


def _field(shape: Shape, name: str) -> StructField:
    registered = None if shape.decoding is None else shape.decoding.registered
    # Spark keeps it with the plan: readers of one DataFrame have one schema, whatever is newer.
    metadata = {_SCHEMA_ID: registered.schema.id} if registered and name == "value" else None
    return StructField(name, _kind(shape, name), metadata=metadata)


def arrow_schema(shape: Shape) -> pa.Schema:
    """The same for the batches that a task hands over."""
    return to_arrow_schema(row_schema(shape), timezone="UTC")


def _kind(shape: Shape, name: str) -> DataType:
    decoding = shape.decoding
    headers = _HEADERS[shape.headers_as]
    if name == "headers":
        return headers
    if decoding is not None and name == "value":
        kind = decoding.schema if decoding.registered is None else decoding.registered.kind()
        assert kind is not None, "looked up before columns are made"
        return kind
    if decoding is not None and name == decoding.corrupt_column:
        return BinaryType()
    if name == LETTER:
        letter = StructType().add("topic", StringType()).add("key", BinaryType())
        letter = letter.add("value", BinaryType()).add("headers", headers)
        return letter.add("priority", IntegerType())
    return _KINDS[name]


def check_columns(
    schema: StructType,
    *,
    has_topic: bool,
    needs_partition: bool = False,
    is_encoded: bool = False,
) -> None:
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
    if is_encoded:
        allowed["value"] = _one_of(DataType)
        allowed[RAW_VALUE] = _one_of(BinaryType)
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


_PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TIME = pa.timestamp("us", tz="UTC")
_FACTS: dict[str, tuple[str, pa.DataType]] = {
    "origin_topic": ("topic", pa.string()),
    "origin_partition": ("partition", pa.int32()),
    "origin_offset": ("offset", pa.int64()),
    "origin_group": ("group", pa.string()),
    "deliveries": ("deliveries", pa.int32()),
    "cause": ("cause", pa.string()),
    "reason": ("reason", pa.string()),
    "died_at": ("time", _TIME),
}


def strings(kind: pa.DataType, count: int, column: BinaryBuffers) -> pa.Array:
    """The column as pyarrow has it, in the same memory."""
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, count, buffers)


def is_match(texts: pa.Array, match: Match) -> pa.Array:
    """Which texts are equal to, or begin with; a null is no match."""
    if match.is_prefix:
        found = pc.starts_with(texts, pattern=match.text)
    else:
        found = pc.equal(texts, pa.scalar(match.text, texts.type))
    return pc.fill_null(found, False)


class Headings:
    """A column of lists of names and values; `rows` are the rows from the first on."""

    def __init__(self, lists: pa.ListArray) -> None:
        self.lists = lists
        # Not flattened: the lists are created to begin at their first value.
        pairs = lists.values
        self._names = pairs.field(0)
        self._values = pairs.field(1)

    @classmethod
    def of(cls, output: OutputColumns) -> "Headings":
        count = output.header_rows[-1]
        names = strings(pa.string(), count, output.header_names)
        values = strings(pa.binary(), count, output.header_values)
        rows = pa.Array.from_buffers(
            pa.int32(), output.count + 1, [None, pa.py_buffer(output.header_rows)]
        )
        pairs = pa.StructArray.from_arrays([names, values], fields=list(_PAIR))
        return cls(pa.ListArray.from_arrays(rows, pairs))

    def kept(self, mask: pa.Array) -> "Headings":
        """Those of some rows."""
        return Headings(self.lists.filter(mask))

    def column(self, form: str) -> pa.Array:
        """The column as Spark is to see it."""
        if form == "array":
            return self.lists
        return pa.MapArray.from_arrays(self.lists.offsets, self._names, self._values)

    def has(self, name: str, match: Match, rows: pa.Array) -> pa.Array:
        """Which of the rows have a header of this name with such a value."""
        found = pc.and_(pc.equal(self._names, name), is_match(self._values, match))
        parents = pc.list_parent_indices(self.lists)
        return pc.is_in(rows, value_set=parents.filter(found).cast(rows.type))

    def fact(self, column: str, rows: pa.Array) -> pa.Array:
        """A column about dead letters; null in rows that are none, or that say it wrongly."""
        name, kind = _FACTS[column]
        found = pc.equal(self._names, DEAD_LETTER_PREFIX + name)
        values = self._values.filter(found)
        if not len(values):
            return pa.nulls(len(rows), kind)
        parents = pc.list_parent_indices(self.lists).filter(found).cast(rows.type)
        return _typed(_texts(values), kind).take(pc.index_in(rows, value_set=parents))


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(texts, pa.string())


def _typed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return texts
    if kind == _TIME:
        return pa.array([_time(text) for text in texts.to_pylist()], _TIME)
    digits = 9 if kind == pa.int32() else 18
    is_number = pc.match_substring_regex(texts, rf"^\d{{1,{digits}}}$")
    return pc.if_else(is_number, texts, pa.scalar(None, pa.string())).cast(kind)


def _time(text: str) -> dt.datetime | None:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


_RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "priority")


class Undecodable(ValueError):
    """A value that is not as its schema says, read with mode `FAILFAST`."""


class Batches:
    """Makes batches of the rows of one partition."""

    def __init__(
        self,
        shape: Shape,
        filters: Filters,
        topic: str,
        partition: int,
        clock: Callable[[], dt.datetime],
        *,
        find_schema: Callable[[int], SchemaSet | None] = lambda _: None,
    ) -> None:
        self._shape = shape
        self._filters = filters
        self._topic = topic
        self._partition = partition
        self._clock = clock
        self._schema = arrow_schema(shape)
        decoding = shape.decoding
        self._values: JsonValues | RegisteredValues | None = None
        if decoding is not None and decoding.registered is not None:
            self._values = RegisteredValues(decoding.registered, find_schema)
        elif decoding is not None and decoding.schema is not None:
            self._values = JsonValues(decoding.schema)
        self._has_letters = decoding is not None and decoding.mode == "DLQ"
        wanted = {*shape.columns, *(("key", "priority") if self._has_letters else ())}
        self._names = [name for name in _RECORD_COLUMNS if name in wanted or name == "offset"]
        self._same: dict[str, pa.Array] = {}

    @property
    def needs_keys(self) -> bool:
        return "key" in self._names or bool(self._filters.keys)

    @property
    def needs_values(self) -> bool:
        return "value" in self._names

    @property
    def needs_headers(self) -> bool:
        is_shown = "headers" in self._shape.columns or self._shape.has_origin
        return is_shown or self._has_letters or bool(self._filters.headers)

    def batch(self, output: OutputColumns) -> pa.RecordBatch:
        """The rows that are wanted, which may be none."""
        columns = {name: _column_of(output, name) for name in self._names}
        headings = Headings.of(output) if self.needs_headers else None
        count = output.count
        mask = self._mask(output, headings)
        if mask is not None:
            columns = {name: column.filter(mask) for name, column in columns.items()}
            headings = None if headings is None else headings.kept(mask)
            count = len(columns["offset"])
        if headings is not None:
            columns |= self._of_headers(headings, count)
        if self._values is not None:
            columns |= self._decoded(self._values.decode(columns["value"]), columns, headings)
        columns["topic"] = self._constant("topic", self._topic, pa.string(), count)
        columns["partition"] = self._constant("partition", self._partition, pa.int32(), count)
        arrays = [columns[name] for name in self._shape.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _mask(self, output: OutputColumns, headings: Headings | None) -> pa.Array | None:
        """Which rows are wanted; None if all are."""
        masks: list[pa.Array] = []
        if self._filters.keys:
            keys = _column_of(output, "key")
            found = is_match(keys, self._filters.keys[0])
            for match in self._filters.keys[1:]:
                found = pc.or_(found, is_match(keys, match))
            masks.append(found)
        if headings is not None:
            rows = self._rows(output.count) if self._filters.headers else None
            masks += [headings.has(*wanted, rows) for wanted in self._filters.headers]
        if not masks:
            return None
        mask = masks[0]
        for each in masks[1:]:
            mask = pc.and_(mask, each)
        return mask

    def _of_headers(self, headings: Headings, count: int) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for name in self._shape.columns:
            if name == "headers":
                columns[name] = headings.column(self._shape.headers_as)
            elif name in ORIGIN:
                columns[name] = headings.fact(name, self._rows(count))
        return columns

    def _decoded(
        self, decoded: Decoded, columns: dict[str, pa.Array], headings: Headings | None
    ) -> dict[str, pa.Array]:
        """The value, and what mode wants besides for those that are none."""
        decoding = self._shape.decoding
        assert decoding is not None
        if decoded.faults and decoding.mode == "FAILFAST":
            index, reason = next(iter(decoded.faults.items()))
            where = f"{self._topic}/{self._partition} offset {columns['offset'][index]}"
            raise Undecodable(f"the value at {where} is not as its schema says: {reason}")
        made = {"value": decoded.column}
        if decoding.corrupt_column is not None:
            made[decoding.corrupt_column] = _only(columns["value"], decoded.faults)
        if self._has_letters:
            made[LETTER] = self._letters(decoded.faults, columns, headings)
        return made

    def _letters(
        self, faults: dict[int, str], columns: dict[str, pa.Array], headings: Headings | None
    ) -> pa.Array:
        decoding = self._shape.decoding
        assert decoding is not None
        assert headings is not None
        kind = self._schema.field(LETTER).type
        count = len(columns["value"])
        if not faults:
            return pa.nulls(count, kind)
        now = self._clock()
        letters: list[dict[str, Any] | None] = [None] * count
        for index, reason in faults.items():
            origin = Origin(
                topic=self._topic,
                partition=self._partition,
                offset=columns["offset"][index].as_py(),
                group=decoding.reader,
                reason=reason,
            )
            given = [(each["key"], each["value"]) for each in headings.lists[index].as_py()]
            pairs = letter_headers(origin, given, now)
            # A map in Spark has each name once.
            is_map = self._shape.headers_as == "map"
            letters[index] = {
                "topic": decoding.dlq_topic,
                "key": columns["key"][index].as_py(),
                "value": columns["value"][index].as_py(),
                "headers": list(dict(pairs).items())
                if is_map
                else [{"key": name, "value": value} for name, value in pairs],
                "priority": columns["priority"][index].as_py(),
            }
        return pa.array(letters, kind)

    def _constant(self, name: str, value: object, kind: pa.DataType, count: int) -> pa.Array:
        """The same in each row; made once for the longest batch so far."""
        made = self._same.get(name)
        if made is None or len(made) < count:
            made = self._same[name] = pa.repeat(pa.scalar(value, kind), count)
        return made.slice(0, count)

    def _rows(self, count: int) -> pa.Array:
        made = self._same.get("")
        if made is None or len(made) < count:
            made = self._same[""] = pa.array(range(count), pa.int64())
        return made.slice(0, count)


def _only(values: pa.Array, rows: Collection[int]) -> pa.Array:
    """The values of some rows, null in all others."""
    if not rows:
        return pa.nulls(len(values), values.type)
    texts: list[bytes | None] = [None] * len(values)
    for row in rows:
        texts[row] = values[row].as_py()
    return pa.array(texts, values.type)


def _column_of(output: OutputColumns, name: str) -> pa.Array:
    count = output.count
    if name == "offset":
        return _numbers(pa.int64(), count, output.offsets)
    if name == "timestamp":
        return _numbers(_TIME, count, output.timestamps)
    if name == "priority":
        return _numbers(pa.int32(), count, output.priorities)
    column = output.keys if name == "key" else output.values
    assert column is not None, f"{name} was asked for"
    return strings(pa.binary(), count, column)


def _numbers(kind: pa.DataType, count: int, numbers: object) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)])
