"""The answers of the tables at every level, and data that were really written and read."""

import io
import json

import fastavro
import msgspec
from fastavro.types import Schema as AvroSchema
from fastavro.utils import generate_many

from goqueue.model import Level, SchemaJob, SchemaSource, SchemaType, Written
from goqueue.schemas import SchemaChecker
from tests.unit.schemas.avro_cases import AVRO_CASES
from tests.unit.schemas.json_cases import JSON_CASES


def _answers(type_: SchemaType, old: object, new: object) -> dict[Level, bool]:
    """Whether the new schema could be registered after the old one, by level."""
    before = SchemaSource(type=type_, text=json.dumps(old))
    job = SchemaJob(source=SchemaSource(type=type_, text=json.dumps(new)))
    answers: dict[Level, bool] = {}
    for level in Level:
        against = () if level is Level.NONE else (Written(version=1, id=1, source=before),)
        wanted = msgspec.structs.replace(
            job, against=against, is_backward=level.is_backward, is_forward=level.is_forward
        )
        checked = SchemaChecker().check(1, wanted)
        assert checked.canonical is not None, checked.reason
        answers[level] = not checked.messages
    return answers


def test_each_evolution_has_its_answer_at_every_level() -> None:
    tables = ((SchemaType.AVRO, AVRO_CASES), (SchemaType.JSON, JSON_CASES))
    for type_, cases in tables:
        for case in cases:
            expected = {
                level: (not level.is_backward or "B" in case.readable)
                and (not level.is_forward or "F" in case.readable)
                for level in Level
            }
            assert _answers(type_, case.old, case.new) == expected, (type_, case.name)


def _write(schema: AvroSchema, value: object) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, value)
    return buffer.getvalue()


def _values(schema: AvroSchema) -> list[object]:
    try:
        return list(generate_many(schema, 3))
    except RecursionError:
        # The generator does not end lists of a type in that type itself.
        return []


def test_data_of_a_compatible_avro_writer_is_decoded_with_the_schema_of_the_reader() -> None:
    count = 0
    for case in AVRO_CASES:
        pairs = [(case.old, case.new)] * ("B" in case.readable)
        pairs += [(case.new, case.old)] * ("F" in case.readable)
        for writer, reader in pairs:
            parsed = fastavro.parse_schema(json.loads(json.dumps(writer)))
            wanted = fastavro.parse_schema(json.loads(json.dumps(reader)))
            for value in _values(parsed):
                written = io.BytesIO(_write(parsed, value))
                try:
                    fastavro.schemaless_reader(written, parsed, wanted)
                    count += 1
                except UnicodeDecodeError:
                    # The specification promotes bytes to string, whatever the bytes are.
                    assert "bytes" in case.name, case.name
                except Exception as error:
                    raise AssertionError((case.name, writer, reader, value)) from error
    assert count > 300, count
