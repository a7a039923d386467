"""Serializers by themselves: models of pydantic, and what is asked of them."""

from typing import Any

import msgspec
import pydantic
import pytest

from goqueue.client.schemas import SchemaSet
from goqueue.client.serializers import Json, read_indexes

_ANY = SchemaSet(id=1, schema_type="JSON", text="{}")


class _Checked:
    """What a pydantic model is to a serializer, and no more."""

    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"number": {"type": "integer"}}}

    @classmethod
    def model_validate(cls, value: object) -> "_Checked":
        if not isinstance(value, _Checked):
            raise TypeError("is no model")
        return value

    @classmethod
    def model_validate_json(cls, text: bytes) -> "_Checked":
        return cls(msgspec.json.decode(text)["number"])

    def model_dump_json(self) -> str:
        return msgspec.json.encode({"number": self.number}).decode()


def test_a_model_that_validates_itself_is_written_and_read_by_its_own_methods() -> None:
    serializer = Json(_Checked)
    schema = msgspec.json.decode(serializer.definition().text)
    assert schema["additionalProperties"] is False
    written = serializer.encoder(_ANY)(_Checked(7))
    assert written == b'{"number":7}'
    assert serializer.decoder(None)(written).number == 7
    with pytest.raises(TypeError):
        serializer.encoder(_ANY)({"number": 7})


def test_a_model_of_pydantic_is_written_and_read() -> None:
    made = pydantic.create_model("Order", number=(int, ...), note=(str, ""))
    serializer: Json[Any] = Json(made)
    written = serializer.encoder(_ANY)(made(number=7))
    assert msgspec.json.decode(written) == {"number": 7, "note": ""}
    assert serializer.decoder(None)(b'{"number": 8}').number == 8
    with pytest.raises(ValueError, match="number"):
        serializer.encoder(_ANY)({"number": "x"})
    schema = msgspec.json.decode(serializer.definition().text)
    assert schema["required"] == ["number"]


@pytest.mark.parametrize(
    ("payload", "indexes", "end"),
    [(b"\0x", [0], 1), (b"\2\0x", [0], 2), (b"\4\2\x80\1x", [1, 64], 4)],
)
def test_the_place_of_a_message_is_read_from_its_payload(
    payload: bytes, indexes: list[int], end: int
) -> None:
    assert read_indexes(payload) == (indexes, end)
