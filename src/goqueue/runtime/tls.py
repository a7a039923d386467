"""TLS of the listeners: contexts, the rehearsal of a certificate, and its replacement.

A context is built from files, rehearsed by a handshake in memory, and only then used; after that it
is never changed. OpenSSL accepts a new certificate beside an old key of another kind without an
error, and cannot forget an authority, so a reload builds another context and replaces one
reference. Connections that are open keep the session they have. Sessions of an old context are not
resumed by a new one, so a change of authorities holds for every new connection.

`TlsListeners` owns a thread that looks at the files every 10 seconds and after SIGHUP: reading and
rehearsing them must not stop the event loop. The files are looked at by size, inode and time of
change, links followed, because orchestrators replace a link.

Invariant: `current` is a context that was rehearsed with a certificate that was valid at the time.
"""

import hashlib
import os
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator

import msgspec

from goqueue.metrics import Family, Kind
from goqueue.runtime.event_log import EventLog
from goqueue.runtime.secret_files import SecretFileUnusable, check_private
from goqueue.runtime.settings import TlsSettings

__all__ = [
    "Certificate",
    "TlsListeners",
    "TlsUnusable",
    "build_client_context",
    "build_context",
    "tls_families",
]

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
# Python verifies every certificate that it accepts: to ask for one is to verify it.
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "request": ssl.CERT_OPTIONAL,
    "verify": ssl.CERT_OPTIONAL,
    "require": ssl.CERT_REQUIRED,
    "require-verify": ssl.CERT_REQUIRED,
}
_MEANING = {
    ssl.CERT_NONE: "none",
    ssl.CERT_OPTIONAL: "verify",
    ssl.CERT_REQUIRED: "require-verify",
}
_CRL = b"-----BEGIN X509 CRL-----"
_FILE_BYTES_MAX = 4 << 20
# A handshake has six flights at most.
_ROUNDS_MAX = 10
_POLL_S = 10.0
_DAY_S = 86_400
_WARNING_DAYS = (30, 7, 1)


class TlsUnusable(Exception):
    """Why a listener cannot use its certificate; one sentence for the operator."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What a client sees of the certificate of a listener."""

    names: tuple[str, ...]
    sha256: str
    expires_at_s: float

    @property
    def expires(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.expires_at_s))


def build_context(
    settings: TlsSettings, alpn: tuple[str, ...]
) -> tuple[ssl.SSLContext, Certificate]:
    """A context that was rehearsed, and its certificate; raises TlsUnusable."""
    # Never `create_default_context`, which writes the keys of sessions to SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.set_ciphers(_CIPHERS)
    context.options |= (
        ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    )
    if alpn:
        context.set_alpn_protocols(list(alpn))
    _load_certificate(context, settings)
    certificate = _rehearse(context, settings.cert_file)
    # Only now: the rehearsal has no certificate of a client.
    _load_authorities(context, settings)
    return context, certificate


def build_client_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context for connections to other nodes, with this node's certificate if it has one.

    Raises TlsUnusable.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if settings.cert_file:
        _load_certificate(context, settings)
    _load_authority_file(context, settings.ca_file)
    return context


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    cert, key = settings.cert_file, settings.key_file
    _read(cert)
    try:
        check_private(key)
    except SecretFileUnusable as unusable:
        raise TlsUnusable(f"the private key {key} {unusable}") from None
    _read(key)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except _Encrypted:
        words = "is encrypted, and nobody is there to type its passphrase: store it without one"
        raise TlsUnusable(f"the private key {key} {words}") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            words = f"the private key {key} does not belong to the certificate {cert}"
        else:
            words = f"{cert} and {key} are not a certificate and its key in PEM: {_reason(error)}"
        raise TlsUnusable(words) from None
    except OSError as error:
        raise TlsUnusable(f"{cert} or {key} cannot be read: {error.strerror}") from None


class _Encrypted(Exception):
    """A private key has a passphrase."""


def _no_password() -> str:
    raise _Encrypted


