"""Payloads of messages: values as the serializer of a consumer reads them.

Fetches and compiles the schemas of messages before they are handed out, once for each id; a value
itself is decoded when the program asks for it. A value that cannot be read is the error of its
message alone. What concerns all messages, such as a registry that is away or a key that may not
read it, is raised to the consumer: no message is at fault.

Owns nothing that lasts: compiled decoders belong to `Schemas`, which bounds them.
"""

from typing import TYPE_CHECKING

import msgspec

from goqueue.client.errors import ArgumentInvalid, DecodeError, GoQueueError, copy_of
from goqueue.client.message import Message
from goqueue.client.option_checks import check_serializer
from goqueue.client.schemas import Decoder, Schemas, read_value, writer_id

if TYPE_CHECKING:
    from goqueue.client.serializers import Serializer

__all__ = ["PayloadReader"]

# Why a schema cannot serve to read a value, whoever asks.
_OF_THE_VALUE = frozenset({"schema_not_found", "schema_invalid"})


class PayloadReader:
    """Gives messages their payloads, by one serializer."""

    def __init__(self, schemas: Schemas, serializer: "Serializer[object]") -> None:
        check_serializer(serializer)
        if not serializer.needs_schema:
            # A model that cannot be read is the mistake of the program, and known now.
            schemas.open_decoder(serializer)
        self._schemas = schemas
        self._serializer = serializer

    async def attach(self, messages: list[Message]) -> list[Message]:
        """The same messages with payloads; asks the registry for schemas that are not known."""
        decoders: dict[int | None, Decoder | DecodeError] = {}
        attached: list[Message] = []
        for message in messages:
            value = message.value
            decoder = None if value is None else await self._decoder(value, decoders)
            source = _Payload(value, decoder)
            attached.append(msgspec.structs.replace(message, payload_source=source))
        return attached

    async def _decoder(
        self, value: bytes, known: dict[int | None, Decoder | DecodeError]
    ) -> Decoder | DecodeError:
        try:
            id_ = writer_id(self._serializer, value)
        except DecodeError as error:
            return error
        decoder = known.get(id_)
        if decoder is None:
            decoder = known[id_] = await self._open(id_)
        return decoder

    async def _open(self, id_: int | None) -> Decoder | DecodeError:
        try:
            return await self._schemas.decoder_of(self._serializer, id_)
        except ArgumentInvalid:
            raise
        except GoQueueError as error:
            if error.code not in _OF_THE_VALUE:
                raise
            return _unusable(id_, error.sentence, error)
        except Exception as error:  # noqa: BLE001 - of the library of the language, as for values
            return _unusable(id_, " ".join(str(error).split()), error)


def _unusable(id_: int | None, reason: str, cause: Exception) -> DecodeError:
    error = DecodeError(f"schema {id_} of the value cannot be used: {reason}", reason=reason)
    error.__cause__ = cause
    return error


class _Payload:
    """The payload of one message, decoded once; of a tombstone there is nothing to decode."""

    __slots__ = ("_decoder", "_payload", "_value")

    def __init__(self, value: bytes | None, decoder: Decoder | DecodeError | None) -> None:
        self._value = value
        self._decoder = decoder
        self._payload: object = None

    def read(self) -> object:
        decoder, value = self._decoder, self._value
        if decoder is None or value is None:
            return self._payload
        if isinstance(decoder, DecodeError):
            raise copy_of(decoder)
        self._payload = read_value(decoder, value)
        self._decoder = None
        return self._payload
