"""The key of an HTTP request: where it may stand, and what a request without one gets."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from goqueue.gateways import Authenticator, ClientCertificate, NodeFacts, Peer, key_digest
from goqueue.gateways.http import CorsPolicy, HttpApi, HttpAuthentication
from goqueue.gateways.http.authentication import Gate
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.gateways.http.server.responses import UNAUTHENTICATED, Refusal
from goqueue.model import ANONYMOUS, SECOND, Caller, Code, KeyId, ProvenKey, Refused, Timestamp
from goqueue.model.requests import (
    AuthorizeScrape,
    CheckHealth,
    Command,
    DescribeNode,
    Done,
    NodeDescription,
    NodeHealth,
    Reply,
    TopicList,
    secret_proof,
)
from tests.unit.gateways.http.refusing_broker import NOW

KEY = KeyId("key_0000000000000001")
BOUND = KeyId("key_0000000000000002")
SECRET = b"gq_" + b"ab" * 32
PROVEN = ProvenKey(KEY, secret_proof(key_digest(SECRET)))
PROVEN_BY_CERTIFICATE = ProvenKey(BOUND, until=2 * SECOND)


def identify(digest: bytes | None, certificates: tuple[str, ...]) -> ProvenKey | None:
    if digest is None:
        return ProvenKey(BOUND) if "dns:app.internal" in certificates else None
    return PROVEN if digest == key_digest(SECRET) else None


def starting(_: bytes | None, __: tuple[str, ...]) -> ProvenKey | None:
    raise Refused(Code.BROKER_UNAVAILABLE)


def guarded(**choices: bool) -> HttpAuthentication:
    clocks: dict[str, Callable[[], float]] = {"ticks": lambda: 0.0, "wall": lambda: 0.0}
    return HttpAuthentication(Authenticator(identify), **clocks, **choices)  # type: ignore[arg-type]  # two kinds of keywords


def at(wall: Callable[[], float]) -> HttpAuthentication:
    return HttpAuthentication(Authenticator(identify), wall=wall)


# Headers


@pytest.mark.parametrize(
    "headers",
    [
        {b"authorization": b"Bearer " + SECRET},
        {b"authorization": b"bearer " + SECRET},
        {b"x-api-key": SECRET},
        {b"authorization": b"Bearer " + SECRET, b"x-api-key": SECRET},
    ],
)
def test_a_key_comes_in_either_header_and_is_removed(headers: dict[bytes, bytes]) -> None:
    assert guarded().check(Gate.KEY, headers) == PROVEN
    assert headers == {}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"authorization": b""},
        {b"authorization": b"Bearer"},
        {b"authorization": b"Bearer "},
        {b"authorization": SECRET},
        {b"authorization": b"Basic " + SECRET},
        {b"authorization": b"Bearer  " + SECRET},
        {b"authorization": b"Bearer " + SECRET + b" "},
        # Sent twice: the reader has joined them.
        {b"authorization": b"Bearer " + SECRET + b", Bearer " + SECRET},
        {b"x-api-key": SECRET + b", " + SECRET},
        {b"x-api-key": b""},
        {b"x-api-key": SECRET[:-1]},
        {b"x-api-key": b"x" * 5000},
        {b"authorization": b"Bearer " + SECRET, b"x-api-key": b"another"},
        {b"authorization": b"Basic abc", b"x-api-key": SECRET},
    ],
)
def test_everything_else_is_the_same_refusal(headers: dict[bytes, bytes]) -> None:
    assert guarded().check(Gate.KEY, headers) is UNAUTHENTICATED
    assert headers == {}


def test_a_wrong_key_is_refused_also_where_none_is_needed() -> None:
    assert guarded().check(Gate.HEALTH, {b"x-api-key": b"wrong"}) is UNAUTHENTICATED


@pytest.mark.parametrize("gate", Gate)
def test_routes_without_a_key_are_those_of_the_settings(gate: Gate) -> None:
    def passes(**choices: bool) -> bool:
        return guarded(**choices).check(gate, {}) is None

    assert passes() == (gate is not Gate.KEY)
    assert passes(allows_health=False) == (gate in (Gate.METRICS, Gate.OPEN))
    assert passes(allows_metrics=False) == (gate in (Gate.HEALTH, Gate.OPEN))


def test_a_node_that_does_not_know_its_keys_yet_is_not_ready_rather_than_strict() -> None:
    authentication = HttpAuthentication(Authenticator(starting))
    refused = authentication.check(Gate.KEY, {b"x-api-key": SECRET})
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (503, Code.BROKER_UNAVAILABLE)
    assert authentication.check(Gate.HEALTH, {b"x-api-key": SECRET}) is None


# Client certificates


def peer(name: str = "dns:app.internal", expires_at_s: float = 2.0) -> Peer:
    certificate = ClientCertificate(names=(name,), sha256="ab" * 32, expires_at_s=expires_at_s)
    return Peer(address="127.0.0.1", is_tls=True, certificate=certificate)


@pytest.mark.parametrize("gate", Gate)
def test_a_certificate_proves_its_key_where_there_is_no_secret(gate: Gate) -> None:
    assert at(lambda: 1.0).check(gate, {}, peer()) == PROVEN_BY_CERTIFICATE


def test_a_certificate_that_no_key_names_proves_nothing() -> None:
    guard = at(lambda: 1.0)
    assert guard.check(Gate.KEY, {}, peer("dns:other")) is UNAUTHENTICATED
    assert guard.check(Gate.HEALTH, {}, peer("dns:other")) is None


def test_a_certificate_that_expires_on_an_open_connection_proves_nothing_more() -> None:
    now = [1.0]
    guard = at(lambda: now[0])
    assert guard.check(Gate.KEY, {}, peer()) == PROVEN_BY_CERTIFICATE
    now[0] = 2.0
    assert guard.check(Gate.KEY, {}, peer()) is UNAUTHENTICATED


def test_a_secret_is_not_replaced_by_the_certificate_of_its_connection() -> None:
    guard = at(lambda: 1.0)
    assert guard.check(Gate.KEY, {b"x-api-key": SECRET}, peer()) == msgspec.structs.replace(
        PROVEN, until=2 * SECOND
    )
    assert guard.check(Gate.KEY, {b"x-api-key": b"wrong"}, peer()) is UNAUTHENTICATED


# The API


class Broker:
    """Remembers who asked for what; refuses what it is told to."""

    def __init__(self, refusal: Code | None = None) -> None:
        self.asked: list[tuple[Command, Caller]] = []
        self._refusal = refusal

    async def ask(self, command: Command, caller: Caller) -> Reply:
        self.asked.append((command, caller))
        if self._refusal is not None:
            raise Refused(self._refusal)
        if isinstance(command, DescribeNode):
            health = NodeHealth(node_id="n", not_ready=None, failed_logs=(), has_problems=True)
            return NodeDescription(
                node_id="n",
                not_ready=None,
                failed_logs=(),
                topics=(),
                health=health,
                topic_count=7,
                total_size_bytes=70,
            )
        if isinstance(command, CheckHealth):
            return NodeHealth(node_id="n", not_ready=None, failed_logs=(), has_problems=True)
        return Done() if isinstance(command, AuthorizeScrape) else TopicList(topics=())


def api(broker: Broker, **choices: bool) -> HttpApi:
    facts = NodeFacts(version="1.2.3", started_at=Timestamp(NOW))
    return HttpApi(
        broker,
        facts,
        cors=CorsPolicy(origins=("https://console.example",), is_local=False),
        authentication=guarded(**choices),
    )


def send(
    served: HttpApi, path: str, headers: dict[bytes, bytes], method: str = "GET"
) -> HttpResponse:
    """What a request gets, as the transport would serve it."""
    target = served.resolve(method, path.encode())
    guard = served.guard
    assert guard is not None
    key = guard.authenticate(method, target, headers, Peer())
    if isinstance(key, Refusal):
        return served.refusal(key.status, key.code, key.sentence, {}, headers, client="10.0.0.1")
    request = HttpRequest(
        method, path.encode(), b"", headers, bytearray(), "10.0.0.1", target, "1.1", key=key
    )
    return asyncio.run(served.answer(request))


def body_of(response: HttpResponse) -> dict[str, object]:
    assert isinstance(response.body, bytes)
    return msgspec.json.decode(response.body, type=dict[str, object])


def test_the_node_is_told_which_key_asks_and_from_where() -> None:
    broker = Broker()
    sent = {b"x-api-key": SECRET, b"x-request-id": b"abc"}
    assert send(api(broker), "/topics", sent).status == 200
    [(_, caller)] = broker.asked
    assert caller == Caller(KEY, "http", "10.0.0.1", "abc", PROVEN.proof)


def test_a_refusal_names_the_scheme_and_never_the_secret() -> None:
    wrong = b"gq_" + b"cd" * 32
    response = send(api(Broker()), "/topics", {b"x-api-key": wrong})
    assert response.status == 401
    assert (b"WWW-Authenticate", b"Bearer") in response.headers
    assert body_of(response)["code"] == "unauthenticated"
    assert wrong not in repr(response).encode()


def test_a_key_that_ended_while_its_request_waited_is_the_same_refusal() -> None:
    response = send(api(Broker(Code.UNAUTHENTICATED)), "/topics", {b"x-api-key": SECRET})
    assert response.status == 401
    assert (b"WWW-Authenticate", b"Bearer") in response.headers


@pytest.mark.parametrize("path", ["/topics", "/nothing", "/stats", "/admin/keys", "/whoami"])
def test_every_other_route_and_no_route_at_all_need_a_key(path: str) -> None:
    broker = Broker()
    assert send(api(broker), path, {}).status == 401
    assert broker.asked == []


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/version"])
def test_what_is_not_about_the_data_needs_no_key(path: str) -> None:
    assert send(api(Broker()), path, {}).status in (200, 302)


def test_browsers_ask_without_a_key_whether_a_page_may_send_one() -> None:
    headers = {
        b"origin": b"https://console.example",
        b"access-control-request-method": b"GET",
        b"host": b"node:8080",
    }
    assert send(api(Broker()), "/topics", dict(headers), "OPTIONS").status == 204
    foreign = {**headers, b"origin": b"https://evil.example"}
    assert send(api(Broker()), "/topics", foreign, "OPTIONS").status == 401


def test_readiness_without_a_key_tells_nothing_about_the_data_beyond_loopback() -> None:
    broker = Broker()
    beyond = send(api(broker, is_loopback=False), "/readyz", {})
    assert beyond.status == 200
    assert "broker" not in body_of(beyond)
    assert "some logs" in str(body_of(beyond)["message"])
    assert broker.asked[0][1] is ANONYMOUS
    on_loopback = send(api(Broker()), "/readyz", {})
    expected = {"node_id": "n", "topic_count": 7, "total_size": 70}
    assert body_of(on_loopback)["broker"] == expected
    with_key = send(api(Broker(), is_loopback=False), "/readyz", {b"x-api-key": SECRET})
    assert "broker" in body_of(with_key)


def test_metrics_need_the_right_to_see_all_tenants_unless_they_are_open() -> None:
    broker = Broker()
    assert send(api(broker), "/metrics", {}).status == 200
    assert broker.asked == []
    closed = api(broker, allows_metrics=False)
    assert send(closed, "/metrics", {}).status == 401
    assert send(closed, "/metrics", {b"x-api-key": SECRET}).status == 200
    assert [type(command) for command, _ in broker.asked] == [AuthorizeScrape]
    denying = api(Broker(Code.PERMISSION_DENIED), allows_metrics=False)
    assert send(denying, "/metrics", {b"x-api-key": SECRET}).status == 403
