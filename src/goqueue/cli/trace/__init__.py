"""`goqueue trace`: where messages went, and what happened to them on the way."""

from goqueue.cli.trace.commands import trace

__all__ = ["trace"]
