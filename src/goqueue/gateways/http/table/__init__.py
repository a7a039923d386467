"""The typed table of routes: what one is, how a request finds it, how its parameters are read."""

from goqueue.gateways.http.table.call import ApiContext, ApiLimits, Broker, Call, NodeFacts, Scrape
from goqueue.gateways.http.table.parameter import (
    GROUP,
    PARTITION,
    TOPIC,
    Parameter,
    ParameterLocation,
    boolean,
    choice,
    duration,
    integer,
    moment,
    name,
    partition,
    text,
)
from goqueue.gateways.http.table.route import JSON, RECORDS, SCHEMA_REF, Answer, Route, Run
from goqueue.gateways.http.table.router import Match, MethodUnknown, Router, parse_query

__all__ = [
    "GROUP",
    "JSON",
    "PARTITION",
    "RECORDS",
    "SCHEMA_REF",
    "TOPIC",
    "Answer",
    "ApiContext",
    "ApiLimits",
    "Broker",
    "Call",
    "Match",
    "MethodUnknown",
    "NodeFacts",
    "Parameter",
    "ParameterLocation",
    "Route",
    "Router",
    "Run",
    "Scrape",
    "boolean",
    "choice",
    "duration",
    "integer",
    "moment",
    "name",
    "parse_query",
    "partition",
    "text",
]
