"""Rows in columns for a width that may be too small: the least important columns are left out.

Pure. Owns which columns are shown and how wide, in which order the rows stand, and which of them
are on the screen.

Invariant: no line is wider than the width, and there are never more lines than the height.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from goqueue.cli.top.picture.lines import Line, Span, Style, fit, padded, span, width_of

__all__ = ["Column", "Order", "Window", "arrange", "draw_table"]

Row = TypeVar("Row")

_GAP = Span("  ")
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
    """Room for a table, and the first row that is wished for."""

    width: int
    height: int
    first: int = 0


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
) -> tuple[list[Line], Sequence[Row]]:
    """A heading and the rows that have room below it; these rows."""
    if window.height < 1 or window.width < 1:
        return [], ()
    longest = max((width_of(columns[0].cell(row, window.width).text) for row in rows), default=0)
    chosen = _choose(columns, window.width, longest)
    room = window.height - 1
    first = max(0, min(window.first, len(rows) - room))
    shown = rows[first : first + room]
    lines = [fit(_heading(chosen, order), window.width)]
    for row in shown:
        pieces: list[Span] = []
        for column, width in chosen:
            pieces += [padded(column.cell(row, width), width, is_right=column.is_right), _GAP]
        lines.append(fit(pieces, window.width))
    return lines, shown


def _heading(chosen: Sequence[tuple[Column[Row], int]], order: Order) -> list[Span]:
    pieces: list[Span] = []
    for column, width in chosen:
        title = column.title
        if title == order.title:
            is_rising = order.is_reversed is (column.sort is not None)
            title += _RISING if is_rising else _FALLING
        heading = span(title, Style.BOLD)
        pieces += [padded(heading, width, is_right=column.is_right), _GAP]
    return pieces


def _choose(
    columns: Sequence[Column[Row]], width: int, longest: int
) -> list[tuple[Column[Row], int]]:
    """The columns that fit, with their widths; the first one always does.

    It needs no more than its longest cell, and is cut before another column goes.
    """
    gap = len(_GAP.text)
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
