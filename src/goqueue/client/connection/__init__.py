"""The connection to a server: the one object that programs hold."""

from goqueue.client.connection.connection import Connection

__all__ = ["Connection"]
