"""Settings as flags of a command: made from the table, collected as text, judged by nobody here.

A value is left as it was typed, so that a wrong flag is reported together with a wrong variable
and a wrong key of the file.
"""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

import click

from goqueue.runtime.settings import (
    CONFIG_FLAG,
    SETTINGS,
    Problem,
    Setting,
    Settings,
    SettingsInvalid,
    load_settings,
)

__all__ = ["MISUSED", "exit_with", "given_flags", "given_settings", "setting_options", "tell"]

Decorated = TypeVar("Decorated", bound=Callable[..., object])

MISUSED = 2

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
        help="Settings as TOML.  [default: GOQUEUE_CONFIG, else ./goqueue.toml if present]",
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
    raise click.exceptions.Exit(MISUSED)


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
