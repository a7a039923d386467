"""How an answer is asked for: `-o table|json|yaml`, before or after the sub-command.

Imports nothing but click, because every `--help` imports it.
"""

import enum
from collections.abc import Callable
from typing import TypeVar

import click

__all__ = ["Output", "output_option"]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


class Output(enum.StrEnum):
    """The form of an answer."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def _choose(context: click.Context, _: click.Parameter, given: str | None) -> Output:
    """What was given here, else to the program as a whole, else a table."""
    if given is not None:
        context.meta[_KEY] = Output(given)
    chosen: Output = context.meta.get(_KEY, Output.TABLE)
    return chosen


# Click shares `meta` between a command and the groups around it.
_KEY = "goqueue.output"


def output_option(decorated: Decorated) -> Decorated:
    """Give a command `-o/--output`; it arrives as `output`."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice([output.value for output in Output]),
        callback=_choose,
        is_eager=True,
        help="Form of the answer.  [default: table]",
    )
    return option(decorated)
