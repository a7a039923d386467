"""Who is at the other end of a connection: its address, and what TLS has proved about it.

Read once, when a connection is made. A certificate is here only if OpenSSL has verified it against
the authorities of the listener; nothing here decides what its holder may do.

Invariant: an IPv4 client has one address, however the socket writes it.
"""

import asyncio
import functools
import hashlib
import ipaddress
import ssl
from collections.abc import Iterable

import msgspec

__all__ = ["ClientCertificate", "Peer", "network_of", "normal_address", "peer_of"]

_IPV6_SHARED_BITS = 64
# Kinds of names by which a certificate may be tied to a key; others are left out.
_KINDS = {"DNS": "dns", "IP Address": "ip", "URI": "uri", "email": "email"}

# What one client of IPv6 can choose its addresses from.
_IPV6_SHARED_BITS = 64


class ClientCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that a client has proved to hold.

    `names` are its subject alternative names, such as `uri:spiffe://prod/billing` and
    `dns:billing.internal`; the common name is none of them. `sha256` is its fingerprint in
    hexadecimal. `expires_at_s` counts from the epoch.
    """

    names: tuple[str, ...]
    sha256: str
    expires_at_s: float

    @property
    def proofs(self) -> tuple[str, ...]:
        """What a key may name of it: the fingerprint, which no other certificate has, first."""
        return (f"sha256:{self.sha256}", *self.names)


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The client of one connection."""

    address: str = ""
    is_tls: bool = False
    certificate: ClientCertificate | None = None

    def has_expired(self, now_s: float) -> bool:
        """Whether its certificate is past its end: a resumed session is not verified again."""
        return self.certificate is not None and self.certificate.expires_at_s <= now_s


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """The client of a connection that was just made."""
    name = transport.get_extra_info("peername")
    address = normal_address(str(name[0])) if isinstance(name, tuple) else ""
    session: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if session is None:
        return Peer(address=address)
    return Peer(address=address, is_tls=True, certificate=_certificate_of(session))


def _certificate_of(session: ssl.SSLObject) -> ClientCertificate | None:
    decoded = session.getpeercert()
    encoded = session.getpeercert(binary_form=True)
    if not decoded or not encoded:
        return None
    named = decoded.get("subjectAltName", ())
    return ClientCertificate(
        names=tuple(_names(named)),
        sha256=hashlib.sha256(encoded).hexdigest(),
        expires_at_s=ssl.cert_time_to_seconds(str(decoded["notAfter"])),
    )


def _names(named: Iterable[object]) -> Iterable[str]:
    for each in named:
        if isinstance(each, tuple) and len(each) == 2 and each[0] in _KINDS:
            yield f"{_KINDS[each[0]]}:{each[1]}"


def normal_address(text: str) -> str:
    """An address as it is counted: an IPv4 one that came through IPv6 is the IPv4 one."""
    if not text.lower().startswith("::ffff:"):
        return text
    try:
        mapped = ipaddress.IPv6Address(text).ipv4_mapped
    except ValueError:
        return text
    return text if mapped is None else str(mapped)


# Asked several times for each connection, also for one that is dropped at once.
@functools.lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """What one client can choose its addresses from: an IPv4 address, or a /64 of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        if mapped is not None:
            return str(mapped)
        return str(ipaddress.ip_network((parsed, _IPV6_SHARED_BITS), strict=False))
    return str(parsed)
