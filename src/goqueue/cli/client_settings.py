"""The server of a command: contexts of the user, and the choice among flags, variables and them.

Owns `~/.goqueue/config.toml`. The file holds keys, so only its user may read it, and it is replaced
as a whole, so a crash never leaves half of it. Keys are written and never shown again; an error
says where a value stood and never repeats a key.

A command uses the server of its flags, else of the environment, else of the current context, else
the default. That choice is a pure function; `load_client_settings` is the shell around it.

Invariant: every context in the file has been checked; a file with anything else is refused whole.
"""

import fcntl
import functools
import os
import re
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO

import msgspec

from goqueue.client import GoQueueError
from goqueue.client.credentials import Credentials, checked_key, read_key
from goqueue.client.entry import DEFAULT_SERVER
from goqueue.model import SECOND, Refused, Secret, check_name, parse_duration

__all__ = [
    "CONTEXT_FILES",
    "ClientSettings",
    "ClientSettingsInvalid",
    "Context",
    "Contexts",
    "change_contexts",
    "check_key",
    "check_path",
    "check_server",
    "check_switch",
    "check_timeout",
    "contexts_path",
    "load_client_settings",
    "read_contexts",
    "read_key_line",
    "resolve_client_settings",
]

_SERVER = re.compile(
    r"(?:https?://)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}))(?::([0-9]{1,5}))?"
    r"((?:/[A-Za-z0-9._~-]+)*)/?"
)
_SERVERS_MAX = 64
_PORT_MAX = 65_535
_KEY = re.compile(r"[!-~]{1,4096}")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_SECONDS_MAX = 86_400
_PATH_MAX = 4096
_KEY_FLAG = "api-key"
_NONE = (None, None)
# Fields of a context that are paths.
CONTEXT_FILES = ("api_key_file", "ca_file", "client_cert", "client_key")


class ClientSettingsInvalid(ValueError):
    """Why no server can be chosen; one line for a person."""


def check_server(given: str, place: str) -> str:
    """The address of a server, or of several nodes of a cluster, separated by commas."""
    servers = given.split(",")
    if len(servers) > _SERVERS_MAX:
        raise ClientSettingsInvalid(f"{place} has more than {_SERVERS_MAX} addresses")
    return ",".join(_check_address(each.strip(" "), place) for each in servers)


def _check_address(given: str, place: str) -> str:
    """An address without a slash at its end; one without a scheme is http."""
    found = _SERVER.fullmatch(given) if len(given) <= 2048 else None
    if found is None or int(found[1] or 0) > _PORT_MAX:
        # One with a password is not shown.
        shown = "" if "@" in given else f": {given[:100]!a}"
        raise ClientSettingsInvalid(f"{place} is not an address such as {DEFAULT_SERVER}{shown}")
    has_scheme = given.startswith(("http://", "https://"))
    return (given if has_scheme else f"http://{given}").removesuffix("/")


def check_key(given: str, place: str) -> str:
    """A key that can stand in a header."""
    if not _KEY.fullmatch(given):
        raise ClientSettingsInvalid(f"{place} is not a key: 1 to 4096 visible ASCII characters")
    return given


def check_path(given: str, place: str) -> str:
    """The path of a file."""
    if not given or not given.isprintable() or len(given) > _PATH_MAX:
        raise ClientSettingsInvalid(f"{place} is not the path of a file")
    return given


def check_switch(given: str, place: str) -> bool:
    if given not in ("true", "false"):
        raise ClientSettingsInvalid(f"{place} is neither true nor false")
    return given == "true"


def check_timeout(given: str, place: str) -> float:
    """Seconds to wait for an answer, given as a duration or as a number of seconds."""
    try:
        seconds = float(given) if _SECONDS.fullmatch(given) else parse_duration(given) / SECOND
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _SECONDS_MAX:
        raise ClientSettingsInvalid(f"{place} is not a duration such as 5s, more than 0 up to 24h")
    return seconds


