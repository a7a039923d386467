"""Pipelines on the screen while they run."""

from goqueue.cli.pipeline.showing.display import Display, batch_document, batch_line, displayed

__all__ = ["Display", "batch_document", "batch_line", "displayed"]
