"""`goqueue context`: servers and keys kept by name, and the choice of the server for a command.

Owns `~/.goqueue/config.toml`. The file holds keys, so only its user may read it, and it is replaced
as a whole, so a crash never leaves half of it. Keys are written and never shown again; an error
says where a value stood and never repeats a key. Only `context check` talks to a server.

A command uses the server of its flags, else of the environment, else of the current context, else
the default. That choice is a pure function; `load_client_settings` is the shell around it.

Invariant: every context in the file has been checked; a file with anything else is refused whole.
"""

import fcntl
import os
import re
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from goqueue.cli.options import (
    Output,
    confirm,
    force_option,
    output_option,
)
from goqueue.cli.quantities import exact_duration, parse_days
from goqueue.client.entry import DEFAULT_SERVER
from goqueue.model import SECOND, Refused, check_name

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ClientSettings",
    "ClientSettingsInvalid",
    "Context",
    "Contexts",
    "change_contexts",
    "check_key",
    "check_server",
    "check_timeout",
    "context",
    "contexts_path",
    "load_client_settings",
    "read_contexts",
    "resolve_client_settings",
]

_SERVER = re.compile(
    r"(?:https?://)?(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}))(?::([0-9]{1,5}))?"
    r"((?:/[A-Za-z0-9._~-]+)*)/?"
)
_PORT_MAX = 65_535
_KEY = re.compile(r"[!-~]{1,4096}")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_SECONDS_MAX = 86_400


class ClientSettingsInvalid(ValueError):
    """Why no server can be chosen; one line for a person."""


def check_server(given: str, place: str) -> str:
    """The address of a server without a slash at its end; one without a scheme is http."""
    found = _SERVER.fullmatch(given) if len(given) <= 2048 else None
    if found is None or int(found[1] or 0) > _PORT_MAX:
        raise ClientSettingsInvalid(f"{place} is not an address such as {DEFAULT_SERVER}")
    has_scheme = given.startswith(("http://", "https://"))
    return (given if has_scheme else f"http://{given}").removesuffix("/")


def check_key(given: str, place: str) -> str:
    """A key that can stand in a header."""
    if not _KEY.fullmatch(given):
        raise ClientSettingsInvalid(f"{place} is not a key: 1 to 4096 visible ASCII characters")
    return given


def check_timeout(given: str, place: str) -> float:
    """Seconds to wait for an answer, given as a duration or as a number of seconds."""
    try:
        seconds = float(given) if _SECONDS.fullmatch(given) else parse_days(given) / SECOND
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


