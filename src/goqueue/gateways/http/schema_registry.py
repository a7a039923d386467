"""The registry as Confluent's clients know it, under `/schema-registry`.

Paths, parameters, bodies and error codes are theirs; what happens is decided by the same commands
as in `schemas.py`. Unknown fields and parameters are ignored here, as the original does: clients
of other releases send more.
"""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import INT32_MAX, encode_json
from goqueue.gateways.http.registry_errors import REGISTRY_PREFIX, RegistryErrorBody
from goqueue.gateways.http.registry_parameters import flag, page, read_version
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import Parameter, ParameterLocation
from goqueue.gateways.http.routing.router import Route, Run
from goqueue.gateways.http.schemas import (
    NAMES,
    NUMBERS,
    SCHEMA_ID,
    SUBJECT,
    CompatibilityOut,
    LevelOut,
    bare,
    read_level,
)
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import (
    REGISTRY_MEDIA,
    CheckCompatibility,
    Code,
    Compatibility,
    CompatibilityChecked,
    DeleteSchema,
    DeleteSubject,
    DescribeCompatibility,
    DescribeSchema,
    FindSchema,
    FindSchemaById,
    Level,
    ListReferrers,
    ListSchemaUses,
    ListSubjects,
    ListVersions,
    RegisterSchema,
    ResetCompatibility,
    SchemaDescription,
    SchemaIds,
    SchemaPlaces,
    SchemaReference,
    SchemaText,
    SchemaType,
    SetCompatibility,
    SubjectList,
    VersionList,
    Visible,
)

__all__ = [
    "REGISTRY_ROUTES",
    "RegistryConfig",
    "RegistryId",
    "RegistryMode",
    "RegistryRegistered",
    "RegistrySchemaBody",
    "RegistryVersion",
]

_SECTION = "Schema registry (Confluent)"
_MEDIA = REGISTRY_MEDIA.encode()
_TEXT = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
_Text = Annotated[str, Meta(description="The schema itself, as text.", examples=[_TEXT])]
_Number = Annotated[int, Meta(examples=[1])]
_Subject = Annotated[str, Meta(examples=["orders-value"])]


class RegistryReference(msgspec.Struct, frozen=True, kw_only=True):
    """A registered schema that this one uses, under the name by which it does."""

    name: Annotated[str, Meta(min_length=1, max_length=1024, examples=["address.avsc"])]
    subject: _Subject
    version: Annotated[int, Meta(ge=1, le=INT32_MAX, examples=[1])]


class RegistrySchemaBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schema; without `schemaType` it is Avro."""

    schema: _Text
    schema_type: SchemaType | None = None
    references: Annotated[list[RegistryReference], Meta(max_length=100)] | None = None


class RegistryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A compatibility level."""

    compatibility: Annotated[
        str, Meta(extra_json_schema={"enum": list(Level)}, examples=["BACKWARD"])
    ]


class RegistryRegistered(msgspec.Struct, frozen=True, kw_only=True):
    """The id of the content, and the version that has it."""

    id: _Number
    version: _Number


class RegistryVersion(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"
):
    """A version of a subject; without `schemaType` it is Avro."""

    subject: _Subject
    version: _Number
    id: _Number
    schema: _Text
    schema_type: SchemaType = SchemaType.AVRO
    references: list[RegistryReference] = []


