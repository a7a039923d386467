"""Validators of values, one for each language, behind one door."""

from array import array
from collections.abc import Sequence

import msgspec

from goqueue.model import SchemaSource, SchemaValidator
from goqueue.schemas.avro import AvroSchema
from goqueue.schemas.avro_validator import AvroValidator
from goqueue.schemas.json_schema import JsonDocument, Validator
from goqueue.schemas.languages import parse_schema
from goqueue.schemas.proto import ProtoFile
from goqueue.schemas.proto_validator import ProtoValidator

__all__ = ["create_validator"]

_DECODER = msgspec.json.Decoder()


class JsonValidator:
    """Values that are JSON texts."""

    values_per_unit = 8
    bytes_per_unit = 512

    def __init__(self, compiled: Validator) -> None:
        self._compiled = compiled

    def find_refused(
        self, data: bytearray, starts: "array[int]", ends: "array[int]"
    ) -> Sequence[int]:
        """Which of the texts data[start:end] do not conform, by their indexes."""
        decode, accepts = _DECODER.decode, self._compiled.accepts
        refused: list[int] = []
        for index, start in enumerate(starts):
            try:
                if accepts(decode(data[start : ends[index]])):
                    continue
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
            refused.append(index)
        return refused

    def explain(self, payload: bytes) -> tuple[str, str] | None:
        """Where a text does not conform, as a JSON pointer, and why; None: it does."""
        try:
            value = _DECODER.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return "", f"is not JSON: {error}"
        except RecursionError:
            return "", "is nested too deep"
        if self._compiled.accepts(value):
            return None
        return self._compiled.explain(value)


def create_validator(source: SchemaSource) -> SchemaValidator:
    """A validator of values of a schema; raises SchemaInvalid."""
    parsed = parse_schema(source)
    match parsed:
        case AvroSchema():
            return AvroValidator(parsed)
        case JsonDocument():
            return JsonValidator(parsed.validator())
        case ProtoFile():
            return ProtoValidator(parsed)
        case _:
            raise AssertionError("a schema of an unknown language")
