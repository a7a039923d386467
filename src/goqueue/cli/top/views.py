"""The views of `goqueue top`: topics, groups, dead letters, waiting messages, the node.

A topic and a group can be opened; `details` draws those.

Pure. Each view turns the board into rows and a summary for the frame; filtering, ordering and
drawing the table are shared by all. Cost: one row per topic or group that passes the filter.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from goqueue.cli.output import sized
from goqueue.cli.top.model import Board, DeadLetterTrack, GroupTrack, LaneSum, Sample
from goqueue.cli.top.render import (
    UNKNOWN,
    Column,
    Line,
    Order,
    Span,
    Style,
    Window,
    age,
    arrange,
    clock,
    draw_table,
    fit,
    rate,
    short,
    signed,
    span,
    sparkline,
)
from goqueue.cli.top.state import Choice
from goqueue.cli.top.tracks import TopicTrack
from goqueue.client.admin_replies import Readiness, TransactionDescription
from goqueue.model import MILLISECOND, SECOND, parse_duration

__all__ = [
    "GROUP_COLUMNS",
    "TOPIC_COLUMNS",
    "Body",
    "check_lines",
    "draw_dead_letters",
    "draw_groups",
    "draw_node",
    "draw_rows",
    "draw_topics",
    "draw_waiting",
    "order_of",
    "section",
]

Row = TypeVar("Row")


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a view, the names that it shows, and how many there are in all.

    `under_cursor` is the name of the row that enter opens, `cursor` where that row is.
    """

    lines: list[Line]
    names: tuple[str, ...] = ()
    count: int = 0
    order: str = ""
    under_cursor: str = ""
    cursor: int = 0


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
    drawn = draw_table(arranged, columns, order, window)
    return Body(
        lines=drawn.lines,
        names=tuple(name(row) for row in drawn.rows),
        count=len(arranged),
        order=order.title,
        under_cursor=name(arranged[drawn.cursor]),
        cursor=drawn.cursor,
    )


def section(title: str, words: str, width: int) -> Line:
    """A line above a part of a view."""
    return fit([span(title, Style.BOLD), span(f"  {words}" if words else "", Style.DIM)], width)


def _flow(per_second: float | None) -> Span:
    return span(rate(per_second), Style.PLAIN if per_second else Style.DIM)


TOPIC_COLUMNS: tuple[Column[TopicTrack], ...] = (
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
        TOPIC_COLUMNS,
        choice,
        window,
        name=lambda row: row.name,
        usual="IN/s",
        empty="there are no topics yet",
    )


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


GROUP_COLUMNS: tuple[Column[GroupTrack], ...] = (
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
        GROUP_COLUMNS,
        choice,
        window,
        name=lambda row: row.name,
        usual="LAG",
        empty="there are no groups yet",
    )


_MINUTE_S = 60


def _dead_letter_change(row: DeadLetterTrack) -> Span:
    change = row.change.rate
    if not change:
        return span("0" if change is not None else UNKNOWN, Style.DIM)
    return span(signed(change * _MINUTE_S), Style.BAD if change > 0 else Style.GOOD)


_DEAD_LETTER_COLUMNS: tuple[Column[DeadLetterTrack], ...] = (
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
        cell=lambda row, _: _dead_letter_change(row),
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


def draw_dead_letters(board: Board, choice: Choice, window: Window) -> Body:
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
        board.dead_letters.values(),
        _DEAD_LETTER_COLUMNS,
        choice,
        msgspec.structs.replace(window, height=window.height - len(lines)),
        name=lambda row: row.name,
        usual="KEPT",
        empty="no message has died",
    )
    return msgspec.structs.replace(body, lines=[*lines, *body.lines])


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
    lanes = draw_table(
        board.lanes,
        _LANES,
        Order(""),
        Window(window.width, max(0, min(_LANES_HEIGHT, spare))),
    ).lines
    lines: list[Line] = []
    if has_title:
        lines.append(
            section("lanes", "over all groups; READY: scanned and ready for delivery", window.width)
        )
    lines += lanes
    lines.append(_about_delays(board, sample, window.width))
    rest = msgspec.structs.replace(window, height=window.height - len(lines))
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


_STYLES = {"pass": Style.GOOD, "warn": Style.WARN, "fail": Style.BAD}
_TRANSACTIONS_HEIGHT_MIN = 2


class _Open(msgspec.Struct, frozen=True):
    """A transaction that has not ended, and for how long."""

    facts: TransactionDescription
    age_ns: int


def _node_state(row: _Open) -> str:
    return f"{row.facts.state}, prepared" if row.facts.prepared else row.facts.state


