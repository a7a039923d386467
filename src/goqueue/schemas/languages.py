"""The languages of schemas behind one door: parse a text, and compare two of one language."""

from collections.abc import Iterator
from typing import Protocol

from goqueue.model import (
    SchemaSource,
    SchemaType,
)
from goqueue.schemas.avro import AvroSchema, parse_avro
from goqueue.schemas.avro_compatibility import avro_incompatibilities
from goqueue.schemas.budget import CheckBudget
from goqueue.schemas.errors import Incompatibility
from goqueue.schemas.json_compatibility import json_incompatibilities
from goqueue.schemas.json_schema import JsonDocument, parse_json_schema
from goqueue.schemas.proto import ProtoFile, parse_proto
from goqueue.schemas.proto_compatibility import proto_incompatibilities

__all__ = ["ParsedSchema", "incompatibilities", "parse_schema"]


class ParsedSchema(Protocol):
    """A schema of any language."""

    def canonical(self) -> str:
        """The content in one form: equal content has equal forms."""


def parse_schema(source: SchemaSource) -> ParsedSchema:
    """Parse a schema with what it refers to; raises SchemaInvalid."""
    match source.type:
        case SchemaType.AVRO:
            references: list[AvroSchema] = []
            for each in source.references:
                references.append(parse_avro(each.text, references))
            return parse_avro(source.text, references)
        case SchemaType.JSON:
            return parse_json_schema(source.text, source.references)
        case SchemaType.PROTOBUF:
            return parse_proto(source.text, source.references)


def incompatibilities(
    reader: ParsedSchema, writer: ParsedSchema, budget: CheckBudget
) -> Iterator[Incompatibility]:
    """What keeps the reader from reading data of the writer, which has the same language."""
    match reader, writer:
        case AvroSchema(), AvroSchema():
            yield from avro_incompatibilities(reader, writer, budget)
        case JsonDocument(), JsonDocument():
            yield from json_incompatibilities(reader, writer, budget)
        case ProtoFile(), ProtoFile():
            yield from proto_incompatibilities(reader, writer, budget)
        case _:
            raise AssertionError("two schemas of different languages")