_DIRECTORY = ".goqueue"
_FILE = "config.toml"
_BYTES_MAX = 1 << 20
_DIRECTORY_MODE = 0o700
_PRIVATE = 0o077


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server and how to speak to it; what is None is left to the defaults."""

    server: str | None = None
    api_key: Secret | None = None
    timeout: float | None = None
    api_key_file: str | None = None
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    allow_plaintext: bool | None = None


class Contexts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All contexts by name, and the one that is used when none is asked for."""

    current: str | None = None
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        context = self.contexts.get(name)
        if context is None:
            known = ", ".join(sorted(self.contexts)) or "none"
            near = get_close_matches(name, self.contexts, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {known}"
            raise ClientSettingsInvalid(f'context "{name}" does not exist; {hint}')
        return context


def contexts_path(environment: Mapping[str, str]) -> str:
    """Where the contexts of this user are kept."""
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        raise ClientSettingsInvalid("HOME is not set, so there is no place for contexts")
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
        contexts = msgspec.toml.decode(content, type=Contexts, dec_hook=_read_secret)
        _check(contexts)
    except (ValueError, RecursionError) as broken:
        # Errors of decoding are ValueErrors; none of them repeats a value.
        reason = "nested too deeply" if isinstance(broken, RecursionError) else str(broken)
        raise ClientSettingsInvalid(f"{path} is broken: {reason}") from None
    return contexts


def _read_secret(kind: type, value: object) -> object:
    """Secrets are text in the file."""
    if kind is not Secret or not isinstance(value, str):
        raise ValueError("a key is not text")
    return Secret(value)


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
            check_key(context.api_key.reveal(), f"api_key of context {name}")
            if context.api_key_file is not None:
                words = "has an api_key and an api_key_file: keep one of them"
                raise ClientSettingsInvalid(f'context "{name}" {words}')
        for field in CONTEXT_FILES:
            path: str | None = getattr(context, field)
            if path is not None:
                check_path(path, f"{field} of context {name}")
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
            shown = value.reveal() if isinstance(value, Secret) else value
            if shown is not None:
                lines.append(field.encode() + b" = " + msgspec.json.encode(shown))
    return b"\n".join(lines).lstrip() + b"\n"


_TIMEOUT_S = 30.0


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The server, the key to show it, its certificates, and how long to wait for an answer."""

    server: str = DEFAULT_SERVER
    credentials: Credentials | None = None
    timeout_s: float = _TIMEOUT_S
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    allow_plaintext: bool = False


def load_client_settings(
    flags: Mapping[str, str], environment: Mapping[str, str]
) -> ClientSettings:
    """As `resolve_client_settings`, with the contexts of the user and a key of standard input.

    Without a home directory there are none, which matters only to who asks for one.
    """
    if flags.get(_KEY_FLAG) == "-":
        flags = {**flags, _KEY_FLAG: read_key_line()}
    try:
        path = contexts_path(environment)
    except ClientSettingsInvalid:
        return resolve_client_settings(flags, environment, None)
    return resolve_client_settings(flags, environment, read_contexts(path))


def read_key_line() -> str:
    """The key on standard input, where no list of processes shows it."""
    return _first_line(sys.stdin)


@functools.lru_cache(maxsize=1)
def _first_line(stdin: TextIO) -> str:
    """Read once: a command may ask for it again."""
    return stdin.readline(8192).strip()


def resolve_client_settings(
    flags: Mapping[str, str], environment: Mapping[str, str], file: Contexts | None
) -> ClientSettings:
    """Flags are keyed by their long names, such as `api-key`. An empty variable is none."""
    contexts = file if file is not None else Contexts()
    context = _choose(flags, environment, contexts)
    server = _first(flags, environment, "server", context.server)
    files = {name: _file(flags, environment, name, context) for name in CONTEXT_FILES[1:]}
    plaintext = _first(
        flags,
        environment,
        "allow-plaintext",
        None if context.allow_plaintext is None else str(context.allow_plaintext).lower(),
    )
    timeout = _first(
        flags, environment, "timeout", None if context.timeout is None else str(context.timeout)
    )
    return ClientSettings(
        server=DEFAULT_SERVER if server is None else check_server(server.value, server.place),
        credentials=_credentials(flags, environment, context),
        timeout_s=_TIMEOUT_S if timeout is None else check_timeout(timeout.value, timeout.place),
        allow_plaintext=plaintext is not None and check_switch(plaintext.value, plaintext.place),
        **files,
    )


def _file(
    flags: Mapping[str, str], environment: Mapping[str, str], name: str, context: Context
) -> str | None:
    kept: str | None = getattr(context, name)
    found = _first(flags, environment, name.replace("_", "-"), kept)
    return None if found is None else check_path(found.value, found.place)


def _credentials(
    flags: Mapping[str, str], environment: Mapping[str, str], context: Context
) -> Credentials | None:
    """The key, or the file with it, that is nearest: flags, then variables, then the context."""
    kept = (None if context.api_key is None else context.api_key.reveal(), context.api_key_file)
    nearest: tuple[Mapping[str, str], Mapping[str, str], tuple[str | None, str | None]]
    for nearest in ((flags, {}, _NONE), ({}, environment, _NONE), ({}, {}, kept)):
        given, variables, (kept_key, kept_file) = nearest
        key = _first(given, variables, _KEY_FLAG, kept_key)
        file = _first(given, variables, "api-key-file", kept_file)
        if key is not None and file is not None:
            words = f"{key.place} and {file.place} are both given: give one of them"
            raise ClientSettingsInvalid(words)
        if key is not None:
            secret = Secret(check_key(key.value, key.place))
            try:
                return Credentials(key=checked_key(secret), source=key.place)
            except GoQueueError as invalid:
                raise ClientSettingsInvalid(f"{key.place}: {invalid.sentence}") from None
        if file is not None:
            path = check_path(file.value, file.place)
            try:
                return Credentials(key=read_key(path), source=f"the file {path}", file=path)
            except GoQueueError as invalid:
                raise ClientSettingsInvalid(invalid.sentence) from None
    return None


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
