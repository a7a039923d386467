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
    Source,
    load_settings,
)

if TYPE_CHECKING:
    from goqueue.runtime.settings import Problem, SettingsFile

__all__ = [
    "SettingsCommand",
    "SettingsRefused",
    "config",
    "exit_with",
    "given_flags",
    "given_settings",
    "setting_options",
    "tell",
]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


_KEY = "goqueue.flags"


class _SettingOption(click.Option):
    """The flag of one setting."""

    def __init__(self, *args: object, section: str, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed on as click gave them
        self.section = section


class SettingsCommand(click.Command):
    """A command with the flags of all settings; its help lists them by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):
                section = param.section if isinstance(param, _SettingOption) else "Options"
                sections.setdefault(section, []).append(record)
        for section in sorted(sections, key=lambda name: name != "Options"):
            with formatter.section(section):
                formatter.write_dl(sections[section])


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
    """End the command with all problems: one line each, or one document."""
    raise SettingsRefused(invalid)


class SettingsRefused(click.ClickException):
    """Invalid settings."""

    exit_code = ExitCode.MISUSED
    code = "settings_invalid"

    def __init__(self, invalid: SettingsInvalid) -> None:
        super().__init__("the settings are invalid")
        warnings = [f"warning: {warning}" for warning in invalid.warnings]
        self.problems = [*warnings, *map(str, invalid.problems)]


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
        cls=_SettingOption,
        section=f"Settings of {setting.feature}",
        metavar=setting.kind.noun,
        shell_complete=_completing(setting.kind.words),
        # A bare switch means true; it takes a value as well, as in the environment.
        is_flag=False,
        flag_value="true" if setting.is_switch else None,
        expose_value=False,
        callback=_keeping(setting.name),
        help=setting.meaning + note,
        # Taken and refused with its reason, but not offered.
        hidden=not _is_offered(setting),
    )


def _is_offered(setting: Setting[Any]) -> bool:
    """Whether this version can do anything with it."""
    return setting.feature.is_here or bool(setting.harmless)


def _completing(
    words: tuple[str, ...],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda _, __, incomplete: [word for word in words if word.startswith(incomplete)]


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


@config.command(
    "show", cls=SettingsCommand, short_help="Show every setting and where its value comes from."
)
@click.option(
    "--all", "is_all", is_flag=True, help="Also settings of features that are still to come."
)
@setting_options
@output_option
def show_command(output: Output, *, is_all: bool) -> None:
    """Show every setting that `goqueue serve` would use with these flags, and where it comes from.

    Secrets are masked. Invalid settings are all reported, with exit code 2.
    """
    from goqueue.cli.output import console, table, write_items

    settings = given_settings()
    tell(settings.warnings)
    offered = {setting.name for setting in SETTINGS if _is_offered(setting)}
    # What was set is shown in any case.
    origins = [
        origin
        for origin in settings.origins
        if is_all or origin.setting in offered or origin.source is not Source.DEFAULT
    ]
    if output.is_table:
        rows = [(origin.setting, origin.value, origin.place) for origin in origins]
        console().print(table(("SETTING", "VALUE", "ORIGIN"), rows))
    else:
        document = {"settings": origins, "warnings": list(settings.warnings)}
        write_items(document, "settings", output)


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
    if output.is_table:
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
