"""TLS of the client: its context, and what is wrong when a connection cannot be made.

Verification has no switch: a private authority is a `ca_file`. OpenSSL says that a certificate is
bad, not whose it is or what to do; so after a failure the certificate is looked at over a
connection of its own, on which nothing is sent, and the sentence names it.
"""

import asyncio
import errno
import ssl
import time
from pathlib import Path

from goqueue.client.errors import ArgumentInvalid, GoQueueError, ServerUnreachable, TlsError

__all__ = [
    "check_context",
    "client_context",
    "connection_error",
    "is_tls_alert",
    "session_error",
    "speaks_tls",
]

# Codes of OpenSSL's verification.
_NOT_YET_VALID, _EXPIRED, _REVOKED = 9, 10, 23
_UNTRUSTED = frozenset({18, 19, 20, 21})
_WRONG_NAME = frozenset({62, 63, 64})
# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for.
_NO_CHECK_TIME = 0x200000
_LOOK_S = 3.0
# A server that answers a hello with something else than TLS.
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
# The record type of an alert, which a TLS port sends to a client that does not speak it.
_ALERT = 0x15


def client_context(ca_file: str | None, cert: str | None, key: str | None) -> ssl.SSLContext:
    """A context that verifies servers; raises ArgumentInvalid if a file cannot be used."""
    # Not `create_default_context`, which writes the keys of sessions to SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ValueError) as error:
            raise ArgumentInvalid(f"ca_file {ca_file} {_unusable(error)}") from None
    if key is not None and cert is None:
        raise ArgumentInvalid("client_key is given without client_cert")
    if cert is not None:
        try:
            context.load_cert_chain(cert, key, password=_no_password)
        except _Encrypted:
            words = "is encrypted: store the key without a passphrase, readable by you alone"
            raise ArgumentInvalid(f"client_key {key or cert} {words}") from None
        except (OSError, ValueError) as error:
            if key is None and _lacks_key(cert):
                words = "holds no private key: give that as client_key"
                raise ArgumentInvalid(f"client_cert {cert} {words}") from None
            named = cert if key is None else f"{cert} or client_key {key}"
            raise ArgumentInvalid(f"client_cert {named} {_unusable(error)}") from None
    return context


def check_context(context: ssl.SSLContext) -> ssl.SSLContext:
    """Refuse a context of the program that does not verify the server."""
    if context.verify_mode is not ssl.CERT_REQUIRED or not context.check_hostname:
        raise ArgumentInvalid(
            "this TLS context does not verify the server, which cannot be switched off: "
            "trust its authority with ca_file"
        )
    return context


class _Encrypted(Exception):
    """A private key has a passphrase."""


def _no_password() -> str:
    raise _Encrypted


def _lacks_key(path: str) -> bool:
    """Whether a file has a certificate and no private key."""
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError):
        return False
    return b"-----BEGIN CERTIFICATE" in content and b"PRIVATE KEY-----" not in content


