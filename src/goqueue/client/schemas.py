"""Schemas: the registry of the node, and values in its framing.

A framed value is byte 0, four bytes of schema id, and the encoded value. `encode` and `decode` ask
the registry once for each schema; later calls ask nothing.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from goqueue.client.errors import ArgumentInvalid, DecodeError, GoQueueError
from goqueue.client.http import Request, Transport, get, post, target
from goqueue.client.option_checks import check_serializer

if TYPE_CHECKING:
    from goqueue.client.serializers import Serializer

__all__ = [
    "CompatibilityLevel",
    "CompatibilityReport",
    "RegistryStats",
    "Schema",
    "SchemaLink",
    "SchemaLocation",
    "SchemaSet",
    "SchemaTypeName",
    "SchemaVersion",
    "Schemas",
    "frame",
    "framed_id",
    "read_value",
    "writer_id",
]

T = TypeVar("T")
Decoder = Callable[[bytes], object]

SchemaTypeName = Literal["AVRO", "JSON", "PROTOBUF"]
CompatibilityLevel = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]
# Text, or a schema in JSON as Python has it.
SchemaInput = str | Mapping[str, object]

FRAME_BYTES = 5
_CODECS_MAX = 1000
_REFERENCES_MAX = 100


class SchemaLink(msgspec.Struct, frozen=True, kw_only=True):
    """A registered schema that another one uses, under the name by which it does."""

    name: str
    subject: str
    version: int


class SchemaLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schema is registered."""

    id: int
    version: int


class Schema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of an id."""

    id: int
    schema: str
    schema_type: str
    references: tuple[SchemaLink, ...] = ()


class SchemaVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str
    references: tuple[SchemaLink, ...] = ()


class CompatibilityReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a schema could be registered; `messages` name what breaks, with which version."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


class RegistryStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much there is in the registry, and the global level."""

    subjects: int
    schemas: int
    versions: int
    compatibility_level: str


