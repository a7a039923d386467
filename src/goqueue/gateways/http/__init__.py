"""The HTTP API: a typed table of routes over a transport of its own."""

from goqueue.gateways.http.api import HttpApi
from goqueue.gateways.http.cors import CorsPolicy
from goqueue.gateways.http.errors import ERRORS, ErrorBody
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.routing.call import ApiLimits
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpLimits
from goqueue.gateways.http.server.connection import http_listener

__all__ = [
    "ERRORS",
    "ROUTES",
    "ApiLimits",
    "CorsPolicy",
    "ErrorBody",
    "HttpApi",
    "HttpLimits",
    "Route",
    "http_listener",
]
