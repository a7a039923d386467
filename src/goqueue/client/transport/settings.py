"""How a connection behaves: where, as whom, how long, how many."""

import ssl

import msgspec

from goqueue.client.transport.retries import Retries

__all__ = ["Settings"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one connection.

    Requests that wait for messages have connections of their own, or they would hold up the rest.
    """

    server: str
    api_key: str | None = None
    timeout_s: float = 30.0
    tls: ssl.SSLContext | None = None
    retries: Retries = Retries()
    client_id: str = "python"
    connections_max: int = 16
    waiting_connections_max: int = 256
    idle_s_max: float = 30.0
    response_bytes_max: int = 64 * 1024 * 1024
