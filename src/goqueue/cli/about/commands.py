"""The commands that tell about the program itself."""

import click

from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

__all__ = ["completion", "version"]

DONE = 0
_SHELLS = ("bash", "zsh", "fish")


@click.command("version", short_help="Show the versions of this program and of the server.")
@server_options
@output_option
def version(output: Output) -> int:
    """Show the version of this program, whether its records room is compiled, and the server's."""
    from goqueue.cli.about.versions import own_version, server_version
    from goqueue.cli.render import printable, write_document

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