def _unusable(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        known = error.reason.replace("_", " ").lower() if error.reason else "it is not PEM"
        return f"cannot be used: {known}"
    reason = error.strerror if isinstance(error, OSError) else "no such path"
    return f"cannot be read: {reason}"


async def connection_error(
    error: OSError, host: str, port: int, tls: ssl.SSLContext | None
) -> GoQueueError:
    """Why a connection was not made, in one sentence with what to do."""
    where = f"{host}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        seen = await _look(host, port) if tls is not None else {}
        return TlsError(f"{where}: {_bad_certificate(error, host, seen)}")
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return session_error(error, where)
    if tls is not None and (
        isinstance(error, ConnectionResetError | ConnectionAbortedError | ssl.SSLEOFError)
        or error.errno == errno.EPIPE
    ):
        # Worth a second attempt: a server that stops does the same.
        return ServerUnreachable(
            f"{where} closed the connection during the TLS handshake; it may require a client "
            "certificate (client_cert), or be stopping"
        )
    return ServerUnreachable(f"cannot connect to {where}: {error.strerror or error}")


def session_error(error: ssl.SSLError, where: str) -> TlsError:
    """Why TLS with a server failed."""
    reason = error.reason or ""
    if reason in _NOT_TLS:
        words = "does not speak TLS on this port: use http://, or the port for https://"
    elif "CERTIFICATE_REQUIRED" in reason:
        words = "requires a client certificate: give client_cert and client_key"
    elif "UNKNOWN_CA" in reason or "CERTIFICATE_UNKNOWN" in reason or "BAD_CERT" in reason:
        words = "does not accept the client certificate: use one that its authority has signed"
    elif "ALERT_CERTIFICATE_EXPIRED" in reason:
        words = "does not accept the client certificate, which has expired: renew it"
    elif "ALERT_CERTIFICATE_REVOKED" in reason:
        words = "does not accept the client certificate, which was revoked: use another one"
    elif "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        words = "and this program have no TLS version in common: it takes 1.2 or 1.3"
    elif "HANDSHAKE_FAILURE" in reason:
        words = (
            "refused the TLS handshake: it may require a client certificate (client_cert), or "
            "have no cipher in common with this program"
        )
    else:
        words = f"failed to speak TLS: {reason.replace('_', ' ').lower() or error}"
    return TlsError(f"{where} {words}")


def is_tls_alert(data: bytes) -> bool:
    """Whether an answer to plain HTTP is that of a server which expects TLS."""
    return len(data) >= 3 and data[0] == _ALERT and data[1] == 3


def _bad_certificate(
    error: ssl.SSLCertVerificationError, host: str, seen: dict[str, object]
) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return f"the certificate expired{_on(seen, 'notAfter')}: its operator has to renew it"
    if code == _NOT_YET_VALID:
        since = _on(seen, "notBefore")
        return f"the certificate is not valid before it begins{since}: compare the clocks"
    if code in _WRONG_NAME:
        names = ", ".join(_names(seen)) or "other names"
        return f"the certificate is for {names}, not for {host}: use one of its names in the URL"
    if code in _UNTRUSTED:
        issuer = _issuer(seen)
        return (
            f"the certificate was issued by {issuer}, which is not trusted: give the "
            "certificate of that authority as ca_file"
        )
    if code == _REVOKED:
        return "the certificate was revoked: its operator has to replace it"
    return f"the certificate cannot be verified: {error.verify_message}"


def _on(seen: dict[str, object], field: str) -> str:
    given = seen.get(field)
    if given is None:
        return ""
    moment = time.gmtime(ssl.cert_time_to_seconds(str(given)))
    return time.strftime(" on %Y-%m-%d", moment)


def _names(seen: dict[str, object]) -> list[str]:
    named = seen.get("subjectAltName", ())
    return [str(each[1]) for each in named] if isinstance(named, tuple) else []


def _issuer(seen: dict[str, object]) -> str:
    issuer = seen.get("issuer", ())
    pairs = [pair for part in issuer for pair in part] if isinstance(issuer, tuple) else []
    found = dict(pairs)
    for field in ("commonName", "organizationName"):
        if field in found:
            return str(found[field])
    return "an authority that cannot be read"


async def speaks_tls(host: str, port: int) -> bool:
    """Whether a server that closes plain connections expects TLS; nothing is sent to it."""
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_LOOK_S):
            await _handshake(host, port, anyone)
    except OSError:
        return False
    return True


async def _look(host: str, port: int) -> dict[str, object]:
    """The certificate of a server, whether or not it is to be trusted; empty if there is none.

    Python decodes only certificates that were verified. So it is fetched first, and then verified
    against itself, without its time. Nothing is sent over either connection.
    """
    try:
        async with asyncio.timeout(_LOOK_S):
            anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            anyone.check_hostname = False
            anyone.verify_mode = ssl.CERT_NONE
            encoded = (await _handshake(host, port, anyone)).getpeercert(binary_form=True)
            if encoded is None:
                return {}
            itself = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            itself.check_hostname = False
            itself.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
            itself.load_verify_locations(cadata=encoded)
            return dict((await _handshake(host, port, itself)).getpeercert() or {})
    except (OSError, ValueError):
        return {}


async def _handshake(host: str, port: int, context: ssl.SSLContext) -> ssl.SSLObject:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, host, port, ssl=context)
    try:
        session: ssl.SSLObject = transport.get_extra_info("ssl_object")
        return session
    finally:
        transport.abort()