class RegistryId(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The content of an id; without `schemaType` it is Avro."""

    schema: _Text
    schema_type: SchemaType = SchemaType.AVRO
    references: list[RegistryReference] = []


class RegistryMode(msgspec.Struct, frozen=True, kw_only=True):
    """Whether schemas may be registered: always, here."""

    mode: Annotated[str, Meta(extra_json_schema={"enum": ["READWRITE"]}, examples=["READWRITE"])]


_VERSION: Parameter[int | None] = Parameter(
    name="version",
    summary="number of the version, or `latest`",
    schema={"type": "string", "pattern": "^(latest|[1-9][0-9]{0,8})$"},
    read=read_version,
    location=ParameterLocation.PATH,
    is_required=True,
    error=Code.SCHEMA_INVALID,
)
_PREFIX: Parameter[str] = Parameter(
    name="subjectPrefix",
    summary="only subjects that begin with this",
    schema={"type": "string", "default": ""},
    read=lambda given: given[:250],
    default="",
)
_SUBJECT_OF: Parameter[str] = Parameter(
    name="subject",
    summary="where the client expects the schema; any subject with the id serves",
    schema={"type": "string", "default": ""},
    read=lambda given: given,
    default="",
)
_FORMAT: Parameter[str] = Parameter(
    name="format",
    summary="`serialized`: Protobuf as a descriptor in base64; anything else: as text",
    schema={"type": "string", "default": ""},
    read=lambda given: given,
    default="",
)
_NORMALIZE = flag("normalize", "accepted: equal content is known by its canonical form anyway")
_DELETED = flag("deleted", "also what was deleted")
_DELETED_ONLY = flag("deleted_only", "only what was deleted")
_PERMANENT = flag("permanent", "forget what was deleted before")
_VERBOSE = flag("verbose", "say what is not compatible")
_TO_GLOBAL = flag("defaultToGlobal", "fall back to the global level")
_OFFSET = page("offset", "how many items to leave out at the beginning", 0)
_LIMIT = page("limit", "how many items to return; -1: all", -1)


def _schema(body: RegistrySchemaBody) -> SchemaText:
    references = tuple(
        SchemaReference(name=each.name, subject=each.subject, version=each.version)
        for each in body.references or ()
    )
    type_ = body.schema_type or SchemaType.AVRO
    return SchemaText(type=type_, text=body.schema, references=references)


def _references(schema: SchemaText) -> list[RegistryReference]:
    return [
        RegistryReference(name=each.name, subject=each.subject, version=each.version)
        for each in schema.references
    ]


def _version_out(found: SchemaDescription) -> RegistryVersion:
    return RegistryVersion(
        subject=found.subject,
        version=found.version,
        id=found.id,
        schema=found.schema.text,
        schema_type=found.schema.type,
        references=_references(found.schema),
    )


async def _in_format(call: Call, found: SchemaDescription) -> SchemaDescription:
    """A schema in the form that the client asks for."""
    schema = found.schema
    if call[_FORMAT] != "serialized" or schema.type is not SchemaType.PROTOBUF:
        return found
    # Reading a long text takes time.
    text = await asyncio.to_thread(call.context.encode_descriptor, schema.text)
    return msgspec.structs.replace(found, schema=msgspec.structs.replace(schema, text=text))


def _told(answer: msgspec.Struct) -> HttpResponse:
    return HttpResponse(200, encode_json(answer), _MEDIA)


def _visible(call: Call) -> Visible:
    if call[_DELETED_ONLY]:
        return Visible.DELETED
    return Visible.ALL if call[_DELETED] else Visible.LIVE


def _cut(call: Call, items: tuple[object, ...]) -> HttpResponse:
    """The page of a list that was asked for."""
    first, count = max(0, call[_OFFSET]), call[_LIMIT]
    return bare(items[first:] if count < 0 else items[first : first + count], _MEDIA)


async def _types(_: Call) -> HttpResponse:
    return bare(list(SchemaType), _MEDIA)


async def _subjects(call: Call) -> HttpResponse:
    command = ListSubjects(prefix=call[_PREFIX], visible=_visible(call))
    return _cut(call, (await call.ask(command, SubjectList)).subjects)


async def _find(call: Call) -> HttpResponse:
    schema = _schema(call.body(RegistrySchemaBody))
    command = FindSchema(subject=call[SUBJECT], schema=schema, shows_deleted=call[_DELETED])
    found = await _in_format(call, await call.ask(command, SchemaDescription))
    return _told(_version_out(found))


async def _delete_subject(call: Call) -> HttpResponse:
    command = DeleteSubject(subject=call[SUBJECT], is_permanent=call[_PERMANENT])
    return bare((await call.ask(command, VersionList)).versions, _MEDIA)


async def _versions(call: Call) -> HttpResponse:
    command = ListVersions(subject=call[SUBJECT], visible=_visible(call))
    return _cut(call, (await call.ask(command, VersionList)).versions)


async def _register(call: Call) -> HttpResponse:
    schema = _schema(call.body(RegistrySchemaBody))
    command = RegisterSchema(subject=call[SUBJECT], schema=schema)
    registered = await call.ask(command, SchemaDescription)
    return _told(RegistryRegistered(id=registered.id, version=registered.version))


async def _find_version(call: Call) -> SchemaDescription:
    command = DescribeSchema(
        subject=call[SUBJECT], version=call[_VERSION], shows_deleted=call[_DELETED]
    )
    return await call.ask(command, SchemaDescription)


async def _version(call: Call) -> HttpResponse:
    return _told(_version_out(await _in_format(call, await _find_version(call))))


async def _version_text(call: Call) -> HttpResponse:
    found = await _in_format(call, await _find_version(call))
    return HttpResponse(200, found.schema.text.encode(), _MEDIA)


async def _delete_version(call: Call) -> HttpResponse:
    command = DeleteSchema(
        subject=call[SUBJECT], version=call[_VERSION], is_permanent=call[_PERMANENT]
    )
    return bare((await call.ask(command, VersionList)).versions[0], _MEDIA)


async def _referrers(call: Call) -> HttpResponse:
    command = ListReferrers(subject=call[SUBJECT], version=call[_VERSION])
    return _cut(call, (await call.ask(command, SchemaIds)).ids)


async def _by_id(call: Call) -> HttpResponse:
    found = await call.ask(FindSchemaById(id=call[SCHEMA_ID]), SchemaDescription)
    found = await _in_format(call, found)
    references = _references(found.schema)
    type_, text = found.schema.type, found.schema.text
    return _told(RegistryId(schema=text, schema_type=type_, references=references))


async def _uses(call: Call) -> SchemaPlaces:
    command = ListSchemaUses(id=call[SCHEMA_ID], shows_deleted=call[_DELETED])
    return await call.ask(command, SchemaPlaces)


async def _id_versions(call: Call) -> HttpResponse:
    return _cut(call, (await _uses(call)).places)


async def _id_subjects(call: Call) -> HttpResponse:
    return _cut(call, tuple(dict.fromkeys(each.subject for each in (await _uses(call)).places)))


async def _check(call: Call) -> HttpResponse:
    schema = _schema(call.body(RegistrySchemaBody))
    return await _compare(
        call, CheckCompatibility(subject=call[SUBJECT], schema=schema, version=call[_VERSION])
    )


async def _check_all(call: Call) -> HttpResponse:
    schema = _schema(call.body(RegistrySchemaBody))
    command = CheckCompatibility(subject=call[SUBJECT], schema=schema, is_whole=True)
    return await _compare(call, command)


async def _compare(call: Call, command: CheckCompatibility) -> HttpResponse:
    checked = await call.ask(command, CompatibilityChecked)
    messages = list(checked.messages) if call[_VERBOSE] else []
    return _told(CompatibilityOut(is_compatible=not checked.messages, messages=messages))


async def _level(call: Call) -> HttpResponse:
    found = await call.ask(DescribeCompatibility(), Compatibility)
    return _told(LevelOut(compatibility_level=found.level))


async def _set_level(call: Call) -> HttpResponse:
    level = read_level(call.body(RegistryConfig).compatibility)
    found = await call.ask(SetCompatibility(level=level), Compatibility)
    return _told(RegistryConfig(compatibility=found.level))


async def _subject_level(call: Call) -> HttpResponse:
    command = DescribeCompatibility(subject=call[SUBJECT], falls_back=call[_TO_GLOBAL])
    return _told(LevelOut(compatibility_level=(await call.ask(command, Compatibility)).level))


async def _set_subject_level(call: Call) -> HttpResponse:
    level = read_level(call.body(RegistryConfig).compatibility)
    command = SetCompatibility(subject=call[SUBJECT], level=level)
    return _told(RegistryConfig(compatibility=(await call.ask(command, Compatibility)).level))


async def _reset_level(call: Call) -> HttpResponse:
    found = await call.ask(ResetCompatibility(subject=call[SUBJECT]), Compatibility)
    return _told(LevelOut(compatibility_level=found.level))


async def _mode(_: Call) -> HttpResponse:
    return _told(RegistryMode(mode="READWRITE"))


_PAGE = (_OFFSET, _LIMIT)
_SHOWN = (_DELETED, _DELETED_ONLY, *_PAGE)
_WRITE_ERRORS = (Code.TOPIC_INTERNAL, Code.LOG_BUSY, Code.TENANT_INACTIVE, Code.SUBJECT_NOT_FOUND)
_SUBJECT_AT = "/subjects/{subject}"
_VERSIONS_AT = f"{_SUBJECT_AT}/versions"
_VERSION_AT = f"{_VERSIONS_AT}/{{version}}"
_CHECK_AT = f"/compatibility{_VERSIONS_AT}"
_VERSION_ERRORS = (Code.SUBJECT_NOT_FOUND, Code.VERSION_NOT_FOUND, Code.SCHEMA_INVALID)
_EXAMPLE = {"schema": _TEXT, "schemaType": "AVRO"}
_PLACES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"subject": {"type": "string"}, "version": {"type": "integer"}},
    },
    "examples": [[{"subject": "orders-value", "version": 1}]],
}
_ANY_JSON = {"description": "the schema itself", "examples": [{"type": "string"}]}


class _Routes:
    """The table, with what all of its rows share."""

    def __init__(self) -> None:
        self.rows: list[Route] = []

    def __call__(
        self,
        method: str,
        path: str,
        summary: str,
        run: Run,
        **more: Any,  # noqa: ANN401 - fields of `Route`, by name
    ) -> None:
        route = Route(
            method=method,
            path=REGISTRY_PREFIX.decode() + path,
            section=_SECTION,
            summary=summary,
            run=run,
            answer_media=REGISTRY_MEDIA,
            failure=RegistryErrorBody,
            takes_any_query=True,
            is_service=True,
            **more,
        )
        self.rows.append(route)


def _add_subjects(add: _Routes) -> None:
    add("GET", "/schemas/types", "List the languages", _types, answer_schema=NAMES)
    add(
        "GET",
        "/subjects",
        "List the subjects",
        _subjects,
        parameters=(_PREFIX, *_SHOWN),
        answer_schema=NAMES,
    )
    add(
        "POST",
        _SUBJECT_AT,
        "Find the version of a subject with a schema",
        _find,
        parameters=(SUBJECT, _NORMALIZE, _DELETED, _FORMAT),
        body=RegistrySchemaBody,
        answer=RegistryVersion,
        errors=(Code.SUBJECT_NOT_FOUND, Code.SCHEMA_NOT_FOUND, Code.SCHEMA_INVALID),
        example=_EXAMPLE,
    )
    add(
        "DELETE",
        _SUBJECT_AT,
        "Delete a subject",
        _delete_subject,
        parameters=(SUBJECT, _PERMANENT),
        answer_schema=NUMBERS,
        errors=(Code.SCHEMA_REFERENCED, *_WRITE_ERRORS),
        writes=True,
    )
    add(
        "GET",
        _VERSIONS_AT,
        "List the versions of a subject",
        _versions,
        parameters=(SUBJECT, *_SHOWN),
        answer_schema=NUMBERS,
        errors=(Code.SUBJECT_NOT_FOUND,),
    )
    add(
        "POST",
        _VERSIONS_AT,
        "Register a schema",
        _register,
        parameters=(SUBJECT, _NORMALIZE),
        body=RegistrySchemaBody,
        answer=RegistryRegistered,
        errors=(
            Code.SCHEMA_INVALID,
            Code.SCHEMA_INCOMPATIBLE,
            Code.QUOTA_EXCEEDED,
            *_WRITE_ERRORS,
        ),
        writes=True,
        example=_EXAMPLE,
    )


def _add_versions(add: _Routes) -> None:
    of_version = (SUBJECT, _VERSION)
    add(
        "GET",
        _VERSION_AT,
        "Show a version",
        _version,
        parameters=(*of_version, _DELETED, _FORMAT),
        answer=RegistryVersion,
        errors=_VERSION_ERRORS,
    )
    add(
        "DELETE",
        _VERSION_AT,
        "Delete a version",
        _delete_version,
        parameters=(*of_version, _PERMANENT),
        answer_schema={"type": "integer", "examples": [1]},
        errors=(Code.SCHEMA_REFERENCED, *_VERSION_ERRORS, *_WRITE_ERRORS),
        writes=True,
    )
    add(
        "GET",
        f"{_VERSION_AT}/schema",
        "Show the schema of a version alone",
        _version_text,
        parameters=(*of_version, _DELETED, _FORMAT),
        answer_schema=_ANY_JSON,
        errors=_VERSION_ERRORS,
    )
    add(
        "GET",
        f"{_VERSION_AT}/referencedby",
        "List the ids of schemas that refer to a version",
        _referrers,
        parameters=(*of_version, *_PAGE),
        answer_schema=NUMBERS,
        errors=_VERSION_ERRORS,
    )
    check = {
        "body": RegistrySchemaBody,
        "answer": CompatibilityOut,
        "errors": _VERSION_ERRORS,
        "example": _EXAMPLE,
    }
    more = (_NORMALIZE, _VERBOSE)
    path, parameters = f"{_CHECK_AT}/{{version}}", (*of_version, *more)
    add("POST", path, "Check a schema with a version", _check, parameters=parameters, **check)
    add("POST", _CHECK_AT, "Check a schema", _check_all, parameters=(SUBJECT, *more), **check)


def _add_ids(add: _Routes) -> None:
    path = "/schemas/ids/{id}"
    absent = (Code.SCHEMA_NOT_FOUND,)
    of_id = (SCHEMA_ID, _SUBJECT_OF)
    shown = (*of_id, _DELETED, *_PAGE)
    by_id = (*of_id, _FORMAT)
    add("GET", path, "Show an id", _by_id, parameters=by_id, answer=RegistryId, errors=absent)
    add(
        "GET",
        f"{path}/versions",
        "List the versions with an id",
        _id_versions,
        parameters=shown,
        answer_schema=_PLACES,
        errors=absent,
    )
    add(
        "GET",
        f"{path}/subjects",
        "List the subjects with an id",
        _id_subjects,
        parameters=shown,
        answer_schema=NAMES,
        errors=absent,
    )


def _add_levels(add: _Routes) -> None:
    of_subject = (SUBJECT,)
    path = "/config/{subject}"
    wrong = (Code.COMPATIBILITY_INVALID, *_WRITE_ERRORS)
    setting = {"body": RegistryConfig, "answer": RegistryConfig, "errors": wrong, "writes": True}
    setting |= {"example": {"compatibility": "FULL"}}
    absent = (Code.SUBJECT_NOT_FOUND,)
    add("GET", "/config", "Show the global level", _level, answer=LevelOut)
    add("PUT", "/config", "Set the global level", _set_level, **setting)
    add(
        "GET",
        path,
        "Show the level of a subject",
        _subject_level,
        parameters=(SUBJECT, _TO_GLOBAL),
        answer=LevelOut,
        errors=absent,
    )
    summary = "Set the level of a subject"
    add("PUT", path, summary, _set_subject_level, parameters=of_subject, **setting)
    add(
        "DELETE",
        path,
        "Let a subject follow the global level",
        _reset_level,
        parameters=of_subject,
        answer=LevelOut,
        errors=(*absent, *_WRITE_ERRORS),
        writes=True,
    )


def _routes() -> tuple[Route, ...]:
    add = _Routes()
    _add_subjects(add)
    _add_versions(add)
    _add_ids(add)
    _add_levels(add)
    at = "/mode/{subject}"
    add("GET", "/mode", "Show the mode", _mode, answer=RegistryMode)
    add("GET", at, "Show the mode of a subject", _mode, parameters=(SUBJECT,), answer=RegistryMode)
    return tuple(add.rows)


REGISTRY_ROUTES = _routes()
