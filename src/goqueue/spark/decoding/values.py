"""Values decoded in the task that reads them: JSON texts to a column of structs.

One decoder for every row, so that what a value means never depends on its neighbours; strict, so
that nothing is guessed: a number is no text, 1.5 no integer, and a time says its zone. Fields that
the schema does not know are passed over, those that are missing are null.

Invariant: every row is decoded, null, or among the faults with a reason.
"""

import datetime as dt
import decimal
from typing import Annotated, Any, TypedDict

import msgspec
import pyarrow as pa
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

__all__ = ["Decoded", "JsonValues"]

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_PLAIN: dict[type[DataType], Any] = {
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
    """Decodes JSON objects with the fields of a schema."""

    def __init__(self, schema: StructType) -> None:
        self._kind = to_arrow_type(schema, timezone="UTC")
        self._decoder: msgspec.json.Decoder[_Fields] = msgspec.json.Decoder(_python_of(schema))

    def decode(self, values: pa.Array) -> Decoded:
        texts = values.to_pylist()
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
    return _PLAIN[type(kind)]
