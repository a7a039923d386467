"""What waits: the lanes of the priorities, and messages whose time has not come."""

import datetime as dt

import msgspec

from goqueue.cli.top.board import Board, LaneSum, Sample
from goqueue.cli.top.choice import Choice
from goqueue.cli.top.picture.figures import UNKNOWN, age, clock, rate, short
from goqueue.cli.top.picture.lines import Line, span
from goqueue.cli.top.picture.table import Column, Order, Window, draw_table
from goqueue.cli.top.picture.views.body import Body, draw_rows, section
from goqueue.model import SECOND, parse_duration

__all__ = ["draw_waiting"]

_LANES_HEIGHT = 6
_DELAYS_HEIGHT_MIN = 3


class _Delayed(msgspec.Struct, frozen=True):
    """The delayed messages of a topic; `due` is known for topics that are shown."""

    topic: str
    pending: int
    due: dt.datetime | None
    left_ns: int


_LANES: tuple[Column[LaneSum], ...] = (
    Column(title="PRIORITY", cell=lambda row, _: span(row.priority), width=10, is_right=False),
    Column(title="PUBLISHED", cell=lambda row, _: span(short(row.published)), width=9, rank=4),
    Column(title="IN/s", cell=lambda row, _: span(rate(row.publish_rate)), width=7, rank=3),
    Column(title="READY", cell=lambda row, _: span(short(row.ready)), width=7, rank=1),
    Column(title="HELD", cell=lambda row, _: span(short(row.in_flight)), width=6, rank=5),
    Column(title="OUT/s", cell=lambda row, _: span(rate(row.serve_rate)), width=7, rank=2),
    Column(title="WAIT", cell=lambda row, _: span(age(parse_duration(row.wait))), width=7, rank=6),
)
_DELAYS: tuple[Column[_Delayed], ...] = (
    Column(title="TOPIC", cell=lambda row, _: span(row.topic), width=16, is_right=False),
    Column(
        title="PENDING",
        cell=lambda row, _: span(short(row.pending)),
        width=8,
        rank=1,
        sort=lambda row: row.pending,
    ),
    Column(
        title="NEXT IN",
        cell=lambda row, _: span(age(row.left_ns) if row.due else UNKNOWN),
        width=8,
        rank=2,
        # The soonest is the largest; what is not known comes last.
        sort=lambda row: -row.left_ns if row.due else -float("inf"),
    ),
    Column(
        title="DUE AT",
        cell=lambda row, _: span(clock(row.due) if row.due else UNKNOWN),
        width=9,
        rank=3,
    ),
)


def draw_waiting(board: Board, choice: Choice, window: Window) -> Body:
    sample = board.sample
    assert sample is not None, "there is something to draw"
    rows = _delayed(sample)
    # Above the delays: a line about them, and one about the lanes where there is room.
    has_title = window.height >= _LANES_HEIGHT + _DELAYS_HEIGHT_MIN + 2
    spare = window.height - (_DELAYS_HEIGHT_MIN if rows else 1) - 1 - has_title
    lanes, _ = draw_table(
        board.lanes,
        _LANES,
        Order(""),
        Window(window.width, max(0, min(_LANES_HEIGHT, spare))),
    )
    lines: list[Line] = []
    if has_title:
        lines.append(
            section("lanes", "over all groups; ready is what is looked ahead", window.width)
        )
    lines += lanes
    lines.append(_about_delays(board, sample, window.width))
    rest = Window(window.width, window.height - len(lines), choice.first)
    body = draw_rows(
        rows,
        _DELAYS,
        choice,
        rest,
        name=lambda row: row.topic,
        usual="PENDING",
        empty="no message waits for its time",
    )
    return msgspec.structs.replace(body, lines=[*lines, *body.lines][: max(0, window.height)])


def _delayed(sample: Sample) -> list[_Delayed]:
    rows: list[_Delayed] = []
    for topic, pending in sample.delays.by_topic.items():
        if pending:
            due = sample.dues.get(topic)
            rows.append(_Delayed(topic, pending, due, _left_ns(sample, due)))
    return rows


def _left_ns(sample: Sample, due: dt.datetime | None) -> int:
    """Until it is due, by the clock of the node: that of this machine may be another."""
    if due is None:
        return 0
    left = due - sample.readiness.timestamp
    return max(0, round(left.total_seconds() * SECOND))


def _about_delays(board: Board, sample: Sample, width: int) -> Line:
    delays = sample.delays
    words = [f"{short(delays.pending_count)} pending"]
    if delays.next_due_at is not None:
        words.append(f"next in {age(_left_ns(sample, delays.next_due_at))}")
    words += [
        f"{rate(board.rate('delivered'))}/s delivered",
        f"{short(delays.cancelled_count)} cancelled",
    ]
    return section("delays", ", ".join(words), width)
