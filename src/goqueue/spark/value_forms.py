"""Types of registered schemas as types of Spark and Arrow: what all languages share.

A form is one type of a schema: the type that Spark sees, the Arrow type of the plain values that
the library of the language reads and writes, and the steps between the two. Fields that a writer
must fill are not nullable in `kind`; everything that is read may be null.

Hostile input: a schema is text of a caller. Named types that are used often make a tree of it that
is much larger than its text, so the number of types and the depth are bounded.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
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

__all__ = [
    "BOOLEAN",
    "DATE",
    "DOUBLE",
    "FLOAT",
    "INTEGER",
    "LONG",
    "STRING",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "Form",
    "FormBudget",
    "Unmappable",
    "arrow_of",
    "check_fits",
    "leaf",
    "list_form",
    "map_form",
    "relaxed",
    "struct_form",
]

BOOLEAN, INTEGER, LONG = BooleanType(), IntegerType(), LongType()
FLOAT, DOUBLE, STRING, DATE = FloatType(), DoubleType(), StringType(), DateType()
TIMESTAMP, TIMESTAMP_NTZ = TimestampType(), TimestampNTZType()

_DEPTH_MAX = 32
_FORMS_MAX = 10_000
_WHOLE = (ByteType, ShortType, IntegerType, LongType)

Step = Callable[[pa.Array], pa.Array]


class Unmappable(ValueError):
    """A type of a schema that has no type in Spark, or a column that is none of the schema."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path or 'the schema'} {self.reason}"


