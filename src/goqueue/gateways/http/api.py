"""The HTTP API as an application: finds the route of a request, runs it, and encodes the outcome.

Owns the order of checks (browser, route, parameters) and the ids of requests, and turns refusals
into bodies. Never knows what a route does.

Invariant: each response carries an X-Request-ID, and a failure never shows internals.

Cost per request: one look-up of its method and path among those that were used lately; the
parameters in a path are read and checked when it is first used.
"""

import asyncio
import functools
import itertools
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from goqueue.gateways.connection_limits import ConnectionBytes
from goqueue.gateways.credentials import Authenticator, Hold
from goqueue.gateways.errors import ERRORS, ErrorBody, describe, error_body
from goqueue.gateways.forwarded import TrustedProxies
from goqueue.gateways.http.authentication import Gate, HttpAuthentication
from goqueue.gateways.http.bodies import encode_json
from goqueue.gateways.http.cors import CorsPolicy, Headers, preflight
from goqueue.gateways.http.registry_errors import REGISTRY_PREFIX, registry_refusal
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.routing.call import ApiContext, ApiLimits, Call, OpenCount
from goqueue.gateways.http.routing.docs_page import docs_page
from goqueue.gateways.http.routing.openapi import openapi_document
from goqueue.gateways.http.routing.router import Answer, Match, MethodUnknown, Route, Router
from goqueue.gateways.http.server.application import (
    Guard,
    HttpRequest,
    HttpResponse,
    HttpStream,
    StreamSink,
    Target,
)
from goqueue.gateways.http.server.responses import Refusal
from goqueue.gateways.key_maker import KeyMaker
from goqueue.gateways.peer import Peer
from goqueue.gateways.port import (
    UNOBSERVED,
    AnsweredRequest,
    Broker,
    NodeFacts,
    RequestObserver,
    Scrape,
    TenantLimits,
)
from goqueue.model import Code, KeyId, ProvenKey, Refused, Timestamp

__all__ = ["HttpApi", "RequestIds"]

# Visible ASCII only: it is written to logs and sent back in a header.
_ACCEPTED = re.compile(rb"[\x21-\x7e]{1,128}")


