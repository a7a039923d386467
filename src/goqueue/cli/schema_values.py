"""Values in registry framing: `produce --schema` writes them, `consume --decode` reads them.

On the command line a value is JSON, whatever language its schema has.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.cli.errors import tell
from goqueue.client import DecodeError, GoQueueError
from goqueue.client.schemas import SchemaSet
from goqueue.client.serializers import Registered, read_indexes
from goqueue.model import ways_to_install
from goqueue.schemas import SchemaInvalid, descriptor_files

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

    from goqueue.client.connection import Connection
    from goqueue.client.message_drafts import MessageDraft
    from goqueue.client.pages import PageMessage

__all__ = ["ValueDecoder", "ValueEncoder"]


class _AnyLanguage:
    """Values as the registered schema says; those of Protobuf by classes that are made from it."""

    registers = False
    is_framed = True
    takes_unframed = False
    needs_schema = True

    def __init__(self, subject: str = "") -> None:
        self.subject = subject
        self._others = Registered(subject)

    def definition(self) -> None:
        return None

    def encoder(self, schema: SchemaSet) -> Callable[[object], bytes]:
        """Writes the first message of a file of Protobuf."""
        if schema.schema_type != "PROTOBUF":
            return self._others.encoder(schema)
        from google.protobuf.json_format import ParseDict

        message = _message_classes(schema)([0])

        def encode(value: object) -> bytes:
            if not isinstance(value, dict):
                raise TypeError("a message of Protobuf is a JSON object")
            return b"\0" + bytes(ParseDict(value, message()).SerializeToString())

        return encode

    def decoder(self, schema: SchemaSet | None) -> Callable[[bytes], object]:
        assert schema is not None, "read with the schema of its writer"
        if schema.schema_type != "PROTOBUF":
            return self._others.decoder(schema)
        from google.protobuf.json_format import MessageToDict

        find = _message_classes(schema)

        def decode(payload: bytes) -> object:
            indexes, position = read_indexes(payload)
            return MessageToDict(find(indexes).FromString(payload[position:]))

        return decode


def _message_classes(schema: SchemaSet) -> "Callable[[list[int]], type[Message]]":
    """The classes of the messages of a file, by their places."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        words = f"Protobuf needs the extra `protobuf`: {ways_to_install('protobuf')}"
        raise GoQueueError("schema_invalid", words) from None
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto()
    try:
        for data in descriptor_files(schema.text, dict(schema.references)):
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            pool.Add(file)
        roots = list(pool.FindFileByName(file.name).message_types_by_name.values())
    except (SchemaInvalid, TypeError) as error:
        raise GoQueueError("schema_invalid", f"schema {schema.id}: {error}") from error

    def find(indexes: list[int]) -> "type[Message]":
        among: list[Descriptor] = roots
        found: Descriptor | None = None
        for index in indexes:
            if not 0 <= index < len(among):
                break
            found = among[index]
            # Entries of maps are no messages of the text.
            among = [each for each in found.nested_types if not each.GetOptions().map_entry]
        else:
            if found is not None:
                made: type[Message] = message_factory.GetMessageClass(found)
                return made
        raise ValueError(f"schema {schema.id} has no message at {indexes}")

    return find


class ValueEncoder:
    """Writes JSON values with the latest version of a subject."""

    def __init__(self, q: "Connection", subject: str) -> None:
        self._schemas = q.schemas
        self._serializer = _AnyLanguage(subject)

    async def encode(self, draft: "MessageDraft") -> "MessageDraft":
        """The draft with its value framed; refuses what is not JSON or not of the schema."""
        if draft.value is None:
            return draft
        try:
            value: object = msgspec.json.decode(draft.value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise GoQueueError("message_invalid", f"the value is not JSON: {error}") from error
        framed = await self._schemas.encode(self._serializer, value)
        return msgspec.structs.replace(draft, value=framed)


class ValueDecoder:
    """Shows framed values as JSON; one that cannot be read is reported and shown as it is."""

    def __init__(self, q: "Connection") -> None:
        self._schemas = q.schemas
        self._serializer = _AnyLanguage()

    async def decode(self, items: "Sequence[PageMessage]") -> "list[PageMessage]":
        return [await self._decode(item) for item in items]

    async def _decode(self, item: "PageMessage") -> "PageMessage":
        message = item.message
        try:
            value = await self._schemas.decode(self._serializer, message.value)
            text = None if message.value is None else msgspec.json.encode(value)
        except (DecodeError, TypeError, ValueError) as error:
            tell(f"{message.partition}:{message.offset}: {error}")
            return item
        document: dict[str, object] = msgspec.json.decode(item.json)
        if document.pop("encoding", None) is not None and message.key:
            document["key"] = message.key.decode(errors="replace")
        document["value"] = None if text is None else text.decode()
        return msgspec.structs.replace(
            item,
            message=msgspec.structs.replace(message, value=text),
            json=msgspec.json.encode(document),
        )
