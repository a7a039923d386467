"""Prints answers: JSON, YAML, tables and progress.

JSON and YAML are the response body; where a table shows more than one response holds, the rest is
added to the document under its own name. JSON lines are the items of its list, one per line, or the
whole document as one line. All text that comes from a file or a server is untrusted: control
characters are shown as escapes, and nothing is interpreted as markup.
"""

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from goqueue.cli.options import Output
from goqueue.cli.quantities import shown_duration, shown_time, sized

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "Advance",
    "ListWriter",
    "Reply",
    "console",
    "cut",
    "draw",
    "encode",
    "encode_document",
    "printable",
    "progress",
    "show",
    "show_all",
    "shown_duration",
    "shown_time",
    "sized",
    "table",
    "write_document",
    "write_items",
]

Advance = Callable[[int], None]

# Columns of a table when no terminal says how many there are.
_WIDTH = 160

# Keys of YAML that need no quotes, and those of them that YAML would read as something else.
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_PLAIN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))

# JSON may hold these as they are, but a terminal would act on them: DEL and the C1 controls.
_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")


def printable(text: str) -> str:
    """The text with everything that is not a visible character or a space shown as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def cut(text: str, width: int) -> str:
    """At most `width` characters, the last of them an ellipsis if there were more."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


# Documents


def encode(document: object) -> bytes:
    """One line of JSON without any control character, nor another character that ends a line."""
    return _CONTROLS.sub(_escape, msgspec.json.encode(document))


def _escape(control: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(control[0].decode())


def write_document(document: object, output: Output) -> None:
    """Print one whole answer as JSON, one line of it, or YAML."""
    _write(encode_document(document, output))


def encode_document(document: object, output: Output) -> bytes:
    """A document with its line feed."""
    if output is Output.JSON:
        return msgspec.json.format(encode(document), indent=2) + b"\n"
    if output is Output.JSONL:
        return encode(document) + b"\n"
    return b"\n".join(_yaml(msgspec.to_builtins(document), b"")) + b"\n"


def write_items(document: dict[str, object], items: str, output: Output) -> None:
    """Print an answer whose field `items` is a list; as JSON lines, the list item by item."""
    if output is not Output.JSONL:
        write_document(document, output)
        return
    listed = document[items]
    assert isinstance(listed, list | tuple), items
    for item in listed:
        write_document(item, output)


class ListWriter:
    """Prints a list as it comes, one item per line of JSON, so that it may be of any length."""

    def __init__(self, output: Output) -> None:
        self._is_json = output is Output.JSON
        self._is_lines = output is Output.JSONL
        self._count = 0

    def add(self, item: object) -> None:
        if self._is_lines:
            _write(encode(item) + b"\n")
        elif self._is_json:
            _write((b",\n" if self._count else b"[\n") + encode(item))
        else:
            _write(b"\n".join(_yaml([msgspec.to_builtins(item)], b"")) + b"\n")
        self._count += 1

    def close(self) -> None:
        """End the list. An interrupted one is left open: no reader takes it for complete."""
        if self._is_json:
            _write(b"\n]\n" if self._count else b"[]\n")
        elif not self._count and not self._is_lines:
            _write(b"[]\n")


def _write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def _yaml(value: object, indent: bytes) -> Iterator[bytes]:
    """Lines of YAML. Scalars are written as JSON, which YAML 1.2 contains."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _yaml_entry(indent + _yaml_key(key) + b":", item, indent + b"  ")
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _yaml(item, indent + b"  ")
            yield indent + b"- " + first.lstrip(b" ")
            yield from rest
    else:
        yield indent + encode(value)


def _yaml_key(key: object) -> bytes:
    if isinstance(key, str) and _PLAIN_KEY.fullmatch(key) and key.lower() not in _NOT_PLAIN:
        return key.encode()
    return encode(key)


def _yaml_entry(head: bytes, item: object, indent: bytes) -> Iterator[bytes]:
    if isinstance(item, dict | list) and item:
        yield head
        yield from _yaml(item, indent)
    else:
        yield head + b" " + encode(item)


# Tables


def console() -> "Console":
    """Where tables are printed."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def table(headings: Sequence[str], rows: Sequence[Sequence[str | int]]) -> "Table":
    """A table whose numbers stand right; no cell is read as markup, and none is shortened."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(headings):
        is_number = all(isinstance(row[index], int) for row in rows)
        drawn.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(printable(str(cell))) for cell in row))
    return drawn


@contextlib.contextmanager
def progress(words: str, total_bytes: int) -> Iterator[Advance]:
    """A bar on standard error while the body runs; nothing at all when that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(words, total=total_bytes)
        yield lambda size: bar.advance(task, size)


T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Reply(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """What the server said: as a value, and word for word."""

    value: T
    body: bytes


def show(reply: Reply[T], output: Output, drawing: Callable[[T], None], *, items: str = "") -> None:
    """Print the body as the server sent it; for a table, call `drawing` with the value.

    `items` names the field of the body that is its list, if it is one.
    """
    if output.is_table:
        drawing(reply.value)
        return
    document = msgspec.json.decode(reply.body)
    if items:
        write_items(document, items, output)
    else:
        write_document(document, output)


def show_all(
    reply: Reply[tuple[S, ...]], output: Output, drawing: Callable[[tuple[S, ...]], None], name: str
) -> None:
    """The same for a list that came in pages: the last body, with all that the others had."""
    if output.is_table:
        drawing(reply.value)
        return
    document = msgspec.json.decode(reply.body)
    if len(reply.value) > len(document[name]):
        found = [msgspec.to_builtins(each) for each in reply.value]
        document[name] = [
            {field: value for field, value in each.items() if value is not None} for each in found
        ]
        document["count"] = len(found)
    write_items(document, name, output)


def draw(headings: Sequence[str], rows: Sequence[Sequence[str | int]], *, empty: str) -> None:
    """A table, or a line that says why there is none."""
    if rows:
        console().print(table(headings, rows))
    else:
        print(empty)
