"""Serializers: how values of a program become bytes of a registered schema, and back.

`Avro(subject)` takes dicts, `Json(model)` objects of dataclasses, msgspec Structs and pydantic
models, `Protobuf(Message)` messages. They hold no connection: producers and consumers that are
made with `serializer=`, `q.schemas.encode` and `q.schemas.decode` use them with the registry of
that connection.

The libraries are optional: Avro needs the extra `avro`, Protobuf the extra `protobuf`; pydantic
comes with its models.
"""

import io
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

import msgspec

from goqueue.client.errors import ArgumentInvalid, GoQueueError
from goqueue.client.schemas import SchemaLink, SchemaSet, SchemaTypeName
from goqueue.model import ways_to_install

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = [
    "Avro",
    "Json",
    "Protobuf",
    "Registered",
    "SchemaDefinition",
    "Serializer",
    "read_indexes",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M", bound="Message")

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class SchemaDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The schema that a program writes with."""

    text: str
    type: SchemaTypeName
    references: tuple[SchemaLink, ...] = ()


class Serializer(Protocol[T_co]):
    """Values of one kind, as bytes.

    `subject` is empty for the one of the topic. `registers` says that its schema is registered when
    it is first used, and not only looked up. Without `needs_schema` values are read without the
    schema that they were written with.
    """

    @property
    def subject(self) -> str: ...

    @property
    def registers(self) -> bool: ...

    @property
    def is_framed(self) -> bool: ...

    @property
    def takes_unframed(self) -> bool: ...

    @property
    def needs_schema(self) -> bool: ...

    def definition(self) -> SchemaDefinition | None:
        """The schema of the program; None: the latest version of the subject."""

    def encoder(self, schema: SchemaSet) -> Callable[[object], bytes]:
        """Writes values with a registered schema."""

    def decoder(self, schema: SchemaSet | None) -> Callable[[bytes], T_co]:
        """Reads values that were written with a schema."""


class Avro:
    """Avro: values are dicts, or what the schema says.

    With a `schema` (text or a mapping) values are written with it, and read into it whatever
    compatible schema they were written with. Without one they are written with the latest version
    of the subject, and read as they were written.
    """

    def __init__(
        self,
        subject: str,
        schema: str | Mapping[str, object] | None = None,
        *,
        references: tuple[SchemaLink, ...] = (),
        registers: bool = True,
    ) -> None:
        self.subject = subject
        self.registers = registers
        self.is_framed = True
        self.takes_unframed = False
        self.needs_schema = True
        self._definition: SchemaDefinition | None = None
        self._own: object = None
        if schema is not None:
            text = schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
            self._definition = SchemaDefinition(text=text, type="AVRO", references=references)

    def definition(self) -> SchemaDefinition | None:
        """The schema of the program; None: the latest version of the subject."""
        return self._definition

    def encoder(self, schema: SchemaSet) -> Callable[[object], bytes]:
        """Writes values with a registered schema."""
        parsed = _parse_avro(schema)
        if self._definition is not None:
            # With all that it refers to.
            self._own = parsed
        return _avro_encoder(parsed)

    def decoder(self, schema: SchemaSet | None) -> Callable[[bytes], object]:
        """Reads values that were written with a schema."""
        assert schema is not None, "Avro is read with the schema of its writer"
        reader = self._own
        if reader is None and self._definition is not None:
            own = SchemaSet(id=0, schema_type="AVRO", text=self._definition.text)
            reader = self._own = _parse_avro(own)
        return _avro_decoder(_parse_avro(schema), reader)


def _parse_avro(schema: SchemaSet) -> object:
    fastavro = _fastavro()
    if schema.schema_type != "AVRO":
        words = f"schema {schema.id} is {schema.schema_type}, and the serializer is for Avro"
        raise GoQueueError("schema_invalid", words)
    named: dict[str, object] = {}
    for _, text in schema.references:
        fastavro.parse_schema(msgspec.json.decode(text), named_schemas=named)
    parsed: object = fastavro.parse_schema(msgspec.json.decode(schema.text), named_schemas=named)
    return parsed


def _avro_encoder(parsed: object) -> Callable[[object], bytes]:
    write = _fastavro().schemaless_writer

    def encode(value: object) -> bytes:
        buffer = io.BytesIO()
        write(buffer, parsed, value)
        return buffer.getvalue()

    return encode


def _avro_decoder(writer: object, reader: object) -> Callable[[bytes], object]:
    read = _fastavro().schemaless_reader

    def decode(payload: bytes) -> object:
        buffer = io.BytesIO(payload)
        value: object = read(buffer, writer, reader)
        if buffer.read(1):
            raise ValueError("bytes follow the value")
        return value

    return decode


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError:
        words = f"Avro needs the extra `avro`: {ways_to_install('avro')}"
        raise ArgumentInvalid(words) from None
    return fastavro


class Json(Generic[T]):
    """JSON of a model: a dataclass, a msgspec Struct, a TypedDict or a pydantic model.

    Its JSON Schema is registered when it is first used. Values are read by the model, so a message
    with other fields than the model has is read as far as the model allows. Without `framed` values
    are written as plain JSON, which a validating topic checks against the latest version.
    """

    def __init__(
        self, model: type[T], subject: str = "", *, registers: bool = True, framed: bool = True
    ) -> None:
        self.subject = subject
        self.registers = registers
        self.is_framed = framed
        self.takes_unframed = True
        self.needs_schema = False
        self._model = model
        self._is_pydantic = hasattr(model, "model_json_schema")
        self._definition: SchemaDefinition | None = None

    def definition(self) -> SchemaDefinition:
        """The JSON Schema of the model."""
        if self._definition is None:
            try:
                made = _json_schema(self._model)
            except TypeError as error:
                words = f"there is no JSON Schema of {self._model!r}: {error}"
                raise GoQueueError("schema_invalid", words) from error
            text = msgspec.json.encode({"$schema": _DRAFT, **made}).decode()
            self._definition = SchemaDefinition(text=text, type="JSON")
        return self._definition

    def encoder(self, schema: SchemaSet) -> Callable[[object], bytes]:  # noqa: ARG002 - the model says
        """Writes values of the model."""
        model = self._model
        if self._is_pydantic:

            def encode(value: object) -> bytes:
                checked = model.model_validate(value)  # type: ignore[attr-defined]  # of pydantic
                return bytes(checked.model_dump_json().encode())

            return encode
        encoder = msgspec.json.Encoder()

        def encode_checked(value: object) -> bytes:
            encoded = encoder.encode(value)
            # A field of another type than is annotated is an error here, not at a consumer.
            msgspec.json.decode(encoded, type=model)
            return encoded

        return encode_checked

    def decoder(self, schema: SchemaSet | None) -> Callable[[bytes], T]:  # noqa: ARG002 - as above
        """Reads values into the model."""
        if self._is_pydantic:
            model = self._model
            read: Callable[[bytes], T] = model.model_validate_json  # type: ignore[attr-defined]  # of pydantic
            return read
        return msgspec.json.Decoder(self._model).decode


def _json_schema(model: type) -> dict[str, object]:
    made = getattr(model, "model_json_schema", None)
    schema: dict[str, object] = msgspec.json.schema(model) if made is None else made()
    _close(schema)
    return schema


def _close(schema: object) -> None:
    """Say that objects have the fields of their models and no others.

    A model writes nothing else. If its schema allowed other fields, a field that is added later
    could have been anything in old data, and no field could ever be added.
    """
    if isinstance(schema, list):
        for each in schema:
            _close(each)
    if not isinstance(schema, dict):
        return
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    for keyword in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"):
        _close(schema.get(keyword))
    for keyword in ("properties", "$defs"):
        named = schema.get(keyword)
        _close(list(named.values()) if isinstance(named, dict) else None)


class Protobuf(Generic[M]):
    """Protobuf: objects of a generated message class.

    Its `.proto` text, written from its descriptor, is registered when it is first used. Files that
    it imports, except those that come with Protobuf, are registered before and given as
    `references`. Needs the extra `protobuf`.
    """

    def __init__(
        self,
        message: type[M],
        subject: str = "",
        *,
        references: tuple[SchemaLink, ...] = (),
        registers: bool = True,
    ) -> None:
        self.subject = subject
        self.registers = registers
        self.is_framed = True
        self.takes_unframed = False
        self.needs_schema = False
        self._message = message
        self._references = references

    def definition(self) -> SchemaDefinition:
        """The file of the message, as text."""
        from goqueue.client.proto_text import proto_text

        try:
            text = proto_text(self._message.DESCRIPTOR.file)
        except ValueError as error:
            raise GoQueueError("schema_invalid", str(error)) from error
        return SchemaDefinition(text=text, type="PROTOBUF", references=self._references)

    def encoder(self, schema: SchemaSet) -> Callable[[object], bytes]:  # noqa: ARG002 - the class says
        """Writes messages, each behind its place in the file."""
        from goqueue.client.proto_text import message_indexes

        message = self._message
        place = message_indexes(message)

        def encode(value: object) -> bytes:
            if not isinstance(value, message):
                raise TypeError(f"is {type(value).__name__}, not {message.__name__}")
            return place + bytes(value.SerializeToString())

        return encode

    def decoder(self, schema: SchemaSet | None) -> Callable[[bytes], M]:  # noqa: ARG002 - as above
        """Reads messages, whatever place they had in the file of their writer."""
        message = self._message
        return lambda payload: message.FromString(payload[read_indexes(payload)[1] :])


def read_indexes(payload: bytes) -> tuple[list[int], int]:
    """The place of the message that a payload begins with, and where that ends."""
    count, position = _index(payload, 0)
    indexes = [0] if count == 0 else []
    for _ in range(count):
        index, position = _index(payload, position)
        indexes.append(index)
    return indexes, position


def _index(payload: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        octet = payload[position]
        position += 1
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet <= 0x7F:
            return value >> 1, position


class Registered:
    """Values as the registered schema says, whatever its language; for tools.

    Written with the latest version of the subject, from what JSON says; read into what JSON can
    say.
    """

    registers = False
    is_framed = True
    takes_unframed = False
    needs_schema = True

    def __init__(self, subject: str = "") -> None:
        self.subject = subject

    def definition(self) -> None:
        return None

    def encoder(self, schema: SchemaSet) -> Callable[[object], bytes]:
        match _language(schema):
            case "AVRO":
                return _avro_encoder(_parse_avro(schema))
            case "JSON":
                return msgspec.json.Encoder().encode

    def decoder(self, schema: SchemaSet | None) -> Callable[[bytes], object]:
        assert schema is not None, "read with the schema of its writer"
        match _language(schema):
            case "AVRO":
                return _avro_decoder(_parse_avro(schema), None)
            case "JSON":
                return msgspec.json.Decoder(object).decode


def _language(schema: SchemaSet) -> Literal["AVRO", "JSON"]:
    match schema.schema_type:
        case "AVRO":
            return "AVRO"
        case "JSON":
            return "JSON"
        case other:
            raise GoQueueError("schema_invalid", f"values of {other} cannot be read here")
