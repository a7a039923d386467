"""A listener whose connections speak HTTP/1.1."""

from goqueue.gateways.connection_limits import Capacity
from goqueue.gateways.http.server.application import Application, HttpLimits
from goqueue.gateways.http.server.connection import HttpConnection
from goqueue.gateways.http.server.reader import KnownHeads
from goqueue.gateways.listener import Endpoint, TcpListener

__all__ = ["http_listener"]


def http_listener(
    application: Application,
    endpoint: Endpoint,
    *,
    limits: HttpLimits | None = None,
    capacity: Capacity | None = None,
) -> TcpListener:
    """A listener that serves an application over HTTP/1.1."""
    held = HttpLimits() if limits is None else limits
    heads = KnownHeads()
    return TcpListener(
        "http",
        endpoint,
        lambda listener: HttpConnection(application, held, listener, heads),
        Capacity() if capacity is None else capacity,
    )
