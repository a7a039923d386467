"""HTTP/1.1 client: addresses, connections, a pool, requests and responses.

- `Settings`: server, API key, timeouts, retries, number of connections.
- `HttpConnection` sends one request at a time and parses its response. It knows no pool, retry or
  clock. A response over its limit, or one that was not requested, ends the connection.
- `Pool` keeps open connections to one server. Callers above the limit wait for a free one.
- `Transport` adds time limits and retries. It never follows a redirect and never logs the key.

Invariants: a connection is usable only while nothing is under way and the server will keep it open.
There are never more connections than allowed.
"""

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import AsyncIterator, Callable
from typing import TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import httptools
import msgspec

from goqueue.client.call_timeout import remaining_s
from goqueue.client.clock import SYSTEM_CLOCK, Clock
from goqueue.client.errors import Closed, GoQueueError, ServerUnreachable, TimedOut, refusal
from goqueue.client.in_process import SCHEME, InProcessNode, find_node
from goqueue.client.retries import Retries
from goqueue.model import JSON_MEDIA

__all__ = [
    "Address",
    "HttpConnection",
    "Pool",
    "Request",
    "Response",
    "Settings",
    "Transport",
    "get",
    "post",
    "read_answer",
    "target",
]

_PORTS = {"http": 80, "https": 443}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A server; `prefix` is put before every route and has no slash at its end.

    With `is_in_process` the host is the name of a node in this process.
    """

    host: str
    port: int
    is_tls: bool = False
    prefix: str = ""
    is_in_process: bool = False

    @classmethod
    def parse(cls, server: str) -> "Address":
        """Read a URL such as `https://queue.example:8443/prefix`; keys never belong in it."""
        try:
            parts = urlsplit(server)
            port = parts.port
        except ValueError as error:
            raise GoQueueError("request_invalid", f"{server!r} is no server: {error}") from error
        if parts.scheme == SCHEME and parts.hostname:
            return cls(host=parts.hostname, port=0, is_in_process=True)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise GoQueueError("request_invalid", f"{server!r} is no http:// or https:// URL")
        if not parts.hostname.isascii():
            raise GoQueueError("request_invalid", "write the host's name in its xn-- form")
        if parts.query or parts.fragment or parts.username is not None:
            raise GoQueueError(
                "request_invalid", "a server URL has no user, query or fragment; see api_key"
            )
        return cls(
            host=parts.hostname,
            port=_PORTS[parts.scheme] if port is None else port,
            is_tls=parts.scheme == "https",
            prefix=quote(parts.path.rstrip("/"), safe="/%"),
        )

    @property
    def authority(self) -> str:
        """Host and port as the Host header gives them."""
        if self.is_in_process:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def target(*parts: str | int, **query: str | float | None) -> str:
    """A path of percent-encoded parts and a query; what is None is left out."""
    path = "".join(f"/{quote(str(part), safe='')}" for part in parts)
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one connection.

    Requests that wait for messages have connections of their own, or they would hold up the rest.
    `on_reply` is called with the body of every successful reply, as the server sent it.
    """

    server: str
    api_key: str | None = None
    timeout_s: float = 30.0
    tls: ssl.SSLContext | None = None
    retries: Retries = Retries()
    client_id: str = "python"
    connections_max: int = 16
    waiting_connections_max: int = 256
    idle_s_max: float = 30.0
    response_bytes_max: int = 64 * 1024 * 1024
    on_reply: Callable[[bytes], object] | None = None


_HEADERS_MAX = 100


class Response(msgspec.Struct, frozen=True):
    """An answer. Names of headers are in lower case.

    `asked_at` is when its request was sent, by the clock of the connection; of several attempts
    the last.
    """

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    asked_at: float = 0.0


class HttpConnection(asyncio.Protocol):
    """The client's end of one connection."""

    def __init__(self, bytes_max: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._bytes_max = bytes_max
        self._time = clock.time
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Response] | None = None
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_open = False
        self._asked_at = 0.0
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        return self._is_open and self._waiter is None

    async def ask(self, head: bytes, body: bytes | bytearray) -> Response:
        """Send one request and wait for its answer."""
        if self._transport is None or not self.is_usable:
            raise ServerUnreachable("the connection was closed")
        self._waiter = asyncio.get_running_loop().create_future()
        self._asked_at = self._time()
        try:
            # Together: one call to the system, and one packet for whatever fits into one.
            self._transport.writelines((head, body) if body else (head,))
            return await self._waiter
        except BaseException:
            # Whatever ended the wait, an answer may still come: nobody else may get it.
            self.abort()
            raise
        finally:
            self._waiter = None

    def abort(self) -> None:
        self._is_open = False
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are no instances of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._is_open = True

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ServerUnreachable(f"the answer is not HTTP: {error}", was_sent=True))

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        words = f"the connection was lost: {exc or 'closed by the server'}"
        self._fail(ServerUnreachable(words, was_sent=True))

    # What the parser calls

    def on_message_begin(self) -> None:
        if self._waiter is None or self._waiter.done():
            self.abort()
        self._headers, self._pieces, self._size = {}, [], 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self._headers) < _HEADERS_MAX:
            self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._bytes_max:
            words = f"the answer is larger than {self._bytes_max} bytes"
            self._fail(GoQueueError("response_too_large", words, is_outcome_unknown=True))
        else:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        if not self._parser.should_keep_alive():
            self._is_open = False
        if self._waiter is not None and not self._waiter.done():
            pieces = self._pieces
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._waiter.set_result(Response(status, self._headers, body, self._asked_at))

    def _fail(self, error: GoQueueError) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()


