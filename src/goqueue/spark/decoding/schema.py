"""Schemas of values as text: DDL, or Spark's own JSON.

Reads DDL by itself: the processes in which Spark asks a source for its schema have no JVM to ask.
Never takes a type that JSON has no certain way to write.
"""

import json
import re
from collections.abc import Iterator

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

__all__ = ["SchemaInvalid", "schema_of"]

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
    reading = _Reading(words)
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


class _Reading:
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
