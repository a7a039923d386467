"""The way to a broker: which of its servers, with which key, trusting whom.

Owns what is read from files that the options name, in the process that needs it.
"""

import socket
import ssl
from pathlib import Path

from goqueue.client.http import Address
from goqueue.spark.options import Link, OptionInvalid

__all__ = ["reachable", "read_key", "read_tls"]


def read_key(link: Link) -> str | None:
    if link.token_file is None:
        return None
    try:
        return Path(link.token_file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionInvalid("goqueue.tokenFile", f"cannot be read: {error}") from error


def read_tls(link: Link) -> ssl.SSLContext | None:
    if link.ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=link.ca_file)
    except OSError as error:
        raise OptionInvalid("goqueue.tls.caFile", f"cannot be read: {error}") from error


def reachable(link: Link) -> str:
    """The first server that takes a connection; the very first if none does."""
    for server in link.servers:
        address = Address.parse(server)
        try:
            socket.create_connection((address.host, address.port), min(link.timeout_s, 3.0)).close()
        except OSError:
            continue
        return server
    return link.servers[0]