T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    `is_repeatable` says that sending it twice does no harm. `wait_s` is how long the server may
    hold the answer; it comes on top of the time limit. `patience_s` bounds the time of retries more
    tightly than the connection does, for what is not worth the wait. `answers` are statuses that
    carry an answer although they are no success: a probe that fails tells why. With `awaits_client`
    the answer comes from another client, who must not lack a connection because of it.
    """

    method: str
    target: str
    body: bytes | bytearray = b""
    content_type: str = JSON_MEDIA
    is_repeatable: bool = False
    wait_s: float = 0.0
    patience_s: float | None = None
    answers: frozenset[int] = frozenset()
    awaits_client: bool = False


class _Failure(msgspec.Struct, frozen=True):
    """The body of every refusal."""

    error: str
    code: str
    details: dict[str, object] = {}


_FAILURES = msgspec.json.Decoder(_Failure)
# What a proxy says when it has passed the request on and got no good answer.
_PASSED_ON = frozenset({500, 502, 504})


def get(*parts: str | int, **query: str | float | None) -> Request:
    """Ask for what is there; repeatable."""
    return Request(method="GET", target=target(*parts, **query), is_repeatable=True)


def post(
    *parts: str | int,
    fields: dict[str, object],
    is_repeatable: bool = False,
    patience_s: float | None = None,
    wait_s: float = 0.0,
) -> Request:
    """Send fields as JSON; what is None is left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return Request(
        method="POST",
        target=target(*parts),
        body=_ENCODER.encode(given),
        is_repeatable=is_repeatable,
        patience_s=patience_s,
        wait_s=wait_s,
    )


