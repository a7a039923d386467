"""Where the server is, and how its routes are spelled."""

from urllib.parse import quote, urlencode, urlsplit

import msgspec

from goqueue.client.errors import GoQueueError

__all__ = ["Address", "target"]

_PORTS = {"http": 80, "https": 443}


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A server; `prefix` is put before every route and has no slash at its end."""

    host: str
    port: int
    is_tls: bool = False
    prefix: str = ""

    @classmethod
    def parse(cls, server: str) -> "Address":
        """Read a URL such as `https://queue.example:8443/prefix`; keys never belong in it."""
        try:
            parts = urlsplit(server)
            port = parts.port
        except ValueError as error:
            raise GoQueueError("request_invalid", f"{server!r} is no server: {error}") from error
        if parts.scheme not in _PORTS or not parts.hostname:
            raise GoQueueError("request_invalid", f"{server!r} is no http:// or https:// URL")
        if not parts.hostname.isascii():
            raise GoQueueError("request_invalid", "write the host's name in its xn-- form")
        if parts.query or parts.fragment or parts.username is not None:
            raise GoQueueError(
                "request_invalid", "a server URL has no user, query or fragment; see api_key"
            )
        return cls(
            host=parts.hostname,
            port=_PORTS[parts.scheme] if port is None else port,
            is_tls=parts.scheme == "https",
            prefix=quote(parts.path.rstrip("/"), safe="/%"),
        )

    @property
    def authority(self) -> str:
        """Host and port as the Host header gives them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def target(*parts: str | int, **query: str | float | None) -> str:
    """A path of percent-encoded parts and a query; what is None is left out."""
    path = "".join(f"/{quote(str(part), safe='')}" for part in parts)
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
