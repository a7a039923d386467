"""The reference page of the HTTP API: it is the document that a node serves, for people."""

import json
import re

import pytest

from goqueue.gateways.http import ERRORS, ROUTES, Route
from goqueue.gateways.http.routing.openapi import route_errors
from goqueue.model import Code
from scripts.http_reference import PAGE, http_reference
from tests.unit.gateways.http.refusing_broker import Client

TEXT = PAGE.read_text(encoding="utf-8")


def section_of(route: Route) -> str:
    """What the page says of one route."""
    return TEXT.partition(f"\n### {route.method} {route.path}\n")[2].partition("\n##")[0]


def test_the_page_is_made_of_the_document_that_a_node_serves() -> None:
    served = bytes(Client().send("GET", "/openapi.json").body)  # type: ignore[arg-type]  # one piece
    assert http_reference(json.loads(served)) == TEXT, "run `make http-reference`"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_has_its_parameters_its_bodies_and_its_codes_on_the_page(route: Route) -> None:
    section = section_of(route)
    assert section.startswith(f"{route.summary}.")
    assert f"Reply {route.status}" in section
    for parameter in route.parameters:
        assert f"| `{parameter.name}` |" in section
    for code in route_errors(route):
        assert f"{ERRORS[code].status} `{code.value}`" in section or f"`{code.value}`" in shared()
    if route.example is not None:
        assert "```json" in section


def shared() -> str:
    """What the page says of all routes."""
    return TEXT.partition("Every route may answer with")[2].partition("\n\n")[0]


@pytest.mark.parametrize("code", Code)
def test_every_code_has_its_status_and_its_meaning(code: Code) -> None:
    table = TEXT.partition("## Error codes")[2]
    assert f"| `{code.value}` | {ERRORS[code].status} | {ERRORS[code].what}" in table


def test_every_link_leads_to_a_heading() -> None:
    headings = re.findall(r"^##+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9_-]", "", each.lower().replace(" ", "-")) for each in headings}
    links = set(re.findall(r"\(#([^)]+)\)", TEXT))
    assert links <= anchors
