"""`goqueue produce`: one message from the command line, or many from a file or a pipe."""

from goqueue.cli.produce.command import produce

__all__ = ["produce"]
