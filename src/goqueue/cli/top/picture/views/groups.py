"""The groups: who is behind, by how much, and whether that gets better."""

from goqueue.cli.top.board import Board, GroupTrack
from goqueue.cli.top.choice import Choice
from goqueue.cli.top.picture.figures import UNKNOWN, age, rate, short, signed
from goqueue.cli.top.picture.lines import Span, Style, span
from goqueue.cli.top.picture.sparkline import sparkline
from goqueue.cli.top.picture.table import Column, Window
from goqueue.cli.top.picture.views.body import Body, draw_rows

__all__ = ["draw_groups"]


def _lag(row: GroupTrack) -> Span:
    if row.lag is None:
        return span(UNKNOWN, Style.DIM)
    is_alone = row.lag > 0 and not row.summary.members
    return span(short(row.lag), Style.BAD if is_alone else Style.PLAIN)


def _change(row: GroupTrack) -> Span:
    if not row.change:
        return span(signed(row.change), Style.DIM)
    return span(signed(row.change), Style.WARN if row.change > 0 else Style.GOOD)


def _state(row: GroupTrack) -> Span:
    is_well = row.summary.state in {"stable", "empty"}
    return span(row.summary.state, Style.PLAIN if is_well else Style.WARN)


_COLUMNS: tuple[Column[GroupTrack], ...] = (
    Column(title="GROUP", cell=lambda row, _: span(row.name), width=14, is_right=False),
    Column(title="STATE", cell=lambda row, _: _state(row), width=11, rank=6, is_right=False),
    Column(
        title="MEM",
        cell=lambda row, _: span(short(row.summary.members)),
        width=4,
        rank=3,
        sort=lambda row: row.summary.members,
    ),
    Column(
        title="LAG",
        cell=lambda row, _: _lag(row),
        width=7,
        rank=1,
        sort=lambda row: -1 if row.lag is None else row.lag,
    ),
    Column(
        title="±/s",
        cell=lambda row, _: _change(row),
        width=8,
        rank=2,
        sort=lambda row: row.change or 0.0,
    ),
    Column(
        title="OLDEST",
        cell=lambda row, _: span(UNKNOWN if row.lag is None else age(row.oldest_ns)),
        width=7,
        rank=4,
        sort=lambda row: row.oldest_ns,
    ),
    Column(
        title="DONE/s",
        cell=lambda row, _: span(rate(row.settled)),
        width=7,
        rank=7,
        sort=lambda row: -1.0 if row.settled is None else row.settled,
    ),
    Column(
        title="HELD",
        cell=lambda row, _: span(UNKNOWN if row.lag is None else short(row.in_flight)),
        width=6,
        rank=8,
        sort=lambda row: row.in_flight,
    ),
    Column(
        title="LAG, LATELY",
        cell=lambda row, width: span(sparkline(row.history.last(width), width), Style.BAR),
        width=11,
        width_max=60,
        rank=5,
    ),
)


def draw_groups(board: Board, choice: Choice, window: Window) -> Body:
    return draw_rows(
        board.groups,
        _COLUMNS,
        choice,
        window,
        name=lambda row: row.name,
        usual="LAG",
        empty="there are no groups yet",
    )
