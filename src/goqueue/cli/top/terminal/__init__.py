"""The terminal of `goqueue top`: its keys, its looks, its modes."""

from goqueue.cli.top.terminal.keys import Keys
from goqueue.cli.top.terminal.palette import Palette
from goqueue.cli.top.terminal.screen import Screen, taken_over

__all__ = ["Keys", "Palette", "Screen", "taken_over"]