class SchemaSet(msgspec.Struct, frozen=True, kw_only=True):
    """A schema with all that it refers to, by name; what others need comes first."""

    id: int
    schema_type: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class _Level(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    compatibility_level: str


_NAMES = msgspec.json.Decoder(tuple[str, ...])
_NUMBERS = msgspec.json.Decoder(tuple[int, ...])
_NUMBER = msgspec.json.Decoder(int)
_LOCATIONS = msgspec.json.Decoder(SchemaLocation)
_SCHEMAS = msgspec.json.Decoder(Schema)
_VERSIONS = msgspec.json.Decoder(SchemaVersion)
_REPORTS = msgspec.json.Decoder(CompatibilityReport)
_LEVELS = msgspec.json.Decoder(_Level)
_STATS = msgspec.json.Decoder(RegistryStats)


def frame(id_: int, payload: bytes) -> bytes:
    """A value in registry framing."""
    return b"\0" + id_.to_bytes(4) + payload


def framed_id(value: bytes) -> int | None:
    """The id of a value in registry framing; None: it is not framed."""
    if len(value) >= FRAME_BYTES and value[0] == 0:
        return int.from_bytes(value[1:FRAME_BYTES])
    return None


class Schemas:
    """`q.schemas`. A schema is text, or a mapping that is written as JSON."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # What was compiled, by serializer and subject or id. A serializer that is kept here lives
        # as long as the connection.
        self._encoders: dict[tuple[Serializer[object], str], _Encoder] = {}
        self._decoders: dict[tuple[Serializer[object], int | None], Decoder] = {}

    async def list(self) -> tuple[str, ...]:
        """The subjects by name."""
        return await self._transport.read(get("schemas", "subjects"), _NAMES)

    async def register(
        self,
        subject: str,
        schema: SchemaInput,
        *,
        type: SchemaTypeName = "JSON",  # noqa: A002 - as in the API
        references: Sequence[SchemaLink] = (),
    ) -> SchemaLocation:
        """Add a version to a subject; the same content again has the same answer.

        Refused with `schema_invalid`, or with `schema_incompatible` and the reasons in
        `error.details["messages"]`.
        """
        fields = _fields(schema, type, references)
        request = post(
            "schemas", "subjects", subject, "versions", fields=fields, is_repeatable=True
        )
        return await self._transport.read(request, _LOCATIONS)

    async def find(
        self,
        subject: str,
        schema: SchemaInput,
        *,
        type: SchemaTypeName = "JSON",  # noqa: A002 - as in the API
        references: Sequence[SchemaLink] = (),
    ) -> SchemaLocation:
        """The version of a subject with this content; `NotFound` if it is not registered."""
        fields = _fields(schema, type, references)
        request = post("schemas", "subjects", subject, fields=fields, is_repeatable=True)
        return await self._transport.read(request, _LOCATIONS)

    async def get(self, subject: str, version: int | Literal["latest"] = "latest") -> SchemaVersion:
        """A version of a subject; `NotFound` if there is none."""
        request = get("schemas", "subjects", subject, "versions", version)
        return await self._transport.read(request, _VERSIONS)

    async def get_by_id(self, id: int) -> Schema:  # noqa: A002 - as in the API
        """The schema with an id, also if its versions were deleted."""
        return await self._transport.read(get("schemas", "ids", id), _SCHEMAS)

    async def versions(self, subject: str) -> tuple[int, ...]:
        """The versions of a subject, ascending; `NotFound` if there is no such subject."""
        return await self._transport.read(get("schemas", "subjects", subject, "versions"), _NUMBERS)

    async def check(
        self,
        subject: str,
        schema: SchemaInput,
        *,
        version: int | Literal["latest"] = "latest",
        type: SchemaTypeName = "JSON",  # noqa: A002 - as in the API
        references: Sequence[SchemaLink] = (),
    ) -> CompatibilityReport:
        """Whether a schema is compatible with a version, by the level of the subject."""
        fields = _fields(schema, type, references)
        at = ("schemas", "compatibility", "subjects", subject, "versions", version)
        return await self._transport.read(post(*at, fields=fields, is_repeatable=True), _REPORTS)

    async def compatibility(self, subject: str | None = None) -> str:
        """The level of a subject, or the global one."""
        at = ("schemas", "config") if subject is None else ("schemas", "config", subject)
        return (await self._transport.read(get(*at), _LEVELS)).compatibility_level

    async def set_compatibility(self, level: CompatibilityLevel, subject: str | None = None) -> str:
        """Set the level of a subject, or the global one."""
        at = ("schemas", "config") if subject is None else ("schemas", "config", subject)
        request = Request(
            method="PUT",
            target=target(*at),
            body=msgspec.json.encode(_Level(compatibility_level=level)),
            is_repeatable=True,
        )
        return (await self._transport.read(request, _LEVELS)).compatibility_level

    async def delete(
        self,
        subject: str,
        version: int | Literal["latest"] | None = None,
        *,
        permanent: bool = False,
    ) -> tuple[int, ...]:
        """Delete a version, or all versions of a subject; returns which.

        They leave the lists, and their ids still resolve. With `permanent` versions that were
        deleted before are removed: data with their ids can no longer be read.
        """
        registry = ("schema-registry", "subjects") if permanent else ("schemas", "subjects")
        at = (*registry, subject) if version is None else (*registry, subject, "versions", version)
        address = target(*at, permanent="true" if permanent else None)
        request = Request(method="DELETE", target=address)
        if version is None:
            return await self._transport.read(request, _NUMBERS)
        return (await self._transport.read(request, _NUMBER),)

    async def stats(self) -> RegistryStats:
        """Counts of subjects, schemas and versions."""
        return await self._transport.read(get("schemas", "stats"), _STATS)

    # Values

    async def encode(
        self, serializer: "Serializer[object]", value: object, *, topic: str | None = None
    ) -> bytes | None:
        """A value in registry framing; None stays None.

        The schema of the serializer is registered first, once. Without a subject of its own it is
        that of the topic: `<topic>-value`.
        """
        if value is None:
            return None
        subject = serializer.subject or (f"{topic}-value" if topic else "")
        if not subject:
            raise ArgumentInvalid("the serializer has no subject: give one, or the topic")
        encoder = self._encoders.get((serializer, subject))
        if encoder is None:
            encoder = await self._open_encoder(serializer, subject)
        try:
            payload = encoder.encode(value)
        except Exception as error:  # of the library of the language, which have no common class
            words = f"the value does not conform to {subject}: {error}"
            raise GoQueueError("message_invalid", words) from error
        return encoder.prefix + payload

    async def decode(self, serializer: "Serializer[T]", value: bytes | None) -> T | None:
        """What a value in registry framing says; a tombstone is None.

        `DecodeError` if it is not framed, or cannot be read.
        """
        if value is None:
            return None
        decoder = await self.decoder_of(serializer, writer_id(serializer, value))
        return read_value(decoder, value)  # type: ignore[return-value]  # a T by its serializer

    def bind(
        self, serializer: "Serializer[object]"
    ) -> Callable[[str, object], Awaitable[bytes | None]]:
        """Writes values for a topic; for a producer."""
        check_serializer(serializer)

        async def encode(topic: str, value: object) -> bytes | None:
            return await self.encode(serializer, value, topic=topic)

        return encode

    async def _open_encoder(self, serializer: "Serializer[object]", subject: str) -> "_Encoder":
        own = serializer.definition()
        if own is None:
            found = await self.get(subject)
        else:
            links = own.references
            act = self.register if serializer.registers else self.find
            place = await act(subject, own.text, type=own.type, references=links)
            found = await self.get(subject, place.version)
        schema = await self.resolve(found)
        is_framed = serializer.is_framed
        encoder = _Encoder(frame(schema.id, b"") if is_framed else b"", serializer.encoder(schema))
        _keep(self._encoders, (serializer, subject), encoder)
        return encoder

    async def decoder_of(self, serializer: "Serializer[object]", id_: int | None) -> Decoder:
        """What reads values that were written with a schema; None: without knowing it."""
        decoder = self._decoders.get((serializer, id_))
        if decoder is not None:
            return decoder
        if id_ is None:
            return self.open_decoder(serializer)
        schema = await self.resolve(await self.get_by_id(id_))
        own = serializer.definition()
        if own is not None and own.references:
            # The serializer has to know what its own schema refers to.
            known: dict[str, str] = {}
            await self._collect(own.references, known)
            references = tuple(known.items())
            whole = SchemaSet(id=0, schema_type=own.type, text=own.text, references=references)
            serializer.encoder(whole)
        return self.open_decoder(serializer, schema)

    def open_decoder(
        self, serializer: "Serializer[object]", schema: SchemaSet | None = None
    ) -> Decoder:
        """Compile and keep what reads values of a schema."""
        decoder = serializer.decoder(schema)
        _keep(self._decoders, (serializer, None if schema is None else schema.id), decoder)
        return decoder

    async def resolve(self, found: Schema | SchemaVersion) -> SchemaSet:
        """The schema with all that it refers to; the registry has no cycles."""
        known: dict[str, str] = {}
        await self._collect(found.references, known)
        return SchemaSet(
            id=found.id,
            schema_type=found.schema_type,
            text=found.schema,
            references=tuple(known.items()),
        )

    async def _collect(self, links: Sequence[SchemaLink], known: dict[str, str]) -> None:
        for link in links:
            if link.name in known:
                continue
            if len(known) >= _REFERENCES_MAX:
                raise GoQueueError("schema_invalid", "the schema refers to too many others")
            found = await self.get(link.subject, link.version)
            await self._collect(found.references, known)
            known[link.name] = found.schema


def writer_id(serializer: "Serializer[object]", value: bytes) -> int | None:
    """The schema that is needed to read a value; None: none is. `DecodeError` if it is not framed.

    A serializer may take values without a frame.
    """
    id_ = framed_id(value)
    if id_ is None and not serializer.takes_unframed:
        raise DecodeError("the value is not in registry framing: byte 0, four bytes of id")
    return id_ if serializer.needs_schema else None


def read_value(decoder: Decoder, value: bytes) -> object:
    """What a value says, with or without its frame; `DecodeError` if it cannot be read."""
    id_ = framed_id(value)
    try:
        return decoder(value if id_ is None else value[FRAME_BYTES:])
    except Exception as error:  # of the library of the language, which have no common class
        path, reason = _fault(error)
        what = "the value" if id_ is None else f"the value of schema {id_}"
        place = f"at {path}: " if path else ""
        words = f"{what} cannot be read: {place}{reason}"
        raise DecodeError(words, path=path, reason=reason) from error


_PLACE = re.compile(r"(.*) - at `(?:key in )?\$(.*)`", re.DOTALL)


def _fault(error: Exception) -> tuple[str, str]:
    """Where a value is wrong, as a JSON pointer if its library says it, and what is wrong."""
    listed = getattr(error, "errors", None)
    if callable(listed):  # of pydantic
        first = listed()[0]
        return "".join(f"/{part}" for part in first["loc"]), str(first["msg"])
    words = " ".join(str(error).split()) or type(error).__name__
    found = _PLACE.fullmatch(words) if isinstance(error, msgspec.ValidationError) else None
    if found is None:
        return "", words
    parts = found[2].replace("[...]", ".*").replace("[", ".").replace("]", "").split(".")
    return "/".join(parts), found[1]


class _Encoder(msgspec.Struct, frozen=True):
    prefix: bytes
    encode: Callable[[object], bytes]


K = TypeVar("K")
V = TypeVar("V")


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    if len(cache) >= _CODECS_MAX:
        cache.clear()
    cache[key] = value


def _fields(
    schema: SchemaInput, type_: SchemaTypeName, references: Sequence[SchemaLink]
) -> dict[str, object]:
    text = schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
    return {"schema": text, "schemaType": type_, "references": list(references) or None}
