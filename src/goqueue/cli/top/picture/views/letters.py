"""Dead letters: where they lie, whether more arrive, and what they died of."""

import msgspec

from goqueue.cli.top.board import Board, LetterTrack
from goqueue.cli.top.choice import Choice
from goqueue.cli.top.picture.figures import UNKNOWN, rate, short, signed
from goqueue.cli.top.picture.lines import Span, Style, span
from goqueue.cli.top.picture.sparkline import sparkline
from goqueue.cli.top.picture.table import Column, Window
from goqueue.cli.top.picture.views.body import Body, draw_rows, section

__all__ = ["draw_letters"]

_MINUTE_S = 60


def _change(row: LetterTrack) -> Span:
    change = row.change.rate
    if not change:
        return span("0" if change is not None else UNKNOWN, Style.DIM)
    return span(signed(change * _MINUTE_S), Style.BAD if change > 0 else Style.GOOD)


_COLUMNS: tuple[Column[LetterTrack], ...] = (
    Column(title="DEAD LETTERS", cell=lambda row, _: span(row.name), width=20, is_right=False),
    Column(
        title="KEPT",
        cell=lambda row, _: span(short(row.kept)),
        width=7,
        rank=1,
        sort=lambda row: row.kept,
    ),
    Column(
        title="±/min",
        cell=lambda row, _: _change(row),
        width=8,
        rank=2,
        sort=lambda row: row.change.rate or 0.0,
    ),
    Column(
        title="KEPT, LATELY",
        cell=lambda row, width: span(sparkline(row.history.last(width), width), Style.BAR),
        width=12,
        width_max=60,
        rank=3,
    ),
)


def draw_letters(board: Board, choice: Choice, window: Window) -> Body:
    sample = board.sample
    assert sample is not None, "there is something to draw"
    counts = sample.reliability
    causes = ", ".join(f"{count} {cause}" for cause, count in counts.dlq_by_cause.items())
    kept = section("kept", f"{short(counts.dlq_messages)}; since the start {causes}", window.width)
    flows = ("nacks", "rejects", "redeliveries", "expirations")
    rates = "  ".join(f"{rate(board.rate(name))} {name}" for name in flows)
    lines = [kept, section("per second", rates, window.width)]
    lines = lines[: max(0, window.height - 2)]
    body = draw_rows(
        board.letters.values(),
        _COLUMNS,
        choice,
        Window(window.width, window.height - len(lines), window.first),
        name=lambda row: row.name,
        usual="KEPT",
        empty="no message has died",
    )
    return msgspec.structs.replace(body, lines=[*lines, *body.lines])