_TIMEOUT_S = 30.0


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The server, the key to show it (empty: none), and how long to wait for an answer."""

    server: str = DEFAULT_SERVER
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
        server=DEFAULT_SERVER if server is None else check_server(server.value, server.place),
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


@click.group("context")
def context() -> None:
    """Save servers and API keys under names.

    They are stored in ~/.goqueue/config.toml, which only its owner can read. A flag or an
    environment variable overrides the context.
    """


@context.command("list", short_help="List all contexts.")
@output_option
def list_command(output: Output) -> None:
    """List all contexts. The current one is marked; keys are masked."""
    from goqueue.cli.output import write_items

    kept = _read()
    shown = [_shown(kept, name) for name in sorted(kept.contexts)]
    if not output.is_table:
        write_items({"contexts": shown}, "contexts", output)
    elif shown:
        _print(shown)
    else:
        print("no contexts; create one with: goqueue context set NAME --server URL")


@context.command("show", short_help="Show one context.")
@click.argument("name", required=False)
@output_option
def show_command(name: str | None, output: Output) -> None:
    """Show the context NAME, or the current one. The key is masked."""
    from goqueue.cli.output import write_document

    kept = _read()
    name = name or kept.current
    if name is None:
        raise click.UsageError("no context is in use; select one with: goqueue context use NAME")
    _named(kept, name)
    shown = _shown(kept, name)
    if output.is_table:
        _print([shown])
    else:
        write_document(shown, output)


@context.command("use", short_help="Select the context to use.")
@click.argument("name")
def use_command(name: str) -> None:
    """Use the context NAME for every command that names no other."""

    def choose(kept: "Contexts") -> "Contexts":
        kept.named(name)
        return msgspec.structs.replace(kept, current=name)

    _change(choose)
    _say(f"using context {name}: {_read().named(name).server or DEFAULT_SERVER}")


@context.command("set", short_help="Create or change a context.")
@click.argument("name")
@click.option("--server", metavar="URL", help="Server URL.")
@click.option("--api-key", metavar="KEY", help="API key; - reads it from standard input.")
@click.option("--timeout", metavar="TIME", help="How long to wait for a response: 5s, 2m.")
def set_command(name: str, *, server: str | None, api_key: str | None, timeout: str | None) -> None:
    """Create or change the context NAME.

    Options that are not given keep their value; an empty value removes it. A new context needs
    --server.
    """

    if api_key == "-":
        # A key on the command line is visible in the list of processes.
        api_key = sys.stdin.readline(8192).strip()

    is_new = False

    def put(kept: "Contexts") -> "Contexts":
        nonlocal is_new
        is_new = name not in kept.contexts
        if is_new and not server:
            raise ClientSettingsInvalid(f'context "{name}" is new: add --server URL')
        wanted: dict[str, str | float | None] = {}
        if server is not None:
            wanted["server"] = check_server(server, "--server") if server else None
        if api_key is not None:
            wanted["api_key"] = check_key(api_key, "--api-key") if api_key else None
        if timeout is not None:
            wanted["timeout"] = check_timeout(timeout, "--timeout") if timeout else None
        changed = msgspec.structs.replace(kept.contexts.get(name, Context()), **wanted)
        return msgspec.structs.replace(kept, contexts={**kept.contexts, name: changed})

    kept = _change(put)
    done = "created" if is_new else "changed"
    others = "" if kept.current == name else f"; use it with: goqueue context use {name}"
    _say(f"{done} context {name}: {kept.named(name).server or DEFAULT_SERVER}{others}")


@context.command("delete", short_help="Delete a context and its key.")
@click.argument("name")
@force_option
def delete_command(name: str, *, is_forced: bool) -> None:
    """Delete the context NAME and its key."""

    def drop(kept: "Contexts") -> "Contexts":
        kept.named(name)
        rest = {each: context for each, context in kept.contexts.items() if each != name}
        current = None if kept.current == name else kept.current
        return msgspec.structs.replace(kept, current=current, contexts=rest)

    _named(_read(), name)
    confirm(f"Delete the context {name!a} and its key?", is_forced=is_forced)
    _change(drop)
    _say(f"deleted context {name}")


@context.command("check", short_help="Connect to the server of a context.")
@click.argument("name", required=False)
@output_option
def check_command(name: str | None, output: Output) -> None:
    """Connect to the server of the context NAME, or of the current one, and show what answers.

    Exit code 3 means that the server was not reached, 1 that it refused the key.
    """
    from goqueue.cli.client import measure_server
    from goqueue.cli.output import printable, write_document

    kept = _read()
    name = name or kept.current
    if name is None:
        raise click.UsageError("no context is in use; name one: goqueue context check NAME")
    chosen = _named(kept, name)
    settings = resolve_client_settings({}, {}, Contexts(current="it", contexts={"it": chosen}))
    answer = measure_server(settings)
    if output.is_table:
        took = f"answered in {answer.milliseconds:.1f} ms"
        ready = "ready" if answer.is_ready else "not ready"
        print(printable(f"{name}: {answer.server} {took}: GoQueue {answer.version}, {ready}"))
    else:
        write_document({"context": name, **msgspec.structs.asdict(answer)}, output)


def _named(kept: Contexts, name: str) -> Context:
    try:
        return kept.named(name)
    except ClientSettingsInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


def _say(words: str) -> None:
    from goqueue.cli.output import printable

    print(printable(words))


def _read() -> "Contexts":

    try:
        return read_contexts(contexts_path(os.environ))
    except ClientSettingsInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


def _change(change: "Callable[[Contexts], Contexts]") -> Contexts:

    try:
        return change_contexts(contexts_path(os.environ), change)
    except ClientSettingsInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


class _Shown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A context as it is shown."""

    name: str
    current: bool
    server: str = ""
    api_key: str = ""
    timeout: float | None = None


def _shown(kept: "Contexts", name: str) -> _Shown:
    chosen: Context = kept.contexts[name]
    return _Shown(
        name=name,
        current=name == kept.current,
        server=chosen.server or "",
        api_key="***" if chosen.api_key else "",
        timeout=chosen.timeout,
    )


def _print(contexts: list[_Shown]) -> None:
    from goqueue.cli.output import console, table

    rows = [
        (
            each.name,
            "*" if each.current else "",
            each.server,
            each.api_key,
            "" if each.timeout is None else exact_duration(round(each.timeout * SECOND)),
        )
        for each in contexts
    ]
    console().print(table(("NAME", "CURRENT", "SERVER", "KEY", "TIMEOUT"), rows))
