"""The HTTP API: a typed table of routes over a transport of its own."""

from goqueue.gateways.http.api import HttpApi
from goqueue.gateways.http.browsers import CorsPolicy
from goqueue.gateways.http.errors import ERRORS, ErrorBody
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.table import ApiLimits, Broker, NodeFacts, Route
from goqueue.gateways.http.transport import HttpLimits, HttpServer

__all__ = [
    "ERRORS",
    "ROUTES",
    "ApiLimits",
    "Broker",
    "CorsPolicy",
    "ErrorBody",
    "HttpApi",
    "HttpLimits",
    "HttpServer",
    "NodeFacts",
    "Route",
]
