"""`goqueue version` and `goqueue completion`: about the program itself."""

from goqueue.cli.about.commands import completion, version

__all__ = ["completion", "version"]
