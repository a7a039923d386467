"""Messages on the screen, or on their way to another program.

As a table: a line for each, with its place, time, key and value. What a message holds is
untrusted: on a terminal nothing of it is acted upon, and no message takes more than one line.
"""

import sys
from collections.abc import Sequence

import msgspec

from goqueue.cli.messages.item import Item
from goqueue.cli.output import Output
from goqueue.cli.render import encode, printable, write_document

__all__ = ["Printer", "as_line"]

_MILLISECONDS = len("2026-01-01T00:00:00.000")


class Printer:
    """Prints messages as they come. With `is_values` only the values, as bytes."""

    def __init__(self, output: Output, *, is_values: bool = False) -> None:
        self._output = output
        self._is_values = is_values

    def print(self, items: Sequence[Item]) -> None:
        """Print, and leave nothing in a buffer: whoever follows wants to see it now."""
        sys.stdout.flush()
        for item in items:
            if self._is_values:
                sys.stdout.buffer.write(_value_line(item, is_terminal=sys.stdout.isatty()))
            elif self._output is Output.TABLE:
                print(as_line(item))
            elif self._output is Output.JSON:
                sys.stdout.buffer.write(encode(msgspec.Raw(item.raw)) + b"\n")
            else:
                print("---")
                write_document(msgspec.json.decode(item.raw), self._output)
        sys.stdout.flush()


def as_line(item: Item) -> str:
    """`partition:offset  time  key  value`, and how often it was delivered if more than once."""
    place = f"{item.partition}:{item.offset}"
    key = _text(item.key) or "-"
    again = item.fields.delivery_count
    note = f"  (delivery {again})" if again > 1 else ""
    value = item.value
    worded = "(null)" if value is None else _text(value)
    return f"{place:<8}  {_moment(item.fields.timestamp)}  {key:<12}  {worded}{note}"


def _value_line(item: Item, *, is_terminal: bool) -> bytes:
    value = item.value or b""
    return (_text(value).encode() if is_terminal else value) + b"\n"


def _text(octets: bytes) -> str:
    return printable(octets.decode(errors="backslashreplace"))


def _moment(timestamp: str) -> str:
    """To the millisecond, so that the columns stand in line."""
    whole, _, fraction = timestamp.removesuffix("Z").partition(".")
    return f"{whole}.{fraction.ljust(3, '0')}"[:_MILLISECONDS]
