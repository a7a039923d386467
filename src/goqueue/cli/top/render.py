"""Numbers, sparklines, styled lines and tables for a terminal of any width.

Pure. All that is drawn becomes a line here, so text from elsewhere is made harmless here: invisible
characters are shown as escapes. A table that is too wide leaves out its least important columns; it
owns the order of rows and which of them are on the screen.

Invariant: no line is wider than the width, and there are never more lines than the height.
"""

import datetime as dt
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec
from rich.cells import cell_len, set_cell_size

from goqueue.cli.options import is_local_time
from goqueue.cli.output import printable
from goqueue.model import MILLISECOND, SECOND

__all__ = [
    "BARS",
    "UNKNOWN",
    "Column",
    "Drawn",
    "Line",
    "Order",
    "Span",
    "Style",
    "Window",
    "age",
    "arrange",
    "clock",
    "draw_table",
    "fit",
    "flow",
    "padded",
    "rate",
    "short",
    "signed",
    "span",
    "sparkline",
    "width_of",
]

UNKNOWN = "-"
_UNITS = ("k", "M", "G", "T", "P", "E")
_PLAIN_MAX = 99_999.5
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def short(count: float) -> str:
    """At most six characters, and a sign."""
    if abs(count) < _PLAIN_MAX:
        return f"{count:,.0f}"
    for unit in _UNITS:
        count /= 1000
        if abs(count) < 999.95:
            return f"{count:.1f}{unit}"
    return f"{count:.0f}{_UNITS[-1]}"


def rate(per_second: float | None) -> str:
    if per_second is None:
        return UNKNOWN
    if 0 < abs(per_second) < 9.95:
        return f"{per_second:.1f}" if abs(per_second) >= 0.05 else f"{per_second:.2f}"
    return short(per_second)


def signed(per_second: float | None) -> str:
    """A rate that may fall."""
    if per_second is None or not round(per_second, 2):
        return UNKNOWN if per_second is None else "0"
    return f"+{rate(per_second)}" if per_second > 0 else rate(per_second)


def age(span_ns: int) -> str:
    """A duration in its two largest units."""
    if span_ns < SECOND:
        return f"{span_ns // MILLISECOND}ms" if span_ns else "0s"
    seconds = span_ns // SECOND
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE}m{seconds % _MINUTE:02}s"
    if seconds < _DAY:
        return f"{seconds // _HOUR}h{seconds % _HOUR // _MINUTE:02}m"
    return f"{seconds // _DAY}d{seconds % _DAY // _HOUR:02}h"


def clock(time: dt.datetime) -> str:
    """The time of day, in UTC or in the local zone."""
    return f"{time.astimezone():%H:%M:%S%z}" if is_local_time() else f"{time:%H:%M:%S}Z"


