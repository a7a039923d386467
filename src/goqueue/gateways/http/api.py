"""The HTTP API as an application: finds the route of a request, runs it, and encodes the outcome.

Owns the order of checks (browser, route, parameters) and the ids of requests, and turns refusals
into bodies. Never knows what a route does.

Invariant: each response carries an X-Request-ID, and a failure never shows internals.

Cost per request: one look-up of its method and path among those that were used lately; the
parameters in a path are read and checked when it is first used.
"""

import functools
import itertools
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping

import msgspec

from goqueue.gateways.http.bodies import encode_json
from goqueue.gateways.http.cors import CorsPolicy, Headers, preflight
from goqueue.gateways.http.errors import ERRORS, ErrorBody, describe, error_body
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.routing.call import ApiContext, ApiLimits, Call, OpenCount
from goqueue.gateways.http.routing.docs_page import docs_page
from goqueue.gateways.http.routing.openapi import openapi_document
from goqueue.gateways.http.routing.router import Answer, Match, MethodUnknown, Route, Router
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.gateways.port import (
    UNOBSERVED,
    AnsweredRequest,
    Broker,
    NodeFacts,
    RequestObserver,
    Scrape,
)
from goqueue.model import Code, Refused, Timestamp

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

_RETRY_AFTER = ((b"Retry-After", b"1"),)
_RETRIED = (429, 503)

# Paths that are remembered with what they lead to, and how long each may be.
_PATHS_MAX = 1024
_PATH_BYTES_MAX = 512
_NEVER = float("inf")
# Statuses from here on are reported.
_FAILED = 400


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


class HttpApi:
    """Answers requests by asking the broker."""

    def __init__(
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
    ) -> None:
        self._limits = ApiLimits() if limits is None else limits
        self._cors = CorsPolicy() if cors is None else cors
        self._router = Router(ROUTES)
        self._targets: dict[tuple[str, bytes], ApiTarget] = {}
        self._ids = RequestIds()
        self._requests = requests
        self._logs_access = requests.logs_access
        self._context = ApiContext(
            broker=broker,
            facts=facts,
            limits=self._limits,
            clock=clock,
            ticks=ticks,
            metrics=metrics,
            # Made when it is first asked for: a node should not start slower for it.
            document=functools.cache(lambda: _encoded_document(facts.version)),
            page=docs_page(),
            streams=OpenCount(self._limits.streams_max, "streams"),
            requests=OpenCount(self._limits.requests_max, "requests"),
        )

    def resolve(self, method: str, path: bytes) -> ApiTarget:
        """The route of a request with its limits, before any of its body is read."""
        target = self._targets.get((method, path))
        return self._look_up(method, path) if target is None else target

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
        )
        if len(path) <= _PATH_BYTES_MAX:
            if len(self._targets) >= _PATHS_MAX:
                self._targets.clear()
            self._targets[method, path] = target
        return target

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request, whatever it is."""
        named = self._ids.name(request.headers.get(b"x-request-id"))
        shared: Headers = ((b"X-Request-ID", named),)
        began = time.monotonic_ns() if self._logs_access else 0
        failure: Refused | None = None
        try:
            shared += self._cors.check(request.headers)
            match = _match(request)
            call = Call(request, match.values(request.query), self._context)
            response = _response(match.route, await match.route.run(call))
        except Refused as refused:
            failure = refused
            response = _refused(refused)
        except TimeoutError:
            failure = Refused(Code.REQUEST_TIMEOUT)
            response = _refused(failure)
        except MethodUnknown as unknown:
            response = self._other_method(request, unknown)
        except Exception:
            _logger.exception("request %s failed", named.decode("ascii"))
            failure = Refused(Code.INTERNAL_ERROR)
            response = _refused(failure)
        if self._logs_access or response.status >= _FAILED:
            self._report(request, response, named, began, failure)
        headers = (*response.headers, *shared)
        return HttpResponse(
            response.status, response.body, response.content_type, headers, response.stream
        )

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
            code="" if failure is None else failure.code.value,
            reason="" if failure is None else describe(failure.code, failure.facts),
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
        shared = (*_retry_after(status), (b"X-Request-ID", named), *self._cors.consent(headers))
        response = HttpResponse(status, encode_json(body), headers=shared)
        answered = AnsweredRequest(
            client=client,
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

    def _other_method(self, request: HttpRequest, unknown: MethodUnknown) -> HttpResponse:
        if self._cors.is_preflight(request.method, request.headers):
            return HttpResponse(204, headers=preflight(unknown.allowed))
        allow = (b"Allow", ", ".join(unknown.allowed).encode())
        refused = _refused(Refused(Code.METHOD_NOT_ALLOWED))
        return msgspec.structs.replace(refused, headers=(allow,))


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


def _refused(refused: Refused) -> HttpResponse:
    status = ERRORS[refused.code].status
    return HttpResponse(status, encode_json(error_body(refused)), headers=_retry_after(status))


def _retry_after(status: int) -> Headers:
    return _RETRY_AFTER if status in _RETRIED else ()


def _size(body: "bytes | bytearray | tuple[bytes | bytearray | memoryview, ...]") -> int:
    if not isinstance(body, tuple):
        return len(body)
    return sum(each.nbytes if isinstance(each, memoryview) else len(each) for each in body)
