"""Payloads: which errors are those of a message, which of the consumer, and what is asked once."""

import asyncio
import sys
from typing import Any, cast

import msgspec
import pydantic
import pytest

from goqueue.client.errors import ArgumentInvalid, DecodeError, GoQueueError, NotAllowed, NotFound
from goqueue.client.message import Message
from goqueue.client.option_checks import check_serializer
from goqueue.client.payloads import PayloadReader
from goqueue.client.schemas import Schemas, frame
from goqueue.client.serializers import Avro, Json
from goqueue.client.worker import Worker

LONG = '"long"'


class Order(msgspec.Struct):
    id: int
    parts: list[int] = []
    counts: dict[str, int] = {}


class Other(msgspec.Struct):
    id: int


class _Registry:
    """The answers of a registry, and how often it was asked; errors are raised."""

    def __init__(self, **answers: object) -> None:
        self._answers = {f"/schemas/ids/{key[1:]}": answer for key, answer in answers.items()}
        self.asked: list[str] = []

    async def read(self, request: Any, decoder: Any) -> object:  # noqa: ANN401 - of a transport
        self.asked.append(request.target)
        answer = self._answers.get(request.target.partition("?")[0])
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise NotFound("schema_not_found", "there is no such schema", status=404)
        return decoder.decode(msgspec.json.encode(answer))


def avro(id_: int, schema: str = LONG) -> dict[str, object]:
    return {"id": id_, "schema": schema, "schemaType": "AVRO"}


def schemas_of(registry: _Registry) -> Schemas:
    return Schemas(cast(Any, registry))


def message(value: bytes | None) -> Message:
    return Message("orders", 0, 0, 0, 1, b"", value)


def attach(reader: PayloadReader, *values: bytes | None) -> list[Message]:
    return asyncio.run(reader.attach([message(value) for value in values]))


def refused(unreadable: Message) -> DecodeError:
    with pytest.raises(DecodeError) as error:
        _ = unreadable.payload
    return error.value


def test_a_schema_is_asked_for_once_and_kept_for_later_messages() -> None:
    registry = _Registry(_7=avro(7))
    reader = PayloadReader(schemas_of(registry), Avro("numbers", LONG))
    first = attach(reader, frame(7, b"\x02"), None, frame(7, b"\x04"))
    assert [each.payload for each in first] == [1, None, 2]
    (second,) = attach(reader, frame(7, b"\x06"))
    assert second.payload == 3
    assert len(registry.asked) == 1


def test_a_payload_is_decoded_once() -> None:
    reader = PayloadReader(schemas_of(_Registry()), Json(Order))
    (read,) = attach(reader, b'{"id": 1}')
    assert read.payload is read.payload


def test_values_that_cannot_be_read_are_the_errors_of_their_messages_alone() -> None:
    registry = _Registry(
        _7=avro(7), _8=avro(8, '{"type": "nonsense"}'), _9={**avro(9), "schemaType": "JSON"}
    )
    reader = PayloadReader(schemas_of(registry), Avro("numbers", LONG))
    values = (b"plain", frame(6, b""), frame(6, b""), frame(7, b""), frame(8, b""), frame(9, b""))
    *bad, good = attach(reader, *values, frame(7, b"\x02"))
    sentences = [refused(each).sentence for each in bad]
    assert good.payload == 1
    assert "not in registry framing" in sentences[0]
    assert "schema 6 of the value cannot be used: there is no such schema" in sentences[1]
    assert sentences[2] == sentences[1]
    assert "the value of schema 7 cannot be read" in sentences[3]
    assert "schema 8 of the value cannot be used" in sentences[4]
    assert "schema 9 is JSON, and the serializer is for Avro" in sentences[5]
    assert len(registry.asked) == 4


def test_an_unknown_schema_is_asked_for_again_with_the_next_messages() -> None:
    registry = _Registry()
    reader = PayloadReader(schemas_of(registry), Avro("numbers"))
    attach(reader, frame(6, b""))
    attach(reader, frame(6, b""))
    assert len(registry.asked) == 2


def test_a_registry_that_refuses_is_no_fault_of_a_message() -> None:
    registry = _Registry(_7=NotAllowed("permission_denied", "not for this key"))
    reader = PayloadReader(schemas_of(registry), Avro("numbers"))
    with pytest.raises(NotAllowed):
        attach(reader, frame(7, b"\x02"))


def test_a_missing_library_is_no_fault_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    reader = PayloadReader(schemas_of(_Registry(_7=avro(7))), Avro("numbers"))
    with pytest.raises(ArgumentInvalid, match="needs the extra `avro`"):
        attach(reader, frame(7, b"\x02"))


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (b'{"id": "x"}', "/id", "Expected `int`, got `str`"),
        (b'{"id": 1, "parts": [1, null]}', "/parts/1", "Expected `int`, got `null`"),
        (b'{"id": 1, "counts": {"a": ""}}', "/counts/*", "Expected `int`, got `str`"),
        (b'{"id": ', "", "Input data was truncated"),
        (b"[]", "", "Expected `object`, got `array`"),
    ],
)
def test_an_error_names_the_path_and_the_reason(value: bytes, path: str, reason: str) -> None:
    (read,) = attach(PayloadReader(schemas_of(_Registry()), Json(Order)), value)
    error = refused(read)
    assert (error.path, error.reason) == (path, reason)
    assert error.details == {"path": path, "reason": reason}
    # Each reader gets an error of its own.
    assert refused(read) is not error


def test_an_error_of_pydantic_names_the_path_and_the_reason() -> None:
    model = pydantic.create_model("Order", parts=(list[int], ...))
    reader = PayloadReader(schemas_of(_Registry()), Json(model))
    good, bad = attach(reader, b'{"parts": [1]}', b'{"parts": [1, "x"]}')
    assert good.payload.parts == [1]
    error = refused(bad)
    assert error.path == "/parts/1"
    assert error.reason.startswith("Input should be a valid integer")


def test_a_message_that_was_read_without_a_serializer_has_no_payload() -> None:
    with pytest.raises(GoQueueError, match="read without a serializer"):
        _ = message(b"{}").payload


@pytest.mark.parametrize("given", [Order, Json, "avro", object(), 5])
def test_what_is_no_serializer_is_refused_where_it_is_given(given: object) -> None:
    schemas = schemas_of(_Registry())
    for declare in (
        check_serializer,
        schemas.bind,
        lambda serializer: PayloadReader(schemas, serializer),
        lambda serializer: Worker("billing").handler("orders", serializer=serializer),
    ):
        with pytest.raises(TypeError, match=r"serializer is a goqueue\.Avro"):
            declare(cast(Any, given))


def test_a_model_that_cannot_be_read_is_refused_where_it_is_given() -> None:
    either = cast(type[object], Order | Other)
    with pytest.raises(TypeError, match="multiple Struct types"):
        PayloadReader(schemas_of(_Registry()), Json(either))
