"""Who sends an HTTP request: from its headers to the key that they prove.

Called when the head of a request is complete, before any byte of its body is kept. A key comes in
`Authorization: Bearer` or in `X-API-Key`, never in the query. The headers are removed here, so that
nothing behind this module can show or log them. A request without them is proved by the client
certificate of its connection, if a key names that; its date is looked at for each request.

Every failure is the same 401: a key that is missing, unknown, revoked, expired, given twice, or too
long. Nothing in its body or its time says which.
"""

import enum
import time
from collections.abc import Callable

from goqueue.gateways.credentials import Authenticator, FailedAttempts, Hold, secret_of
from goqueue.gateways.http.server.responses import UNAUTHENTICATED, Refusal
from goqueue.gateways.peer import Peer
from goqueue.model import Caller, ProvenKey, Refused

__all__ = ["Gate", "HttpAuthentication"]

_STARTING = 503
# A connection of which nothing is known.
_UNKNOWN = Peer()


class Gate(enum.Enum):
    """What a route asks of those who have no key."""

    KEY = "key"
    # Open unless `auth.allow_health` is off.
    HEALTH = "health"
    # Open on loopback, or if `auth.allow_metrics` is on.
    METRICS = "metrics"
    OPEN = "open"


class HttpAuthentication:
    """Checks the keys of requests, and holds back the answers to those that fail."""

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        allows_health: bool = True,
        allows_metrics: bool = True,
        is_loopback: bool = True,
        ticks: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._wall = wall
        self._authenticator = authenticator
        self._attempts = FailedAttempts(ticks)
        self._open = {
            Gate.OPEN: True,
            Gate.HEALTH: allows_health,
            Gate.METRICS: allows_metrics,
            Gate.KEY: False,
        }
        self._is_loopback = is_loopback

    @property
    def is_on(self) -> bool:
        return self._authenticator.is_on

    @property
    def shows_totals(self) -> bool:
        """Whether probes without a key are told how much the node holds."""
        return self._is_loopback or not self.is_on

    def is_open(self, gate: Gate) -> bool:
        """Whether a route needs no key."""
        return not self.is_on or self._open[gate]

    def check(
        self, gate: Gate, headers: dict[bytes, bytes], peer: Peer = _UNKNOWN
    ) -> ProvenKey | Refusal | None:
        """The key of a request; None if it has none and needs none."""
        bearer = headers.pop(b"authorization", None)
        plain = headers.pop(b"x-api-key", None)
        certificate = peer.certificate
        if certificate is not None and peer.has_expired(self._wall()):
            # It was valid when the connection was made.
            certificate = None
        try:
            if bearer is not None or plain is not None:
                secret = secret_of(bearer, plain)
                if secret is None:
                    return UNAUTHENTICATED
                return self._authenticator.prove(secret, certificate) or UNAUTHENTICATED
            key = None
            if certificate is not None:
                key = self._authenticator.prove_certificate(certificate)
            return None if key is None and self.is_open(gate) else key or UNAUTHENTICATED
        except Refused as refused:
            # The node does not know its keys yet; who asks how it is need not wait for that.
            if self.is_open(gate):
                return None
            sentence = "The node is starting: it does not know its keys yet."
            return Refusal(_STARTING, refused.code, sentence)

    def hold(self, client: str) -> Hold | None:
        """Hold back the answer to a failure; None if too many are held back."""
        held = self._attempts.hold(client)
        if held is not None:
            # What is cut at once is not even counted: its sender has failed often enough before.
            self._authenticator.fail("http", client)
        return held

    def caller(self, key: ProvenKey | None, client: str, request_id: bytes) -> Caller:
        """Who asks, for the node."""
        if key is None:
            return self._authenticator.caller(None, "http", client, "")
        return self._authenticator.caller(key, "http", client, request_id.decode("ascii"))
