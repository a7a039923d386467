"""Schemas over HTTP: bodies, handlers and routes.

The same registry for clients of Confluent's is in `schema_registry.py`, which uses these handlers'
commands with other paths and words.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import INT32_MAX, Count, JsonSchema, Name
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import (
    Parameter,
    ParameterLocation,
    name,
)
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import (
    CheckCompatibility,
    Code,
    Compatibility,
    CompatibilityChecked,
    DeleteSchema,
    DeleteSubject,
    DescribeCompatibility,
    DescribeRegistry,
    DescribeSchema,
    FindSchema,
    FindSchemaById,
    Level,
    ListSubjects,
    ListVersions,
    Refused,
    RegisterSchema,
    RegistryDescription,
    SchemaDescription,
    SchemaReference,
    SchemaText,
    SchemaType,
    SetCompatibility,
    SubjectList,
    VersionList,
)

__all__ = [
    "NAMES",
    "NUMBERS",
    "SCHEMA_ID",
    "SCHEMA_ROUTES",
    "SUBJECT",
    "CompatibilityOut",
    "IdOut",
    "LevelBody",
    "LevelOut",
    "LookupOut",
    "ReferenceBody",
    "RegisteredOut",
    "RegistryStats",
    "SchemaBody",
    "VersionOut",
    "bare",
    "read_level",
    "schema_of",
]

_SECTION = "Schemas"
_Version = Annotated[int, Meta(ge=1, le=INT32_MAX, examples=[1])]
_Id = Annotated[int, Meta(ge=1, le=INT32_MAX, examples=[1])]
_TEXT = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
_Text = Annotated[
    str,
    Meta(
        description="The schema itself, as text; at most 256 KiB, nested at most 32 deep.",
        examples=[_TEXT],
    ),
]
_Subject = Annotated[Name, Meta(examples=["orders-value"])]

NAMES: JsonSchema = {"type": "array", "items": {"type": "string"}, "examples": [["orders-value"]]}
NUMBERS: JsonSchema = {"type": "array", "items": {"type": "integer"}, "examples": [[1, 2]]}


class ReferenceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registered schema that this one uses, under the name by which it does."""

    name: Annotated[str, Meta(min_length=1, max_length=1024, examples=["address.json"])]
    subject: _Subject
    version: _Version


