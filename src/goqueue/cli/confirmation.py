"""Asking before something is destroyed. Without a terminal nobody can answer, so it is refused."""

import sys
from collections.abc import Callable
from typing import TypeVar

import click

__all__ = ["confirm", "force_option"]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def force_option(decorated: Decorated) -> Decorated:
    """Give a command `-f/--force`; it arrives as `is_forced`."""
    option = click.option("-f", "--force", "is_forced", is_flag=True, help="Do not ask.")
    return option(decorated)


def confirm(question: str, *, is_forced: bool) -> None:
    """Go on only after `yes`, or when forced."""
    if is_forced:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: add --force")
    if click.prompt(f"{question} Type yes", default="no", show_default=False, err=True) != "yes":
        raise click.UsageError("nothing was done")
