"""The document says what the table says, about every route and every parameter."""

import re
from typing import Any

import msgspec
import pytest

from goqueue.gateways.http import ERRORS, ROUTES, Route
from goqueue.gateways.http.routing.docs_page import docs_page
from goqueue.gateways.http.routing.openapi import openapi_document, route_errors
from tests.unit.gateways.http.refusing_broker import Client, header

DOCUMENT: dict[str, Any] = msgspec.json.decode(
    msgspec.json.encode(openapi_document(ROUTES, "1.2.3"))
)


def references(value: object) -> list[str]:
    if isinstance(value, dict):
        found = [each for inner in value.values() for each in references(inner)]
        return [*found, value["$ref"]] if "$ref" in value else found
    if isinstance(value, list):
        return [each for inner in value for each in references(inner)]
    return []


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    listed = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert listed == {(route.method, route.path) for route in ROUTES}
    assert DOCUMENT["openapi"] == "3.1.0"


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [
        operation["operationId"]
        for item in DOCUMENT["paths"].values()
        for operation in item.values()
    ]
    assert len(names) == len(set(names)) == len(ROUTES)


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    found = references(DOCUMENT)
    assert found
    assert all(each.removeprefix("#/components/schemas/") in schemas for each in found)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_an_operation_tells_its_parameters_its_answer_and_all_its_failures(route: Route) -> None:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    told = {each["name"]: each for each in operation.get("parameters", [])}
    assert set(told) == {parameter.name for parameter in route.parameters}
    for parameter in route.parameters:
        assert told[parameter.name]["required"] is parameter.is_required
        assert told[parameter.name]["in"] == parameter.location
    assert str(route.status) in operation["responses"]
    for code in route_errors(route):
        response = operation["responses"][str(ERRORS[code].status)]
        assert code.value in response["description"]
    assert ("requestBody" in operation) is (route.method in {"POST", "PATCH"})


@pytest.mark.parametrize("route", [each for each in ROUTES if each.example is not None])
def test_examples_are_taken_by_their_own_routes(route: Route) -> None:
    path = route.path.replace("{topic}", "t").replace("{group}", "g")
    response = Client().send(route.method, path, msgspec.json.encode(route.example))
    assert response.status == 503, response.body


def test_the_document_is_served() -> None:
    response = Client().get("/openapi.json")
    assert response.status == 200
    assert response.content_type == b"application/json"
    assert isinstance(response.body, bytes)
    assert msgspec.json.decode(response.body) == DOCUMENT


def test_the_page_needs_nothing_from_outside() -> None:
    response = Client().get("/docs")
    assert response == msgspec.structs.replace(docs_page(), headers=response.headers)
    assert response.content_type == b"text/html; charset=utf-8"
    assert isinstance(response.body, bytes)
    page = response.body.decode()
    assert not re.search(r"https?://", page)
    assert not re.search(r"(?:src|href)=\"(?!/openapi\.json)[^\"]*\"", page)
    policy = header(response, b"Content-Security-Policy")
    assert policy is not None
    assert b"default-src 'none'" in policy
    assert b"unsafe" not in policy
