"""Lines of text with styles, and how wide they are on a terminal.

Everything that is drawn becomes a line here, so this is where text from elsewhere is made
harmless: what is not visible is shown as an escape.

Invariant: a fitted line is never wider than it was asked to be.
"""

import enum
from collections.abc import Iterable

import msgspec
from rich.cells import cell_len, set_cell_size

from goqueue.cli.render import printable

__all__ = ["Line", "Span", "Style", "fit", "flow", "padded", "span", "width_of"]


class Style(enum.StrEnum):
    """What a text means; the terminal decides how that looks."""

    PLAIN = "plain"
    DIM = "dim"
    BOLD = "bold"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    BAR = "bar"
    CHOSEN = "chosen"


class Span(msgspec.Struct, frozen=True):
    """A piece of a line."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]


def span(text: str, style: Style = Style.PLAIN) -> Span:
    """A piece that cannot take over a terminal."""
    return Span(printable(text), style)


def width_of(text: str) -> int:
    """Columns that the text takes."""
    return cell_len(text)


def cut(text: str, width: int) -> str:
    """At most so many columns, the last of them an ellipsis if there was more."""
    if width_of(text) <= width:
        return text
    return f"{set_cell_size(text, width - 1).rstrip()}…" if width > 0 else ""


def padded(piece: Span, width: int, *, is_right: bool = False) -> Span:
    """Exactly so many columns."""
    text = cut(piece.text, width)
    blank = " " * (width - width_of(text))
    return Span(blank + text if is_right else text + blank, piece.style)


def fit(line: Iterable[Span], width: int) -> Line:
    """At most so many columns, without blanks at the end."""
    fitted: list[Span] = []
    left = width
    for piece in line:
        if left <= 0:
            break
        text = cut(piece.text, left)
        left -= width_of(text)
        fitted.append(Span(text, piece.style))
    while fitted and fitted[-1].style is not Style.CHOSEN:
        text = fitted[-1].text.rstrip()
        if text:
            fitted[-1] = Span(text, fitted[-1].style)
            break
        fitted.pop()
    return tuple(fitted)


def flow(items: Iterable[Span], width: int, gap: str = "  ") -> Line:
    """As many items as fit beside each other; the ones that come first are kept.

    The first is cut if it does not fit alone.
    """
    line: list[Span] = []
    left = width
    for item in items:
        blank = Span(gap) if line else Span("")
        needed = width_of(item.text) + width_of(blank.text)
        if line and needed > left:
            continue
        line += [blank, item]
        left -= needed
    return fit(line, width)
