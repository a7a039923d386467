"""Options that all pipelines share, and the check that the extra `spark` is installed.

Imports nothing but click, because every `--help` of a command imports this module.
"""

import importlib.util
from collections.abc import Callable
from typing import TypeVar

import click

from goqueue.cli.exit_codes import ExitCode
from goqueue.model import ways_to_install

__all__ = ["SparkMissing", "require_spark", "run_options"]

_NEEDED = ("pyspark", "pyarrow", "yaml")


class SparkMissing(click.ClickException):
    """The extra is not installed."""

    exit_code = ExitCode.MISUSED


def require_spark() -> None:
    """End the command with the way out if the extra is not there."""
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        raise SparkMissing(
            f"pipelines run on Spark, which is not installed: {ways_to_install('spark')}"
        )


Decorated = TypeVar("Decorated", bound=Callable[..., object])

_KEY = "goqueue.pipeline"


def _inherit(context: click.Context, parameter: click.Parameter, given: object) -> object:
    """What was given here, else before the name of the pipeline, else the default."""
    name = f"{_KEY}.{parameter.name}"
    source = context.get_parameter_source(parameter.name or "")
    if source is not click.core.ParameterSource.DEFAULT:
        # Click shares `meta` between a command and the groups around it.
        context.meta[name] = given
    return context.meta.get(name, given)


def run_options(decorated: Decorated) -> Decorated:
    """Give a command `--master`, `--checkpoint` and `--once`."""
    for option in (
        click.option(
            "--once",
            "is_once",
            is_flag=True,
            callback=_inherit,
            help="Process all data available now, in batches, and exit.",
        ),
        click.option(
            "--checkpoint",
            metavar="DIR",
            callback=_inherit,
            help="Directory that records the progress.",
        ),
        click.option(
            "--master",
            metavar="URL",
            default="local[*]",
            show_default=True,
            callback=_inherit,
            help="Spark master URL, as for spark-submit.",
        ),
    ):
        decorated = option(decorated)
    return decorated
