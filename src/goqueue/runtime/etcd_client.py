"""Carries the calls of the node to etcd, and tells it when its keys may have changed.

The node decides what is asked, when again, and what a missing reply means; here are connections,
endpoints and time. Endpoints are tried in turn: the next one is used from the first failure on.
A call is tried once: whether etcd carried it out is for the node to find out.

A watch of the keys runs beside the calls. It begins with the present and says no more than that
something changed, so nothing is missed for good by its end, or by a compaction: it begins anew, and
the node looks.

Bounds: calls at once, their time, the size of a reply, the connections that are kept. Bodies are
never logged: they hold keys and ACLs.
"""

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random

import msgspec

from goqueue.model import CallStore, StoreEvent
from goqueue.runtime.etcd_connection import EtcdConnection, EtcdReply, EtcdUnreachable
from goqueue.runtime.event_log import EventLog
from goqueue.runtime.settings import EtcdSettings, TlsSettings
from goqueue.runtime.tls import TlsUnusable, build_client_context

__all__ = ["EtcdClient", "is_sound"]

_CALL_S = 2.0
_CONNECT_S = 1.0
_CALLS_MAX = 16
_IDLE_MAX = 4
# A watch that is silent for so long may be half open.
_WATCH_S = 30.0
_DELAY_S_MIN = 0.1
_DELAY_S_MAX = 2.0
_DELAY_GROWTH_MAX = 5
_REASON_CHARACTERS_MAX = 200
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,6})")

Emit = Callable[[StoreEvent], None]


class _Version(msgspec.Struct, frozen=True):
    etcdserver: str


class _Refusal(msgspec.Struct, frozen=True):
    error: str | dict[str, object] = ""
    message: str = ""


def is_sound(version: str) -> bool:
    """Whether a version of etcd keeps what it confirmed: others lost data after a crash."""
    found = _VERSION.match(version)
    if found is None:
        return False
    major, minor, patch = map(int, found.groups())
    if (major, minor) == (3, 4):
        return patch >= 22
    return (major, minor, patch) >= (3, 5, 6)


