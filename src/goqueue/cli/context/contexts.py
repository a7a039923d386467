"""Contexts: servers with their keys, kept by name in the home directory of a user.

Owns `~/.goqueue/config.toml`. It holds keys, so nobody else may read it, and it is replaced as a
whole, so that no crash leaves half of it. Never talks to a server.

Invariant: every context in the file has been checked; a file with anything else is refused whole.
"""

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from goqueue.cli.context.checks import ClientSettingsInvalid, check_key, check_server, check_timeout
from goqueue.model import Refused, check_name

__all__ = ["Context", "Contexts", "change_contexts", "contexts_path", "read_contexts"]

_DIRECTORY = ".goqueue"
_FILE = "config.toml"
_BYTES_MAX = 1 << 20
_DIRECTORY_MODE = 0o700
_PRIVATE = 0o077


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server and how to speak to it; what is None is left to the defaults."""

    server: str | None = None
    api_key: str | None = None
    timeout: float | None = None


class Contexts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All contexts by name, and the one that is used when none is asked for."""

    current: str | None = None
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        context = self.contexts.get(name)
        if context is None:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ClientSettingsInvalid(f"there is no context {name}; there are: {known}")
        return context


def contexts_path(environment: Mapping[str, str]) -> str:
    """Where the contexts of this user are kept."""
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        raise ClientSettingsInvalid("HOME is not set: there is no place for contexts")
    return f"{home}/{_DIRECTORY}/{_FILE}"


def read_contexts(path: str) -> Contexts:
    """What the file holds; none if it is absent."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such path"
        raise ClientSettingsInvalid(f"{path} cannot be read: {reason}") from None
    if len(content) > _BYTES_MAX:
        raise ClientSettingsInvalid(f"{path} has more than {_BYTES_MAX} bytes")
    try:
        contexts = msgspec.toml.decode(content, type=Contexts)
        _check(contexts)
    except (ValueError, RecursionError) as broken:
        # Errors of decoding are ValueErrors; none of them repeats a value.
        reason = "nested too deeply" if isinstance(broken, RecursionError) else str(broken)
        raise ClientSettingsInvalid(f"{path} is broken: {reason}") from None
    return contexts


def change_contexts(path: str, change: Callable[[Contexts], Contexts]) -> Contexts:
    """Replace the file by its changed content; two that change it at once take turns."""
    # A link is kept: what it leads to is replaced.
    target = os.path.realpath(path)
    directory, name = os.path.split(target)
    try:
        # The home directory itself is not ours to make.
        Path(directory).mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ClientSettingsInvalid(f"{directory} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = change(read_contexts(target))
        _check(changed)
        _replace(directory, name, _toml(changed))
    except OSError as error:
        raise ClientSettingsInvalid(f"{path} cannot be written: {error.strerror}") from None
    finally:
        os.close(lock)
    return changed


def _replace(directory: str, name: str, content: bytes) -> None:
    from goqueue.runtime import OsFileSystem
    from goqueue.storage import atomic_write

    # From its first byte on, the new file is for the owner alone.
    before = os.umask(_PRIVATE)
    try:
        atomic_write(OsFileSystem(directory), ".", name, content)
    finally:
        os.umask(before)


def _check(contexts: Contexts) -> None:
    for name, context in contexts.contexts.items():
        try:
            check_name(name, "name")
        except Refused:
            words = "the name of a context has 1 to 249 of A-Z a-z 0-9 . _ -"
            raise ClientSettingsInvalid(words) from None
        if context.server is not None:
            check_server(context.server, f"server of context {name}")
        if context.api_key is not None:
            check_key(context.api_key, f"api_key of context {name}")
        if context.timeout is not None:
            check_timeout(str(context.timeout), f"timeout of context {name}")
    if contexts.current is not None and contexts.current not in contexts.contexts:
        raise ClientSettingsInvalid("the current context is none of those in the file")


def _toml(contexts: Contexts) -> bytes:
    """JSON writes strings and numbers as TOML does, and checked ones hold no control characters."""
    lines: list[bytes] = []
    if contexts.current is not None:
        lines.append(b"current = " + msgspec.json.encode(contexts.current))
    for name, context in sorted(contexts.contexts.items()):
        lines += [b"", b"[contexts." + msgspec.json.encode(name) + b"]"]
        for field, value in msgspec.structs.asdict(context).items():
            if value is not None:
                lines.append(field.encode() + b" = " + msgspec.json.encode(value))
    return b"\n".join(lines).lstrip() + b"\n"
