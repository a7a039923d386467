"""`goqueue serve` and `goqueue dev`: a node in the foreground."""

from goqueue.cli.serving.commands import dev, serve

__all__ = ["dev", "serve"]
