"""Which web pages may talk to the server: the rules about Origin and Host.

A browser sends requests on behalf of whatever page is open. Foreign origins are turned away unless
they are listed; and a server for this machine only, without keys, answers only to names of this
machine, so that a page cannot reach it through a name of its own (DNS rebinding).
"""

import functools
import ipaddress
from collections.abc import Mapping

import msgspec

from goqueue.model import READ_HEADERS, TRACEPARENT_HEADER, Code, Refused

__all__ = ["CorsPolicy", "Headers", "preflight"]

Headers = tuple[tuple[bytes, bytes], ...]

_EXPOSED = ", ".join(("X-Request-ID", "Retry-After", *READ_HEADERS)).encode()
_ALLOWED_HEADERS = ", ".join(
    ("Authorization", "Content-Type", "X-API-Key", "X-Request-ID", TRACEPARENT_HEADER)
).encode()
_MAX_AGE = b"600"
_LOCAL_NAME = "localhost"


class CorsPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Who may come in through a browser. `is_local`: a loopback listener with auth off.

    With `is_tls` the pages of this server are those that came over https, else over http.
    """

    origins: tuple[str, ...] = ()
    is_local: bool = True
    is_tls: bool = False

    def check(self, headers: dict[bytes, bytes]) -> Headers:
        """Refuse foreign pages and names; what a listed origin is told."""
        host = headers.get(b"host")
        if self.is_local and host is not None and not _is_loopback(host):
            reason = "this server answers only to names and addresses of its own machine"
            raise Refused(Code.PERMISSION_DENIED, reason=reason)
        origin = headers.get(b"origin")
        if origin is None:
            return ()
        if self._is_listed(origin):
            return self.consent(headers)
        scheme = b"https://" if self.is_tls else b"http://"
        if host is None or origin.lower() != scheme + host.lower():
            reason = "pages of this origin may not use the API; see the setting http.cors_origins"
            raise Refused(Code.PERMISSION_DENIED, reason=reason)
        return ()

    def consent(self, headers: Mapping[bytes, bytes]) -> Headers:
        """What a page of a listed origin needs to be told to see the answer."""
        origin = headers.get(b"origin")
        if origin is None or not self._is_listed(origin):
            return ()
        return (
            (b"Access-Control-Allow-Origin", origin),
            (b"Access-Control-Expose-Headers", _EXPOSED),
            (b"Vary", b"Origin"),
        )

    def is_preflight(self, method: str, headers: dict[bytes, bytes]) -> bool:
        """Whether a browser asks, for a listed origin, if it may send the real request."""
        origin = headers.get(b"origin")
        asks = method == "OPTIONS" and b"access-control-request-method" in headers
        return asks and origin is not None and self._is_listed(origin)

    def _is_listed(self, origin: bytes) -> bool:
        return "*" in self.origins or origin.decode("latin-1") in self.origins


def preflight(allowed: tuple[str, ...]) -> Headers:
    """What a browser is told about the methods of a route."""
    return (
        (b"Access-Control-Allow-Methods", ", ".join(allowed).encode()),
        (b"Access-Control-Allow-Headers", _ALLOWED_HEADERS),
        (b"Access-Control-Max-Age", _MAX_AGE),
    )


@functools.lru_cache(maxsize=64)
def _is_loopback(host: bytes) -> bool:
    try:
        text = host.decode("ascii").lower()
    except UnicodeDecodeError:
        return False
    name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    name = name.rstrip(".")
    if name == _LOCAL_NAME or name.endswith("." + _LOCAL_NAME):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
