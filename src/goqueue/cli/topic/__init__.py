"""`goqueue topic`: topics made, listed, described, changed, deleted."""

from goqueue.cli.topic.commands import topic

__all__ = ["topic"]
