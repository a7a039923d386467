"""OpenAPI 3.1 of the API, derived from the table of routes and from nothing else."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from goqueue.gateways.errors import ERRORS, ErrorBody, describe
from goqueue.gateways.http.bodies import JsonSchema, scalar_schema
from goqueue.gateways.http.routing.examples import example_of
from goqueue.gateways.http.routing.parameter import Parameter, ParameterLocation
from goqueue.gateways.http.routing.router import SCHEMA_REF, Route
from goqueue.model import EVENT_STREAM_MEDIA, JSON_MEDIA, Code

__all__ = ["openapi_document", "route_errors"]

_TITLE = "GoQueue"
_DESCRIPTION = (
    "A message queue whose topics are append-only logs, read as streams and as queues. Every route "
    "outside of Service is also served under `/v1`. A trailing slash makes no difference. Unknown "
    "fields and parameters are refused, and `null` equals absent except as the value of a message."
)
# Of each event in a stream.
_EVENT_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "where each partition continues after this event"},
        "event": {"type": "string", "enum": ["message", "gap", "reset", "end"]},
        "data": {"type": "string", "description": "JSON: a message, or what is missing and why"},
    },
}
_REQUEST_ID: JsonSchema = {
    "description": "the id given, or a new one",
    "schema": {"type": "string"},
}


def openapi_document(routes: Iterable[Route], version: str) -> JsonSchema:
    """The document, as values that encode to JSON."""
    routes = tuple(routes)
    kinds = _kinds(routes)
    references, components = msgspec.json.schema_components(
        kinds, schema_hook=scalar_schema, ref_template=SCHEMA_REF
    )
    schemas = dict(zip(kinds, references, strict=True))
    paths: dict[str, JsonSchema] = defaultdict(dict)
    for route in routes:
        paths[route.path][route.method.lower()] = _operation(route, schemas)
    sections = dict.fromkeys(route.section for route in routes)
    return {
        "openapi": "3.1.0",
        "info": {"title": _TITLE, "version": version, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "tags": [{"name": section} for section in sections],
        "paths": dict(paths),
        "components": {"schemas": components},
    }


def route_errors(route: Route) -> tuple[Code, ...]:
    """Every code that the route may answer with, its own and those that all routes share."""
    codes = [*route.errors, Code.PERMISSION_DENIED, Code.BODY_TOO_LARGE, Code.INTERNAL_ERROR]
    codes += [Code.REQUEST_INVALID, Code.REQUEST_TIMEOUT, Code.BROKER_UNAVAILABLE]
    names = {
        parameter.name
        for parameter in route.parameters
        if parameter.location is ParameterLocation.PATH
    }
    if any(parameter.error is Code.NAME_INVALID for parameter in route.parameters):
        codes.append(Code.NAME_INVALID)
    if route.body is not None:
        codes.append(Code.NAME_INVALID)
    if "topic" in names:
        codes.append(Code.TOPIC_NOT_FOUND)
    if route.writes:
        codes += [Code.STORAGE_FULL, Code.STORAGE_FAILED]
    return tuple(sorted(dict.fromkeys(codes)))


def _kinds(routes: Iterable[Route]) -> list[type[msgspec.Struct]]:
    kinds: dict[type[msgspec.Struct], None] = {ErrorBody: None}
    for route in routes:
        for kind in (route.body, route.answer, route.failing, route.failure):
            if kind is not None:
                kinds[kind] = None
    return list(kinds)


def _operation(route: Route, schemas: dict[type[msgspec.Struct], JsonSchema]) -> JsonSchema:
    operation: JsonSchema = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": _description(route),
        "tags": [route.section],
        "responses": _responses(route, schemas),
    }
    if route.parameters:
        operation["parameters"] = [_parameter(each) for each in route.parameters]
    if route.body is not None or route.body_media != JSON_MEDIA:
        operation["requestBody"] = _request_body(route, schemas)
    return operation


def _operation_id(route: Route) -> str:
    words = [word.strip("{}").replace(".", "_") for word in route.path.split("/") if word]
    return "_".join([route.method.lower(), *(words or ["root"])])


def _description(route: Route) -> str:
    """What the table knows of a route beside its summary: its bodies, and how it behaves."""
    sentences = [f"{route.summary}."]
    if route.body is not None:
        sentences.append(f"Request: {_doc(route.body)}")
    if route.answer is not None:
        sentences.append(f"Reply: {_doc(route.answer)}")
    if route.waits:
        sentences.append("The reply may wait for messages.")
    if route.writes:
        sentences.append("The reply follows when the change is durable.")
    return " ".join(sentences)


def _doc(kind: type[msgspec.Struct]) -> str:
    return " ".join((kind.__doc__ or "").split())


def _parameter(parameter: Parameter[Any]) -> JsonSchema:
    return {
        "name": parameter.name,
        "in": parameter.location.value,
        "required": parameter.is_required,
        "description": parameter.summary,
        "schema": parameter.schema,
    }


def _request_body(route: Route, schemas: dict[type[msgspec.Struct], JsonSchema]) -> JsonSchema:
    if route.body is None:
        content: JsonSchema = {"schema": {"type": "string", "format": "binary"}}
    else:
        content = {"schema": route.body_schema or schemas[route.body]}
        if route.example is not None:
            content["example"] = route.example
    return {"required": route.is_body_required, "content": {route.body_media: content}}


def _responses(route: Route, schemas: dict[type[msgspec.Struct], JsonSchema]) -> JsonSchema:
    headers: JsonSchema = {"X-Request-ID": _REQUEST_ID}
    for name in route.answer_headers:
        headers[name] = {"schema": {"type": "string"}}
    content: JsonSchema = {}
    if route.answer is not None:
        content["schema"] = schemas[route.answer]
    elif route.answer_schema is not None:
        content["schema"] = route.answer_schema
        content["example"] = route.answer_schema["examples"][0]
    elif route.answer_media == JSON_MEDIA:
        content["schema"] = {"type": "object"}
    elif route.answer_media == EVENT_STREAM_MEDIA:
        content["schema"] = _EVENT_SCHEMA
    else:
        content["schema"] = {"type": "string"}
    example = route.answer_example
    if example is None and route.answer is not None:
        example = example_of(route.answer)
    if example is not None:
        content["example"] = example
    media = route.answer_media
    good = {"description": route.summary, "headers": headers, "content": {media: content}}
    responses: JsonSchema = {str(route.status): good}
    by_status: dict[int, list[Code]] = defaultdict(list)
    for code in route_errors(route):
        by_status[ERRORS[code].status].append(code)
    for status, codes in sorted(by_status.items()):
        responses[str(status)] = _failure(codes, route, schemas)
    return responses


def _failure(
    codes: list[Code],
    route: Route,
    schemas: dict[type[msgspec.Struct], JsonSchema],
) -> JsonSchema:
    status = ERRORS[codes[0]].status
    told: JsonSchema = {"properties": {"code": {"enum": [code.value for code in codes]}}}
    schema: JsonSchema = {"allOf": [schemas[route.failure or ErrorBody], told]}
    if status == 503 and route.failing is not None:
        schema = {"anyOf": [schemas[route.failing], schema]}
    headers: JsonSchema = {"X-Request-ID": _REQUEST_ID}
    if status == 503:
        headers["Retry-After"] = {"description": "seconds", "schema": {"type": "string"}}
    example: JsonSchema = {
        "error": describe(codes[0], {}),
        "code": codes[0].value,
        "status": status,
    }
    media = JSON_MEDIA
    if route.failure is not None:
        example |= {"error_code": status, "message": example["error"]}
        media = route.answer_media
    return {
        "description": ", ".join(code.value for code in codes),
        "headers": headers,
        "content": {media: {"schema": schema, "example": example}},
    }
