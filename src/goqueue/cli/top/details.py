"""A topic, a group or dead letters, opened: partitions and readers, members and lag, reasons.

Pure. The rows that the cursor moves over are the last table: the groups of a topic, the partitions
of a group, the dead letters, of which the marked one is shown whole. What was not asked for yet is
said to be on its way; what is gone, to be gone.
"""

import msgspec

from goqueue.cli.output import sized
from goqueue.cli.top.model import Board, GroupTrack, Sample
from goqueue.cli.top.render import (
    Column,
    Line,
    Order,
    Style,
    Window,
    age,
    arrange,
    clock,
    cut,
    draw_table,
    fit,
    rate,
    short,
    span,
)
from goqueue.cli.top.state import Choice
from goqueue.cli.top.views import GROUP_COLUMNS, Body, draw_rows, section
from goqueue.client.admin_replies import (
    GroupDescription,
    MemberDescription,
    Partition,
    PartitionLag,
)
from goqueue.client.dead_letter import DeadLetter
from goqueue.model import SECOND, parse_duration

__all__ = ["draw_group", "draw_letters", "draw_topic"]

# The first table takes at most half of the room.
_LINES_MIN = 3

_PARTITIONS: tuple[Column[Partition], ...] = (
    Column(
        title="PARTITION", cell=lambda row, _: span(str(row.partition)), width=9, is_right=False
    ),
    Column(
        title="MESSAGES",
        cell=lambda row, _: span(short(row.end_offset - row.earliest_offset)),
        width=9,
        rank=1,
        sort=lambda row: row.end_offset - row.earliest_offset,
    ),
    Column(title="SIZE", cell=lambda row, _: span(sized(row.size_bytes)), width=10, rank=2),
    Column(title="FIRST", cell=lambda row, _: span(f"{row.earliest_offset}"), width=12, rank=4),
    Column(title="END", cell=lambda row, _: span(f"{row.end_offset}"), width=12, rank=3),
    Column(title="LEADER", cell=lambda row, _: span(row.leader), width=12, rank=5),
)


