"""Gateways: one package per protocol, each turning bytes into commands and replies into bytes.

This package is the port that all of them share: how a gateway asks the node and what it knows of
it (`Broker`, `NodeFacts`), which stored records a reader may see (`visible_records`), what all
connections together may hold (`Capacity`), how a listener starts and stops (`Listener`,
`TcpListener`). Gateways import this port, `model` and `records`, and never each other.
docs/development/add-a-gateway.md shows how to add one.
"""

from goqueue.gateways.connection_limits import Admission, ByteBudget, Capacity, ConnectionLimits
from goqueue.gateways.listener import (
    Address,
    Connection,
    Endpoint,
    Listener,
    TcpListener,
    Traffic,
)
from goqueue.gateways.port import (
    UNOBSERVED,
    AnsweredRequest,
    Broker,
    Gateway,
    GatewayPort,
    NodeFacts,
    RequestObserver,
    Scrape,
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
    "Broker",
    "ByteBudget",
    "Capacity",
    "Connection",
    "ConnectionLimits",
    "Endpoint",
    "Gateway",
    "GatewayPort",
    "Listener",
    "NodeFacts",
    "RequestObserver",
    "Scrape",
    "TcpListener",
    "Traffic",
    "ask",
    "end_for_reader",
    "leased_records",
    "offset_after",
    "visible_records",
]
