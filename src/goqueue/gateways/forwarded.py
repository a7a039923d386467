"""Whom a proxy speaks for: the address of a client behind proxies that the operator trusts.

`X-Forwarded-For` is text of whoever sends it, so it is believed only where a trusted proxy wrote
it: read from right to left, each entry counts if everything to its right is a trusted proxy. The
first address that is none is the client. Used for logs, the audit log and the delay of failed
attempts; it never decides what a caller may do.
"""

import ipaddress
from collections.abc import Mapping

from goqueue.gateways.peer import normal_address

__all__ = ["TrustedProxies"]

_HOPS_MAX = 32
_HEADER = b"x-forwarded-for"

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """The proxies whose word is taken."""

    def __init__(self, networks: tuple[_Network, ...] = ()) -> None:
        self._networks = networks

    def includes(self, address: str) -> bool:
        """Whether an address is that of a trusted proxy."""
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        # A network does not contain addresses of the other version.
        return any(parsed in network for network in self._networks)

    def client_of(self, address: str, headers: Mapping[bytes, bytes]) -> str:
        """The client of a request that came from an address."""
        if not self._networks or not self.includes(address):
            return address
        entries = headers.get(_HEADER, b"").decode("latin-1").split(",")
        for entry in entries[: -_HOPS_MAX - 1 : -1]:
            named = _address(entry)
            if named is None:
                # What stands to the left of it cannot be trusted either.
                return address
            address = named
            if not self.includes(address):
                break
        return address


def _address(entry: str) -> str | None:
    """The address of an entry as it is counted, without a port; None if there is none."""
    text = entry.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return normal_address(str(ipaddress.ip_address(text)))
    except ValueError:
        return None
