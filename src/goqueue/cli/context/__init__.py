"""`goqueue context`: servers and keys kept by name; and whom a command speaks to."""

from goqueue.cli.context.checks import ClientSettingsInvalid
from goqueue.cli.context.client_settings import (
    ClientSettings,
    load_client_settings,
    resolve_client_settings,
)
from goqueue.cli.context.commands import context
from goqueue.cli.context.contexts import Context, Contexts

__all__ = [
    "ClientSettings",
    "ClientSettingsInvalid",
    "Context",
    "Contexts",
    "context",
    "load_client_settings",
    "resolve_client_settings",
]