class RequestIds:
    """Makes ids that no other process and no other request has."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(6).encode()
        self._numbers = itertools.count(1)

    def name(self, given: bytes | None) -> bytes:
        """The id given, if it can be written as it is; else a new one."""
        if given is not None and _ACCEPTED.fullmatch(given):
            return given
        return b"%b-%x" % (self._prefix, next(self._numbers))


_logger = logging.getLogger(__name__)

_CHALLENGE = ((b"WWW-Authenticate", b"Bearer"),)
_UNAUTHENTICATED = 401
_RETRY_AFTER = ((b"Retry-After", b"1"),)
_RETRIED = (429, 503)

# Paths that are remembered with what they lead to, and how long each may be.
_PATHS_MAX = 1024
_PATH_BYTES_MAX = 512
_NEVER = float("inf")
# Statuses from here on are reported.
_FAILED = 400
_STREAMED = 200
# What the access log says of a client that left before its answer, as nginx does. Never sent.
_CLIENT_GONE = 499


def _wall() -> Timestamp:
    return Timestamp(time.time_ns())


async def _count_nothing() -> tuple[bytes, ...]:
    return ()


class ApiTarget(msgspec.Struct, frozen=True):
    """What a method on a path leads to: a route, or why there is none."""

    body_bytes_max: int
    may_be_large: bool
    handling_s: float
    found: Match | Refused | MethodUnknown
    keeps_body: bool = True
    is_last: bool = False
    # Where it publishes to, if the path says so.
    topic: str = ""


class ConnectionTenant:
    """What one connection is counted for, and what its requests are refused for at their heads."""

    __slots__ = ("_held", "_key", "_limits", "_tenant")

    def __init__(self, limits: TenantLimits | None, held: ConnectionBytes) -> None:
        self._limits = limits
        self._held = held
        # The key that it proved first, and the tenant of that.
        self._key: KeyId | None = None
        self._tenant = ""

    def admit(self, target: Target, proven: ProvenKey | None) -> Target:
        """The same target, or one that refuses: a connection or a publish above a quota."""
        assert isinstance(target, ApiTarget)
        limits = self._limits
        key = None if proven is None else proven.id
        if limits is None:
            return target
        if key is not None and self._key is None:
            try:
                self._tenant = limits.open_connection(key)
                self._key = key
                self._held.assign(self._tenant)
            except Refused as refused:
                return msgspec.structs.replace(
                    target, found=refused, keeps_body=False, is_last=True
                )
        if target.topic:
            try:
                limits.check_publish(target.topic, key)
            except Refused as refused:
                return msgspec.structs.replace(target, found=refused, keeps_body=False)
        return target

    def close(self) -> None:
        """The connection is gone."""
        if self._key is not None and self._limits is not None:
            self._limits.close_connection(self._tenant, self._key)
            self._key = None


class HttpApi:
    """Answers requests by asking the broker."""

    def __init__(  # noqa: PLR0913  # what the runtime hands in, and tests replace one by one
        self,
        broker: Broker,
        facts: NodeFacts,
        *,
        cors: CorsPolicy | None = None,
        limits: ApiLimits | None = None,
        clock: Callable[[], Timestamp] = _wall,
        ticks: Callable[[], int] = time.monotonic_ns,
        metrics: Scrape = _count_nothing,
        requests: RequestObserver = UNOBSERVED,
        authentication: HttpAuthentication | None = None,
        key_maker: KeyMaker | None = None,
        tenants: TenantLimits | None = None,
        proxies: TrustedProxies | None = None,
        routes: Iterable[Route] | None = None,
        encode_descriptor: Callable[[str], str] = str,
    ) -> None:
        self._proxies = proxies or TrustedProxies()
        self._authentication = authentication or HttpAuthentication(Authenticator())
        self._limits = ApiLimits() if limits is None else limits
        self._cors = CorsPolicy() if cors is None else cors
        self._router = Router(ROUTES if routes is None else routes)
        self._targets: dict[tuple[str, bytes], ApiTarget] = {}
        self._ids = RequestIds()
        self._requests = requests
        self._logs_access = requests.logs_access
        self._tenants = tenants
        self._context = ApiContext(
            broker=broker,
            facts=facts,
            limits=self._limits,
            clock=clock,
            ticks=ticks,
            metrics=metrics,
            # Made when it is first asked for: a node should not start slower for it.
            document=functools.cache(lambda: _encoded_document(facts.version)),
            # Not on loopback: browsers would use https for every other server on localhost, too.
            page=docs_page(has_hsts=self._cors.is_tls and not self._cors.is_local),
            streams=OpenCount(self._limits.streams_max, "streams"),
            requests=OpenCount(self._limits.requests_max, "requests"),
            key_maker=key_maker or KeyMaker(secrets.token_bytes(32)),
            authentication=self._authentication,
            encode_descriptor=encode_descriptor,
        )

    def resolve(self, method: str, path: bytes) -> ApiTarget:
        """The route of a request with its limits, before any of its body is read."""
        target = self._targets.get((method, path))
        return self._look_up(method, path) if target is None else target

    def connected(self, held: ConnectionBytes) -> "ConnectionTenant":
        """A connection was made."""
        return ConnectionTenant(self._tenants, held)

    def _look_up(self, method: str, path: bytes) -> ApiTarget:
        limits = self._limits
        try:
            match = self._router.find(method, path)
        except (Refused, MethodUnknown) as error:
            # Not remembered: such paths are without number.
            return ApiTarget(limits.body_bytes_max, False, limits.handling_seconds, error)
        route = match.route
        target = ApiTarget(
            limits.publish_body_bytes_max if route.is_publish else limits.body_bytes_max,
            # These hand out messages.
            route.waits,
            _NEVER if route.waits else limits.handling_seconds,
            match,
            topic=match.topic if route.is_publish else "",
        )
        if len(path) <= _PATH_BYTES_MAX:
            if len(self._targets) >= _PATHS_MAX:
                self._targets.clear()
            self._targets[method, path] = target
        return target

    @property
    def guard(self) -> Guard | None:
        """Who checks the keys of requests, if somebody does."""
        return self if self._authentication.is_on else None

    def authenticate(
        self, method: str, target: Target, headers: dict[bytes, bytes], peer: Peer
    ) -> ProvenKey | Refusal | None:
        """The key of a request, or why it is refused."""
        assert isinstance(target, ApiTarget)
        gate = target.found.route.gate if isinstance(target.found, Match) else Gate.KEY
        if isinstance(target.found, MethodUnknown) and self._cors.is_preflight(method, headers):
            # Browsers ask without a key whether a page may send one.
            gate = Gate.OPEN
        return self._authentication.check(gate, headers, peer)

    def hold(self, address: str, headers: Mapping[bytes, bytes]) -> Hold | None:
        """Hold back the answer to a failed attempt."""
        return self._authentication.hold(self._proxies.client_of(address, headers))

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request, whatever it is."""
        client = self._proxies.client_of(request.client, request.headers)
        if client != request.client:
            request = msgspec.structs.replace(request, client=client)
        named = self._ids.name(request.headers.get(b"x-request-id"))
        shared: Headers = ((b"X-Request-ID", named),)
        began = time.monotonic_ns() if self._logs_access else 0
        failure: Refused | None = None
        try:
            shared += self._cors.check(request.headers)
            match = _match(request)
            caller = self._authentication.caller(request.key, request.client, named)
            call = Call(request, match.values(request.query), self._context, caller)
            response = _response(match.route, await match.route.run(call))
        except Refused as refused:
            failure = refused
            response = _refused(refused, request.path)
        except TimeoutError:
            failure = Refused(Code.REQUEST_TIMEOUT)
            response = _refused(failure, request.path)
        except MethodUnknown as unknown:
            if self._cors.is_preflight(request.method, request.headers):
                response = HttpResponse(204, headers=preflight(unknown.allowed))
            else:
                allowed = ", ".join(unknown.allowed)
                failure = Refused(Code.METHOD_NOT_ALLOWED, reason=f"it supports {allowed}")
                response = _other_method(failure, unknown)
        except asyncio.CancelledError:
            if self._logs_access:
                self._report(request, HttpResponse(_CLIENT_GONE), named, began, None)
            raise
        except Exception:
            _logger.exception("request %s failed", named.decode("ascii"))
            failure = Refused(Code.INTERNAL_ERROR)
            response = _refused(failure, request.path)
        stream = response.stream
        if stream is not None and self._logs_access and request.method != "HEAD":
            stream = self._observed(stream, request, named, began)
        elif self._logs_access or response.status >= _FAILED:
            self._report(request, response, named, began, failure)
        headers = (*response.headers, *shared)
        return HttpResponse(response.status, response.body, response.content_type, headers, stream)

    def _observed(
        self, stream: HttpStream, request: HttpRequest, named: bytes, began: int
    ) -> HttpStream:
        """The stream, reported when it ends: by itself, with its client, or with the node."""
        opened = AnsweredRequest(
            client=request.client,
            method=request.method,
            path=request.path,
            status=_STREAMED,
            size=0,
            request_id=named,
        )

        async def run(sink: StreamSink) -> None:
            counted = _CountingSink(sink)
            self._requests.opened(opened)
            try:
                await stream.run(counted)
            finally:
                duration_ns = time.monotonic_ns() - began
                ended = msgspec.structs.replace(opened, size=counted.size, duration_ns=duration_ns)
                self._requests.answered(ended)

        return HttpStream(run, stream.probe)

    def _report(
        self,
        request: HttpRequest,
        response: HttpResponse,
        named: bytes,
        began: int,
        failure: Refused | None,
    ) -> None:
        answered = AnsweredRequest(
            client=request.client,
            method=request.method,
            path=request.path,
            status=response.status,
            size=_size(response.body),
            request_id=named,
            duration_ns=time.monotonic_ns() - began if began else 0,
            code=response.code if failure is None else failure.code.value,
            reason=response.reason if failure is None else describe(failure.code, failure.facts),
        )
        self._requests.answered(answered)

    def refusal(
        self,
        status: int,
        code: Code,
        sentence: str,
        details: Mapping[str, int],
        headers: Mapping[bytes, bytes],
        *,
        client: str,
    ) -> HttpResponse:
        """What the transport turned down by itself."""
        named = self._ids.name(headers.get(b"x-request-id"))
        body = ErrorBody(
            error=sentence, code=code.value, status=status, details=dict(details) or None
        )
        shared = (*_headers_of(status), (b"X-Request-ID", named), *self._cors.consent(headers))
        response = HttpResponse(status, encode_json(body), headers=shared)
        answered = AnsweredRequest(
            client=self._proxies.client_of(client, headers),
            method="",
            path=b"",
            status=status,
            size=_size(response.body),
            request_id=named,
            code=code.value,
            reason=sentence,
        )
        self._requests.answered(answered)
        return response


