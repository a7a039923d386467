"""Decodes values as JSON by a schema; a value that does not fit becomes a dead letter.

Each task decodes what it reads.

Schemas are DDL or Spark's own JSON. DDL is parsed here, because the processes in which Spark asks a
source for its schema have no JVM. A type that JSON has no certain form for is refused.

Decoding is strict and row by row, so the meaning of a value never depends on its neighbours and
nothing is guessed: a number is no text, 1.5 no integer, and a time has a zone. Fields that the
schema does not know are ignored; missing ones are null.

A dead letter has the key, value, headers and priority of its record and the headers `goqueue.dlq.*`
that the broker writes too, so readers and redrives treat both alike. The sink writes dead letters
and results of a micro-batch in one transaction, by their column `topic`.

Invariant: every row is decoded, null, or among the faults with a reason.
"""

import datetime as dt
import decimal
import json
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypedDict

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
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
    TimestampNTZType,
    TimestampType,
)

from goqueue.model import DEAD_LETTER_PREFIX

__all__ = [
    "LETTER",
    "Decoded",
    "JsonValues",
    "Origin",
    "SchemaInvalid",
    "letter_headers",
    "schema_of",
    "split_bad",
]

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|([<>(),:]))")
_DEPTH_MAX = 32
_PLAIN: dict[str, type[DataType]] = {
    "boolean": BooleanType,
    "byte": ByteType,
    "tinyint": ByteType,
    "short": ShortType,
    "smallint": ShortType,
    "int": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "bigint": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}


class SchemaInvalid(ValueError):
    """A text that is no schema, or one of values that cannot be decoded."""


def schema_of(text: str) -> StructType:
    """The fields that a text describes."""
    if text.lstrip().startswith("{"):
        return _of_json(text)
    words = list(_words(text))
    reading = _DdlReader(words)
    fields = reading.fields(1)
    if not reading.is_over:
        raise SchemaInvalid(f"{reading.peek()!r} after `{fields[-1].name}` is not understood")
    return StructType(fields)


def _of_json(text: str) -> StructType:
    try:
        schema = StructType.fromJson(json.loads(text))
    except Exception as error:
        # Spark raises whatever it stumbles over first.
        raise SchemaInvalid(f"is no schema in Spark's JSON: {error!r}") from error
    if not schema.fields:
        raise SchemaInvalid("has no field")
    return _checked(schema)


def _checked(schema: StructType) -> StructType:
    """The same fields, of types that are taken, all of which may be null."""
    return StructType([StructField(each.name, _check(each.dataType)) for each in schema.fields])


