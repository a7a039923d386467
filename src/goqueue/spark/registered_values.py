"""Values in registry framing: read into one schema of the registry, and written with one.

A framed value is byte 0, four bytes with the id of the schema of its writer, and the value. Writers
of a topic have different versions; each is read into the one schema that the columns were made
from. Schemas of writers are asked for once in a process, those of the columns travel with the task.

A value that is not framed, whose schema is unknown or whose bytes are wrong is a fault of its row.
A registry that does not answer is none: the task fails, and is tried again.

Invariant: every row is decoded, null, or among the faults with a reason.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from goqueue.client import GoQueueError
from goqueue.client.schemas import SchemaSet, frame, framed_id
from goqueue.spark.value_decoder import Decoded, JsonValues
from goqueue.spark.value_forms import Form, Unmappable, arrow_of, check_fits, relaxed

__all__ = [
    "Language",
    "RegisteredValues",
    "ValueEncoder",
    "ValueSchema",
    "language_of",
]

Language = Literal["AVRO", "JSON", "PROTOBUF"]
_LANGUAGES: dict[str, Language] = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
_FRAME_BYTES = 5
_READERS_MAX = 1000


def language_of(value_format: str) -> Language:
    """The language of schemas for a `valueFormat`."""
    return _LANGUAGES[value_format]


class ValueCodec(Protocol):
    """Values of one schema. JSON is read by its types alone, so this is all that it has."""

    @property
    def form(self) -> Form: ...

    def encode(self, column: pa.Array) -> Iterator[bytes]: ...


class ReadingCodec(ValueCodec, Protocol):
    """Values that are read with the schema of their writer."""

    def reader(self, writer: SchemaSet) -> Callable[[bytes], object]: ...

    def column(self, rows: Sequence[object]) -> pa.Array: ...


class ValueSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A schema of the registry with all that it refers to, and which message of it is meant."""

    language: Language
    schema: SchemaSet
    message: str | None = None

    def values(self) -> ValueCodec:
        """Its types; raises Unmappable."""
        if self.language == "JSON":
            from goqueue.spark.json_values import JsonText

            return JsonText(self.schema)
        return self.reading_values()

    def reading_values(self) -> ReadingCodec:
        """Its types, for Avro and Protobuf."""
        # Imported here: most queries need neither, and each has a process to start.
        if self.language == "AVRO":
            from goqueue.spark.avro_values import AvroValues

            return AvroValues(self.schema)
        from goqueue.spark.proto_values import ProtoValues

        return ProtoValues(self.schema, self.message)

    def kind(self) -> DataType:
        """The type of the column that values are read into; raises Unmappable."""
        return relaxed(self.values().form.kind)

    def check(self, given: DataType) -> None:
        """Refuse a column that cannot be written with the schema."""
        check_fits(given, self.values().form.kind, "value")


class RegisteredValues:
    """Decodes values of any version into the columns of one.

    `find` returns the schema with an id, or None if there is none.
    """

    def __init__(self, schema: ValueSchema, find: Callable[[int], SchemaSet | None]) -> None:
        kind = schema.kind()
        self._arrow = arrow_of(kind)
        self._find = find
        is_json = schema.language == "JSON"
        self._json = JsonValues(kind) if is_json else None
        self._codec = None if is_json else schema.reading_values()
        self._readers: dict[bytes, Callable[[bytes], object]] = {}

    def decode(self, values: pa.Array) -> Decoded:
        if self._json is not None:
            return self._json.decode(values)
        texts = values.to_pylist()
        try:
            rows = [None if text is None else self._read(text) for text in texts]
            return Decoded(self._column(rows), {})
        except GoQueueError:
            raise
        except Exception:  # noqa: BLE001 - of the library of the language, which have no common class
            return self._one_by_one(texts)

    def _one_by_one(self, texts: list[bytes | None]) -> Decoded:
        """The same with a fault for each row that has one."""
        rows: list[object] = []
        faults: dict[int, str] = {}
        for index, text in enumerate(texts):
            rows.append(None)
            if text is None:
                continue
            try:
                row = self._read(text)
                self._column([row])
            except GoQueueError:
                raise
            except Exception as fault:  # noqa: BLE001 - as above
                faults[index] = str(fault) or type(fault).__name__
            else:
                rows[index] = row
        return Decoded(self._column(rows), faults)

    def _column(self, rows: list[object]) -> pa.Array:
        assert self._codec is not None
        column = self._codec.column(rows)
        return column if column.type == self._arrow else column.cast(self._arrow)

    def _read(self, text: bytes) -> object:
        head = text[:_FRAME_BYTES]
        reader = self._readers.get(head)
        if reader is None:
            reader = self._open(text, head)
        return reader(text[_FRAME_BYTES:])

    def _open(self, text: bytes, head: bytes) -> Callable[[bytes], object]:
        id_ = framed_id(text)
        if id_ is None:
            raise ValueError("is not in registry framing: byte 0, four bytes of schema id")
        found = self._find(id_)
        if len(self._readers) >= _READERS_MAX:
            self._readers.clear()
        if found is None:
            reader = _refusal(f"schema {id_} is not registered")
        else:
            assert self._codec is not None
            try:
                reader = self._codec.reader(found)
            except Unmappable as error:
                reader = _refusal(f"written with schema {id_}, which {error}")
        self._readers[head] = reader
        return reader


def _refusal(reason: str) -> Callable[[bytes], object]:
    def refuse(_: bytes) -> object:
        raise ValueError(reason)

    return refuse


class ValueEncoder:
    """Writes a column as values in registry framing."""

    def __init__(self, schema: ValueSchema) -> None:
        self._values = schema.values()
        self._prefix = frame(schema.schema.id, b"")

    def encode(self, column: pa.Array) -> Decoded:
        """The values, null in the rows that the schema does not allow; the faults say why."""
        try:
            return Decoded(_spread(self._texts(column.drop_null()), column), {})
        except Exception:  # noqa: BLE001 - of the library of the language, which have no common class
            return self._one_by_one(column)

    def _one_by_one(self, column: pa.Array) -> Decoded:
        texts: list[bytes | None] = []
        faults: dict[int, str] = {}
        for row in range(len(column)):
            try:
                texts.append(next(iter(self._texts(column.slice(row, 1).drop_null())), None))
            except Exception as fault:  # noqa: BLE001 - as above
                texts.append(None)
                faults[row] = str(fault) or type(fault).__name__
        return Decoded(pa.array(texts, pa.binary()), faults)

    def _texts(self, column: pa.Array) -> list[bytes]:
        # A slice begins where its buffers do not: what follows works on whole ones.
        whole = column.take(pa.array(range(len(column)), pa.int64())) if column.offset else column
        prefix = self._prefix
        return [prefix + each for each in self._values.encode(whole)]


def _spread(texts: list[bytes], like: pa.Array) -> pa.Array:
    """The texts in the rows that are not null."""
    if not like.null_count:
        return pa.array(texts, pa.binary())
    found = iter(texts)
    rows = [next(found) if each else None for each in pc.is_valid(like).to_pylist()]
    return pa.array(rows, pa.binary())
