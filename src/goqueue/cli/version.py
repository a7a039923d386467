"""`goqueue version` and `goqueue completion`.

Which build runs here, and which one answers; a server that does not is no failure.

The commands that tell about the program itself.
"""

import click
import msgspec
import uvloop

import goqueue
from goqueue.cli.client import Session, chosen_settings
from goqueue.cli.context import ClientSettings
from goqueue.cli.options import Output, output_option, server_options
from goqueue.client import GoQueueError
from goqueue.client.http import get
from goqueue.client.retries import Retries
from goqueue.records import COMPILED

__all__ = ["ServerVersion", "completion", "own_version", "server_version", "version"]

# Whoever asks for a version does not want to wait for a server that is away.
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
    timeout_s = min(settings.timeout_s, _PATIENCE_S)
    try:
        answer = uvloop.run(_ask(msgspec.structs.replace(settings, timeout_s=timeout_s)))
        body = msgspec.json.decode(answer, type=dict[str, object])
    except (GoQueueError, msgspec.MsgspecError) as error:
        return ServerVersion(f"not reached at {settings.server}: {_words(error)}")
    return ServerVersion(f"{body.get('version', 'unknown')} at {settings.server}", body)


async def _ask(settings: ClientSettings) -> bytes:
    session = Session(settings, retries=Retries(attempts_max=1))
    try:
        return await session.ask(get("version"))
    finally:
        session.close()


def _words(error: Exception) -> str:
    return error.sentence if isinstance(error, GoQueueError) else str(error)


DONE = 0
_SHELLS = ("bash", "zsh", "fish")


@click.command("version", short_help="Show the versions of this program and of the server.")
@server_options
@output_option
def version(output: Output) -> int:
    """Show the version of this program, whether its records room is compiled, and the server's."""
    from goqueue.cli.output import printable, write_document

    own = own_version()
    found = server_version()
    if output is Output.TABLE:
        print(f"goqueue {own['version']} (records: {own['records']})")
        print(printable(f"server {found.text}"))
    else:
        write_document({**own, "server": found.body}, output)
    return DONE


@click.command("completion", short_help="Print a script that completes commands in a shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> int:
    """Print a script for SHELL that completes commands, flags, and names that the server knows.

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
    return DONE
