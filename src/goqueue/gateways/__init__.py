"""Gateways: one package per protocol, each turning bytes into commands and replies into bytes.

This package is the port that all of them share: how a gateway asks the node and what it knows of
it (`Broker`, `NodeFacts`), which stored records a reader may see (`visible_records`), what all
connections together may hold (`Capacity`), how a listener starts and stops (`Listener`,
`TcpListener`). Gateways import this port, `model` and `records`, and never each other.
docs/development/add-a-gateway.md shows how to add one.
"""

from goqueue.gateways.connection_limits import Admission, ByteBudget, Capacity, ConnectionLimits
from goqueue.gateways.credentials import (
    Authenticator,
    FailedAttempts,
    Hold,
    Identify,
    key_digest,
)
from goqueue.gateways.forwarded import TrustedProxies
from goqueue.gateways.handshakes import HandshakeLimits
from goqueue.gateways.key_maker import KeyMaker, NewSecret
from goqueue.gateways.listener import (
    Address,
    Connection,
    Endpoint,
    Listener,
    TcpListener,
    Traffic,
)
from goqueue.gateways.peer import ClientCertificate, Peer, peer_of
from goqueue.gateways.port import (
    UNOBSERVED,
    AnsweredRequest,
    Broker,
    Gateway,
    GatewayPort,
    NodeFacts,
    RequestObserver,
    Scrape,
    TenantLimits,
    ask,
)
from goqueue.gateways.visibility import (
    INTERNAL_HEADERS,
    AbortedRanges,
    end_for_reader,
    leased_records,
    offset_after,
    visible_records,
)

__all__ = [
    "INTERNAL_HEADERS",
    "UNOBSERVED",
    "AbortedRanges",
    "Address",
    "Admission",
    "AnsweredRequest",
    "Authenticator",
    "Broker",
    "ByteBudget",
    "Capacity",
    "ClientCertificate",
    "Connection",
    "ConnectionLimits",
    "Endpoint",
    "FailedAttempts",
    "Gateway",
    "GatewayPort",
    "HandshakeLimits",
    "Hold",
    "Identify",
    "KeyMaker",
    "Listener",
    "NewSecret",
    "NodeFacts",
    "Peer",
    "RequestObserver",
    "Scrape",
    "TcpListener",
    "TenantLimits",
    "Traffic",
    "TrustedProxies",
    "ask",
    "end_for_reader",
    "key_digest",
    "leased_records",
    "offset_after",
    "peer_of",
    "visible_records",
]