def read_answer(response: Response, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as what the contract says that it is."""
    try:
        return decoder.decode(response.body)
    except msgspec.MsgspecError as error:
        words = f"the answer is not what the contract says: {error}"
        raise GoQueueError(
            "response_invalid", words, status=response.status, is_outcome_unknown=True
        ) from error


def refused(response: Response) -> GoQueueError:
    """The exception for an answer that is no success; a proxy may have worded it."""
    has_reason = True
    try:
        failure = _FAILURES.decode(response.body)
    except msgspec.MsgspecError:
        has_reason = False
        words = f"HTTP status {response.status} without a reason"
        code = "broker_unavailable" if response.status in {502, 503, 504} else "response_invalid"
        failure = _Failure(words, code)
    error = refusal(
        failure.code,
        failure.error,
        status=response.status,
        details=failure.details,
        retry_after_s=_seconds(response.headers.get(b"retry-after", b"")),
    )
    if not has_reason and response.status in _PASSED_ON:
        error.is_outcome_unknown = True
    return error


def _seconds(text: bytes) -> float | None:
    return float(text) if text.isdigit() and len(text) < 6 else None


class Pool:
    """Connections, the one used last first: the others grow old and are closed."""

    def __init__(
        self,
        address: Address,
        tls: ssl.SSLContext | None,
        *,
        connections_max: int,
        idle_s_max: float,
        response_bytes_max: int,
        node: InProcessNode | None = None,
    ) -> None:
        """With a `node` its connections do not leave the process."""
        self._address = address
        self._tls = tls
        self._node = node
        self._idle_s_max = idle_s_max
        self._response_bytes_max = response_bytes_max
        self._room = asyncio.Semaphore(connections_max)
        self._idle: list[HttpConnection] = []
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def link(self) -> AsyncIterator[HttpConnection]:
        """A connection for one exchange."""
        async with self._room:
            link = self._reuse() or await self._open()
            try:
                yield link
            finally:
                if link.is_usable and not self._is_closed:
                    link.idle_since = asyncio.get_running_loop().time()
                    self._idle.append(link)
                else:
                    link.abort()

    def close(self) -> None:
        """Hang up; a connection in use is closed when it is given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().abort()

    def _reuse(self) -> HttpConnection | None:
        oldest = asyncio.get_running_loop().time() - self._idle_s_max
        while self._idle:
            link = self._idle.pop()
            if link.is_usable and link.idle_since >= oldest:
                return link
            link.abort()
        return None

    async def _open(self) -> HttpConnection:
        address = self._address
        if self._node is not None:
            link = HttpConnection(self._response_bytes_max, self._node.clock)
            self._node.attach(link)
            return link
        try:
            _, link = await asyncio.get_running_loop().create_connection(
                lambda: HttpConnection(self._response_bytes_max),
                address.host,
                address.port,
                ssl=self._tls,
            )
        except OSError as error:
            words = f"cannot connect to {address.authority}: {error.strerror or error}"
            raise ServerUnreachable(words) from error
        return link


_log = logging.getLogger("goqueue.client")

_VISIBLE = range(0x21, 0x7F)
# A request that is tried for longer than this is worth a line in the log.
_SILENCE_S_MAX = 1.0


class Transport:
    """The road to one server; to be used on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._address = address = Address.parse(settings.server)
        self._node = find_node(address.host) if address.is_in_process else None
        self.clock: Clock = SYSTEM_CLOCK if self._node is None else self._node.clock
        self._prompt = self._pool(settings.connections_max)
        self._waiting = self._pool(settings.waiting_connections_max)
        self._asking = self._pool(settings.waiting_connections_max)
        self._fixed = self._fixed_headers()
        self._chance = random.SystemRandom()
        # Whether the log says already that requests are being tried again.
        self._is_troubled = False
        self._is_closed = False

    async def ask(self, request: Request, on_doubt: Callable[[], None] | None = None) -> Response:
        """The answer, if it is a success; tried again as far as that is allowed and sensible.

        `on_doubt` is told of every attempt whose outcome is unknown: the server may get to it at
        any later time, whatever becomes of the next attempt.
        """
        clock = asyncio.get_running_loop().time
        started = clock()
        left_s = remaining_s()
        retries = self._settings.retries.within(request.patience_s).within(left_s)
        attempt = 0
        is_outcome_unknown = False
        while True:
            attempt += 1
            try:
                response = await self._ask_once(request)
                self._is_troubled = False
                if self._settings.on_reply is not None:
                    self._settings.on_reply(response.body)
                return response
            except GoQueueError as error:
                is_outcome_unknown = is_outcome_unknown or error.is_outcome_unknown
                if error.is_outcome_unknown and on_doubt is not None:
                    on_doubt()
                elapsed_s = clock() - started
                wait = retries.wait_s(
                    error,
                    attempt=attempt,
                    elapsed_s=elapsed_s,
                    is_repeatable=request.is_repeatable,
                    chance=self._chance,
                )
                if wait is None or self._is_closed:
                    # What an earlier attempt left open, the last one does not close.
                    error.is_outcome_unknown = is_outcome_unknown
                    raise
                if elapsed_s > _SILENCE_S_MAX:
                    self._report_trouble(error, retries.total_s - elapsed_s)
            except BaseException:
                if on_doubt is not None:
                    on_doubt()
                raise
            await self.clock.pause(wait)

    async def read(
        self,
        request: Request,
        decoder: msgspec.json.Decoder[T],
        on_doubt: Callable[[], None] | None = None,
    ) -> T:
        """Ask, and read the answer."""
        return read_answer(await self.ask(request, on_doubt), decoder)

    def _report_trouble(self, error: GoQueueError, left_s: float) -> None:
        """AsyncOnce, until something succeeds: many requests may be waiting for one server."""
        if not self._is_troubled:
            self._is_troubled = True
            server = self._address.authority
            _log.warning("%s: %s; trying again for up to %.0f s", server, error, left_s)

    def close(self) -> None:
        self._is_closed = True
        self._prompt.close()
        self._waiting.close()
        self._asking.close()

    async def _ask_once(self, request: Request) -> Response:
        if self._is_closed:
            raise Closed("the connection is closed")
        pool = self._waiting if request.wait_s else self._prompt
        if request.awaits_client:
            pool = self._asking
        timeout_s = self._settings.timeout_s + request.wait_s
        left_s = remaining_s()
        is_ours = left_s is None or left_s > timeout_s
        if left_s is not None and not is_ours:
            timeout_s = left_s
        was_sent = False
        try:
            async with asyncio.timeout(timeout_s), pool.link() as link:
                was_sent = True
                response = await link.ask(self._head(request), request.body)
        except TimeoutError:
            words = f"no answer within {timeout_s:.3g} s"
            kind = ServerUnreachable if is_ours else TimedOut
            raise kind(words, was_sent=was_sent) from None
        if not 200 <= response.status < 300 and response.status not in request.answers:
            raise refused(response)
        return response

    def _head(self, request: Request) -> bytes:
        head = f"{request.method} {self._address.prefix}{request.target} HTTP/1.1\r\n{self._fixed}"
        if request.body:
            head += f"Content-Type: {request.content_type}\r\n"
        if request.body or request.method != "GET":
            head += f"Content-Length: {len(request.body)}\r\n"
        return f"{head}\r\n".encode()

    def _fixed_headers(self) -> str:
        lines = f"Host: {self._address.authority}\r\nUser-Agent: goqueue-python\r\n"
        key = self._settings.api_key
        if key is None:
            return lines
        if not key or any(ord(character) not in _VISIBLE for character in key):
            raise GoQueueError("unauthenticated", "an API key is visible ASCII without spaces")
        return f"{lines}X-API-Key: {key}\r\n"

    def _pool(self, connections_max: int) -> Pool:
        settings = self._settings
        tls = settings.tls or ssl.create_default_context() if self._address.is_tls else None
        return Pool(
            self._address,
            tls,
            connections_max=connections_max,
            idle_s_max=settings.idle_s_max,
            response_bytes_max=settings.response_bytes_max,
            node=self._node,
        )
