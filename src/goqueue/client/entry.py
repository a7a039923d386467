"""The ways in: `connect` and `connect_sync`, imported by the top package.

Imports what it opens only when it is called, so that `import goqueue` stays as cheap as it was.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from goqueue.client.connection import Connection
    from goqueue.client.retries import Retries
    from goqueue.client.sync import SyncConnection

__all__ = ["DEFAULT_SERVER", "connect", "connect_sync", "first_reachable"]

DEFAULT_SERVER = "http://127.0.0.1:8080"


def connect(
    server: str | None = None,
    *,
    api_key: str | None = None,
    timeout_s: float = 30.0,
    tls: "ssl.SSLContext | None" = None,
    retries: "Retries | None" = None,
    client_id: str = "python",
    on_reply: "Callable[[bytes], object] | None" = None,
) -> "Connection":
    """A connection, to be entered: `async with goqueue.connect() as q: ...`.

    Without `server` and `api_key` the environment decides, `GOQUEUE_SERVER` and
    `GOQUEUE_API_KEY`, and then http://127.0.0.1:8080 without a key. A key of the environment is
    never sent to a server that was named in the program. Nothing is sent before the first request.
    One attempt at a request takes at most `timeout_s`, and what may be repeated is repeated for as
    long, unless `retries` says otherwise.
    `tls` replaces the default context of an https server. `client_id` names this program among
    the members of a group. `on_reply` is called with the body of every successful reply, for a
    program that shows or records what the server said word for word.
    """
    from goqueue.client.connection import Connection
    from goqueue.client.http import Settings
    from goqueue.client.retries import Retries

    if server is None:
        server = os.environ.get("GOQUEUE_SERVER", DEFAULT_SERVER)
        api_key = api_key or os.environ.get("GOQUEUE_API_KEY") or None
    settings = Settings(
        server=server,
        api_key=api_key,
        timeout_s=timeout_s,
        tls=tls,
        retries=retries or Retries(total_s=timeout_s),
        client_id=client_id,
        on_reply=on_reply,
    )
    return Connection(settings)


def connect_sync(
    server: str | None = None,
    *,
    api_key: str | None = None,
    timeout_s: float = 30.0,
    tls: "ssl.SSLContext | None" = None,
    retries: "Retries | None" = None,
    client_id: str = "python",
    on_reply: "Callable[[bytes], object] | None" = None,
) -> "SyncConnection":
    """The same without await, on a loop in a thread of its own; for any number of threads.

    Works at once, and as a context manager. Closed at the latest when the interpreter ends.
    `on_reply` is called on the thread of the loop, and must not wait.
    """
    from goqueue.client.sync import SyncConnection

    connection = connect(
        server,
        api_key=api_key,
        timeout_s=timeout_s,
        tls=tls,
        retries=retries,
        client_id=client_id,
        on_reply=on_reply,
    )
    return SyncConnection(connection)


def first_reachable(servers: "Sequence[str]", *, timeout_s: float) -> str:
    """The first server that takes a connection within the time; the very first if none does.

    For a program that is given several: it connects to this one. Blocks.
    """
    import socket

    from goqueue.client.http import Address

    for server in servers:
        address = Address.parse(server)
        try:
            socket.create_connection((address.host, address.port), timeout_s).close()
        except OSError:
            continue
        return server
    return servers[0]