def _check(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return _checked(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_check(kind.elementType))
    if isinstance(kind, MapType):
        return _map(kind.keyType, _check(kind.valueType))
    if isinstance(kind, DecimalType) or type(kind) in _PLAIN.values():
        return kind
    raise SchemaInvalid(f"the type {kind.simpleString()} is not decoded")


def _map(key: DataType, value: DataType) -> MapType:
    if not isinstance(key, StringType):
        raise SchemaInvalid("the keys of a map are STRING: those of a JSON object are")
    return MapType(StringType(), value)


def _words(text: str) -> Iterator[str]:
    place = 0
    text = text.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise SchemaInvalid(f"{text[place : place + 20]!r} is not understood")
        yield found[1] or found[2] or found[3]
        place = found.end()


class _DdlReader:
    """Words of DDL, read from the left."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._next = 0

    @property
    def is_over(self) -> bool:
        return self._next == len(self._words)

    def peek(self) -> str:
        return "" if self.is_over else self._words[self._next]

    def take(self) -> str:
        word = self.peek()
        if not word:
            raise SchemaInvalid("ends too early")
        self._next += 1
        return word

    def expect(self, wanted: str) -> None:
        word = self.take()
        if word != wanted:
            raise SchemaInvalid(f"has {word!r} where {wanted!r} belongs")

    def fields(self, depth: int) -> list[StructField]:
        if depth > _DEPTH_MAX:
            raise SchemaInvalid(f"is nested deeper than {_DEPTH_MAX}")
        found: list[StructField] = []
        while True:
            word = self.take()
            is_quoted = word.startswith("`")
            name = word[1:-1].replace("``", "`") if is_quoted else word
            if not is_quoted and not re.fullmatch(r"\w+", word):
                raise SchemaInvalid(f"has {word!r} where the name of a field belongs")
            if any(each.name.lower() == name.lower() for each in found):
                raise SchemaInvalid(f"has the field {name!r} twice")
            if self.peek() == ":":
                self.take()
            found.append(StructField(name, self.kind(depth)))
            if self.peek() != ",":
                return found
            self.take()

    def kind(self, depth: int) -> DataType:
        word = self.take().lower()
        if word == "struct":
            self.expect("<")
            fields = self.fields(depth + 1)
            self.expect(">")
            return StructType(fields)
        if word in {"array", "map"}:
            if depth >= _DEPTH_MAX:
                raise SchemaInvalid(f"is nested deeper than {_DEPTH_MAX}")
            self.expect("<")
            first = self.kind(depth + 1)
            if word == "map":
                self.expect(",")
            made = ArrayType(first) if word == "array" else _map(first, self.kind(depth + 1))
            self.expect(">")
            return made
        if word in {"decimal", "dec", "numeric"}:
            return self._decimal()
        if word not in _PLAIN:
            raise SchemaInvalid(f"{word!r} is no type that is decoded")
        return _PLAIN[word]()

    def _decimal(self) -> DecimalType:
        numbers = [10, 0]
        if self.peek() == "(":
            self.take()
            numbers[0] = self._number()
            if self.peek() == ",":
                self.take()
                numbers[1] = self._number()
            self.expect(")")
        precision, scale = numbers
        if not 1 <= precision <= 38 or scale > precision:
            raise SchemaInvalid(f"there is no DECIMAL({precision},{scale})")
        return DecimalType(precision, scale)

    def _number(self) -> int:
        word = self.take()
        if not re.fullmatch(r"\d{1,3}", word):
            raise SchemaInvalid(f"has {word!r} where a number belongs")
        return int(word)


_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_PLAIN_PYTHON: dict[type[DataType], Any] = {
    BooleanType: bool,
    FloatType: float,
    DoubleType: float,
    StringType: str,
    BinaryType: bytes,
    DateType: dt.date,
    DecimalType: decimal.Decimal,
    TimestampType: Annotated[dt.datetime, msgspec.Meta(tz=True)],
    TimestampNTZType: Annotated[dt.datetime, msgspec.Meta(tz=False)],
}
# What a text that is not as it should be makes a decoder raise; the last for one nested too deep.
_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError)
# A struct in Arrow, as Python knows it.
_Fields = dict[str, Any]


class Decoded(msgspec.Struct, frozen=True):
    """A column, null in the rows that have a fault; the faults say why."""

    column: pa.Array
    faults: dict[int, str]


class JsonValues:
    """Decodes JSON objects with the fields of a schema, also those in registry framing."""

    def __init__(self, schema: DataType) -> None:
        self._kind = to_arrow_type(schema, timezone="UTC")
        self._decoder: msgspec.json.Decoder[_Fields] = msgspec.json.Decoder(_python_of(schema))

    def decode(self, values: pa.Array) -> Decoded:
        texts = _unframed(values)
        decode = self._decoder.decode
        rows: list[_Fields | None]
        try:
            rows = [None if text is None else decode(text) for text in texts]
            return Decoded(pa.array(rows, type=self._kind), {})
        except (*_FAULTS, pa.ArrowException, ValueError, OverflowError):
            return self._one_by_one(texts)

    def _one_by_one(self, texts: list[bytes | None]) -> Decoded:
        """The same with a fault for each row that has one."""
        rows: list[_Fields | None] = []
        faults: dict[int, str] = {}
        for index, text in enumerate(texts):
            rows.append(None)
            if text is None:
                continue
            try:
                row = self._decoder.decode(text)
                # A decimal with more digits than the schema has is found only here.
                pa.array([row], type=self._kind)
            except (*_FAULTS, pa.ArrowException, ValueError, OverflowError) as fault:
                faults[index] = str(fault) or type(fault).__name__
            else:
                rows[index] = row
        return Decoded(pa.array(rows, type=self._kind), faults)


def _unframed(values: pa.Array) -> list[bytes | None]:
    """Without the five bytes of registry framing, where they are: no JSON begins with byte 0."""
    texts: list[bytes | None] = values.to_pylist()
    if not pc.any(pc.starts_with(values, pattern=b"\0")).as_py():
        return texts
    # Not `binary_slice`: without an end it asks for a buffer of negative size.
    return [text[5:] if text and text[0] == 0 else text for text in texts]


def _python_of(kind: DataType) -> Any:  # noqa: ANN401 - types made at run time have none
    """The type as a decoder knows it."""
    if isinstance(kind, StructType):
        fields = {each.name: _python_of(each.dataType) | None for each in kind.fields}
        # The functional form, because the names come at run time.
        return TypedDict("Fields", fields, total=False)  # type: ignore[operator]  # as above
    if isinstance(kind, ArrayType):
        return list[_python_of(kind.elementType) | None]  # type: ignore[misc]  # made at run time
    if isinstance(kind, MapType):
        return dict[str, _python_of(kind.valueType) | None]  # type: ignore[misc]  # as above
    bits = _BITS.get(type(kind))
    if bits is not None:
        edge = 1 << (bits - 1)
        return Annotated[int, msgspec.Meta(ge=-edge, le=edge - 1)]
    return _PLAIN_PYTHON[type(kind)]


LETTER = "_letter"
_REASON_MAX = 1000
_NEEDED = ("topic", "partition", "offset", "key", "value")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where the record of a dead letter was, and why `group` could not use it."""

    topic: str
    partition: int
    offset: int
    group: str
    reason: str


def letter_headers(
    origin: Origin, headers: Iterable[tuple[str, bytes]], now: dt.datetime
) -> list[tuple[str, bytes]]:
    """The headers of a record, and those that say why and where it died."""
    given = list(headers)
    hops = next((value for name, value in given if name == f"{DEAD_LETTER_PREFIX}hops"), b"0")
    facts = {
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(origin.offset),
        "group": origin.group,
        "deliveries": "1",
        "hops": str(int(hops) + 1 if hops.isdigit() and len(hops) < 10 else 1),
        "time": now.astimezone(dt.UTC).isoformat().replace("+00:00", "Z"),
        "cause": "rejected",
        "reason": origin.reason[:_REASON_MAX],
    }
    kept = [each for each in given if not each[0].startswith(DEAD_LETTER_PREFIX)]
    return kept + [(DEAD_LETTER_PREFIX + name, fact.encode()) for name, fact in facts.items()]


def split_bad(
    rows: DataFrame,
    *,
    when: str | Column | None = None,
    dlq_topic: str | None = None,
    reason: str | Column | None = None,
    group: str = "spark",
) -> tuple[DataFrame, DataFrame]:
    """The good rows, and the bad ones as rows for a dead-letter topic.

    Of rows read with mode `DLQ` the bad ones are those with a dead letter; `when` must be absent.
    Of others `when` says which are bad, as SQL or as a column, `dlq_topic` where they go and
    `reason` why; these need the columns of a read, `value` as bytes. Null is not bad.

    To write both in one transaction, give the results a column `topic` and unite them:
    `results.unionByName(bad, allowMissingColumns=True)`, written without the option `topic`.
    """
    if when is None:
        if LETTER not in rows.columns:
            raise ValueError(f"there is no column `{LETTER}`: read with mode `DLQ`, or say `when`")
        if dlq_topic is not None or reason is not None:
            raise ValueError("dead letters of mode `DLQ` have their topic and reason already")
        bad = rows.where(sf.col(LETTER).isNotNull()).select(f"{LETTER}.*")
        return rows.where(sf.col(LETTER).isNull()).drop(LETTER), bad
    if dlq_topic is None or reason is None:
        raise ValueError("`when` needs `dlq_topic` and `reason`")
    missing = [name for name in _NEEDED if name not in rows.columns]
    if missing:
        raise ValueError(f"there is no column `{missing[0]}`, which a dead letter is made of")
    is_bad = sf.coalesce(sf.expr(when) if isinstance(when, str) else when, sf.lit(False))
    words = sf.lit(reason) if isinstance(reason, str) else reason
    columns = [sf.lit(dlq_topic).alias("topic"), sf.col("key"), sf.col("value")]
    columns.append(_headers(rows, words, group).alias("headers"))
    if "priority" in rows.columns:
        columns.append(sf.col("priority"))
    return rows.where(~is_bad), rows.where(is_bad).select(*columns)


def _headers(rows: DataFrame, reason: Column, group: str) -> Column:
    """The headers of dead letters, in the form in which the rows have theirs."""
    utc = sf.to_utc_timestamp(sf.current_timestamp(), sf.current_timezone())
    facts = {
        "topic": sf.col("topic"),
        "partition": sf.col("partition").cast("string"),
        "offset": sf.col("offset").cast("string"),
        "group": sf.lit(group),
        "deliveries": sf.lit("1"),
        "hops": sf.lit("1"),
        "time": sf.date_format(utc, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"),
        "cause": sf.lit("rejected"),
        "reason": sf.substring(sf.coalesce(reason, sf.lit("")), 1, _REASON_MAX),
    }
    named = {DEAD_LETTER_PREFIX + name: fact.cast(BinaryType()) for name, fact in facts.items()}
    kind = _kind_of(rows, "headers")
    if isinstance(kind, ArrayType):
        pairs = [
            sf.struct(sf.lit(name).alias("key"), fact.alias("value"))
            for name, fact in named.items()
        ]
        kept = sf.filter("headers", lambda each: ~each["key"].startswith(DEAD_LETTER_PREFIX))
        return sf.concat(sf.coalesce(kept, sf.array()), sf.array(*pairs))
    made = sf.create_map(*(part for name, fact in named.items() for part in (sf.lit(name), fact)))
    if not isinstance(kind, MapType):
        return made
    kept = sf.map_filter("headers", lambda name, _: ~name.startswith(DEAD_LETTER_PREFIX))
    return sf.when(sf.col("headers").isNull(), made).otherwise(sf.map_concat(kept, made))


def _kind_of(rows: DataFrame, name: str) -> DataType | None:
    return rows.schema[name].dataType if name in rows.columns else None