class FormBudget:
    """Bounds the tree that a schema unfolds into."""

    def __init__(self) -> None:
        self._left = _FORMS_MAX

    def spend(self, path: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unmappable(path, f"is one of more than {_FORMS_MAX} types")
        if path.count("/") > _DEPTH_MAX:
            raise Unmappable(path, f"is nested deeper than {_DEPTH_MAX}")


class Form(msgspec.Struct, frozen=True):
    """One type of a schema.

    `finish` makes what Spark sees of plain values, None if they are the same; `prepare` is the way
    back, and raises ValueError for what the schema does not allow. A value that may be null in
    data has `is_nullable`.
    """

    kind: DataType
    plain: pa.DataType
    finish: Step | None
    prepare: Step
    is_nullable: bool = False

    def finished(self, column: pa.Array) -> pa.Array:
        return column if self.finish is None else self.finish(column)

    def nullable(self) -> "Form":
        return msgspec.structs.replace(self, is_nullable=True)


def arrow_of(kind: DataType) -> pa.DataType:
    """The type of a column that Spark takes."""
    return to_arrow_type(relaxed(kind), timezone="UTC")


def relaxed(kind: DataType) -> DataType:
    """The same with everything nullable, as columns of a read are."""
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, relaxed(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(relaxed(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, relaxed(kind.valueType))
    return kind


def leaf(kind: DataType, plain: pa.DataType | None = None, finish: Step | None = None) -> Form:
    """A type without parts; its plain values are those of Spark, or numbers of the same bits."""
    shown = arrow_of(kind)
    wanted = shown if plain is None else plain

    def prepare(column: pa.Array) -> pa.Array:
        column = column.cast(shown)
        return column if wanted == shown else column.view(wanted)

    if finish is None and wanted != shown:
        return Form(kind, wanted, lambda column: column.view(shown), prepare)
    return Form(kind, wanted, finish, prepare)


def struct_form(fields: Mapping[str, Form], optional: frozenset[str], path: str) -> Form:
    """A record. Fields that are `optional` need not be in what is written."""
    if not fields:
        raise Unmappable(path, "has no fields")
    if len({name.lower() for name in fields}) < len(fields):
        raise Unmappable(path, "has two fields whose names differ in case only, if at all")
    kind = StructType(
        [
            StructField(name, each.kind, nullable=each.is_nullable or name in optional)
            for name, each in fields.items()
        ]
    )
    plain = pa.struct([(name, each.plain) for name, each in fields.items()])

    def finish(column: pa.Array) -> pa.Array:
        parts = [each.finished(column.field(name)) for name, each in fields.items()]
        return _struct(list(fields), parts, column)

    def prepare(column: pa.Array) -> pa.Array:
        names = [each.name for each in column.type]
        parts = []
        for name in names:
            part = column.field(name)
            if not fields[name].is_nullable and part.null_count:
                _refuse_null(pc.and_(pc.is_null(part), pc.is_valid(column)), f"{path}/{name}")
            parts.append(fields[name].prepare(part))
        return _struct(names, parts, column)

    is_same = all(each.finish is None for each in fields.values())
    return Form(kind, plain, None if is_same else finish, prepare)


def _struct(names: list[str], parts: list[pa.Array], like: pa.Array) -> pa.Array:
    mask = pc.is_null(like) if like.null_count else None
    return pa.StructArray.from_arrays(parts, names=names, mask=mask)


def _refuse_null(found: pa.Array, path: str) -> None:
    if pc.any(found).as_py():
        raise ValueError(f"{path} is null")


def list_form(items: Form, path: str) -> Form:
    def finish(column: pa.Array) -> pa.Array:
        return _list(column, items.finished(column.values))

    def prepare(column: pa.Array) -> pa.Array:
        if not items.is_nullable:
            _refuse_null(pc.is_null(column.flatten()), f"{path}/*")
        return _list(column, items.prepare(column.values))

    kind = ArrayType(items.kind, items.is_nullable)
    plain = pa.list_(items.plain)
    return Form(kind, plain, None if items.finish is None else finish, prepare)


def _list(column: pa.Array, values: pa.Array) -> pa.Array:
    mask = pc.is_null(column) if column.null_count else None
    return pa.ListArray.from_arrays(column.offsets, values, mask=mask)


def map_form(keys: Form, values: Form, path: str) -> Form:
    def finish(column: pa.Array) -> pa.Array:
        return _map(column, keys.finished(column.keys), values.finished(column.items))

    def prepare(column: pa.Array) -> pa.Array:
        if not values.is_nullable:
            _refuse_null(pc.is_null(column.items), f"{path}/*")
        return _map(column, keys.prepare(column.keys), values.prepare(column.items))

    kind = MapType(keys.kind, values.kind, values.is_nullable)
    is_same = keys.finish is None and values.finish is None
    return Form(kind, pa.map_(keys.plain, values.plain), None if is_same else finish, prepare)


def _map(column: pa.Array, keys: pa.Array, items: pa.Array) -> pa.Array:
    mask = pc.is_null(column) if column.null_count else None
    return pa.MapArray.from_arrays(column.offsets, keys, items, mask=mask)


def check_fits(given: DataType, wanted: DataType, path: str) -> None:
    """Refuse a column whose type is none that a schema can be written from."""
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        _check_fields(given, wanted, path)
    elif isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        check_fits(given.elementType, wanted.elementType, f"{path}/*")
    elif isinstance(given, MapType) and isinstance(wanted, MapType):
        check_fits(given.keyType, wanted.keyType, f"{path}/key")
        check_fits(given.valueType, wanted.valueType, f"{path}/*")
    elif not _is_widened(given, wanted):
        shown = wanted.simpleString()
        raise Unmappable(path, f"is {given.simpleString()}, and the schema says {shown}: cast it")


def _check_fields(given: StructType, wanted: StructType, path: str) -> None:
    known = {each.name: each for each in wanted.fields}
    for field in given.fields:
        if field.name not in known:
            raise Unmappable(f"{path}/{field.name}", "is no field of the schema")
        check_fits(field.dataType, known[field.name].dataType, f"{path}/{field.name}")
    present = set(given.names)
    for field in wanted.fields:
        if not field.nullable and field.name not in present:
            raise Unmappable(f"{path}/{field.name}", "is missing, and the schema has no default")


def _is_widened(given: DataType, wanted: DataType) -> bool:
    if isinstance(given, DecimalType) and isinstance(wanted, DecimalType):
        whole = given.precision - given.scale
        return given.scale <= wanted.scale and whole <= wanted.precision - wanted.scale
    if isinstance(given, _WHOLE) and isinstance(wanted, DecimalType):
        return wanted.precision - wanted.scale >= 19
    if isinstance(given, _WHOLE) and isinstance(wanted, _WHOLE):
        return _rank(given) <= _rank(wanted)
    return type(given) is type(wanted) or (
        isinstance(given, FloatType) and isinstance(wanted, DoubleType)
    )


def _rank(kind: Any) -> int:  # noqa: ANN401 - one of the whole types
    return _WHOLE.index(type(kind))
