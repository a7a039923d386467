"""The commands of `goqueue context`: arguments in, exit codes out; the file is kept elsewhere.

Keys go in and are never shown again.
"""

import os
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from goqueue.cli.output import Output, output_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cli.context.contexts import Context, Contexts

__all__ = ["context"]

DONE = 0


@click.group("context")
def context() -> None:
    """Keep servers and keys of this command line by name.

    They are kept in ~/.goqueue/config.toml, which only its owner can read. A flag or a variable
    outweighs the context.
    """


@context.command("list", short_help="List all contexts.")
@output_option
def list_command(output: Output) -> int:
    """List all contexts. The one that is used is marked; keys are masked."""
    from goqueue.cli.render import write_document

    kept = _read()
    shown = [_shown(kept, name) for name in sorted(kept.contexts)]
    if output is not Output.TABLE:
        write_document({"contexts": shown}, output)
    elif shown:
        _print(shown)
    else:
        print("no contexts; make one with: goqueue context set NAME --server URL")
    return DONE


@context.command("show", short_help="Show one context.")
@click.argument("name", required=False)
@output_option
def show_command(name: str | None, output: Output) -> int:
    """Show the context NAME, or the one that is used. The key is masked."""
    from goqueue.cli.context.checks import ClientSettingsInvalid
    from goqueue.cli.render import write_document

    kept = _read()
    name = name or kept.current
    if name is None:
        raise click.UsageError("no context is in use; choose one with: goqueue context use NAME")
    try:
        kept.named(name)
    except ClientSettingsInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid
    shown = _shown(kept, name)
    if output is Output.TABLE:
        _print([shown])
    else:
        write_document(shown, output)
    return DONE


@context.command("use", short_help="Use a context from now on.")
@click.argument("name")
def use_command(name: str) -> int:
    """Use the context NAME whenever no other one is asked for."""

    def choose(kept: "Contexts") -> "Contexts":
        kept.named(name)
        return msgspec.structs.replace(kept, current=name)

    _change(choose)
    return DONE


@context.command("set", short_help="Make or change a context.")
@click.argument("name")
@click.option("--server", metavar="URL", help="Address of the server.")
@click.option("--api-key", metavar="KEY", help="Key to show it; - reads it from standard input.")
@click.option("--timeout", metavar="S", help="Seconds to wait for an answer.")
def set_command(name: str, *, server: str | None, api_key: str | None, timeout: str | None) -> int:
    """Make the context NAME or change it. What is not given stays; an empty value takes it away."""
    from goqueue.cli.context.checks import check_key, check_server, check_timeout
    from goqueue.cli.context.contexts import Context

    if api_key == "-":
        # A key on the command line is seen by whoever lists the processes.
        api_key = sys.stdin.readline(8192).strip()

    def put(kept: "Contexts") -> "Contexts":
        wanted: dict[str, str | float | None] = {}
        if server is not None:
            wanted["server"] = check_server(server, "--server") if server else None
        if api_key is not None:
            wanted["api_key"] = check_key(api_key, "--api-key") if api_key else None
        if timeout is not None:
            wanted["timeout"] = check_timeout(timeout, "--timeout") if timeout else None
        changed = msgspec.structs.replace(kept.contexts.get(name, Context()), **wanted)
        return msgspec.structs.replace(kept, contexts={**kept.contexts, name: changed})

    _change(put)
    return DONE


@context.command("delete", short_help="Forget a context and its key.")
@click.argument("name")
@click.option("-f", "--force", "is_forced", is_flag=True, help="Do not ask.")
def delete_command(name: str, *, is_forced: bool) -> int:
    """Forget the context NAME and its key."""

    def drop(kept: "Contexts") -> "Contexts":
        kept.named(name)
        rest = {each: context for each, context in kept.contexts.items() if each != name}
        current = None if kept.current == name else kept.current
        return msgspec.structs.replace(kept, current=current, contexts=rest)

    if not is_forced:
        _ask(f"Forget the context {name!a} and its key?")
    _change(drop)
    return DONE


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: add --force")
    if click.prompt(f"{question} Type yes", default="no", show_default=False, err=True) != "yes":
        raise click.UsageError("nothing was done")


def _read() -> "Contexts":
    from goqueue.cli.context.checks import ClientSettingsInvalid
    from goqueue.cli.context.contexts import contexts_path, read_contexts

    try:
        return read_contexts(contexts_path(os.environ))
    except ClientSettingsInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


def _change(change: "Callable[[Contexts], Contexts]") -> None:
    from goqueue.cli.context.checks import ClientSettingsInvalid
    from goqueue.cli.context.contexts import change_contexts, contexts_path

    try:
        change_contexts(contexts_path(os.environ), change)
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
    from goqueue.cli.render import console, table

    rows = [
        (
            each.name,
            "*" if each.current else "",
            each.server,
            each.api_key,
            "" if each.timeout is None else f"{each.timeout:g}",
        )
        for each in contexts
    ]
    console().print(table(("NAME", "CURRENT", "SERVER", "KEY", "TIMEOUT"), rows))
