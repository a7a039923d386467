"""An answer on the screen: the body unchanged as JSON or YAML, or what a command draws of it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from goqueue.cli.output import Output
from goqueue.cli.render import console, table, write_document

__all__ = ["draw", "show"]

T = TypeVar("T")


def show(body: bytes, output: Output, shape: type[T], drawing: Callable[[T], None]) -> None:
    """Print the body; in a table's stead `drawing` is called with what the body says."""
    if output is Output.TABLE:
        drawing(msgspec.json.decode(body, type=shape))
    else:
        write_document(msgspec.json.decode(body), output)


def draw(headings: Sequence[str], rows: Sequence[Sequence[str | int]], *, empty: str) -> None:
    """A table, or a line that says why there is none."""
    if rows:
        console().print(table(headings, rows))
    else:
        print(empty)
