"""The packaged pipelines as commands: `goqueue pipeline run NAME`, each with options of its own."""

import click

__all__ = ["PACKAGED"]

PACKAGED: dict[str, click.Command] = {}
