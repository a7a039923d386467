"""`goqueue top`: a node as it works, on a terminal or in one picture."""

from goqueue.cli.top.command import top

__all__ = ["top"]
