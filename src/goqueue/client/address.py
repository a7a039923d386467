"""The address of a server: a URL, taken apart and checked."""

import ipaddress
from urllib.parse import quote, urlsplit

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.in_process import SCHEME

__all__ = ["Address", "parse_servers"]

_PORTS = {"http": 80, "https": 443}
_SERVERS_MAX = 64


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A server; `prefix` is put before every route and has no slash at its end.

    With `is_in_process` the host is the name of a node in this process.
    """

    host: str
    port: int
    is_tls: bool = False
    prefix: str = ""
    is_in_process: bool = False

    @classmethod
    def parse(cls, server: str) -> "Address":
        """Read a URL such as `https://queue.example:8443/prefix`; keys never belong in it.

        One without a scheme, such as `localhost:8080`, is http.
        """
        try:
            parts = urlsplit(server if "://" in server else f"http://{server}")
            port = parts.port
        except ValueError as error:
            raise GoQueueError("request_invalid", f"{server!r} is no server: {error}") from error
        if parts.scheme == SCHEME and parts.hostname:
            return cls(host=parts.hostname, port=0, is_in_process=True)
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
    def is_private(self) -> bool:
        """Whether nobody on the way can read what is sent."""
        if self.is_tls or self.is_in_process or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def authority(self) -> str:
        """Host and port as the Host header gives them."""
        if self.is_in_process:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_servers(servers: str) -> tuple[Address, ...]:
    """Read one URL, or those of several nodes of a cluster, separated by commas."""
    parts = [part.strip() for part in servers.split(",")]
    found = tuple(dict.fromkeys(Address.parse(part) for part in parts))
    if len(found) > _SERVERS_MAX:
        words = f"{len(found)} servers are given, at most {_SERVERS_MAX}"
        raise GoQueueError("request_invalid", words)
    if len(found) > 1 and any(each.is_in_process for each in found):
        raise GoQueueError("request_invalid", "a node in this process is no node of a cluster")
    if len({each.is_tls for each in found}) > 1:
        raise GoQueueError("request_invalid", "all servers use https://, or none of them")
    return found