def draw_topic(board: Board, choice: Choice, window: Window) -> Body:
    """The partitions of the opened topic, the largest first, and the groups that read it."""
    sample = board.sample
    assert sample is not None, "there is something to draw"
    name = choice.opened
    track = next((each for each in board.topics if each.name == name), None)
    if track is None:
        return _absent(f"the topic {name} does not exist any more", window)
    words = f"{short(track.stats.total_messages)} messages, {sized(track.stats.total_size_bytes)}"
    words += f", in {rate(track.published)}/s, out {rate(track.consumed)}/s"
    lines = [section(f"topic {name}", f"{words}; escape goes back", window.width)]
    partitions = sample.partitions.get(name)
    if partitions is None:
        lines.append(fit([span("asking…", Style.DIM)], window.width))
    else:
        by_size = arrange(
            partitions, _PARTITIONS, Order("MESSAGES"), lambda row: f"{row.partition}"
        )
        room = max(_LINES_MIN, (window.height - len(lines)) // 2)
        drawn = draw_table(
            by_size,
            _PARTITIONS,
            Order("MESSAGES"),
            Window(window.width, min(room, len(by_size) + 1)),
        )
        lines += drawn.lines
        if len(drawn.rows) < len(by_size):
            left = f"… of {short(len(by_size))} partitions"
            lines.append(fit([span(left, Style.DIM)], window.width))
    readers = [each for each in board.groups if name in each.summary.topics]
    return _below(lines, _group_rows(readers, choice, window, len(lines)), window)


def _group_rows(readers: list[GroupTrack], choice: Choice, window: Window, used: int) -> Body:
    return draw_rows(
        readers,
        GROUP_COLUMNS,
        choice,
        msgspec.structs.replace(window, height=max(0, window.height - used)),
        name=lambda row: row.name,
        usual="LAG",
        empty="no group reads this topic",
    )


_MEMBERS: tuple[Column[MemberDescription], ...] = (
    Column(title="MEMBER", cell=lambda row, _: span(row.member_id), width=20, is_right=False),
    Column(
        title="CLIENT",
        cell=lambda row, _: span(row.client_id),
        width=14,
        width_max=30,
        rank=3,
        is_right=False,
    ),
    Column(
        title="PART",
        cell=lambda row, _: span(short(len(row.assigned_partitions))),
        width=5,
        rank=1,
        sort=lambda row: len(row.assigned_partitions),
    ),
    Column(title="HELD", cell=lambda row, _: span(short(row.in_flight)), width=6, rank=2),
)
_LAGS: tuple[Column[PartitionLag], ...] = (
    Column(
        title="PARTITION",
        cell=lambda row, _: span(f"{row.topic} {row.partition}"),
        width=16,
        is_right=False,
    ),
    Column(
        title="LAG",
        cell=lambda row, _: span(short(row.lag), Style.WARN if row.lag else Style.DIM),
        width=8,
        rank=1,
        sort=lambda row: row.lag,
    ),
    Column(
        title="OLDEST",
        cell=lambda row, _: span(age(parse_duration(row.time_lag))),
        width=7,
        rank=2,
        sort=lambda row: parse_duration(row.time_lag),
    ),
    Column(
        title="HELD",
        cell=lambda row, _: span(short(row.in_flight)),
        width=6,
        rank=3,
        sort=lambda row: row.in_flight,
    ),
    Column(
        title="COMMITTED", cell=lambda row, _: span(f"{row.committed_offset}"), width=12, rank=4
    ),
    Column(title="END", cell=lambda row, _: span(f"{row.end_offset}"), width=12, rank=5),
)


def draw_group(board: Board, choice: Choice, window: Window) -> Body:
    """The members of the opened group, and its partitions, the one with the largest lag first."""
    sample = board.sample
    assert sample is not None, "there is something to draw"
    name = choice.opened
    track = next((each for each in board.groups if each.name == name), None)
    if track is None:
        return _absent(f"the group {name} does not exist any more", window)
    summary = track.summary
    words = f"{summary.state}, {summary.mode}, generation {summary.generation}, "
    words += "lag unknown" if track.lag is None else f"lag {short(track.lag)}"
    words += f", oldest {age(track.oldest_ns)}; escape goes back"
    lines = [section(f"group {name}", words, window.width)]
    described = sample.described.get(name)
    if described is None:
        lines.append(fit([span("asking…", Style.DIM)], window.width))
    elif described.members:
        lines += _member_lines(described, sample, window)
    else:
        lines.append(fit([span("no members: nobody consumes", Style.WARN)], window.width))
    lag = sample.lags.get(name)
    body = draw_rows(
        () if lag is None else lag.partitions,
        _LAGS,
        choice,
        msgspec.structs.replace(window, height=max(0, window.height - len(lines))),
        name=lambda row: f"{row.topic} {row.partition}",
        usual="LAG",
        empty="asking…" if lag is None else "the group reads no topic",
    )
    # These rows lead nowhere.
    return _below(lines, msgspec.structs.replace(body, under_cursor=""), window)


def _member_lines(described: GroupDescription, sample: Sample, window: Window) -> list[Line]:
    heartbeat = Column[MemberDescription](
        title="HEARTBEAT",
        cell=lambda row, _: span(f"{_since(sample, row)} ago"),
        width=10,
        rank=4,
    )
    members = arrange(described.members, _MEMBERS, Order("MEMBER"), lambda row: row.member_id)
    room = max(_LINES_MIN, (window.height - 1) // 2)
    drawn = draw_table(
        members,
        (*_MEMBERS, heartbeat),
        Order(""),
        Window(window.width, min(room, len(members) + 1)),
    )
    left = len(members) - len(drawn.rows)
    if not left:
        return drawn.lines
    more = fit([span(f"… {short(left)} more members", Style.DIM)], window.width)
    return [*drawn.lines, more]


def _since(sample: Sample, member: MemberDescription) -> str:
    """By the clock of the node, that of this machine may be another."""
    span_s = (sample.readiness.timestamp - member.last_heartbeat).total_seconds()
    return age(max(0, round(span_s * SECOND)))


_LETTER_COLUMNS: tuple[Column[DeadLetter], ...] = (
    Column(
        title="PLACE",
        cell=lambda row, _: span(_place(row), Style.DIM if row.is_redriven else Style.PLAIN),
        width=8,
        is_right=False,
        sort=lambda row: row.timestamp,
    ),
    Column(
        title="DEAD AT",
        cell=lambda row, _: span("" if row.dead_at is None else clock(row.dead_at)),
        width=9,
        rank=2,
    ),
    Column(title="GROUP", cell=lambda row, _: span(row.group), width=12, rank=3, is_right=False),
    Column(
        title="TRIES",
        cell=lambda row, _: span("" if row.deliveries is None else str(row.deliveries)),
        width=6,
        rank=4,
    ),
    Column(
        title="REASON",
        cell=lambda row, width: span(cut(row.reason or row.cause, width)),
        width=24,
        width_max=100,
        rank=1,
        is_right=False,
    ),
)
_LETTER_LINES = 5
_SHOWN_BYTES = 2000


def draw_letters(board: Board, choice: Choice, window: Window) -> Body:
    """The newest letters of the opened dead-letter topic, and the whole of the marked one."""
    name = choice.opened
    track = board.dead_letters.get(name)
    if track is None:
        return _absent(f"the topic {name} has no dead letters any more", window)
    known = board.letters.get(name)
    lines = [
        section(f"dead letters in {name}", f"{short(track.kept)}; escape goes back", window.width)
    ]
    below = min(_LETTER_LINES, max(0, window.height - len(lines) - _LINES_MIN))
    body = draw_rows(
        known or (),
        _LETTER_COLUMNS,
        choice,
        msgspec.structs.replace(window, height=max(0, window.height - len(lines) - below)),
        name=_place,
        usual="PLACE",
        empty="asking…" if known is None else "all of them were redriven or deleted",
    )
    marked = next((each for each in known or () if _place(each) == body.under_cursor), None)
    # These rows lead nowhere.
    drawn = _below(lines, msgspec.structs.replace(body, under_cursor=""), window)
    if marked is None:
        return drawn
    shown = [*drawn.lines, *_letter_lines(marked, window.width)[:below]]
    return msgspec.structs.replace(drawn, lines=shown[: max(0, window.height)])


def _place(letter: DeadLetter) -> str:
    return f"{letter.partition}:{letter.offset}"


def _letter_lines(letter: DeadLetter, width: int) -> list[Line]:
    """What is known of one letter, and how to see all of it."""
    moved = ", redriven" if letter.is_redriven else ""
    key = letter.key[:_SHOWN_BYTES].decode("utf-8", "replace") or "none"
    value = (letter.value or b"")[:_SHOWN_BYTES].decode("utf-8", "replace")
    words = f"goqueue dlq show {letter.origin.topic} {_place(letter)}"
    return [
        section(_place(letter), f"of {letter.origin}, {letter.cause}{moved}", width),
        fit([span("reason  ", Style.DIM), span(letter.reason or "none given")], width),
        fit([span("key     ", Style.DIM), span(key)], width),
        fit([span("value   ", Style.DIM), span(value)], width),
        fit([span(words, Style.DIM)], width),
    ]


def _absent(words: str, window: Window) -> Body:
    lines = [fit([span(f"{words}; escape goes back", Style.DIM)], window.width)]
    return Body(lines=lines[: max(0, window.height)])


def _below(lines: list[Line], body: Body, window: Window) -> Body:
    whole = [*lines, *body.lines][: max(0, window.height)]
    return msgspec.structs.replace(body, lines=whole)
