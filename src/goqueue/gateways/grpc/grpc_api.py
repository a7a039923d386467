"""The gRPC API as an application: finds the method of a call, proves its key, reports its end.

Owns the order of checks (form, method, key, tenant) and the table of methods. Never knows what a
method does.
"""

import asyncio
import contextlib
import itertools
import re
import secrets
import time
from collections.abc import Callable, Mapping

import msgspec

from goqueue.gateways.connection_limits import Capacity, ConnectionBytes
from goqueue.gateways.credentials import Authenticator, FailedAttempts, secret_of
from goqueue.gateways.errors import ERRORS, describe
from goqueue.gateways.forwarded import TrustedProxies
from goqueue.gateways.grpc.http2.header_codec import encode_headers
from goqueue.gateways.grpc.http2.http2_connection import Http2Connection
from goqueue.gateways.grpc.http2.streams import (
    NO_SINK,
    ConnectionScope,
    Http2Stream,
    Sink,
)
from goqueue.gateways.grpc.service_call import Method, ServiceCall
from goqueue.gateways.grpc.statuses import trailers_of
from goqueue.gateways.port import AnsweredRequest, Broker, GatewayPort, RequestObserver, ask
from goqueue.model import GRPC_MEDIA, SECOND, Caller, Code, KeyId, ProvenKey, Refused, Timestamp
from goqueue.model.requests import Done, Leave

__all__ = ["CallContext", "GrpcApi", "GrpcLimits"]

_NAME = "grpc"
_MIB = 1024 * 1024
_MEDIA = GRPC_MEDIA.encode()
_ACCEPTED_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_CLIENT_GONE = 499
_TRAILERS_ONLY = [(b":status", b"200"), (b"content-type", GRPC_MEDIA.encode())]
_UNSUPPORTED = encode_headers([(b":status", b"415")])


class GrpcLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of calls."""

    message_bytes_max: int = 16 * _MIB
    delay_ns_max: int = 671_088_640_000_000
    handling_s: float = 30.0
    # From the first byte of a message to its last one, also where a call lasts.
    message_s: float = 30.0


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """What every call has at hand. `clock` is wall time."""

    broker: Broker
    limits: GrpcLimits
    clock: Callable[[], Timestamp]
    report: Callable[..., None]
    # Leaves a group apart from the call, which may be over.
    leave: Callable[[Leave, Caller], None]


class _Scope:
    """One connection: what it has proved, and the tenant that it is counted for."""

    def __init__(self, api: "GrpcApi", connection: Http2Connection, *, is_unproven: bool) -> None:
        self._api = api
        self.connection = connection
        self.is_unproven = is_unproven
        self.held = ConnectionBytes(api.capacity, has_tenants=is_unproven)
        self._tenant = ""
        self._key: KeyId | None = None

    def count(self, proven: ProvenKey) -> None:
        """Count the connection for the tenant of its first key; raises Refused above a quota."""
        if self.is_unproven:
            self.is_unproven = False
            self.connection.prove()
        if self._key is None:
            self._tenant = self._api.tenants.open_connection(proven.id)
            self._key = proven.id
            self.held.assign(self._tenant)

    def close(self) -> None:
        """The connection is gone."""
        if self._key is not None:
            self._api.tenants.close_connection(self._tenant, self._key)
            self._key = None
        self.held.close()


def _wall() -> Timestamp:
    return Timestamp(time.time_ns())


class GrpcApi:
    """Answers calls by asking the node."""

    def __init__(  # what the runtime hands in, and tests replace one by one
        self,
        port: GatewayPort,
        methods: Mapping[bytes, Method],
        *,
        limits: GrpcLimits | None = None,
        allows_health: bool = True,
        proxies: TrustedProxies | None = None,
        clock: Callable[[], Timestamp] = _wall,
    ) -> None:
        self.tenants = port.tenants
        self._methods = methods
        self._authenticator: Authenticator = port.authenticator
        self._attempts = FailedAttempts(time.monotonic)
        self._allows_health = allows_health
        self.capacity: Capacity = port.capacity
        self._proxies = proxies or TrustedProxies()
        self._requests: RequestObserver = port.requests
        self._ids = itertools.count(1)
        self._id_prefix = secrets.token_hex(6).encode()
        self._context = CallContext(
            broker=port.broker,
            limits=GrpcLimits() if limits is None else limits,
            clock=clock,
            report=self._report,
            leave=self._leave,
        )
        self._leaving: set[asyncio.Task[None]] = set()

    def connected(self, connection: Http2Connection) -> ConnectionScope:
        """A connection was made."""
        return _Scope(self, connection, is_unproven=self._authenticator.is_on)

    def refuse(self, stream: Http2Stream, reason: str) -> None:
        """Answer a request whose headers cannot be used."""
        self._refuse(stream, Refused(Code.REQUEST_INVALID, reason=reason), b"-")

    def open(self, scope: ConnectionScope, stream: Http2Stream) -> Sink:
        """The headers of a call came."""
        assert isinstance(scope, _Scope)
        headers = stream.headers
        named = self._name(headers.get(b"x-request-id"))
        bearer, plain = headers.pop(b"authorization", None), headers.pop(b"x-api-key", None)
        media = headers.get(b"content-type", b"")
        if headers.get(b":method") != b"POST" or not media.startswith(_MEDIA):
            stream.send_headers(_UNSUPPORTED, is_last=True)
            return NO_SINK
        method = self._methods.get(headers.get(b":path", b""))
        try:
            proven = self._prove(stream, bearer, plain, method)
            if proven is not None:
                scope.count(proven)
            self._check_room(scope, proven, method)
        except Refused as refused:
            if refused.code is Code.UNAUTHENTICATED:
                self._hold(scope, stream, refused, named)
            else:
                self._refuse(stream, refused, named)
            return NO_SINK
        if method is None:
            self._refuse(stream, Refused(Code.ROUTE_NOT_FOUND), named)
            return NO_SINK
        client = self._proxies.client_of(stream.peer.address, headers)
        caller = self._caller(proven, client, named)
        call = ServiceCall(self._context, stream, method, caller, named)
        call.start()
        return call

    # ---- keys ------------------------------------------------------------------------------

    def _caller(self, proven: ProvenKey | None, client: str, named: bytes) -> Caller:
        return self._authenticator.caller(proven, _NAME, client, named.decode("ascii"))

    def _prove(
        self,
        stream: Http2Stream,
        bearer: bytes | None,
        plain: bytes | None,
        method: Method | None,
    ) -> ProvenKey | None:
        """The key of a call; None if it has none and needs none. Raises Refused."""
        if not self._authenticator.is_on:
            return None
        certificate = stream.peer.certificate
        if stream.peer.has_expired(time.time()):
            certificate = None
        is_open = method is not None and method.is_open and self._allows_health
        try:
            if bearer is not None or plain is not None:
                is_open = False
                secret = secret_of(bearer, plain)
                key = None if secret is None else self._authenticator.prove(secret, certificate)
            elif certificate is not None:
                key = self._authenticator.prove_certificate(certificate)
            else:
                key = None
        except Refused:
            # The node does not know its keys yet; who asks how it is need not wait for that.
            if not (method is not None and method.is_open and self._allows_health):
                raise
            return None
        if key is None and not is_open:
            raise Refused(Code.UNAUTHENTICATED)
        return key

    def _check_room(self, scope: _Scope, proven: ProvenKey | None, method: Method | None) -> None:
        """Refuse a call whose tenant is in debt, or does not read what it has asked for."""
        if method is None:
            return
        if method.publishes and proven is not None:
            # No body is kept of it.
            self.tenants.check_publisher(proven.id)
        if method.waits and scope.held.unsent.is_spent:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="too many answers are not read")

    def _hold(self, scope: _Scope, stream: Http2Stream, refused: Refused, named: bytes) -> None:
        """Answer a failed attempt late; the connection ends with that."""
        loop = asyncio.get_running_loop()
        address = stream.peer.address
        self.capacity.suspects.add(address, loop.time())
        client = self._proxies.client_of(address, stream.headers)
        hold = self._attempts.hold(client)
        if hold is None:
            stream.connection.cut()
            return
        self._authenticator.fail(_NAME, client)

        def answer() -> None:
            hold.release()
            self._refuse(stream, refused, named)
            scope.connection.refuse_caller()

        loop.call_later(hold.delay_s, answer)

    # ---- ends ------------------------------------------------------------------------------

    def _name(self, given: bytes | None) -> bytes:
        if given is not None and _ACCEPTED_ID.fullmatch(given):
            return given
        return b"%b-g%x" % (self._id_prefix, next(self._ids))

    def _refuse(self, stream: Http2Stream, refused: Refused, named: bytes) -> None:
        if stream.is_closed:
            return
        block = encode_headers([*_TRAILERS_ONLY, *trailers_of(refused)])
        stream.send_headers(block, is_last=True)
        self._observe(stream, named, refused, 0, 0, is_gone=False)

    def _leave(self, command: Leave, caller: Caller) -> None:
        task = asyncio.get_running_loop().create_task(self._ask_to_leave(command, caller))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _ask_to_leave(self, command: Leave, caller: Caller) -> None:
        # Refused: it was evicted before, or the node stops, which ends its leases as well.
        with contextlib.suppress(Refused):
            await ask(self._context.broker, command, Done, caller)

    def _report(
        self, call: ServiceCall, refused: Refused | None, duration_s: float, *, is_gone: bool
    ) -> None:
        duration_ns = int(duration_s * SECOND)
        self._observe(
            call.stream, call.request_id, refused, call.sent_bytes, duration_ns, is_gone=is_gone
        )

    def _observe(  # one call, told by its parts
        self,
        stream: Http2Stream,
        named: bytes,
        refused: Refused | None,
        size: int,
        duration_ns: int,
        *,
        is_gone: bool,
    ) -> None:
        if refused is None and not self._requests.logs_access:
            return
        status = _CLIENT_GONE if is_gone else 200
        answered = AnsweredRequest(
            client=self._proxies.client_of(stream.peer.address, stream.headers),
            method="gRPC",
            path=stream.headers.get(b":path", b""),
            status=status if refused is None else ERRORS[refused.code].status,
            size=size,
            request_id=named,
            duration_ns=duration_ns if self._requests.logs_access else 0,
            code="" if refused is None else refused.code.value,
            reason="" if refused is None else describe(refused.code, refused.facts),
        )
        self._requests.answered(answered)
