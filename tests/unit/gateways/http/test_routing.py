"""Paths and methods: what is found, under which names, and what is said where nothing is."""

import pytest

from goqueue.gateways.http import ROUTES, Route
from goqueue.model.requests import DescribeTopic, ListTopics, Read
from tests.unit.gateways.http.refusing_broker import (
    Client,
    RefusingBroker,
    code_of,
    header,
    read,
)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
BY_PATH = {path: [r for r in ROUTES if r.path == path] for path in {r.path for r in ROUTES}}


def filled(route: Route) -> str:
    return route.path.replace("{partition}", "0").replace("{topic}", "t").replace("{group}", "g")


@pytest.mark.parametrize("path", sorted(BY_PATH))
@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_a_path_does_not_have_is_refused_with_those_it_has(
    path: str, method: str
) -> None:
    allowed = sorted(name for route in BY_PATH[path] for name in route.methods)
    response = Client().send(method, filled(BY_PATH[path][0]))
    if method in allowed:
        assert response.status not in {404, 405}
    else:
        assert response.status == 405
        assert code_of(response) == "method_not_allowed"
        assert header(response, b"Allow") == ", ".join(allowed).encode()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_routes_of_the_contract_have_a_version_and_those_of_the_service_have_none(
    route: Route,
) -> None:
    plain = Client().send(route.method, filled(route))
    versioned = Client().send(route.method, "/v1" + filled(route))
    assert versioned.status == (404 if route.is_service else plain.status)


@pytest.mark.parametrize(
    "target",
    [
        "//",
        "/nope",
        "/topic",
        "/topics/t/nope",
        "/v1",
        "/v1/",
        "/v2/topics",
        "topics",
        "/topics//messages",
        "/TOPICS",
        "/v1/v1/topics",
        "/delay",
        "/admin/nothing",
        "*",
    ],
)
def test_an_unknown_path_is_not_a_route(target: str) -> None:
    response = Client().get(target)
    assert response.status == 404
    assert code_of(response) == "route_not_found"


@pytest.mark.parametrize("target", ["/topics", "/topics/", "/v1/topics", "/%74opics"])
def test_a_trailing_slash_and_needless_encoding_make_no_difference(target: str) -> None:
    client = Client()
    client.get(target)
    assert client.asked() == ListTopics()


def test_names_in_paths_are_decoded_once() -> None:
    client = Client()
    client.get("/topics/%61%2Eb")
    assert client.asked() == DescribeTopic(name="a.b")


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "%2e%2e%2f",
        "%252e",
        "a%00b",
        "a%0ab",
        "%1b[31m",
        "%ff",
        "%",
        "%zz",
        "%c3",
        "a" * 250,
        "%C3%A9",
        "a%20b",
        "..%2f..%2fetc%2fpasswd",
        "CON:",
        "a+b",
        "a/",
        "%5c",
    ],
)
def test_a_name_that_breaks_the_rules_is_refused_before_the_broker_sees_it(name: str) -> None:
    client = Client()
    response = client.get(f"/topics/{name}/partitions" if name != "a/" else "/topics/a%2f")
    assert response.status == 400
    body = read(response)
    assert body["code"] == "name_invalid"
    assert body["details"] == {"field": "topic"}


def test_a_poll_takes_no_head_because_it_would_lease_messages_and_lose_them() -> None:
    response = Client().send("HEAD", "/groups/g/poll?member_id=m")
    assert response.status == 405
    assert header(response, b"Allow") == b"GET, POST"


def test_publish_routes_take_larger_bodies() -> None:
    api = Client().api
    assert api.resolve("POST", b"/topics/t/messages").body_bytes_max == 16 * 1024 * 1024
    assert api.resolve("POST", b"/v1/topics/t/records/").body_bytes_max == 16 * 1024 * 1024
    assert api.resolve("POST", b"/topics").body_bytes_max == 1024 * 1024
    assert api.resolve("GET", b"/nope").body_bytes_max == 1024 * 1024
    assert api.resolve("PUT", b"/topics/t/messages").body_bytes_max == 1024 * 1024


def test_only_short_paths_of_routes_are_remembered_and_only_so_many() -> None:
    api = Client().api

    def is_remembered(path: bytes) -> bool:
        return api.resolve("GET", path) is api.resolve("GET", path)

    assert is_remembered(b"/topics/t")
    assert not is_remembered(b"/nowhere/t")
    assert not is_remembered(b"/topics/" + b"t" * 600)
    first = api.resolve("GET", b"/topics/t")
    for number in range(2000):
        api.resolve("GET", b"/topics/t%d" % number)
    assert api.resolve("GET", b"/topics/t") is not first


def test_a_remembered_path_still_reads_the_query_of_each_request() -> None:
    path = "/topics/t/partitions/0/messages"
    for offset in (3, 4):
        client = Client()
        client.get(f"{path}?offset={offset}")
        asked = client.asked()
        assert isinstance(asked, Read)
        assert asked.offset == offset
    both = Client()
    both.get(f"{path}?offset=5")
    both.get(path)
    assert isinstance(both.broker, RefusingBroker)
    assert [each.offset for each in both.broker.asked if isinstance(each, Read)] == [5, 0]


@pytest.mark.parametrize("given", [b"abc-123", b"x" * 128, b"!~"])
def test_a_request_id_is_echoed(given: bytes) -> None:
    response = Client().send("GET", "/nope", headers={b"x-request-id": given})
    assert header(response, b"X-Request-ID") == given


@pytest.mark.parametrize("given", [b"", b"x" * 129, b"a b", b"\x1b[0m", b"\xff", b"a\r\nb: c"])
def test_a_request_id_that_cannot_be_written_as_it_is_gets_replaced(given: bytes) -> None:
    made = header(
        Client().send("GET", "/topics", headers={b"x-request-id": given}), b"X-Request-ID"
    )
    assert made is not None
    assert made != given
    assert made.isascii()


def test_each_request_without_an_id_gets_its_own() -> None:
    client = Client()
    made = [header(client.get("/topics"), b"X-Request-ID") for _ in range(3)]
    assert len({*made}) == 3
