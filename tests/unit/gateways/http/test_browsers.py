"""Which pages may talk to the server, and what browsers are told."""

import pytest

from goqueue.gateways.http import CorsPolicy
from goqueue.model import Code
from tests.unit.gateways.http.refusing_broker import Client, code_of, header

LISTED = CorsPolicy(origins=("https://console.example",))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "LOCALHOST.",
        "127.0.0.1",
        "127.9.9.9:1",
        "[::1]:8080",
        "app.localhost:3000",
    ],
)
def test_a_local_server_answers_to_names_of_its_machine(host: str) -> None:
    assert Client().send("GET", "/version", headers={b"host": host.encode()}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "10.0.0.1",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::2]",
        "",
        "0.0.0.0:8080",
        "evil.example:127.0.0.1",
        "ÿ",
    ],
)
def test_a_local_server_turns_other_names_away(host: str) -> None:
    response = Client().send("GET", "/version", headers={b"host": host.encode("latin-1")})
    assert response.status == 403
    assert code_of(response) == "permission_denied"


def test_a_server_for_others_answers_to_every_name() -> None:
    client = Client(cors=CorsPolicy(is_local=False))
    assert client.send("GET", "/version", headers={b"host": b"queue.example"}).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "http://127.0.0.1",
        "",
        "https://console.example.evil.example",
    ],
)
def test_a_foreign_origin_is_turned_away_without_cors_headers(origin: str) -> None:
    response = Client(cors=LISTED).send("GET", "/version", headers={b"origin": origin.encode()})
    assert response.status == 403
    assert header(response, b"Access-Control-Allow-Origin") is None


def test_the_servers_own_origin_is_let_in_without_cors_headers() -> None:
    response = Client().send("GET", "/version", headers={b"origin": b"http://127.0.0.1:8080"})
    assert response.status == 200
    assert header(response, b"Access-Control-Allow-Origin") is None


def test_a_listed_origin_is_told_that_it_may() -> None:
    headers = {b"origin": b"https://console.example"}
    response = Client(cors=LISTED).send("GET", "/version", headers=headers)
    assert response.status == 200
    assert header(response, b"Access-Control-Allow-Origin") == b"https://console.example"
    assert header(response, b"Vary") == b"Origin"


def test_errors_too_can_be_read_by_a_listed_origin() -> None:
    headers = {b"origin": b"https://console.example"}
    response = Client(cors=LISTED).send("GET", "/nope", headers=headers)
    assert response.status == 404
    assert header(response, b"Access-Control-Allow-Origin") == b"https://console.example"


def test_a_preflight_of_a_listed_origin_is_answered_with_the_methods() -> None:
    headers = {
        b"origin": b"https://console.example",
        b"access-control-request-method": b"POST",
    }
    response = Client(cors=LISTED).send("OPTIONS", "/topics", headers=headers)
    assert response.status == 204
    assert not response.body
    assert header(response, b"Access-Control-Allow-Methods") == b"GET, HEAD, POST"


def test_without_a_listed_origin_options_is_a_method_like_any_other() -> None:
    response = Client().send("OPTIONS", "/topics")
    assert response.status == 405
    assert header(response, b"Allow") == b"GET, HEAD, POST"


def test_any_origin_may_be_listed() -> None:
    client = Client(cors=CorsPolicy(origins=("*",), is_local=False))
    response = client.send("GET", "/version", headers={b"origin": b"http://a.example"})
    assert header(response, b"Access-Control-Allow-Origin") == b"http://a.example"


def test_a_listed_page_may_see_what_the_transport_refused() -> None:
    client = Client(cors=CorsPolicy(origins=("https://a.example",)))
    sent = {b"origin": b"https://a.example", b"x-request-id": b"mine"}
    response = client.api.refusal(
        413, Code.BODY_TOO_LARGE, "Too large.", {"limit": 1}, sent, client=""
    )

    assert header(response, b"Access-Control-Allow-Origin") == b"https://a.example"
    assert header(response, b"X-Request-ID") == b"mine"
    foreign = client.api.refusal(
        413, Code.BODY_TOO_LARGE, "", {}, {b"origin": b"https://b.example"}, client=""
    )
    assert header(foreign, b"Access-Control-Allow-Origin") is None


@pytest.mark.parametrize(("is_tls", "own"), [(False, b"http"), (True, b"https")])
def test_the_servers_own_pages_are_those_of_the_scheme_it_speaks(is_tls: bool, own: bytes) -> None:
    client = Client(cors=CorsPolicy(is_tls=is_tls))
    for scheme in (b"http", b"https"):
        headers = {b"origin": scheme + b"://127.0.0.1:8080"}
        status = client.send("GET", "/version", headers=headers).status
        assert status == (200 if scheme == own else 403)


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize("is_local", [False, True])
def test_browsers_are_told_to_stay_with_https_only_beyond_loopback(
    is_tls: bool, is_local: bool
) -> None:
    client = Client(cors=CorsPolicy(is_tls=is_tls, is_local=is_local))
    told = header(client.send("GET", "/docs"), b"Strict-Transport-Security")
    assert (told is not None) == (is_tls and not is_local)
