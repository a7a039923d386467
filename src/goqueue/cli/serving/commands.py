"""The commands that run a node until they are told to stop.

Whatever is wrong with the settings is told before anything is bound. INT and TERM stop the node:
readiness fails, waiting requests end, running ones finish, logs are flushed, exit code 0.
"""

import click

from goqueue.cli.config import exit_with, given_settings, setting_options

__all__ = ["dev", "serve"]

_PORTS_TRIED = 20
_DEV_DIRECTORY = "./data"


@click.command("serve", short_help="Run a node.")
@setting_options
def serve() -> int:
    """Run a node in the foreground until INT or TERM."""
    from goqueue.cli.serving.process import run_node

    settings = given_settings()
    return run_node(settings, say=_say, ports_tried=1)


@click.command("dev", short_help="Run a node to try things out; needs no flags.")
@click.option(
    "--data-dir", default=_DEV_DIRECTORY, show_default=True, help="Where messages are kept."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8080,
    show_default=True,
    help="Where to listen; the next if taken.",
)
def dev(data_dir: str, port: int) -> int:
    """Run a node for this machine alone: a taken port is named, and the next one is used."""
    from goqueue.cli.serving.process import run_node
    from goqueue.runtime.settings import SettingsInvalid, load_settings

    flags = {
        "broker.datadir": data_dir,
        "listeners.http": f"127.0.0.1:{port}",
        "log.level": "warning",
    }
    try:
        settings = load_settings(flags, {})
    except SettingsInvalid as invalid:
        exit_with(invalid)
    return run_node(settings, say=_greet, ports_tried=_PORTS_TRIED)


def _say(url: str, data_dir: str) -> None:
    print(f"listening on {url}, data in {data_dir}; stop with Ctrl-C", flush=True)


def _greet(url: str, data_dir: str) -> None:
    lines = [
        f"GoQueue is listening on {url}",
        f"  data     {data_dir}",
        f"  API      {url}/docs",
        f"  try      goqueue -s {url} topic create orders",
        f"           goqueue -s {url} produce orders -m 'hello'",
        f"           goqueue -s {url} consume orders",
        "  stop     Ctrl-C",
    ]
    print("\n".join(lines), flush=True)
