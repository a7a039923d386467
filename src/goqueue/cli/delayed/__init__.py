"""`goqueue delayed`: messages that wait for their time."""

from goqueue.cli.delayed.commands import delayed

__all__ = ["delayed"]