_NODE_COLUMNS: tuple[Column[_Open], ...] = (
    Column(
        title="TRANSACTION",
        cell=lambda row, _: span(row.facts.transaction_id),
        width=14,
        is_right=False,
    ),
    Column(
        title="PRODUCER",
        cell=lambda row, _: span(row.facts.transactional_id),
        width=14,
        width_max=30,
        rank=3,
        is_right=False,
    ),
    Column(
        title="STATE", cell=lambda row, _: span(_node_state(row)), width=17, rank=4, is_right=False
    ),
    Column(
        title="AGE",
        cell=lambda row, _: span(age(row.age_ns)),
        width=7,
        rank=1,
        sort=lambda row: row.age_ns,
    ),
    Column(
        title="TIMEOUT",
        cell=lambda row, _: span(age(row.facts.timeout_ms * MILLISECOND)),
        width=8,
        rank=2,
        sort=lambda row: row.facts.timeout_ms,
    ),
    Column(
        title="PART",
        cell=lambda row, _: span(short(len(row.facts.partitions))),
        width=5,
        rank=5,
        sort=lambda row: len(row.facts.partitions),
    ),
)


def draw_node(board: Board, choice: Choice, window: Window) -> Body:
    sample = board.sample
    assert sample is not None, "there is something to draw"
    lines = [*_facts(sample, window.width), *check_lines(sample.readiness, window.width)]
    lines += _flows(board, sample, window.width)
    rows = [_Open(each, _age_ns(sample, each)) for each in sample.open_transactions or ()]
    # The facts give way before the transactions do.
    kept = max(0, window.height - (_TRANSACTIONS_HEIGHT_MIN if rows else 1))
    lines = lines[:kept]
    body = draw_rows(
        rows,
        _NODE_COLUMNS,
        choice,
        msgspec.structs.replace(window, height=window.height - len(lines)),
        name=lambda row: f"{row.facts.transaction_id} {row.facts.transactional_id}",
        usual="AGE",
        empty="no transaction is open",
    )
    return msgspec.structs.replace(body, lines=[*lines, *body.lines])


def _facts(sample: Sample, width: int) -> list[Line]:
    version, readiness = sample.version, sample.readiness
    words = f"goqueue {version.version}, python {version.python_version}"
    if version.git_commit not in {"", "unknown"}:
        words += f", commit {version.git_commit}"
    answered = f"answers in {age(round(sample.round_trip_s * SECOND))}"
    up = f"up {age(parse_duration(readiness.uptime))}"
    style = _STYLES.get(readiness.status, Style.WARN)
    states = {"fail": f"not ready: {readiness.message}", "degraded": "ready, but degraded"}
    state = states.get(readiness.status, "ready")
    return [
        section(sample.stats.node_id, words, width),
        fit([span(state, style), span(f", {up}, {answered}", Style.DIM)], width),
    ]


_ROUNDED_NS = 10 * MILLISECOND


def check_lines(readiness: Readiness, width: int) -> list[Line]:
    """What a node checks, each with its result."""
    lines: list[Line] = []
    for name, check in readiness.checks.items():
        pieces = [span(f"  {name:<10} "), span(check.status, _STYLES.get(check.status, Style.WARN))]
        if check.latency:
            pieces.append(span(f"  {_rounded(check.latency)}", Style.DIM))
        if check.message:
            pieces.append(span(f"  {check.message}", Style.DIM))
        lines.append(fit(pieces, width))
    return lines


def _rounded(latency: str) -> str:
    """A latency of the API to a tenth of a millisecond: `0.3ms`, `12ms`."""
    span_ns = parse_duration(latency)
    if span_ns >= _ROUNDED_NS:
        return age(span_ns)
    return f"{span_ns / MILLISECOND:.1f}ms"


def _flows(board: Board, sample: Sample, width: int) -> list[Line]:
    names = ("acks", "nacks", "rejects", "redeliveries", "expirations")
    settled = "  ".join(f"{rate(board.rate(name))} {name}" for name in names)
    stats = sample.transactions
    ended = f"{rate(board.rate('committed'))} commits/s  {rate(board.rate('aborted'))} aborts/s"
    words = f"{short(stats.active_transactions)} open  {ended}  "
    words += f"average {age(parse_duration(stats.avg_duration))}  "
    words += f"producers {short(stats.active_producers)}"
    return [section("per second", settled, width), section("transactions", words, width)]


def _age_ns(sample: Sample, transaction: TransactionDescription) -> int:
    """By the clock of the node, that of this machine may be another."""
    span_s = (sample.readiness.timestamp - transaction.started_at).total_seconds()
    return max(0, round(span_s * SECOND))
