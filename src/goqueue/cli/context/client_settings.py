"""Whom a command speaks to: by flag, else by environment, else by context, else by default.

Pure: flags, environment and contexts are handed in. `load_client_settings` is the shell around it.
"""

from collections.abc import Mapping

import msgspec

from goqueue.cli.context.checks import ClientSettingsInvalid, check_key, check_server, check_timeout
from goqueue.cli.context.contexts import Context, Contexts, contexts_path, read_contexts

__all__ = ["ClientSettings", "load_client_settings", "resolve_client_settings"]

_SERVER = "http://127.0.0.1:8080"
_TIMEOUT_S = 30.0


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The server, the key to show it (empty: none), and how long to wait for an answer."""

    server: str = _SERVER
    api_key: str = ""
    timeout_s: float = _TIMEOUT_S


def load_client_settings(
    flags: Mapping[str, str], environment: Mapping[str, str]
) -> ClientSettings:
    """As `resolve_client_settings`, with the contexts of the user.

    Without a home directory there are none, which matters only to who asks for one.
    """
    try:
        path = contexts_path(environment)
    except ClientSettingsInvalid:
        return resolve_client_settings(flags, environment, None)
    return resolve_client_settings(flags, environment, read_contexts(path))


def resolve_client_settings(
    flags: Mapping[str, str], environment: Mapping[str, str], file: Contexts | None
) -> ClientSettings:
    """Flags are keyed `server`, `api-key`, `timeout` and `context`. An empty variable is none."""
    contexts = file if file is not None else Contexts()
    context = _choose(flags, environment, contexts)
    server = _first(flags, environment, "server", context.server)
    key = _first(flags, environment, "api-key", context.api_key)
    timeout = _first(
        flags, environment, "timeout", None if context.timeout is None else str(context.timeout)
    )
    return ClientSettings(
        server=_SERVER if server is None else check_server(server.value, server.place),
        api_key="" if key is None else check_key(key.value, key.place),
        timeout_s=_TIMEOUT_S if timeout is None else check_timeout(timeout.value, timeout.place),
    )


class _Found(msgspec.Struct, frozen=True):
    """A value and where it stood."""

    value: str
    place: str


def _choose(
    flags: Mapping[str, str], environment: Mapping[str, str], contexts: Contexts
) -> Context:
    asked = _first(flags, environment, "context", contexts.current)
    return Context() if asked is None else contexts.named(asked.value)


def _first(
    flags: Mapping[str, str], environment: Mapping[str, str], name: str, kept: str | None
) -> _Found | None:
    if name in flags:
        return _Found(flags[name], f"--{name}")
    variable = "GOQUEUE_" + name.replace("-", "_").upper()
    if environment.get(variable):
        return _Found(environment[variable], variable)
    return None if kept is None else _Found(kept, f"{name} of the context")
