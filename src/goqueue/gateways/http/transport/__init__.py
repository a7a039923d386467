"""HTTP/1.1 over asyncio, knowing nothing of the routes: requests in, responses out, limits held."""

from goqueue.gateways.http.transport.application import Application, HttpRequest, HttpResponse
from goqueue.gateways.http.transport.limits import HttpLimits
from goqueue.gateways.http.transport.server import HttpServer

__all__ = ["Application", "HttpLimits", "HttpRequest", "HttpResponse", "HttpServer"]
