"""The HTTP API as an application: finds the route of a request, runs it, and encodes the outcome.

Owns the order of checks (browser, route, parameters, time) and the ids of requests, and turns
refusals into bodies. Never knows what a route does.

Invariant: each response carries an X-Request-ID, and a failure never shows internals.
"""

import asyncio
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
from goqueue.gateways.http.errors import ERRORS, ErrorBody, error_body
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.routing.call import ApiContext, ApiLimits, Call
from goqueue.gateways.http.routing.docs_page import docs_page
from goqueue.gateways.http.routing.openapi import openapi_document
from goqueue.gateways.http.routing.router import Match, MethodUnknown, Router
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.gateways.port import Broker, NodeFacts, Scrape
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


def _wall() -> Timestamp:
    return Timestamp(time.time_ns())


async def _count_nothing() -> tuple[bytes, ...]:
    return ()


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
        metrics: Scrape = _count_nothing,
    ) -> None:
        self._limits = ApiLimits() if limits is None else limits
        self._cors = CorsPolicy() if cors is None else cors
        self._router = Router(ROUTES)
        self._ids = RequestIds()
        self._context = ApiContext(
            broker=broker,
            facts=facts,
            limits=self._limits,
            clock=clock,
            ticks=time.monotonic_ns,
            metrics=metrics,
            # Made when it is first asked for: a node should not start slower for it.
            document=functools.cache(lambda: _encoded_document(facts.version)),
            page=docs_page(),
        )

    def body_limit(self, method: str, path: bytes) -> int:
        """The largest body that the route takes, before any of it is read."""
        try:
            is_publish = self._router.find(method, path).route.is_publish
        except (Refused, MethodUnknown):
            is_publish = False
        limits = self._limits
        return limits.publish_body_bytes_max if is_publish else limits.body_bytes_max

    def may_be_large(self, method: str, path: bytes) -> bool:
        """Whether the route hands out messages."""
        try:
            return self._router.find(method, path).route.waits
        except (Refused, MethodUnknown):
            return False

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request, whatever it is."""
        named = self._ids.name(request.headers.get(b"x-request-id"))
        shared: Headers = ((b"X-Request-ID", named),)
        try:
            shared += self._cors.check(request.headers)
            response = await self._carry_out(request)
        except Refused as refused:
            response = _refused(refused)
        except MethodUnknown as unknown:
            response = self._other_method(request, unknown)
        except Exception:
            _logger.exception("request %s failed", named.decode("ascii"))
            response = _refused(Refused(Code.INTERNAL_ERROR))
        if _logger.isEnabledFor(logging.DEBUG):
            # Escaped: whatever a caller put into the path must not look like another line.
            path = ascii(request.path.decode("latin-1"))[1:-1]
            place = f"{request.method} {path}"
            _logger.debug("request %s: %s: %d", named.decode("ascii"), place, response.status)
        return msgspec.structs.replace(response, headers=(*response.headers, *shared))

    def refusal(
        self,
        status: int,
        code: Code,
        sentence: str,
        details: Mapping[str, int],
        headers: Mapping[bytes, bytes],
    ) -> HttpResponse:
        """What the transport turned down by itself."""
        named = self._ids.name(headers.get(b"x-request-id"))
        _logger.debug("request %s: refused unread: %d", named.decode("ascii"), status)
        body = ErrorBody(
            error=sentence, code=code.value, status=status, details=dict(details) or None
        )
        shared = (*_retry_after(status), (b"X-Request-ID", named), *self._cors.consent(headers))
        return HttpResponse(status, encode_json(body), headers=shared)

    async def _carry_out(self, request: HttpRequest) -> HttpResponse:
        match = self._router.find(request.method, request.path)
        call = Call(request, match.values(request.query), self._context)
        if match.route.waits:
            return await _run(match, call)
        try:
            async with asyncio.timeout(self._limits.handling_seconds):
                return await _run(match, call)
        except TimeoutError:
            raise Refused(Code.REQUEST_TIMEOUT) from None

    def _other_method(self, request: HttpRequest, unknown: MethodUnknown) -> HttpResponse:
        if self._cors.is_preflight(request.method, request.headers):
            return HttpResponse(204, headers=preflight(unknown.allowed))
        allow = (b"Allow", ", ".join(unknown.allowed).encode())
        refused = _refused(Refused(Code.METHOD_NOT_ALLOWED))
        return msgspec.structs.replace(refused, headers=(allow,))


def _encoded_document(version: str) -> bytes:
    return msgspec.json.encode(openapi_document(ROUTES, version))


async def _run(match: Match, call: Call) -> HttpResponse:
    answer = await match.route.run(call)
    if isinstance(answer, HttpResponse):
        retry = _retry_after(answer.status)
        return (
            msgspec.structs.replace(answer, headers=(*answer.headers, *retry)) if retry else answer
        )
    return HttpResponse(match.route.status, encode_json(answer))


def _refused(refused: Refused) -> HttpResponse:
    status = ERRORS[refused.code].status
    return HttpResponse(status, encode_json(error_body(refused)), headers=_retry_after(status))


def _retry_after(status: int) -> Headers:
    return _RETRY_AFTER if status in _RETRIED else ()
