"""Who calls: from a secret or a client certificate to the key that it proves, for every gateway.

A gateway hands the secret to `Authenticator.prove` as soon as it has it and forgets it; what goes
to the node is a `Caller` with the id of the key. A key that names a certificate is proved by that
certificate, and its secret is worth nothing over another connection. Never knows what a key may do:
the node decides that, for each command (docs/adr/0037-callers-and-access.md).

Hostile callers: a wrong secret is answered late, and later each time. A right one never waits, so
nobody is kept out by the failures of another behind the same address. How many answers are held
back, and how many addresses are remembered, is bounded.
"""

from collections.abc import Callable

from goqueue.gateways.peer import ClientCertificate, network_of
from goqueue.model import ANONYMOUS, LOCAL, SECOND, Caller, ProvenKey
from goqueue.model.requests import key_digest

__all__ = [
    "SECRET_BYTES_MAX",
    "Authenticator",
    "FailedAttempts",
    "Hold",
    "Identify",
    "key_digest",
    "secret_of",
]

# The key of a digest over a connection that has proved these names of certificates, or without a
# digest the key of the names themselves; raises Refused while the node does not know its keys yet.
Identify = Callable[[bytes | None, tuple[str, ...]], ProvenKey | None]

SECRET_BYTES_MAX = 4096

_SCHEME = b"bearer"

_DELAY_S_MIN = 0.1
_DELAY_S_MAX = 5.0
_HELD_MAX = 512
_ADDRESSES_MAX = 10_000
# An address that fails no more is as good as new after this time.
_FORGOTTEN_S = 60.0


class Hold:
    """An answer to a failed attempt that is held back; `release` it once, however it ends."""

    __slots__ = ("_attempts", "delay_s")

    def __init__(self, attempts: "FailedAttempts", delay_s: float) -> None:
        self._attempts = attempts
        self.delay_s = delay_s

    def release(self) -> None:
        self._attempts.end(self)


class FailedAttempts:
    """How often addresses have failed lately, and how many of their answers are held back."""

    def __init__(self, ticks: Callable[[], float], *, held_max: int = _HELD_MAX) -> None:
        self._ticks = ticks
        self._held_max = held_max
        self._held: dict[Hold, None] = {}
        # The delay of the next answer and when the last failure was; the oldest first.
        self._delays: dict[str, tuple[float, float]] = {}

    @property
    def held_count(self) -> int:
        """How many answers are held back."""
        return len(self._held)

    def hold(self, address: str) -> Hold | None:
        """Record a failure; None if too many answers are held back to hold one more."""
        now = self._ticks()
        network = network_of(address)
        delay_s, at = self._delays.pop(network, (_DELAY_S_MIN, now))
        if now - at > _FORGOTTEN_S:
            delay_s = _DELAY_S_MIN
        if len(self._delays) >= _ADDRESSES_MAX:
            del self._delays[next(iter(self._delays))]
        self._delays[network] = (min(2 * delay_s, _DELAY_S_MAX), now)
        if len(self._held) >= self._held_max:
            return None
        held = Hold(self, delay_s)
        self._held[held] = None
        return held

    def end(self, held: Hold) -> None:
        self._held.pop(held, None)


class Authenticator:
    """Proves keys. Without `identify` authentication is off, and every caller is `LOCAL`."""

    def __init__(
        self,
        identify: Identify | None = None,
        record_failure: Callable[[Caller], None] | None = None,
    ) -> None:
        """`record_failure` hears of attempts that failed; it must not wait."""
        self._identify = identify
        self._record_failure = record_failure

    @property
    def is_on(self) -> bool:
        return self._identify is not None

    def prove(
        self, secret: bytes, certificate: ClientCertificate | None = None
    ) -> ProvenKey | None:
        """The key of a secret; None if there is none that is in force over this connection."""
        identify = self._identify
        assert identify is not None, "authentication is off"
        if len(secret) > SECRET_BYTES_MAX:
            return None
        if certificate is None:
            return identify(key_digest(secret), ())
        proven = identify(key_digest(secret), certificate.proofs)
        return None if proven is None else _bounded(proven, certificate)

    def prove_certificate(self, certificate: ClientCertificate) -> ProvenKey | None:
        """The key that names this certificate; None if none does."""
        assert self._identify is not None, "authentication is off"
        proven = self._identify(None, certificate.proofs)
        return None if proven is None else _bounded(proven, certificate)

    def fail(self, gateway: str, address: str) -> None:
        """An attempt to prove a key has failed."""
        if self._record_failure is not None:
            self._record_failure(Caller(ANONYMOUS.key, gateway, address))

    def caller(
        self, proven: ProvenKey | None, gateway: str, address: str, request_id: str
    ) -> Caller:
        """Who asks, for the node; without a key nobody, who may ask how the node is."""
        if self._identify is None:
            return LOCAL
        if proven is None:
            return ANONYMOUS
        return Caller(proven.id, gateway, address, request_id, proven.proof, proven.until)


def _bounded(proven: ProvenKey, certificate: ClientCertificate) -> ProvenKey:
    """The same for as long as the certificate of the connection is valid."""
    return ProvenKey(proven.id, proven.proof, int(certificate.expires_at_s * SECOND))


def secret_of(bearer: bytes | None, plain: bytes | None) -> bytes | None:
    """The one secret that a request has; None if it has two, or what is none.

    A header that was sent twice has been joined by a comma and a space, which no secret holds.
    """
    secret = plain
    if bearer is not None:
        scheme, _, given = bearer.partition(b" ")
        if scheme.lower() != _SCHEME or (plain is not None and plain != given):
            return None
        secret = given
    if not secret or b" " in secret or b"\t" in secret:
        return None
    return secret
