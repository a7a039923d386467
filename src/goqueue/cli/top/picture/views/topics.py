"""The topics: how fast messages come and go, how many and how much is kept."""

from goqueue.cli.render import sized
from goqueue.cli.top.board import Board, TopicTrack
from goqueue.cli.top.choice import Choice
from goqueue.cli.top.picture.figures import rate, short
from goqueue.cli.top.picture.lines import Span, Style, span
from goqueue.cli.top.picture.sparkline import sparkline
from goqueue.cli.top.picture.table import Column, Window
from goqueue.cli.top.picture.views.body import Body, draw_rows

__all__ = ["draw_topics"]


def _flow(per_second: float | None) -> Span:
    return span(rate(per_second), Style.PLAIN if per_second else Style.DIM)


_COLUMNS: tuple[Column[TopicTrack], ...] = (
    Column(title="TOPIC", cell=lambda row, _: span(row.name), width=16, is_right=False),
    Column(
        title="PART",
        cell=lambda row, _: span(short(row.stats.partitions)),
        width=5,
        rank=6,
        sort=lambda row: row.stats.partitions,
    ),
    Column(
        title="MESSAGES",
        cell=lambda row, _: span(short(row.stats.total_messages)),
        width=9,
        rank=3,
        sort=lambda row: row.stats.total_messages,
    ),
    Column(
        title="SIZE",
        cell=lambda row, _: span(sized(row.stats.total_size_bytes)),
        width=10,
        rank=4,
        sort=lambda row: row.stats.total_size_bytes,
    ),
    Column(
        title="IN/s",
        cell=lambda row, _: _flow(row.published),
        width=7,
        rank=1,
        sort=lambda row: -1.0 if row.published is None else row.published,
    ),
    Column(
        title="OUT/s",
        cell=lambda row, _: _flow(row.consumed),
        width=7,
        rank=2,
        sort=lambda row: -1.0 if row.consumed is None else row.consumed,
    ),
    Column(
        title="IN, LATELY",
        cell=lambda row, width: span(sparkline(row.history.last(width), width), Style.BAR),
        width=10,
        width_max=60,
        rank=5,
    ),
)


def draw_topics(board: Board, choice: Choice, window: Window) -> Body:
    return draw_rows(
        board.topics,
        _COLUMNS,
        choice,
        window,
        name=lambda row: row.name,
        usual="IN/s",
        empty="there are no topics yet",
    )
