"""The `goqueue` command: words on a terminal in, words, JSON or YAML out."""

from goqueue.cli.program import main

__all__ = ["main"]
