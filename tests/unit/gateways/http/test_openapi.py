"""The document says what the table says, about every route and every parameter."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.gateways.http import ERRORS, ROUTES, Route
from goqueue.gateways.http.bodies import duration_pattern
from goqueue.gateways.http.routing.docs_page import docs_page
from goqueue.gateways.http.routing.openapi import openapi_document, route_errors
from goqueue.model import HOUR, MILLISECOND, SECOND, parse_duration
from tests.unit.gateways.http.refusing_broker import Client, header

_ASCII = st.characters(codec="ascii")

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
    assert ("requestBody" in operation) is (route.method in {"POST", "PUT", "PATCH"})


@pytest.mark.parametrize("route", [each for each in ROUTES if each.example is not None])
def test_examples_are_taken_by_their_own_routes(route: Route) -> None:
    path = re.sub(r"\{(topic|group|schedule|key|acl|tenant|subject)\}", "name", route.path)
    path = path.replace("{reply_to}", "0" * 32).replace("{version}", "1")
    response = Client().send(route.method, path, msgspec.json.encode(route.example))
    assert response.status == 503, response.body


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_operation_is_described_and_shows_an_answer(route: Route) -> None:
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    assert len(operation["description"]) > len(operation["summary"])
    (content,) = operation["responses"][str(route.status)]["content"].values()
    if route.answer is not None:
        assert isinstance(msgspec.convert(content["example"], type=route.answer), route.answer)


def test_what_users_do_first_comes_before_the_health_of_the_node() -> None:
    sections = [tag["name"] for tag in DOCUMENT["tags"]]
    assert sections.index("Topics") < sections.index("Publish") < sections.index("Queues")
    assert sections[-1] == "Service"


def test_the_root_leads_to_the_page() -> None:
    response = Client().get("/")
    assert (response.status, header(response, b"Location")) == (302, b"/docs")


@pytest.mark.parametrize(
    "text",
    [
        *("1h30m", "1.5h", "90s", "2m5s", "1s500ms", "12h", "100ms", "11h59m59s999ms"),
        *("1500ms", "0.25d", "0.5s", ".5h", "0.5d", "500000us", "43200000ms", "720m"),
    ],
)
def test_the_document_allows_the_durations_that_the_server_takes(text: str) -> None:
    schemas = DOCUMENT["components"]["schemas"]
    lease = schemas["PollBody"]["properties"]["visibility_timeout"]
    (pattern,) = re.findall(r"'pattern': '([^']*)'", str(lease))
    assert re.fullmatch(pattern, text)


@pytest.mark.parametrize(
    "text", ["12h1m", "99ms", "13h", "1h60m", "", "h", "1", "1d", "0.09s", "0.501d", "43200001ms"]
)
def test_the_document_forbids_durations_out_of_range(text: str) -> None:
    pattern = duration_pattern(100 * MILLISECOND, 12 * HOUR)
    assert not re.fullmatch(pattern, text)


@given(st.data())
def test_every_duration_that_a_pattern_allows_is_within_its_limits(data: st.DataObject) -> None:
    low = data.draw(st.sampled_from([0, 1, 100 * MILLISECOND, SECOND]))
    high = data.draw(st.sampled_from([60 * SECOND, 600 * SECOND, 12 * HOUR, 366 * 24 * HOUR]))
    text = data.draw(st.from_regex(duration_pattern(low, high), fullmatch=True, alphabet=_ASCII))
    assert low <= parse_duration(text.strip()) <= high


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ("CreateScheduleBody", "every"),
        ("CreateScheduleBody", "grace"),
        ("CreateKeyBody", "expires_in"),
    ],
)
@pytest.mark.parametrize("text", ["7d", "1w", "1d12h", "0.25d", "36h", "90000000ms"])
def test_the_document_allows_days_and_weeks_where_the_server_takes_them(
    schema: str, field: str, text: str
) -> None:
    found = DOCUMENT["components"]["schemas"][schema]["properties"][field]
    (pattern,) = re.findall(r"'pattern': '([^']*)'", str(found))
    assert re.fullmatch(pattern, text)


def test_the_document_requires_a_topic_of_a_receive_by_one_of_its_names() -> None:
    (body,) = [
        each["post"]["requestBody"]
        for path, each in DOCUMENT["paths"].items()
        if path == "/queues/{group}/receive"
    ]
    assert body["required"]
    (schema,) = (each["schema"] for each in body["content"].values())
    assert [each["required"] for each in schema["anyOf"]] == [["topics"], ["topic"]]


@pytest.mark.parametrize("text", ["30", "1.5", "0.25", "1w", "7d"])
def test_a_duration_in_a_query_may_be_a_bare_number_of_seconds(text: str) -> None:
    assert re.fullmatch(duration_pattern(0, 366 * 24 * HOUR, has_seconds=True), text)
    assert bool(re.fullmatch(duration_pattern(0, 366 * 24 * HOUR), text)) is (text in {"1w", "7d"})


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
