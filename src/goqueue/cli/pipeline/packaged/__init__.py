"""The packaged pipelines as commands: `goqueue pipeline run NAME`, each with options of its own."""

from goqueue.cli.pipeline.packaged.commands import PACKAGED

__all__ = ["PACKAGED"]
