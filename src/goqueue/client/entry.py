"""The ways in: `connect` and `connect_sync`, imported by the top package.

Imports what it opens only when it is called, so that `import goqueue` stays as cheap as it was.
"""

import os
from typing import TYPE_CHECKING

from goqueue.client.option_checks import check_seconds

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from goqueue.client.connection import Connection
    from goqueue.client.credentials import Credentials
    from goqueue.client.retries import Retries
    from goqueue.client.sync import SyncConnection
    from goqueue.model import Secret

__all__ = ["DEFAULT_SERVER", "connect", "connect_sync"]

DEFAULT_SERVER = "http://127.0.0.1:8080"


def connect(  # noqa: PLR0913 - one for each property of a connection
    server: "str | Sequence[str] | None" = None,
    *,
    api_key: "str | Secret | Credentials | None" = None,
    api_key_file: str | None = None,
    ca_file: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
    allow_plaintext: bool = False,
    timeout_s: float = 30.0,
    tls: "ssl.SSLContext | None" = None,
    retries: "Retries | None" = None,
    client_id: str = "python",
    on_reply: "Callable[[bytes], object] | None" = None,
) -> "Connection":
    """A connection, to be entered: `async with goqueue.connect() as q: ...`.

    `server` is a URL, or those of nodes of a cluster, in a list or separated by commas: requests go
    to the leaders of partitions, and past nodes that do not answer. Without it the environment
    decides: `GOQUEUE_SERVER`, else http://127.0.0.1:8080, with the key of `GOQUEUE_API_KEY` or of
    the file `GOQUEUE_API_KEY_FILE`, and the certificate `GOQUEUE_CLIENT_CERT` with the key
    `GOQUEUE_CLIENT_KEY`; none of these is used for a server that was named in the program.

    `api_key_file` is read now, and again when the key is refused. A key is sent to a server other
    than this machine only over https, unless `allow_plaintext` is set. `ca_file` has the
    authorities (PEM) that sign the certificate of an https server; without it and without
    `GOQUEUE_CA_FILE` those of the system. `client_cert` and `client_key` (PEM) are for servers that
    ask for a certificate. `tls` is a context to use instead of these files; it has to verify.

    One attempt at a request takes at most `timeout_s`, and what may be repeated is repeated for as
    long, unless `retries` says otherwise. `client_id` names this program among the members of a
    group. `on_reply` is called with the body of every successful reply.
    """
    from goqueue.client.connection import Connection
    from goqueue.client.credentials import Credentials, client_files, environment_flag
    from goqueue.client.http import Settings
    from goqueue.client.retries import Retries

    variables = os.environ
    credentials = Credentials.given(api_key, api_key_file)
    if server is None:
        server = variables.get("GOQUEUE_SERVER") or DEFAULT_SERVER
        credentials = credentials or Credentials.of_environment(variables)
        if client_cert is None:
            client_cert, client_key = client_files(variables)
        allow_plaintext |= environment_flag("GOQUEUE_ALLOW_PLAINTEXT", variables)
    settings = Settings(
        server=server if isinstance(server, str) else ",".join(server),
        credentials=credentials,
        ca_file=ca_file or variables.get("GOQUEUE_CA_FILE") or None,
        client_cert=client_cert,
        client_key=client_key,
        allow_plaintext=allow_plaintext,
        timeout_s=check_seconds("timeout_s", timeout_s, is_positive=True),
        tls=tls,
        retries=retries or Retries(total_s=timeout_s),
        client_id=client_id,
        on_reply=on_reply,
    )
    return Connection(settings)


def connect_sync(  # noqa: PLR0913 - those of `connect`
    server: "str | Sequence[str] | None" = None,
    *,
    api_key: "str | Secret | Credentials | None" = None,
    api_key_file: str | None = None,
    ca_file: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
    allow_plaintext: bool = False,
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
        api_key_file=api_key_file,
        ca_file=ca_file,
        client_cert=client_cert,
        client_key=client_key,
        allow_plaintext=allow_plaintext,
        timeout_s=timeout_s,
        tls=tls,
        retries=retries,
        client_id=client_id,
        on_reply=on_reply,
    )
    return SyncConnection(connection)