class _CountingSink:
    """Counts the bytes of a stream on their way."""

    def __init__(self, sink: StreamSink) -> None:
        self._sink = sink
        self.size = 0

    async def send(self, data: bytes | bytearray) -> None:
        self.size += len(data)
        await self._sink.send(data)


def _other_method(refused: Refused, unknown: MethodUnknown) -> HttpResponse:
    allow = (b"Allow", ", ".join(unknown.allowed).encode())
    return msgspec.structs.replace(_refused(refused), headers=(allow,))


def _encoded_document(version: str) -> bytes:
    return msgspec.json.encode(openapi_document(ROUTES, version))


def _match(request: HttpRequest) -> Match:
    target = request.target
    assert isinstance(target, ApiTarget)
    found = target.found
    if not isinstance(found, Match):
        raise found
    return found


def _response(route: Route, answer: Answer) -> HttpResponse:
    if not isinstance(answer, HttpResponse):
        return HttpResponse(route.status, encode_json(answer))
    retry = _retry_after(answer.status)
    return msgspec.structs.replace(answer, headers=(*answer.headers, *retry)) if retry else answer


def _refused(refused: Refused, path: bytes = b"") -> HttpResponse:
    status = ERRORS[refused.code].status
    headers = _headers_of(status)
    if refused.code is Code.RATE_LIMITED:
        headers = _rate_limit(refused)
    if path.startswith(REGISTRY_PREFIX):
        return msgspec.structs.replace(registry_refusal(refused), headers=headers)
    return HttpResponse(status, encode_json(error_body(refused)), headers=headers)


def _rate_limit(refused: Refused) -> Headers:
    """When to come again, in whole seconds rounded up, and which rate is exhausted."""
    seconds = -(-refused.facts.get("retry_after_ms", 1000) // 1000)
    limit = refused.facts.get("limit")
    retry = (b"Retry-After", b"%d" % max(1, seconds))
    if limit is None:
        return (retry,)
    return (retry, (b"X-RateLimit-Limit", b"%d" % limit), (b"X-RateLimit-Remaining", b"0"))


def _headers_of(status: int) -> Headers:
    """What every refusal with this status tells."""
    return _CHALLENGE if status == _UNAUTHENTICATED else _retry_after(status)


def _retry_after(status: int) -> Headers:
    return _RETRY_AFTER if status in _RETRIED else ()


def _size(body: "bytes | bytearray | tuple[bytes | bytearray | memoryview, ...]") -> int:
    if not isinstance(body, tuple):
        return len(body)
    return sum(each.nbytes if isinstance(each, memoryview) else len(each) for each in body)
