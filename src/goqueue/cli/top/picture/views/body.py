"""What a view hands to the frame, and what all views do alike: filter, order, draw one table."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from goqueue.cli.top.choice import Choice
from goqueue.cli.top.picture.lines import Line, Style, fit, span
from goqueue.cli.top.picture.table import Column, Order, Window, arrange, draw_table

__all__ = ["Body", "draw_rows", "order_of", "section"]

Row = TypeVar("Row")


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a view, the names that it shows, and how many there are in all."""

    lines: list[Line]
    names: tuple[str, ...] = ()
    count: int = 0
    order: str = ""


def order_of(columns: Sequence[Column[Row]], choice: Choice, usual: str) -> Order:
    """The order that was chosen: the usual one first, then by each column, then by name."""
    sortable = [column.title for column in columns if column.sort is not None]
    titles = [usual, *(title for title in (*sortable, columns[0].title) if title != usual)]
    return Order(titles[choice.order % len(titles)], choice.is_reversed)


def draw_rows(
    rows: Iterable[Row],
    columns: Sequence[Column[Row]],
    choice: Choice,
    window: Window,
    *,
    name: Callable[[Row], str],
    usual: str,
    empty: str,
) -> Body:
    """The rows that match the filter, in the chosen order, as far as there is room."""
    wanted = choice.wanted.casefold()
    matching = [row for row in rows if wanted in name(row).casefold()]
    order = order_of(columns, choice, usual)
    if not matching:
        words = f"nothing matches {choice.wanted}" if wanted else empty
        lines = [fit([span(words, Style.DIM)], window.width)]
        return Body(lines=lines[: max(0, window.height)], order=order.title)
    arranged = arrange(matching, columns, order, name)
    lines, shown = draw_table(arranged, columns, order, window)
    names = tuple(name(row) for row in shown)
    return Body(lines=lines, names=names, count=len(arranged), order=order.title)


def section(title: str, words: str, width: int) -> Line:
    """A line above a part of a view."""
    return fit([span(title, Style.BOLD), span(f"  {words}" if words else "", Style.DIM)], width)
