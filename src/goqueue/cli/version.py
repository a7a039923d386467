"""`goqueue version` and `goqueue completion`: the program itself.

The version of a server is shown if it answers; a server that does not is no failure.
"""

import click
import msgspec

import goqueue
from goqueue.cli.client import ask_once, chosen_settings
from goqueue.cli.options import Output, output_option, server_options
from goqueue.cli.output import printable, write_document
from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.records import COMPILED

__all__ = ["ServerVersion", "completion", "own_version", "server_version", "version"]

# The version must not wait long for a server that does not answer.
_PATIENCE_S = 3.0


class ServerVersion(msgspec.Struct, frozen=True):
    """What to say about the server; `body` is what it said itself, None if it did not."""

    text: str
    body: object = None


def own_version() -> dict[str, str]:
    records = "compiled" if COMPILED else "interpreted"
    return {"version": goqueue.__version__, "records": records}


def server_version() -> ServerVersion:
    settings = chosen_settings(click.get_current_context())
    try:
        reply = ask_once(settings, lambda q: q.version(), timeout_s_max=_PATIENCE_S)
    except ServerUnreachable as error:
        return ServerVersion(f"not reached at {settings.server}: {error.sentence}")
    except GoQueueError as error:
        return ServerVersion(f"unknown at {settings.server}: {error.sentence}")
    body = msgspec.json.decode(reply.body)
    return ServerVersion(f"{reply.value.version} at {settings.server}", body)


_SHELLS = ("bash", "zsh", "fish")


@click.command("version", short_help="Show the versions of this program and of the server.")
@server_options
@output_option
def version(output: Output) -> None:
    """Show the version of this program, whether it runs compiled, and the version of the server."""
    own = own_version()
    found = server_version()
    if output.is_table:
        way = "with compiled extensions" if COMPILED else "interpreted, without compiled extensions"
        print(f"goqueue {own['version']}, {way}")
        print(printable(f"server {found.text}"))
    else:
        write_document({**own, "server": found.body}, output)


@click.command("completion", short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a completion script for SHELL: commands, options, and names that exist on the server.

    \b
    bash:  eval "$(goqueue completion bash)"        in ~/.bashrc
    zsh:   eval "$(goqueue completion zsh)"         in ~/.zshrc
    fish:  goqueue completion fish | source         in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None, "click knows all three"
    root = click.get_current_context().find_root()
    print(script(root.command, {}, "goqueue", "_GOQUEUE_COMPLETE").source())
