"""A publish that will be refused anyway: its body is received and forgotten, not kept."""

import asyncio

from goqueue.gateways import ByteBudget, Capacity, NodeFacts, Peer
from goqueue.gateways.connection_limits import ConnectionBytes
from goqueue.gateways.http import HttpApi
from goqueue.gateways.http.api import ConnectionTenant
from goqueue.gateways.http.server.application import HttpLimits, HttpRequest
from goqueue.gateways.http.server.reader import RequestReader
from goqueue.model import Code, KeyId, ProvenKey, Refused
from tests.unit.gateways.http.refusing_broker import LOCAL, NOW, RefusingBroker
from tests.unit.gateways.loopback import EchoTarget

_MIB = 1024 * 1024
_FOREIGN = ProvenKey(KeyId("key_of_another_tenant"))


def _connect(api: HttpApi) -> ConnectionTenant:
    return api.connected(ConnectionBytes(Capacity()))


class _Limits:
    """Topics in debt, and how many connections there may be."""

    def __init__(self, *in_debt: str, connections_max: int = 1) -> None:
        self._in_debt = in_debt
        self._connections_max = connections_max
        self.connections = 0

    def check_publish(self, topic: str, key: KeyId | None) -> None:
        if topic in self._in_debt and key != _FOREIGN.id:
            raise Refused(Code.RATE_LIMITED, quota="q", limit=7, retry_after_ms=2001)

    def check_publisher(self, key: KeyId) -> None:
        raise AssertionError(f"the head names the topic: {key}")

    def open_connection(self, _: KeyId) -> str:
        if self.connections >= self._connections_max:
            raise Refused(Code.QUOTA_EXCEEDED, quota="max_connections", limit=1, used=1)
        self.connections += 1
        return "acme"

    def close_connection(self, tenant: str, _: KeyId) -> None:
        assert tenant == "acme"
        self.connections -= 1


def _api(limits: _Limits) -> HttpApi:
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    return HttpApi(RefusingBroker(), facts, clock=lambda: NOW, tenants=limits)


def test_only_publishes_to_a_tenant_in_debt_lose_their_body() -> None:
    api = _api(_Limits("acme.orders"))

    def keeps_body(method: str, path: bytes, key: ProvenKey | None = None) -> bool:
        return _connect(api).admit(api.resolve(method, path), key).keeps_body

    assert not keeps_body("POST", b"/topics/acme.orders/messages")
    assert not keeps_body("POST", b"/v1/topics/acme%2Eorders/messages")
    assert keeps_body("POST", b"/topics/acme.orders/messages", _FOREIGN)
    assert keeps_body("POST", b"/topics/orders/messages")
    assert keeps_body("GET", b"/topics/acme.orders")
    assert keeps_body("POST", b"/topics")
    assert keeps_body("POST", b"/topics/%zz/messages")


def test_it_is_answered_429_with_the_time_to_wait() -> None:
    api = _api(_Limits("acme.orders"))
    path = b"/topics/acme.orders/messages"
    target = _connect(api).admit(api.resolve("POST", path), None)
    request = HttpRequest("POST", path, b"", LOCAL, bytearray(), "127.0.0.1", target)
    response = asyncio.run(api.answer(request))

    assert response.status == 429
    headers = dict(response.headers)
    assert headers[b"Retry-After"] == b"3"
    assert headers[b"X-RateLimit-Limit"] == b"7"
    assert headers[b"X-RateLimit-Remaining"] == b"0"


def _reader(budget: ByteBudget) -> RequestReader:
    targets = {
        b"/forget": EchoTarget(body_bytes_max=4 * _MIB, keeps_body=False),
        b"/keep": EchoTarget(body_bytes_max=4 * _MIB),
    }
    return RequestReader(
        Peer(address="192.0.2.1"), HttpLimits(), lambda _, path: targets[path], budget
    )


def _status(reader: RequestReader) -> int | None:
    return None if reader.refusal is None else reader.refusal.status


def _feed(reader: RequestReader, data: bytes) -> None:
    while data:
        taken = reader.feed(data)
        data = data[taken:]


def test_a_body_that_is_not_kept_takes_no_memory_and_ends_where_its_head_says() -> None:
    # A budget of nothing: whatever is kept is refused.
    reader = _reader(ByteBudget(10))
    head = b"POST /forget HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (2 * _MIB)
    _feed(reader, head + b"x" * (2 * _MIB))
    _feed(reader, b"POST /keep HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok")

    first, second = reader.requests
    assert (first.path, bytes(first.body)) == (b"/forget", b"")
    assert (second.path, bytes(second.body)) == (b"/keep", b"ok")
    assert reader.refusal is None


def test_a_chunked_body_that_is_not_kept_is_still_bounded() -> None:
    reader = _reader(ByteBudget(10))
    _feed(reader, b"POST /forget HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"%x\r\n" % _MIB + b"x" * _MIB + b"\r\n"
    for _ in range(4):
        _feed(reader, chunk)
    assert _status(reader) is None
    _feed(reader, chunk)
    assert _status(reader) == 413


def test_a_connection_is_counted_once_and_one_above_the_quota_is_refused_and_closed() -> None:
    limits = _Limits()
    api = _api(limits)
    target = api.resolve("GET", b"/topics")
    first, second = _connect(api), _connect(api)
    assert first.admit(target, _FOREIGN) is target
    assert first.admit(target, _FOREIGN) is target
    assert limits.connections == 1
    refused = second.admit(target, _FOREIGN)
    assert refused.is_last
    assert not refused.keeps_body
    second.close()
    first.close()
    first.close()
    assert limits.connections == 0
    third = _connect(api)
    assert third.admit(target, _FOREIGN) is target


def test_without_authentication_no_connection_is_counted() -> None:
    limits = _Limits(connections_max=0)
    api = _api(limits)
    target = api.resolve("GET", b"/topics")

    assert _connect(api).admit(target, None) is target