class EtcdClient:
    """The way to etcd; `emit` hears what comes of the calls."""

    def __init__(
        self,
        settings: EtcdSettings,
        emit: Emit,
        random: Random,
        log: EventLog,
        crashed: Callable[[BaseException], None],
    ) -> None:
        """Raises TlsUnusable if the files of TLS cannot be used; `crashed` hears of bugs."""
        self._settings = settings
        self._emit = emit
        self._random = random
        self._log = log
        self._crashed = crashed
        self._endpoint = random.randrange(len(settings.endpoints))
        self._idle: list[EtcdConnection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls = 0
        # What was reported of an endpoint: its version, or what is wrong.
        self._reported: dict[str, str] = {}
        if settings.ca_file:
            self._context()

    def start(self) -> None:
        self._spawn(self._watch())

    async def stop(self) -> None:
        """End all calls: nobody hears of them any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for connection in self._idle:
            connection.abort()

    def call(self, effect: CallStore) -> None:
        """Begin a call; never waits."""
        if self._calls >= _CALLS_MAX:
            # Soon, not now: the node is in the middle of a turn.
            busy = StoreEvent(number=effect.number, reason="too many calls are on their way")
            asyncio.get_running_loop().call_soon(self._emit, busy)
            return
        self._calls += 1
        self._spawn(self._carry(effect))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            # A call that is never answered would stop the node in silence.
            self._crashed(bug)

    # Calls

    async def _carry(self, effect: CallStore) -> None:
        endpoint = self._settings.endpoints[self._endpoint]
        event: StoreEvent
        try:
            async with asyncio.timeout(_CALL_S):
                reply = await self._ask(endpoint, effect)
            event = self._event(endpoint, effect.number, reply)
        except (EtcdUnreachable, OSError, ValueError, TlsUnusable) as error:
            reason = _reason(error)
            self._leave(endpoint, reason)
            event = StoreEvent(number=effect.number, reason=f"{endpoint}: {reason}")
        finally:
            self._calls -= 1
        self._emit(event)

    async def _ask(self, endpoint: str, effect: CallStore) -> EtcdReply:
        connection = self._take_idle() or await self._connect(endpoint)
        try:
            reply = await connection.ask("POST", effect.path, effect.body)
        except BaseException:
            connection.abort()
            raise
        is_current = endpoint == self._settings.endpoints[self._endpoint]
        if connection.is_usable and is_current and len(self._idle) < _IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.abort()
        return reply

    def _take_idle(self) -> EtcdConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    def _event(self, endpoint: str, number: int, reply: EtcdReply) -> StoreEvent:
        if reply.status == 200:
            return StoreEvent(number=number, body=reply.body)
        reason = f"{endpoint}: {reply.status} {_words_of(reply.body)}"
        if reply.status >= 500:
            self._leave(endpoint, reason)
        return StoreEvent(number=number, reason=reason)

    def _leave(self, endpoint: str, reason: str) -> None:
        """An endpoint fails: use the next one, and report what is wrong with it once."""
        if endpoint == self._settings.endpoints[self._endpoint]:
            self._endpoint = (self._endpoint + 1) % len(self._settings.endpoints)
            for connection in self._idle:
                connection.abort()
            self._idle.clear()
        if self._reported.get(endpoint) != reason:
            self._reported[endpoint] = reason
            self._log("etcd_unreachable", endpoint=endpoint, reason=reason)

    async def _connect(self, endpoint: str) -> EtcdConnection:
        host, _, port = endpoint.rpartition(":")
        host = host.strip("[]")
        # Built for each connection, of which there are few: files may have been replaced.
        has_tls = bool(self._settings.ca_file)
        context = await asyncio.to_thread(self._context) if has_tls else None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_S):
            _, connection = await loop.create_connection(
                lambda: EtcdConnection(endpoint),
                host,
                int(port),
                ssl=context,
                server_hostname=host if has_tls else None,
            )
        return connection

    def _context(self) -> ssl.SSLContext:
        files = self._settings
        tls = TlsSettings(
            is_enabled=True,
            ca_file=files.ca_file,
            cert_file=files.cert_file,
            key_file=files.key_file,
        )
        context = build_client_context(tls)
        context.set_alpn_protocols(["http/1.1"])
        return context

    # The watch

    async def _watch(self) -> None:
        """Watch at whichever endpoint is in use; begin anew when it ends."""
        prefix = self._settings.prefix.rstrip("/")
        keys = {
            "key": b64encode(f"{prefix}/".encode()).decode(),
            "range_end": b64encode(f"{prefix}0".encode()).decode(),
        }
        body = msgspec.json.encode({"create_request": keys})
        failures = 0
        while True:
            endpoint = self._settings.endpoints[self._endpoint]
            try:
                await self._watch_once(endpoint, body)
                failures = 0
            except (EtcdUnreachable, OSError, ValueError, TlsUnusable) as error:
                self._leave(endpoint, _reason(error))
                failures += 1
            bound = min(_DELAY_S_MAX, _DELAY_S_MIN * 2 ** min(failures, _DELAY_GROWTH_MAX))
            await asyncio.sleep(self._random.uniform(_DELAY_S_MIN, bound + _DELAY_S_MIN))

    async def _watch_once(self, endpoint: str, body: bytes) -> None:
        connection = await self._connect(endpoint)
        try:
            async with asyncio.timeout(_CALL_S):
                await self._report_version(endpoint, connection)
            ended = asyncio.get_running_loop().create_task(
                connection.ask("POST", "/v3/watch", body, self._report_change)
            )
            try:
                await asyncio.wait((ended,), timeout=_WATCH_S)
                if ended.done():
                    reply = ended.result()
                    raise EtcdUnreachable(f"its watch ended: {reply.status}")
            finally:
                ended.cancel()
                with suppress(asyncio.CancelledError, EtcdUnreachable):
                    await ended
        finally:
            connection.abort()

    def _report_change(self, _: bytes) -> None:
        self._emit(StoreEvent())

    async def _report_version(self, endpoint: str, connection: EtcdConnection) -> None:
        reply = await connection.ask("GET", "/version")
        try:
            version = msgspec.json.decode(reply.body, type=_Version).etcdserver[:40]
        except msgspec.DecodeError:
            raise EtcdUnreachable("something else than etcd answers there") from None
        if self._reported.get(endpoint) == version:
            return
        self._reported[endpoint] = version
        self._log("etcd_connected", endpoint=endpoint, version=version)
        if not is_sound(version):
            self._log("etcd_version_unsound", endpoint=endpoint, version=version)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    return (str(error) or type(error).__name__)[:_REASON_CHARACTERS_MAX]


def _words_of(body: bytes) -> str:
    """What etcd says of an error."""
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError:
        return "without a reason"
    words = refusal.message or (refusal.error if isinstance(refusal.error, str) else "")
    return words[:_REASON_CHARACTERS_MAX]
