"""The commands of `goqueue config`: what a node started here would be told, and whether it would.

Starts nothing and changes nothing. Secrets are shown only as being there.
"""

import os
from typing import TYPE_CHECKING

import click

from goqueue.cli.config.flags import MISUSED, given_settings, setting_options, tell
from goqueue.cli.output import Output, output_option

if TYPE_CHECKING:
    from goqueue.runtime.settings import Problem, SettingsFile

__all__ = ["config"]

DONE = 0


@click.group("config")
def config() -> None:
    """Show and check the settings of a node.

    A flag outweighs the environment, the environment outweighs the file, the file the default.
    """


@config.command("show", short_help="Show every setting and where its value comes from.")
@setting_options
@output_option
def show_command(output: Output) -> int:
    """Show every setting that `goqueue serve` would have here, with these flags, and its origin.

    Secrets are masked. Settings that cannot be used are all told, with exit code 2.
    """
    from goqueue.cli.render import console, table, write_document

    settings = given_settings()
    tell(settings.warnings)
    if output is Output.TABLE:
        rows = [(origin.setting, origin.value, origin.place) for origin in settings.origins]
        console().print(table(("SETTING", "VALUE", "ORIGIN"), rows))
    else:
        origins, warnings = list(settings.origins), list(settings.warnings)
        write_document({"settings": origins, "warnings": warnings}, output)
    return DONE


@config.command("check", short_help="Check a file of settings.")
@click.argument("file", metavar="[FILE]", required=False)
@output_option
def check_command(file: str | None, output: Output) -> int:
    """Check FILE by itself; without FILE, the file and the environment that a node here would use.

    Exit code 2 means that a node would not start; every problem is told.
    """
    from goqueue.cli.render import write_document
    from goqueue.runtime.settings import (
        SettingsInvalid,
        find_settings_file,
        load_settings,
        read_settings,
        read_settings_file,
    )

    # A file is judged for any node, so the name of this host and its packages are no part of it.
    environment = {} if file is not None else os.environ
    found = read_settings_file(file) if file is not None else find_settings_file({}, environment)
    problems: list[Problem] = []
    try:
        if file is not None:
            settings = read_settings({}, environment, found, host_name="node")
        else:
            settings = load_settings({}, environment)
        warnings = list(settings.warnings)
    except SettingsInvalid as invalid:
        problems, warnings = list(invalid.problems), list(invalid.warnings)
    if output is Output.TABLE:
        tell(warnings, problems)
        if not problems:
            print(f"{_checked(found, is_alone=file is not None)}: no problem found")
    else:
        path = found.path if found is not None else None
        write_document({"file": path, "problems": problems, "warnings": warnings}, output)
    return MISUSED if problems else DONE


def _checked(found: "SettingsFile | None", *, is_alone: bool) -> str:
    from goqueue.cli.render import printable

    if found is None:
        return "environment and defaults (there is no file)"
    return printable(found.path) if is_alone else f"{printable(found.path)} and environment"
