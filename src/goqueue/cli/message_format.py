"""`consume --format`: a message as the user words it.

| code | stands for |
|---|---|
| `%t` `%p` `%o` | topic, partition, offset |
| `%k` `%v` | key and value, as bytes |
| `%K` `%V` | their sizes in bytes |
| `%h` | all headers as `name=value`, separated by commas |
| `%{name}` | the value of one header |
| `%T` | the time, RFC 3339 |
| `%P` | the priority |
| `%d` | the number of this delivery; 0 without a group |
| `%%` | a percent sign |

`\\n`, `\\t`, `\\r`, `\\0`, `\\\\` and `\\xHH` are escapes. A line feed follows each message unless
the format ends in `\\n` or `\\0`. A missing key, value or header is nothing.

On a terminal what a message holds is shown without control characters; elsewhere its bytes are
written as they are.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from goqueue.cli.output import printable
from goqueue.cli.quantities import shown_time

if TYPE_CHECKING:
    from goqueue.client.pages import PageMessage

__all__ = ["MessageFormat", "read_format"]

_PART = re.compile(r"%(?:\{([^}]*)\}|(.?))|\\(x[0-9A-Fa-f]{2}|.?)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_ENDS = (b"\n", b"\0")

Piece = Callable[["PageMessage"], bytes]

_PIECES: dict[str, Piece] = {
    "t": lambda item: item.message.topic.encode(),
    "p": lambda item: b"%d" % item.message.partition,
    "o": lambda item: b"%d" % item.message.offset,
    "k": lambda item: item.message.key,
    "v": lambda item: item.message.value or b"",
    "K": lambda item: b"%d" % len(item.message.key),
    "V": lambda item: b"%d" % len(item.message.value or b""),
    "h": lambda item: b",".join(
        name.encode() + b"=" + value for name, value in sorted(item.message.headers.items())
    ),
    "T": lambda item: shown_time(item.message.timestamp).encode(),
    "P": lambda item: item.message.lane.name.lower().encode(),
    "d": lambda item: b"%d" % item.delivery_count,
    "%": lambda _: b"%",
}
# What clients wrote: on a terminal it is not trusted.
_UNTRUSTED = frozenset("tkvh{")


class MessageFormat:
    """One format, read once and applied to every message."""

    def __init__(self, pieces: "list[tuple[Piece, bool]]") -> None:
        self._pieces = pieces

    def apply(self, item: "PageMessage", *, is_terminal: bool) -> bytes:
        """The message; safe to show if it goes to a terminal."""
        shown = bytearray()
        for piece, is_untrusted in self._pieces:
            octets = piece(item)
            if is_terminal and is_untrusted:
                octets = printable(octets.decode(errors="backslashreplace")).encode()
            shown += octets
        return bytes(shown)


def read_format(text: str) -> MessageFormat:
    """What the codes mean; an unknown one is a usage error."""
    pieces: list[tuple[Piece, bool]] = []
    position = 0
    last = b""
    for found in _PART.finditer(text):
        if found.start() > position:
            pieces.append((_fixed(text[position : found.start()].encode()), False))
        position = found.end()
        header, code, escape = found.groups()
        last = b""
        if escape is not None:
            last = _unescaped(escape)
            pieces.append((_fixed(last), False))
        elif header is not None:
            pieces.append((_header(header), True))
        elif code in _PIECES:
            pieces.append((_PIECES[code], code in _UNTRUSTED))
        else:
            known = " ".join(f"%{each}" for each in _PIECES)
            raise click.UsageError(f"--format: %{code} is not one of {known} %{{header}}")
    if position < len(text):
        last = b""
        pieces.append((_fixed(text[position:].encode()), False))
    if last not in _ENDS:
        pieces.append((_fixed(b"\n"), False))
    return MessageFormat(pieces)


def _fixed(octets: bytes) -> Piece:
    return lambda _: octets


def _header(name: str) -> Piece:
    return lambda item: item.message.headers.get(name, b"")


def _unescaped(escape: str) -> bytes:
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if len(escape) == len("xHH"):
        return bytes.fromhex(escape[1:])
    raise click.UsageError(f"--format: \\{escape} is not one of \\n \\t \\r \\0 \\\\ \\xHH")
