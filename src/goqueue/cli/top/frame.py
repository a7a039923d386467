"""The whole screen: the node in two lines, the views by number, one view, and the keys.

Pure: what is known, what was chosen, how large the screen is and what time it is, in; lines out.

Invariant: no line is wider than the screen, and there are never more lines than it has.
"""

import datetime as dt
from collections.abc import Callable

import msgspec

from goqueue.cli.output import sized
from goqueue.cli.top.cluster_view import draw_cluster, draw_cluster_node, needs
from goqueue.cli.top.details import draw_group, draw_letters, draw_topic
from goqueue.cli.top.model import GROUPS_MAX, Board, Outage, Sample
from goqueue.cli.top.render import (
    Line,
    Span,
    Style,
    Window,
    age,
    clock,
    fit,
    flow,
    rate,
    short,
    span,
)
from goqueue.cli.top.state import Choice, View
from goqueue.cli.top.tracks import TOPICS_MAX
from goqueue.cli.top.views import (
    Body,
    draw_dead_letters,
    draw_groups,
    draw_node,
    draw_topics,
    draw_waiting,
)
from goqueue.model import SECOND, parse_duration

__all__ = ["Frame", "Size", "draw_all", "draw_frame"]

_DRAWING = {
    View.TOPICS: draw_topics,
    View.GROUPS: draw_groups,
    View.WAITING: draw_waiting,
    View.DEAD_LETTERS: draw_dead_letters,
    View.NODE: draw_node,
    View.CLUSTER: draw_cluster,
}
_OPENED: dict[View, Callable[[Board, Choice, Window], Body]] = {
    View.TOPICS: draw_topic,
    View.GROUPS: draw_group,
    View.DEAD_LETTERS: draw_letters,
    View.CLUSTER: draw_cluster_node,
}
_HELP = (
    ("1 … 6", "topics, groups, priorities and delays, dead letters, node, cluster"),
    ("tab", "the next view; also ← and →"),
    ("enter", "open the marked topic, group or node: partitions, members, lag; escape goes back"),
    ("s", "sort by the next column"),
    ("r", "turn the order round"),
    ("/", "show only names with this text; enter keeps it, escape ends it"),
    ("↑ ↓", "move and scroll; also page up and down, home, end"),
    ("p", "pause: ask for nothing until p is pressed again"),
    ("q", "quit; also Ctrl-C"),
)
# A low screen is for the rows: the sums and the numbers of the views go first.
_FREE_SHARE_LOW = 0.15
_FREE_SHARE_MIN = 0.05
_HEIGHT_WITH_SUMS = 7
_HEIGHT_WITH_TABS = 8


class Size(msgspec.Struct, frozen=True):
    """Of a screen."""

    width: int
    height: int


class Frame(msgspec.Struct, frozen=True):
    """What is on the screen; `names` are the topics or groups that are shown.

    `under_cursor` is what enter opens, `cursor` its row: no further than there are rows.
    """

    lines: tuple[Line, ...]
    names: tuple[str, ...] = ()
    under_cursor: str = ""
    cursor: int = 0


def draw_frame(board: Board, choice: Choice, size: Size, now: dt.datetime, server: str) -> Frame:
    """The screen at this moment."""
    head = [_status(board, choice, size.width, now, server)]
    foot: list[Line] = []
    body = Body(lines=[])
    if board.sample is not None and size.height >= _HEIGHT_WITH_SUMS:
        head.append(_sums(board, board.sample, size.width))
    if size.height >= _HEIGHT_WITH_TABS:
        head.append(_tabs(choice, size.width))
    room = size.height - len(head) - 1
    if choice.has_help:
        body = Body(lines=_help(size.width)[: max(0, room)])
    elif board.sample is not None:
        window = Window(size.width, max(0, room), choice.cursor, is_marked=True)
        body = _drawing(choice)(board, choice, window)
    if size.height > len(head):
        foot = [_keys(choice, body, size.width)]
    blank: list[Line] = [()] * max(0, room - len(body.lines))
    lines = [*head, *body.lines[: max(0, room)], *blank, *foot]
    return Frame(tuple(lines[: size.height]), body.names, body.under_cursor, body.cursor)


def _drawing(choice: Choice) -> Callable[[Board, Choice, Window], Body]:
    """How to draw the view that was chosen, or what was opened in it."""
    if choice.opened:
        return _OPENED.get(choice.view, draw_topic)
    return _DRAWING[choice.view]


def draw_all(
    board: Board,
    width: int,
    rows: int,
    now: dt.datetime,
    server: str,
    *,
    only: View | None = None,
    wanted: str = "",
) -> list[Line]:
    """All views one below the other, or one, with at most `rows` rows each; needs no screen."""
    sample = board.sample
    assert sample is not None, "a picture is of something"
    choice = Choice(wanted=wanted)
    lines = [_status(board, choice, width, now, server), _sums(board, sample, width)]
    for view, drawing in _DRAWING.items():
        is_empty = view is View.CLUSTER and board.nodes.sample is None
        if only not in (None, view) or (is_empty and only is None):
            continue
        body = drawing(board, choice, Window(width, rows + 16, 0))
        lines += [(), fit([span(view.label.upper(), Style.CHOSEN)], width)]
        extra = len(body.names) - rows
        lines += body.lines[:-extra] if extra > 0 else body.lines
        if body.count > rows and extra > 0:
            lines.append(fit([span(f"… of {short(body.count)}", Style.DIM)], width))
    return lines


