"""The HTTP/1.1 heads with which a link begins: written and parsed strictly, without IO.

A request to port 7000 proves the cluster's secret, or its connection a certificate of the cluster's
authority, before anything else is said about it. `GET /cluster/link` then becomes a link.
"""

import enum
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Sequence

from goqueue.gateways import ClientCertificate
from goqueue.model import Secret

__all__ = [
    "HEAD_BYTES_MAX",
    "SWITCHED",
    "Credentials",
    "HeadInvalid",
    "Outcome",
    "judge_request",
    "refusal_head",
    "report_request",
    "request_head",
    "status_of",
]

HEAD_BYTES_MAX = 8 * 1024
_HEADERS_MAX = 50
_PATH = "/cluster/link"
# Served over HTTP to whoever has proved to be of the cluster, one request for each connection.
_REPORTS = frozenset({"/cluster/state", "/cluster/health", "/cluster/metadata"})
_CALLS = frozenset({"/cluster/heartbeat", "/cluster/join", "/cluster/leave", "/cluster/vote"})
_BODY_BYTES_MAX = 64 * 1024
_PROTOCOL = "goqueue-peer/1"
SWITCHED = (
    f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {_PROTOCOL}\r\n\r\n"
).encode()
_REQUEST_LINE = re.compile(r"([A-Z]{1,16}) (/[!-~]{0,2000}) HTTP/1\.[01]", re.ASCII)
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ \t!-~]*?)[ \t]*", re.ASCII)
_STATUS_LINE = re.compile(r"HTTP/1\.1 ([0-9]{3})(?: .*)?", re.ASCII)


class HeadInvalid(Exception):
    """What came is no head of a request or response."""


class Outcome(enum.Enum):
    """What is to become of a request: its status, and the code and words of a refusal."""

    LINK = (101, "", "")
    REPORT = (200, "", "")
    UNPROVED = (401, "unauthenticated", "the cluster secret or a cluster certificate is needed")
    UNKNOWN = (404, "not_found", "there is no such route on this port")
    UNUPGRADED = (426, "upgrade_required", f"the route speaks {_PROTOCOL}")
    INVALID = (400, "request_invalid", "the request is not valid HTTP/1.1")

    @property
    def status(self) -> int:
        return self.value[0]


class Credentials:
    """What proves a broker of the cluster: a secret, a verified certificate, or either.

    Several secrets are accepted while brokers are given another one; the first is sent.
    """

    def __init__(self, *secrets: Secret, accepts_certificates: bool = False) -> None:
        self._accepts_certificates = accepts_certificates
        self._secrets: tuple[Secret, ...] = ()
        self._digests: tuple[bytes, ...] = ()
        # Rises when a secret is no longer accepted.
        self.generation = 0
        self.replace(secrets)

    def replace(self, secrets: Sequence[Secret]) -> bool:
        """Accept these from now on, and send the first; whether another one was accepted before."""
        kept = tuple(each for each in secrets if each)
        assert kept or self._accepts_certificates, "nothing would prove a broker"
        digests = tuple(hashlib.sha256(each.reveal().encode()).digest() for each in kept)
        has_dropped = not set(self._digests) <= set(digests)
        self._secrets, self._digests = kept, digests
        self.generation += has_dropped
        return has_dropped

    def prove(self, authorization: str, certificate: ClientCertificate | None) -> bool:
        """Whether the caller is a broker of the cluster; takes the same time for any secret."""
        if certificate is not None and self._accepts_certificates:
            return True
        scheme, _, given = authorization.partition(" ")
        digest = hashlib.sha256(given.strip().encode()).digest()
        known = [hmac.compare_digest(digest, each) for each in self._digests or (bytes(32),)]
        return any(known) and bool(self._digests) and scheme.lower() == "bearer"

    @property
    def header(self) -> str:
        """The header that proves this broker to another; empty if a certificate does."""
        if not self._secrets:
            return ""
        return f"Authorization: Bearer {self._secrets[0].reveal()}\r\n"


def request_head(host: str, credentials: Credentials) -> bytes:
    """The request of a dialling end."""
    return (
        f"GET {_PATH} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: {_PROTOCOL}\r\n"
        f"{credentials.header}\r\n"
    ).encode("ascii")


def report_request(head: bytes) -> bytes:
    """The head of a request for HTTP, without the secret, as the last of its connection."""
    lines = _lines(head)
    size = _headers(lines[1:]).get("content-length", "0")
    body = f"Content-Type: application/json\r\nContent-Length: {size}\r\n" if size != "0" else ""
    return f"{lines[0]}\r\nHost: 127.0.0.1\r\nConnection: close\r\n{body}\r\n".encode("ascii")


def judge_request(
    head: bytes, credentials: Credentials, certificate: ClientCertificate | None
) -> Outcome:
    """What is to become of the request with this head; without a proof nothing else is said."""
    try:
        lines = _lines(head)
        headers = _headers(lines[1:])
    except HeadInvalid:
        return Outcome.INVALID
    request = _REQUEST_LINE.fullmatch(lines[0])
    if request is None:
        return Outcome.INVALID
    if not credentials.prove(headers.get("authorization", ""), certificate):
        return Outcome.UNPROVED
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    path = request[2].partition("?")[0]
    if request[1] == "GET" and path in _REPORTS and not has_body:
        return Outcome.REPORT
    if request[1] == "POST" and path in _CALLS:
        return Outcome.REPORT if _has_small_body(headers) else Outcome.INVALID
    if (request[1], request[2]) != ("GET", _PATH):
        return Outcome.UNKNOWN
    tokens = {each.strip().lower() for each in headers.get("connection", "").split(",")}
    if has_body or "upgrade" not in tokens or headers.get("upgrade") != _PROTOCOL:
        return Outcome.UNUPGRADED
    return Outcome.LINK


def _has_small_body(headers: dict[str, str]) -> bool:
    size = headers.get("content-length", "0")
    is_number = size.isdecimal() and len(size) <= len(str(_BODY_BYTES_MAX))
    return "transfer-encoding" not in headers and is_number and int(size) <= _BODY_BYTES_MAX


def _lines(head: bytes) -> list[str]:
    try:
        lines = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise HeadInvalid("a character") from None
    if lines[-2:] != ["", ""] or len(lines) > _HEADERS_MAX + 3:
        raise HeadInvalid("the end")
    return lines[:-2]


def _headers(lines: Iterable[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        # A repeated header is ambiguous, and none that a broker sends is.
        if found is None or found[1].lower() in headers:
            raise HeadInvalid("a header")
        headers[found[1].lower()] = found[2]
    return headers


def refusal_head(outcome: Outcome) -> bytes:
    """The whole response of a refused request."""
    status, code, words = outcome.value
    body = json.dumps({"error": words, "code": code, "status": status}).encode()
    extra = "WWW-Authenticate: Bearer\r\n" if outcome is Outcome.UNPROVED else ""
    if outcome is Outcome.UNUPGRADED:
        extra = f"Upgrade: {_PROTOCOL}\r\n"
    return (
        f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{extra}Connection: close\r\n\r\n"
    ).encode() + body


def status_of(head: bytes) -> int:
    """The status in the head of a response; raises HeadInvalid."""
    lines = _lines(head)
    found = _STATUS_LINE.fullmatch(lines[0])
    if found is None:
        raise HeadInvalid("the status line")
    status = int(found[1])
    if status == Outcome.LINK.status and _headers(lines[1:]).get("upgrade") != _PROTOCOL:
        raise HeadInvalid("another protocol")
    return status
