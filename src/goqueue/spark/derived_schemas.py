"""Schemas made from the type of a column, to be registered for what Spark writes.

Every field may be null, so fields can be added later. Fields of Protobuf are numbered in their
order: new ones belong at the end, and one that goes leaves its number to the next, which the
registry refuses if the types differ. Give such topics a schema of their own.
"""

from collections.abc import Iterator

import msgspec
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.spark.value_forms import Unmappable

__all__ = ["derive_schema"]

_AVRO: dict[type[DataType], object] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
_PROTO: dict[type[DataType], str] = {
    BooleanType: "bool",
    ByteType: "int32",
    ShortType: "int32",
    IntegerType: "int32",
    LongType: "int64",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    TimestampType: "google.protobuf.Timestamp",
}
_JSON: dict[type[DataType], dict[str, object]] = {
    BooleanType: {"type": "boolean"},
    ByteType: {"type": "integer"},
    ShortType: {"type": "integer"},
    IntegerType: {"type": "integer"},
    LongType: {"type": "integer"},
    FloatType: {"type": "number"},
    DoubleType: {"type": "number"},
    StringType: {"type": "string"},
    BinaryType: {"type": "string", "contentEncoding": "base64"},
    DateType: {"type": "string", "format": "date"},
    TimestampType: {"type": "string", "format": "date-time"},
}
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def derive_schema(language: str, kind: DataType) -> str:
    """The text of a schema for the values of a column."""
    if not isinstance(kind, StructType):
        raise Unmappable("value", f"is {kind.simpleString()}: a schema is made of a struct")
    if language == "AVRO":
        return msgspec.json.encode(_avro(kind, "Value", "value")).decode()
    if language == "JSON":
        return msgspec.json.encode({"$schema": _DRAFT, **_json(kind, "value")}).decode()
    lines = list(_proto(kind, "Value", "value"))
    has_time = any("google.protobuf.Timestamp" in line for line in lines)
    imports = ['import "google/protobuf/timestamp.proto";'] if has_time else []
    return "\n".join(['syntax = "proto3";', *imports, *lines, ""])


def _refuse(kind: DataType, language: str, path: str) -> Unmappable:
    return Unmappable(path, f"is {kind.simpleString()}, which has no certain form in {language}")


def _avro(kind: DataType, name: str, path: str) -> object:
    if isinstance(kind, StructType):
        fields = [
            {
                "name": each.name,
                "type": [
                    "null",
                    _avro(each.dataType, f"{name}_{each.name}", f"{path}/{each.name}"),
                ],
                "default": None,
            }
            for each in kind.fields
        ]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": ["null", _avro(kind.elementType, name, f"{path}/*")]}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "map", "values": ["null", _avro(kind.valueType, name, f"{path}/*")]}
    if isinstance(kind, DecimalType):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if type(kind) not in _AVRO:
        raise _refuse(kind, "Avro", path)
    return _AVRO[type(kind)]


def _json(kind: DataType, path: str) -> dict[str, object]:
    if isinstance(kind, StructType):
        fields = {each.name: _json(each.dataType, f"{path}/{each.name}") for each in kind.fields}
        # Closed: what is added later cannot have been anything else before.
        return {"type": "object", "properties": fields, "additionalProperties": False}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _json(kind.elementType, f"{path}/*")}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "object", "additionalProperties": _json(kind.valueType, f"{path}/*")}
    if type(kind) not in _JSON:
        raise _refuse(kind, "JSON", path)
    return _JSON[type(kind)]


def _proto(kind: StructType, name: str, path: str) -> Iterator[str]:
    yield f"message {name} {{"
    for number, field in enumerate(kind.fields, 1):
        where, inner = f"{path}/{field.name}", f"{field.name.capitalize()}Value"
        of, label = field.dataType, "optional"
        if isinstance(of, ArrayType):
            of, label = of.elementType, "repeated"
        key = None
        if isinstance(of, MapType) and label == "optional":
            key, of, label = of.keyType, of.valueType, ""
        if isinstance(of, StructType):
            yield from _proto(of, inner, where)
        elif type(of) not in _PROTO:
            raise _refuse(of, "Protobuf", where)
        type_ = inner if isinstance(of, StructType) else _PROTO[type(of)]
        if key is not None:
            if not isinstance(key, StringType | IntegerType | LongType | BooleanType):
                raise _refuse(key, "Protobuf", f"{where}/key")
            type_ = f"map<{_PROTO[type(key)]}, {type_}>"
        yield f"{label} {type_} {field.name} = {number};".lstrip()
    yield "}"