class SchemaBody(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """A schema; without `schemaType` it is JSON Schema."""

    schema: _Text
    schema_type: SchemaType | None = None
    references: Annotated[list[ReferenceBody], Meta(max_length=100)] | None = None


class LevelBody(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """A compatibility level, in any case."""

    compatibility_level: Annotated[
        str, Meta(extra_json_schema={"enum": list(Level)}, examples=["BACKWARD"])
    ]


class RegisteredOut(msgspec.Struct, frozen=True, kw_only=True):
    """The version that has the schema, new or not, and the id of its content."""

    id: _Id
    version: _Version


class LookupOut(msgspec.Struct, frozen=True, kw_only=True):
    """Where the schema is registered."""

    subject: _Subject
    version: _Version
    id: _Id


class ReferenceOut(msgspec.Struct, frozen=True, kw_only=True):
    """A registered schema that this one uses, under the name by which it does."""

    name: Annotated[str, Meta(examples=["address.json"])]
    subject: _Subject
    version: _Version


class VersionOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A version of a subject."""

    subject: _Subject
    version: _Version
    id: _Id
    schema: _Text
    schema_type: SchemaType
    references: list[ReferenceOut] = []


class IdOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The content of an id."""

    id: _Id
    schema: _Text
    schema_type: SchemaType
    references: list[ReferenceOut] = []


class CompatibilityOut(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the schema could be registered; `messages` name what breaks, with which version."""

    is_compatible: bool
    messages: list[str]


class LevelOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The compatibility level that counts."""

    compatibility_level: Level


class RegistryStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much there is in the registry, and the global level."""

    subjects: Count
    schemas: Count
    versions: Count
    compatibility_level: Level


def _read_version(given: str) -> int | None:
    if given == "latest":
        return None
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:11]) <= INT32_MAX:
        reason = "must be a number from 1 or `latest`"
        raise Refused(Code.REQUEST_INVALID, field="version", reason=reason)
    return int(given)


def _read_id(given: str) -> int:
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:11]) <= INT32_MAX:
        raise Refused(Code.REQUEST_INVALID, field="id", reason="must be a number from 1")
    return int(given)


SUBJECT = name("subject", "name of the subject", location=ParameterLocation.PATH)
_VERSION: Parameter[int | None] = Parameter(
    name="version",
    summary="number of the version, or `latest`",
    schema={"type": "string", "pattern": "^(latest|[1-9][0-9]{0,8})$"},
    read=_read_version,
    location=ParameterLocation.PATH,
    is_required=True,
)
SCHEMA_ID: Parameter[int] = Parameter(
    name="id",
    summary="id of the schema",
    schema={"type": "integer", "minimum": 1, "maximum": INT32_MAX},
    read=_read_id,
    location=ParameterLocation.PATH,
    is_required=True,
)


def bare(value: object, media: bytes | None = None) -> HttpResponse:
    """An answer that is no object: a list, or a number."""
    body = msgspec.json.encode(value)
    return HttpResponse(200, body) if media is None else HttpResponse(200, body, media)


def read_level(given: str) -> Level:
    """A level in any case."""
    try:
        return Level(given.upper())
    except ValueError:
        raise Refused(Code.COMPATIBILITY_INVALID, field="compatibilityLevel") from None


def schema_of(body: SchemaBody, default: SchemaType = SchemaType.JSON) -> SchemaText:
    """The schema of a body."""
    references = tuple(
        SchemaReference(name=each.name, subject=each.subject, version=each.version)
        for each in body.references or ()
    )
    return SchemaText(type=body.schema_type or default, text=body.schema, references=references)


def _references(schema: SchemaText) -> list[ReferenceOut]:
    return [
        ReferenceOut(name=each.name, subject=each.subject, version=each.version)
        for each in schema.references
    ]


async def _list_subjects(call: Call) -> HttpResponse:
    return bare((await call.ask(ListSubjects(), SubjectList)).subjects)


async def _find(call: Call) -> LookupOut:
    command = FindSchema(subject=call[SUBJECT], schema=schema_of(call.body(SchemaBody)))
    found = await call.ask(command, SchemaDescription)
    return LookupOut(subject=found.subject, version=found.version, id=found.id)


async def _delete_subject(call: Call) -> HttpResponse:
    return bare((await call.ask(DeleteSubject(subject=call[SUBJECT]), VersionList)).versions)


async def _list_versions(call: Call) -> HttpResponse:
    return bare((await call.ask(ListVersions(subject=call[SUBJECT]), VersionList)).versions)


async def _register(call: Call) -> RegisteredOut:
    command = RegisterSchema(subject=call[SUBJECT], schema=schema_of(call.body(SchemaBody)))
    registered = await call.ask(command, SchemaDescription)
    return RegisteredOut(id=registered.id, version=registered.version)


async def _describe(call: Call) -> VersionOut:
    command = DescribeSchema(subject=call[SUBJECT], version=call[_VERSION])
    found = await call.ask(command, SchemaDescription)
    return VersionOut(
        subject=found.subject,
        version=found.version,
        id=found.id,
        schema=found.schema.text,
        schema_type=found.schema.type,
        references=_references(found.schema),
    )


async def _delete(call: Call) -> HttpResponse:
    command = DeleteSchema(subject=call[SUBJECT], version=call[_VERSION])
    return bare((await call.ask(command, VersionList)).versions[0])


async def _find_by_id(call: Call) -> IdOut:
    found = await call.ask(FindSchemaById(id=call[SCHEMA_ID]), SchemaDescription)
    return IdOut(
        id=found.id,
        schema=found.schema.text,
        schema_type=found.schema.type,
        references=_references(found.schema),
    )


async def _check(call: Call) -> CompatibilityOut:
    schema = schema_of(call.body(SchemaBody))
    command = CheckCompatibility(subject=call[SUBJECT], schema=schema, version=call[_VERSION])
    checked = await call.ask(command, CompatibilityChecked)
    return CompatibilityOut(is_compatible=not checked.messages, messages=list(checked.messages))


async def _level(call: Call) -> LevelOut:
    found = await call.ask(DescribeCompatibility(), Compatibility)
    return LevelOut(compatibility_level=found.level)


async def _set_level(call: Call) -> LevelOut:
    level = read_level(call.body(LevelBody).compatibility_level)
    found = await call.ask(SetCompatibility(level=level), Compatibility)
    return LevelOut(compatibility_level=found.level)


async def _subject_level(call: Call) -> LevelOut:
    found = await call.ask(DescribeCompatibility(subject=call[SUBJECT]), Compatibility)
    return LevelOut(compatibility_level=found.level)


async def _set_subject_level(call: Call) -> LevelOut:
    level = read_level(call.body(LevelBody).compatibility_level)
    command = SetCompatibility(subject=call[SUBJECT], level=level)
    return LevelOut(compatibility_level=(await call.ask(command, Compatibility)).level)


async def _stats(call: Call) -> RegistryStats:
    found = await call.ask(DescribeRegistry(), RegistryDescription)
    return RegistryStats(
        subjects=found.subjects,
        schemas=found.schemas,
        versions=found.versions,
        compatibility_level=found.level,
    )


_EXAMPLE = {"schema": _TEXT, "schemaType": "JSON"}
_WRITE_ERRORS = (Code.TOPIC_INTERNAL, Code.LOG_BUSY, Code.TENANT_INACTIVE)
_SUBJECTS = "/schemas/subjects"

SCHEMA_ROUTES = (
    Route(
        method="GET",
        path=_SUBJECTS,
        section=_SECTION,
        summary="List the subjects by name",
        run=_list_subjects,
        answer_schema=NAMES,
    ),
    Route(
        method="POST",
        path=f"{_SUBJECTS}/{{subject}}",
        section=_SECTION,
        summary="Find the version of a subject that has this schema",
        run=_find,
        parameters=(SUBJECT,),
        body=SchemaBody,
        answer=LookupOut,
        errors=(Code.SUBJECT_NOT_FOUND, Code.SCHEMA_NOT_FOUND, Code.SCHEMA_INVALID),
        example=_EXAMPLE,
    ),
    Route(
        method="DELETE",
        path=f"{_SUBJECTS}/{{subject}}",
        section=_SECTION,
        summary="Delete all versions of a subject; their ids still resolve",
        run=_delete_subject,
        parameters=(SUBJECT,),
        answer_schema=NUMBERS,
        errors=(Code.SUBJECT_NOT_FOUND, Code.SCHEMA_REFERENCED, *_WRITE_ERRORS),
        writes=True,
    ),
    Route(
        method="GET",
        path=f"{_SUBJECTS}/{{subject}}/versions",
        section=_SECTION,
        summary="List the versions of a subject",
        run=_list_versions,
        parameters=(SUBJECT,),
        answer_schema=NUMBERS,
        errors=(Code.SUBJECT_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path=f"{_SUBJECTS}/{{subject}}/versions",
        section=_SECTION,
        summary="Register a schema; the same content again has the same answer",
        run=_register,
        parameters=(SUBJECT,),
        body=SchemaBody,
        answer=RegisteredOut,
        errors=(
            Code.SUBJECT_NOT_FOUND,
            Code.SCHEMA_INVALID,
            Code.SCHEMA_INCOMPATIBLE,
            Code.QUOTA_EXCEEDED,
            *_WRITE_ERRORS,
        ),
        writes=True,
        example=_EXAMPLE,
    ),
    Route(
        method="GET",
        path=f"{_SUBJECTS}/{{subject}}/versions/{{version}}",
        section=_SECTION,
        summary="Show a version of a subject",
        run=_describe,
        parameters=(SUBJECT, _VERSION),
        answer=VersionOut,
        errors=(Code.SUBJECT_NOT_FOUND, Code.VERSION_NOT_FOUND),
    ),
    Route(
        method="DELETE",
        path=f"{_SUBJECTS}/{{subject}}/versions/{{version}}",
        section=_SECTION,
        summary="Delete a version of a subject; its id still resolves",
        run=_delete,
        parameters=(SUBJECT, _VERSION),
        answer_schema={"type": "integer", "examples": [1]},
        errors=(
            Code.SUBJECT_NOT_FOUND,
            Code.VERSION_NOT_FOUND,
            Code.SCHEMA_REFERENCED,
            *_WRITE_ERRORS,
        ),
        writes=True,
    ),
    Route(
        method="GET",
        path="/schemas/ids/{id}",
        section=_SECTION,
        summary="Show the schema with an id, also after its versions were deleted",
        run=_find_by_id,
        parameters=(SCHEMA_ID,),
        answer=IdOut,
        errors=(Code.SCHEMA_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path="/schemas/compatibility/subjects/{subject}/versions/{version}",
        section=_SECTION,
        summary="Check a schema against a version, by the level of the subject",
        run=_check,
        parameters=(SUBJECT, _VERSION),
        body=SchemaBody,
        answer=CompatibilityOut,
        errors=(Code.SUBJECT_NOT_FOUND, Code.VERSION_NOT_FOUND, Code.SCHEMA_INVALID),
        example=_EXAMPLE,
    ),
    Route(
        method="GET",
        path="/schemas/config",
        section=_SECTION,
        summary="Show the global compatibility level",
        run=_level,
        answer=LevelOut,
    ),
    Route(
        method="PUT",
        path="/schemas/config",
        section=_SECTION,
        summary="Set the global compatibility level",
        run=_set_level,
        body=LevelBody,
        answer=LevelOut,
        errors=(Code.COMPATIBILITY_INVALID, *_WRITE_ERRORS),
        writes=True,
        example={"compatibilityLevel": "FULL"},
    ),
    Route(
        method="GET",
        path="/schemas/config/{subject}",
        section=_SECTION,
        summary="Show the compatibility level of a subject: its own, or the global one",
        run=_subject_level,
        parameters=(SUBJECT,),
        answer=LevelOut,
        errors=(Code.SUBJECT_NOT_FOUND,),
    ),
    Route(
        method="PUT",
        path="/schemas/config/{subject}",
        section=_SECTION,
        summary="Set the compatibility level of a subject",
        run=_set_subject_level,
        parameters=(SUBJECT,),
        body=LevelBody,
        answer=LevelOut,
        errors=(Code.SUBJECT_NOT_FOUND, Code.COMPATIBILITY_INVALID, *_WRITE_ERRORS),
        writes=True,
        example={"compatibilityLevel": "FULL_TRANSITIVE"},
    ),
    Route(
        method="GET",
        path="/schemas/stats",
        section=_SECTION,
        summary="Count subjects, schemas and versions",
        run=_stats,
        answer=RegistryStats,
    ),
)