def _load_authorities(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if context.verify_mode is ssl.CERT_NONE:
        return
    _load_authority_file(context, settings.ca_file)


def _load_authority_file(context: ssl.SSLContext, path: str) -> None:
    content = _read(path)
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        words = f"{path} has no certificate authority in PEM: {_reason(error)}"
        raise TlsUnusable(words) from None
    if not context.cert_store_stats()["x509_ca"]:
        raise TlsUnusable(f"{path} has no certificate of an authority")
    if _CRL in content:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such path"
        raise TlsUnusable(f"{path} cannot be read: {reason}") from None
    if len(content) > _FILE_BYTES_MAX:
        raise TlsUnusable(f"{path} has more than {_FILE_BYTES_MAX} bytes")
    return content


def _reason(error: ssl.SSLError) -> str:
    if not error.reason:
        # Its text names a line in the source of Python.
        return "the file is damaged, or holds something else"
    return error.reason.replace("_", " ").lower()


def _rehearse(context: ssl.SSLContext, cert_file: str) -> Certificate:
    """A handshake with a client that trusts this very certificate, in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cafile=cert_file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server)
    far = context.wrap_bio(to_server, to_client, server_side=True)
    pending = [near, far]
    try:
        for _ in range(_ROUNDS_MAX):
            pending = [each for each in pending if not _is_done(each)]
            if not pending:
                break
        else:
            raise TlsUnusable(f"a handshake with {cert_file} does not come to its end")
    except ssl.SSLCertVerificationError as error:
        raise TlsUnusable(f"{cert_file} cannot be used: {error.verify_message}") from None
    except ssl.SSLError as error:
        words = f"{cert_file} cannot be used: a handshake with it fails: {_reason(error)}"
        raise TlsUnusable(words) from None
    decoded, encoded = near.getpeercert(), near.getpeercert(binary_form=True)
    assert decoded is not None
    assert encoded is not None
    named = decoded.get("subjectAltName", ())
    return Certificate(
        names=tuple(str(each[1]) for each in named),
        sha256=hashlib.sha256(encoded).hexdigest(),
        expires_at_s=ssl.cert_time_to_seconds(str(decoded["notAfter"])),
    )


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


# What a file is recognised by; None if it is not there.
_Stamp = tuple[int, int, int] | None


class _Listener:
    """The context of one listener, and when it was last replaced."""

    def __init__(self, name: str, alpn: tuple[str, ...], settings: TlsSettings) -> None:
        self.name = name
        self._alpn = alpn
        self._settings = settings
        self.context, self.certificate = build_context(settings, alpn)
        # The shortest period that a warning was written for.
        self._warned_days = _WARNING_DAYS[0] + 1

    def current(self) -> ssl.SSLContext:
        return self.context

    def reload(self) -> None:
        """Replace the context; raises TlsUnusable, and then it stays."""
        self.context, self.certificate = build_context(self._settings, self._alpn)
        self._warned_days = _WARNING_DAYS[0] + 1

    def days_to_warn_of(self, now_s: float) -> int | None:
        """The period that has begun since the last call: 30, 7, 1 or 0 days; None if none has."""
        left_s = self.certificate.expires_at_s - now_s
        begun = [days for days in (*_WARNING_DAYS, 0) if left_s <= days * _DAY_S]
        if not begun or begun[-1] >= self._warned_days:
            return None
        self._warned_days = begun[-1]
        return begun[-1]


Observe = Callable[[str, dict[str, str]], None]


def _observe_nothing(_: str, __: dict[str, str]) -> None:
    """Nobody wants to hear of it."""


class TlsListeners:
    """The contexts of all listeners of a node. `start` and `stop` are for its thread."""

    def __init__(
        self,
        settings: TlsSettings,
        log: EventLog,
        *,
        wall_s: Callable[[], float] = time.time,
        observe: Observe = _observe_nothing,
    ) -> None:
        """`observe` hears of reloads, by listener and outcome, in the thread that reloads."""
        self._settings = settings
        self._log = log
        self._observe = observe
        self._wall_s = wall_s
        self._listeners: list[_Listener] = []
        self._errors_total = 0
        self._stamps = self._look()
        self._asked = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def context_of(self, listener: str, alpn: tuple[str, ...]) -> Callable[[], ssl.SSLContext]:
        """Build the context of a listener; returns what returns the current one.

        Raises TlsUnusable.
        """
        loaded = _Listener(listener, alpn, self._settings)
        self._listeners.append(loaded)
        certificate = loaded.certificate
        self._log(
            "tls_enabled",
            listener=listener,
            names=certificate.names,
            expires=certificate.expires,
            sha256=certificate.sha256,
            client_auth=_MEANING[_CLIENT_AUTH[self._settings.client_auth]],
            min_version=self._settings.min_version,
        )
        try:
            warning = check_private(self._settings.key_file)
        except SecretFileUnusable:
            # It was usable a moment ago; the thread sees the change.
            warning = ""
        if warning:
            self._log("tls_key_exposed", file=self._settings.key_file, reason=warning)
        return loaded.current

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="tls", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._asked.set()
        if self._thread is not None:
            self._thread.join()

    def request_reload(self) -> None:
        """Read the files again soon, changed or not; returns at once."""
        self._asked.set()

    def metrics(self) -> Iterator[Family]:
        return tls_families([self])

    @property
    def errors_total(self) -> int:
        """Reloads that failed."""
        return self._errors_total

    def expiries(self) -> Iterator[tuple[str, float]]:
        """Seconds until the certificate of each listener expires, by its name."""
        now_s = self._wall_s()
        for each in self._listeners:
            yield each.name, each.certificate.expires_at_s - now_s

    def _watch(self) -> None:
        self._warn()
        while True:
            is_asked = self._asked.wait(_POLL_S)
            self._asked.clear()
            if self._stopping.is_set():
                return
            self.check(is_asked=is_asked)

    def check(self, *, is_asked: bool = False) -> None:
        """Read the files again if they have changed or somebody asked, and look at the calendar."""
        stamps = self._look()
        if is_asked or stamps != self._stamps:
            # Also if they turn out to be unusable: they are read again when they change again.
            self._stamps = stamps
            self._reload("signal" if is_asked else "change")
        self._warn()

    def _reload(self, cause: str) -> None:
        for each in self._listeners:
            try:
                each.reload()
            except TlsUnusable as unusable:
                self._errors_total += 1
                self._log("tls_reload_failed", listener=each.name, reason=str(unusable))
                self._observe(each.name, {"failure": str(unusable)})
            else:
                self._log(
                    "tls_reloaded",
                    listener=each.name,
                    cause=cause,
                    names=each.certificate.names,
                    expires=each.certificate.expires,
                    sha256=each.certificate.sha256,
                )
                facts = {"cause": cause, "sha256": each.certificate.sha256}
                self._observe(each.name, facts)

    def _warn(self) -> None:
        now_s = self._wall_s()
        for each in self._listeners:
            days = each.days_to_warn_of(now_s)
            if days is not None:
                event = "tls_certificate_expiring" if days else "tls_certificate_expired"
                self._log(event, listener=each.name, expires=each.certificate.expires)

    def _look(self) -> tuple[_Stamp, ...]:
        settings = self._settings
        return tuple(map(_stamp, (settings.cert_file, settings.key_file, settings.ca_file)))


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_ino, found.st_mtime_ns


def tls_families(found: Collection[TlsListeners]) -> Iterator[Family]:
    """The families of the certificates for clients and for other nodes together."""
    yield Family(
        name="goqueue_tls_certificate_expiry_seconds",
        kind=Kind.GAUGE,
        meaning="Seconds until the certificate of a listener expires; negative afterwards.",
        labels=("listener",),
        samples=[((name,), left_s) for each in found for name, left_s in each.expiries()],
    )
    yield Family(
        name="goqueue_tls_reload_errors_total",
        kind=Kind.COUNTER,
        meaning="Reloads of certificates that failed; the certificate in use stayed.",
        samples=[((), sum(each.errors_total for each in found))],
    )
