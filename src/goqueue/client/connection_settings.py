"""The settings of a connection: servers, API key, timeouts, retries, number of connections."""

import ssl
from collections.abc import Callable

import msgspec

from goqueue.client.credentials import Credentials
from goqueue.client.retries import Retries

__all__ = ["Settings"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one connection.

    Requests that wait for messages have connections of their own, or they would hold up the rest.
    `on_reply` is called with the body of every successful reply, as the server sent it.

    A `tls` context replaces the three files. With `allow_plaintext` a key may be sent where others
    can read it.
    """

    server: str
    credentials: Credentials | None = None
    allow_plaintext: bool = False
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    timeout_s: float = 30.0
    tls: ssl.SSLContext | None = None
    retries: Retries = Retries()
    client_id: str = "python"
    connections_max: int = 16
    waiting_connections_max: int = 256
    idle_s_max: float = 30.0
    response_bytes_max: int = 64 * 1024 * 1024
    on_reply: Callable[[bytes], object] | None = None