BARS = "▁▂▃▄▅▆▇█"
_GAP = " "


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The newest values at the right, scaled to the largest of those shown.

    What is zero is the lowest bar, what is more is always higher; what is not known is a gap.
    """
    shown = values[-width:] if width > 0 else ()
    top = max((value for value in shown if value is not None), default=0.0)
    return "".join(_bar(value, top) for value in shown).rjust(max(0, width))


def _bar(value: float | None, top: float) -> str:
    if value is None:
        return _GAP
    if value <= 0 or top <= 0:
        return BARS[0]
    steps = len(BARS) - 1
    return BARS[max(1, min(steps, round(value / top * steps)))]


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
    """At most `width` columns, the last of them an ellipsis if there was more."""
    if width_of(text) <= width:
        return text
    return f"{set_cell_size(text, width - 1).rstrip()}…" if width > 0 else ""


def padded(piece: Span, width: int, *, is_right: bool = False) -> Span:
    """Exactly `width` columns."""
    text = cut(piece.text, width)
    blank = " " * (width - width_of(text))
    return Span(blank + text if is_right else text + blank, piece.style)


def fit(line: Iterable[Span], width: int) -> Line:
    """At most `width` columns, without trailing blanks."""
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


Row = TypeVar("Row")

_COLUMN_GAP = Span("  ")
_FALLING = "▾"
_RISING = "▴"


class Column(msgspec.Struct, Generic[Row], frozen=True, kw_only=True):
    """One column: what stands in it, and how dear it is.

    `cell` is told how wide it may be. Columns with the least `rank` are kept; the first one, the
    name, always is, and takes what it needs of the room that is left. `width_max` is for one that
    says more when it has more room. `sort` gives what rows are sorted by, largest first.
    """

    title: str
    cell: Callable[[Row, int], Span]
    width: int
    rank: int = 0
    width_max: int = 0
    is_right: bool = True
    sort: Callable[[Row], float] | None = None


class Order(msgspec.Struct, frozen=True):
    """By which column rows are sorted; one that says nothing about it means by name."""

    title: str
    is_reversed: bool = False


class Window(msgspec.Struct, frozen=True):
    """Room for a table, and the row under the cursor, which is marked on a screen."""

    width: int
    height: int
    cursor: int = 0
    is_marked: bool = False


class Drawn(msgspec.Struct, Generic[Row], frozen=True):
    """A table: its lines, the rows that have room, and which of all rows is under the cursor."""

    lines: list[Line]
    rows: Sequence[Row] = ()
    cursor: int = 0


def arrange(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    order: Order,
    name: Callable[[Row], str],
) -> list[Row]:
    """The rows in order; those that are equal by name."""
    arranged = sorted(rows, key=name)
    for column in columns:
        if column.title == order.title and column.sort is not None:
            arranged.sort(key=column.sort, reverse=not order.is_reversed)
            return arranged
    return arranged[::-1] if order.is_reversed else arranged


def draw_table(
    rows: Sequence[Row], columns: Sequence[Column[Row]], order: Order, window: Window
) -> Drawn[Row]:
    """A heading and the rows around the cursor that have room below it."""
    if window.height < 1 or window.width < 1:
        return Drawn([])
    longest = max((width_of(columns[0].cell(row, window.width).text) for row in rows), default=0)
    chosen = _choose(columns, window.width, longest)
    room = window.height - 1
    cursor = max(0, min(window.cursor, len(rows) - 1))
    first = max(0, min(cursor - room // 2, len(rows) - room))
    shown = rows[first : first + room]
    lines = [fit(_heading(chosen, order), window.width)]
    for index, row in enumerate(shown, start=first):
        pieces: list[Span] = []
        for column, width in chosen:
            pieces += [
                padded(column.cell(row, width), width, is_right=column.is_right),
                _COLUMN_GAP,
            ]
        if window.is_marked and index == cursor:
            # The name alone: the other colours say something.
            pieces[0] = Span(pieces[0].text, Style.CHOSEN)
        lines.append(fit(pieces, window.width))
    return Drawn(lines, shown, cursor)


def _heading(chosen: Sequence[tuple[Column[Row], int]], order: Order) -> list[Span]:
    pieces: list[Span] = []
    for column, width in chosen:
        title = column.title
        if title == order.title:
            is_rising = order.is_reversed is (column.sort is not None)
            title += _RISING if is_rising else _FALLING
        heading = span(title, Style.BOLD)
        pieces += [padded(heading, width, is_right=column.is_right), _COLUMN_GAP]
    return pieces


def _choose(
    columns: Sequence[Column[Row]], width: int, longest: int
) -> list[tuple[Column[Row], int]]:
    """The columns that fit, with their widths; the first one always does.

    It needs no more than its longest cell, and is cut before another column goes.
    """
    gap = len(_COLUMN_GAP.text)
    left = width - columns[0].width
    kept = {0}
    for position in sorted(range(1, len(columns)), key=lambda index: columns[index].rank):
        if columns[position].width + gap > left:
            break
        left -= columns[position].width + gap
        kept.add(position)
    needed = max(longest, width_of(columns[0].title) + 1)
    widths = {position: columns[position].width for position in sorted(kept)}
    widths[0] = min(needed, columns[0].width + max(left, 0), width)
    left += columns[0].width - widths[0]
    chosen: list[tuple[Column[Row], int]] = []
    for position, given in widths.items():
        extra = max(0, min(left, columns[position].width_max - given))
        left -= extra
        chosen.append((columns[position], given + extra))
    return chosen