def _status(board: Board, choice: Choice, width: int, now: dt.datetime, server: str) -> Line:
    sample = board.sample
    items: list[Span] = [span(_watched(sample), Style.BOLD)]
    if board.outage is not None:
        items.append(span(_lost(board.outage, now), Style.BAD))
    elif sample is None:
        items.append(span("asking…", Style.DIM))
    elif sample.readiness.status == "degraded":
        # What is wrong, not only that something is: a full disk and damage are urgent.
        told = sample.readiness.message[: max(20, width // 2)]
        items.append(span(f"degraded: {told}", Style.BAD))
    elif sample.readiness.status != "fail":
        worst = [name for name, check in sample.readiness.checks.items() if check.status != "pass"]
        words = f"ready, but see {', '.join(worst)}" if worst else "ready"
        items.append(span(words, Style.WARN if worst else Style.GOOD))
    else:
        items.append(span(f"not ready: {sample.readiness.message}", Style.BAD))
    wrong = [] if board.nodes.sample is None else needs(board.nodes.sample)
    if wrong:
        items.append(span(f"cluster: {', '.join(wrong)}", Style.BAD))
    if choice.is_paused:
        items.append(span("paused", Style.WARN))
    items.append(span(clock(now)))
    if sample is not None:
        up = age(parse_duration(sample.readiness.uptime))
        items += [span(f"up {up}"), span(server), span(sample.version.version, Style.DIM)]
    return flow(items, width)


def _watched(sample: Sample | None) -> str:
    """What the picture is of."""
    if sample is None:
        return "goqueue top"
    nodes = 0 if sample.cluster is None else len(sample.cluster.nodes)
    return f"cluster of {nodes}" if nodes else sample.stats.node_id


def _lost(outage: Outage, now: dt.datetime) -> str:
    span_ns = max(0, round((now - outage.since).total_seconds())) * SECOND
    return f"{outage.reason} since {clock(outage.since)} ({age(span_ns)})"


def _sums(board: Board, sample: Sample, width: int) -> Line:
    topics, groups = board.topics, board.groups
    at_least = "≥" if groups.unknown else ""
    letters = sample.reliability.dlq_messages
    items = [
        span(f"in {rate(topics.published)}/s", Style.BOLD),
        span(f"out {rate(topics.consumed)}/s", Style.BOLD),
        span(f"lag {at_least}{short(groups.lag)}"),
        span(f"dead {short(letters)}", Style.BAD if letters else Style.PLAIN),
        *_machine(board),
        span(f"delayed {short(sample.delays.pending_count)}"),
        span(f"txn {short(sample.transactions.active_transactions)}"),
        span(f"topics {_counted(topics.count, TOPICS_MAX)}"),
        span(f"groups {_counted(groups.count, GROUPS_MAX)}"),
        span(sized(sample.stats.total_size_bytes)),
    ]
    style = Style.DIM if board.outage is not None else None
    return flow([Span(item.text, style or item.style) for item in items], width)


def _machine(board: Board) -> list[Span]:
    """Space on the disk, and errors; nothing from a node that does not say."""
    machine = board.machine
    if machine is None:
        return []
    share = machine.free_share
    style = Style.BAD if share < _FREE_SHARE_MIN else Style.WARN
    style = style if share < _FREE_SHARE_LOW else Style.PLAIN
    errors = board.rate("errors")
    return [
        span(f"disk {share:.0%} free", style),
        span(f"errors {rate(errors)}/s", Style.BAD if errors else Style.PLAIN),
    ]


def _counted(count: int, known_max: int) -> str:
    return short(count) if count <= known_max else f"{short(known_max)} of {short(count)}"


def _tabs(choice: Choice, width: int) -> Line:
    whole = [f"{number} {view.label}" for number, view in enumerate(View, start=1)]
    is_narrow = sum(map(len, whole)) + 2 * len(whole) > width
    items: list[Span] = []
    for number, view in enumerate(View, start=1):
        is_chosen = view is choice.view and not choice.has_help
        words = str(number) if is_narrow and not is_chosen else f"{number} {view.label}"
        items.append(span(words, Style.CHOSEN if is_chosen else Style.DIM))
    return flow(items, width)


def _keys(choice: Choice, body: Body, width: int) -> Line:
    if choice.is_typing:
        return fit([span(f"/{choice.wanted}"), span("_", Style.BOLD)], width)
    if choice.has_help:
        return fit([span("any key goes back", Style.DIM)], width)
    items = [span("q quit", Style.DIM), span("? help", Style.DIM)]
    if choice.wanted:
        items.append(span(f"/{choice.wanted}", Style.WARN))
    if body.count > len(body.names):
        items.append(span(f"{len(body.names)} of {short(body.count)} shown", Style.DIM))
    if body.order:
        items.append(span(f"s sort: {body.order}", Style.DIM))
    if choice.opened:
        items.append(span("escape back", Style.DIM))
    elif body.under_cursor and choice.view in _OPENED:
        items.append(span("enter open", Style.DIM))
    items += [span(words, Style.DIM) for words in ("tab view", "/ filter", "p pause")]
    return flow(items, width)


def _help(width: int) -> list[Line]:
    rows = [fit([span(f"  {key:<7}", Style.BOLD), span(words)], width) for key, words in _HELP]
    return [fit([span("Keys", Style.BOLD)], width), *rows]
