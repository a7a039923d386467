"""Whether what pipelines need is installed: they are an extra."""

import importlib.util

import click

__all__ = ["SparkMissing", "require_spark"]

_NEEDED = ("pyspark", "pyarrow", "yaml")


class SparkMissing(click.ClickException):
    """The extra is not installed."""

    exit_code = 2


def require_spark() -> None:
    """End the command with the way out if the extra is not there."""
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        raise SparkMissing(
            "pipelines run on Spark, which is not installed: "
            "install it with pip install 'goqueue[spark]'"
        )
