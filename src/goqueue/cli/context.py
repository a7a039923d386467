"""`goqueue context`: servers and keys kept by name.

Keys are masked. Only `context check` talks to a server.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import msgspec

from goqueue.cli.client_settings import (
    CONTEXT_FILES,
    ClientSettingsInvalid,
    Context,
    Contexts,
    change_contexts,
    check_key,
    check_path,
    check_server,
    check_switch,
    check_timeout,
    contexts_path,
    read_contexts,
    read_key_line,
    resolve_client_settings,
)
from goqueue.cli.options import (
    Output,
    confirm,
    force_option,
    output_option,
)
from goqueue.cli.quantities import exact_duration
from goqueue.client.entry import DEFAULT_SERVER
from goqueue.model import MASK, SECOND, Secret

__all__ = ["context"]


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
@click.option("-s", "--server", metavar="URL", help="Server URL.")
@click.option("--api-key", metavar="KEY", help="API key; - reads it from standard input.")
@click.option("--api-key-file", metavar="FILE", help="File with the API key.")
@click.option("--ca-file", metavar="FILE", help="Authorities that sign the server's certificate.")
@click.option("--client-cert", metavar="FILE", help="Certificate to show to the server.")
@click.option("--client-key", metavar="FILE", help="Private key of the certificate.")
@click.option(
    "--allow-plaintext",
    metavar="true|false",
    is_flag=False,
    flag_value="true",
    help="Send the key also where others can read it.",
)
@click.option("--timeout", metavar="TIME", help="How long to wait for a response: 5s, 2m.")
def set_command(name: str, **given: str | None) -> None:
    """Create or change the context NAME.

    Options that are not given keep their value; an empty value removes it. A new context needs
    --server.
    """

    if given["api_key"] == "-":
        given["api_key"] = read_key_line()
    server = given["server"]
    is_new = False

    def put(kept: "Contexts") -> "Contexts":
        nonlocal is_new
        is_new = name not in kept.contexts
        if is_new and not server:
            raise ClientSettingsInvalid(f'context "{name}" is new: add --server URL')
        wanted = {
            field: _READ[field](text, f"--{field.replace('_', '-')}") if text else None
            for field, text in given.items()
            if text is not None
        }
        if wanted.get("api_key") and "api_key_file" not in wanted:
            # The newer one counts.
            wanted["api_key_file"] = None
        elif wanted.get("api_key_file") and "api_key" not in wanted:
            wanted["api_key"] = None
        changed = msgspec.structs.replace(kept.contexts.get(name, Context()), **wanted)
        return msgspec.structs.replace(kept, contexts={**kept.contexts, name: changed})

    kept = _change(put)
    done = "created" if is_new else "changed"
    others = "" if kept.current == name else f"; use it with: goqueue context use {name}"
    _say(f"{done} context {name}: {kept.named(name).server or DEFAULT_SERVER}{others}")


_READ: Mapping[str, Callable[[str, str], object]] = {
    "server": check_server,
    "api_key": lambda text, place: Secret(check_key(text, place)),
    "timeout": check_timeout,
    "allow_plaintext": check_switch,
    # A relative path would mean another file in every directory.
    **dict.fromkeys(
        CONTEXT_FILES, lambda text, place: str(Path(check_path(text, place)).absolute())
    ),
}


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
    api_key_file: str = ""
    ca_file: str = ""
    client_cert: str = ""
    client_key: str = ""
    allow_plaintext: bool = False


def _shown(kept: "Contexts", name: str) -> _Shown:
    chosen: Context = kept.contexts[name]
    return _Shown(
        name=name,
        current=name == kept.current,
        server=chosen.server or "",
        api_key=MASK if chosen.api_key else "",
        timeout=chosen.timeout,
        allow_plaintext=bool(chosen.allow_plaintext),
        **{field: getattr(chosen, field) or "" for field in CONTEXT_FILES},
    )


def _print(contexts: list[_Shown]) -> None:
    from goqueue.cli.output import console, table

    rows = [
        (
            each.name,
            "*" if each.current else "",
            each.server,
            each.api_key or each.api_key_file,
            "" if each.timeout is None else exact_duration(round(each.timeout * SECOND)),
        )
        for each in contexts
    ]
    console().print(table(("NAME", "CURRENT", "SERVER", "KEY", "TIMEOUT"), rows))
