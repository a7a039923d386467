"""`goqueue config`: show and check the settings that a node started here would use.

Owns the flags of settings, which are generated from the table of settings. Values are passed on as
typed, so that a wrong flag is reported together with wrong variables and wrong keys of the file.
Starts nothing and changes nothing. For a secret, only whether it is set is shown.
"""

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Output, output_option
from goqueue.runtime.settings import (
    CONFIG_FLAG,
    SETTINGS,
    Problem,
    Setting,
    Settings,
    SettingsInvalid,
    load_settings,
)

if TYPE_CHECKING:
    from goqueue.runtime.settings import Problem, SettingsFile

__all__ = [
    "config",
    "exit_with",
    "given_flags",
    "given_settings",
    "setting_options",
    "tell",
]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


_KEY = "goqueue.flags"


def setting_options(decorated: Decorated) -> Decorated:
    """Give a command `--config` and a flag for every setting; none of them is an argument."""
    for setting in reversed(SETTINGS):
        decorated = _option(setting)(decorated)
    config = click.option(
        "--config",
        metavar="FILE",
        expose_value=False,
        callback=_keeping(CONFIG_FLAG),
        help="Settings file (TOML).  [default: GOQUEUE_CONFIG, else ./goqueue.toml if present]",
    )
    return config(decorated)


def given_flags(context: click.Context) -> dict[str, str]:
    """The flags that were given, by the names of their settings."""
    kept: dict[str, str] = context.meta.get(_KEY, {})
    return dict(kept)


def given_settings() -> Settings:
    """Settings by flags, environment and file; every problem on standard error, then exit 2."""
    try:
        return load_settings(given_flags(click.get_current_context()), os.environ)
    except SettingsInvalid as invalid:
        exit_with(invalid)


def exit_with(invalid: SettingsInvalid) -> NoReturn:
    """Show one line for each problem and end the command."""
    tell(invalid.warnings, invalid.problems)
    raise click.exceptions.Exit(ExitCode.MISUSED)


def tell(warnings: Iterable[str], problems: Iterable[Problem] = ()) -> None:
    """One line on standard error for each."""
    for warning in warnings:
        print(f"goqueue: warning: {warning}", file=sys.stderr)
    for problem in problems:
        print(f"goqueue: {problem}", file=sys.stderr)


def _option(setting: Setting[Any]) -> Callable[[Decorated], Decorated]:
    shown = setting.kind.show(setting.default)
    note = f"  [default: {shown}]" if shown else ""
    return click.option(
        *setting.flags,
        setting.name.replace(".", "_"),
        metavar="true|false" if setting.is_switch else _metavar(setting),
        # A bare switch means true; it takes a value as well, as in the environment.
        is_flag=False,
        flag_value="true" if setting.is_switch else None,
        expose_value=False,
        callback=_keeping(setting.name),
        help=setting.meaning + note,
        # Taken and refused with its reason, but not offered.
        hidden=not (setting.feature.is_here or setting.harmless),
    )


def _metavar(setting: Setting[Any]) -> str:
    return setting.name.rsplit(".", 1)[-1].upper()


def _keeping(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, _: click.Parameter, given: str | None) -> None:
        if given is not None:
            context.meta.setdefault(_KEY, {})[name] = given

    return keep


@click.group("config")
def config() -> None:
    """Show and check the settings of a node.

    A flag overrides the environment, the environment overrides the file, the file the default.
    """


@config.command("show", short_help="Show every setting and where its value comes from.")
@setting_options
@output_option
def show_command(output: Output) -> None:
    """Show every setting that `goqueue serve` would use with these flags, and where it comes from.

    Secrets are masked. Invalid settings are all reported, with exit code 2.
    """
    from goqueue.cli.output import console, table, write_document

    settings = given_settings()
    tell(settings.warnings)
    if output is Output.TABLE:
        rows = [(origin.setting, origin.value, origin.place) for origin in settings.origins]
        console().print(table(("SETTING", "VALUE", "ORIGIN"), rows))
    else:
        origins, warnings = list(settings.origins), list(settings.warnings)
        write_document({"settings": origins, "warnings": warnings}, output)


@config.command("check", short_help="Check a file of settings.")
@click.argument("file", metavar="[FILE]", required=False)
@output_option
def check_command(file: str | None, output: Output) -> int:
    """Check FILE on its own; without FILE, the file and environment that a node here would use.

    Exit code 2 means that a node would not start. Every problem is reported.
    """
    from goqueue.cli.output import write_document
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
    return ExitCode.MISUSED if problems else ExitCode.DONE


def _checked(found: "SettingsFile | None", *, is_alone: bool) -> str:
    from goqueue.cli.output import printable

    if found is None:
        return "environment and defaults (there is no file)"
    return printable(found.path) if is_alone else f"{printable(found.path)} and environment"
