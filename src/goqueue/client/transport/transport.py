"""Asks one server: a connection, a time limit, and as many attempts as are allowed.

Owns the pools. Never follows a redirect, never shows the key, never decides what a request means.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from typing import TypeVar

import msgspec

from goqueue.client.errors import Closed, GoQueueError, ServerUnreachable
from goqueue.client.transport.address import Address
from goqueue.client.transport.link import Response
from goqueue.client.transport.pool import Pool
from goqueue.client.transport.request import Request, read_answer, refused
from goqueue.client.transport.settings import Settings

__all__ = ["Transport"]

T = TypeVar("T")

_log = logging.getLogger("goqueue.client")

_VISIBLE = range(0x21, 0x7F)
# A request that is tried for longer than this is worth a line in the log.
_SILENCE_S_MAX = 1.0


class Transport:
    """The road to one server; to be used on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._address = Address.parse(settings.server)
        self._prompt = self._pool(settings.connections_max)
        self._waiting = self._pool(settings.waiting_connections_max)
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
        retries = self._settings.retries.within(request.patience_s)
        attempt = 0
        is_outcome_unknown = False
        while True:
            attempt += 1
            try:
                response = await self._ask_once(request)
                self._is_troubled = False
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
            await asyncio.sleep(wait)

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

    async def _ask_once(self, request: Request) -> Response:
        if self._is_closed:
            raise Closed("the connection is closed")
        pool = self._waiting if request.wait_s else self._prompt
        timeout_s = self._settings.timeout_s + request.wait_s
        was_sent = False
        try:
            async with asyncio.timeout(timeout_s), pool.link() as link:
                was_sent = True
                response = await link.ask(self._head(request), request.body)
        except TimeoutError:
            words = f"no answer within {timeout_s:g} s"
            raise ServerUnreachable(words, was_sent=was_sent) from None
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
        )
