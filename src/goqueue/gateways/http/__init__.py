"""The HTTP API: a typed table of routes over a transport of its own."""

from goqueue.gateways.errors import ERRORS, ErrorBody
from goqueue.gateways.http.api import HttpApi
from goqueue.gateways.http.authentication import HttpAuthentication
from goqueue.gateways.http.cluster import PEER_ROUTES
from goqueue.gateways.http.cors import CorsPolicy
from goqueue.gateways.http.routes import ROUTES
from goqueue.gateways.http.routing.call import ApiLimits
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpLimits
from goqueue.gateways.http.server.http_listener import http_listener

__all__ = [
    "ERRORS",
    "PEER_ROUTES",
    "ROUTES",
    "ApiLimits",
    "CorsPolicy",
    "ErrorBody",
    "HttpApi",
    "HttpAuthentication",
    "HttpLimits",
    "Route",
    "http_listener",
]
