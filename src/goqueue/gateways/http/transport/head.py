"""The head of a request: gathered line by line, then judged as a whole.

Never touches a socket. The parser has already refused what breaks the grammar; here falls what is
grammatical and still ambiguous, unsupported or too much. Invariant: a head that passes says in
exactly one way where its body ends.
"""

import msgspec

from goqueue.gateways.http.transport.limits import HttpLimits
from goqueue.gateways.http.transport.refusals import (
    HEAD_TOO_LARGE,
    UNSUPPORTED_CODING,
    UNSUPPORTED_VERSION,
    Refusal,
    malformed,
)

__all__ = ["Head", "HeadLines", "Unacceptable"]

# Two of these, and two readers may each believe a different one.
_SINGLE = frozenset(
    {
        b"authorization",
        b"content-length",
        b"content-type",
        b"host",
        b"origin",
        b"transfer-encoding",
        b"x-api-key",
        b"x-request-id",
    }
)
_SCHEMES = (b"http://", b"https://")


class Unacceptable(Exception):
    """Stops the parser: this request, and with it the connection, is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.sentence)
        self.refusal = refusal


class Head(msgspec.Struct, frozen=True):
    """A head that was found acceptable."""

    method: str
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    version: str
    # None: chunked, the body ends where its last chunk says.
    length: int | None
    expects_continue: bool


class HeadLines:
    """The target and the header lines of one head, as they came.

    What is gathered is bounded by whoever feeds the parser; the exact limits are held in `judge`,
    once per head and not once per line.
    """

    __slots__ = ("_headers", "_limits", "lines", "target")

    def __init__(self, limits: HttpLimits) -> None:
        self.target = b""
        self.lines: list[tuple[bytes, bytes]] = []
        self._headers: dict[bytes, bytes] = {}
        self._limits = limits

    def judge(self, method: str, version: str, *, is_upgrade: bool) -> Head:
        """The head, if its meaning is beyond doubt; raises Unacceptable."""
        if version not in ("1.1", "1.0"):
            raise Unacceptable(UNSUPPORTED_VERSION)
        if method == "CONNECT":
            raise Unacceptable(malformed("CONNECT is for proxies"))
        if is_upgrade:
            raise Unacceptable(malformed("no other protocol can be upgraded to"))
        self._gather_headers()
        headers = self._headers
        path, query = self._split_target(method)
        if b"host" not in headers and version == "1.1":
            raise Unacceptable(malformed("the Host header is missing"))
        return Head(
            method,
            path,
            query,
            headers,
            version,
            self._length(version),
            version == "1.1" and headers.get(b"expect", b"").lower() == b"100-continue",
        )

    def _gather_headers(self) -> None:
        headers = self._headers
        room = self._limits.head_bytes_max - len(self.target)
        for name, value in self.lines:
            room -= len(name) + len(value) + 4
            name = name.lower()
            value = value.rstrip(b" \t")
            if name not in headers:
                headers[name] = value
            elif name in _SINGLE:
                raise Unacceptable(malformed(f"more than one {name.decode()} header"))
            else:
                headers[name] += b", " + value
        if room < 0 or len(self.lines) > self._limits.headers_max:
            raise Unacceptable(HEAD_TOO_LARGE)

    def _length(self, version: str) -> int | None:
        coding = self._headers.get(b"transfer-encoding")
        if coding is None:
            # The parser takes nothing but digits.
            return int(self._headers.get(b"content-length", b"0"))
        if version == "1.0" or b"content-length" in self._headers:
            raise Unacceptable(malformed("Transfer-Encoding has no place here"))
        if coding.lower() != b"chunked":
            raise Unacceptable(UNSUPPORTED_CODING)
        return None

    def _split_target(self, method: str) -> tuple[bytes, bytes]:
        target = self.target
        if b"#" in target:
            raise Unacceptable(malformed("the target has a fragment"))
        if not target.startswith(b"/") and not (target == b"*" and method == "OPTIONS"):
            target = self._strip_authority(target)
        path, _, query = target.partition(b"?")
        return path, query

    def _strip_authority(self, target: bytes) -> bytes:
        """Of a target in absolute form, the path; its authority outranks the Host header."""
        for scheme in _SCHEMES:
            if target[: len(scheme)].lower() == scheme:
                rest = target[len(scheme) :]
                break
        else:
            raise Unacceptable(malformed("the target is neither a path nor an http URL"))
        cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
        authority = rest[:cut]
        if not authority or b"@" in authority:
            raise Unacceptable(malformed("the target names no host"))
        if b"host" in self._headers:
            self._headers[b"host"] = authority
        path = rest[cut:]
        return path if path.startswith(b"/") else b"/" + path
