"""The view of a cluster: its controller and what it lacks, its nodes, and one of them opened.

Pure. Leaders and copies are what the cluster says; rates, space and latency what each node says.
"""

import msgspec

from goqueue.cli.top.model import Board
from goqueue.cli.top.nodes import ClusterSample, NodeTrack
from goqueue.cli.top.render import (
    UNKNOWN,
    Column,
    Line,
    Span,
    Style,
    Window,
    age,
    fit,
    rate,
    short,
    span,
)
from goqueue.cli.top.state import Choice
from goqueue.cli.top.views import TOPIC_COLUMNS, Body, check_lines, draw_rows, section
from goqueue.model import MILLISECOND, SECOND, parse_duration

__all__ = ["draw_cluster", "draw_cluster_node", "needs"]

_STYLES = {"alive": Style.GOOD, "leaving": Style.WARN, "suspect": Style.WARN, "dead": Style.BAD}
_FREE_SHARE_LOW = 0.15


def needs(sample: ClusterSample) -> list[str]:
    """What is wrong with the cluster, the worst first."""
    health = sample.health
    said = []
    if not health.controller_id:
        said.append("no controller")
    if health.offline_partitions:
        said.append(f"{health.offline_partitions} offline")
    if health.under_replicated_partitions:
        said.append(f"{health.under_replicated_partitions} lack copies")
    if health.unhealthy:
        said.append(f"{health.unhealthy} node{'s' if health.unhealthy > 1 else ''} missing")
    said += [f"{each.id} is full" for each in health.nodes if each.is_full]
    return said


def _status(row: NodeTrack) -> Span:
    status = row.look.node.status
    return span(status, _STYLES.get(status, Style.WARN))


def _role(row: NodeTrack) -> str:
    node = row.look.node
    return "controller" if node.is_controller else "voter" if node.is_voter else "learner"


def _free(row: NodeTrack) -> Span:
    if row.machine is None:
        return span(UNKNOWN, Style.DIM)
    share = row.machine.free_share
    return span(f"{share:.0%}", Style.BAD if share < _FREE_SHARE_LOW else Style.PLAIN)


def _answers(row: NodeTrack) -> Span:
    answer = row.look.answer
    if answer is None:
        return span(row.look.failure or UNKNOWN, Style.BAD)
    return span(age(round(answer.round_trip_s * SECOND)))


def _late(board: Board, row: NodeTrack) -> str:
    sample = board.nodes.sample
    for each in () if sample is None else sample.health.nodes:
        if each.id == row.name:
            return age(each.loop_lag_ms * MILLISECOND)
    return UNKNOWN


def _columns(board: Board) -> tuple[Column[NodeTrack], ...]:
    return (
        Column(title="NODE", cell=lambda row, _: span(row.name), width=12, is_right=False),
        Column(title="STATUS", cell=lambda row, _: _status(row), width=8, rank=1, is_right=False),
        Column(
            title="ROLE", cell=lambda row, _: span(_role(row)), width=10, rank=5, is_right=False
        ),
        Column(
            title="LEADS",
            cell=lambda row, _: span(short(row.look.node.leaders)),
            width=6,
            rank=2,
            sort=lambda row: row.look.node.leaders,
        ),
        Column(
            title="COPIES",
            cell=lambda row, _: span(short(row.look.node.replicas)),
            width=6,
            rank=6,
            sort=lambda row: row.look.node.replicas,
        ),
        Column(
            title="IN/s",
            cell=lambda row, _: span(rate(row.topics.published)),
            width=7,
            rank=3,
            sort=lambda row: row.topics.published or 0.0,
        ),
        Column(
            title="OUT/s",
            cell=lambda row, _: span(rate(row.topics.consumed)),
            width=7,
            rank=4,
            sort=lambda row: row.topics.consumed or 0.0,
        ),
        Column(title="FREE", cell=lambda row, _: _free(row), width=5, rank=7),
        Column(title="LATE", cell=lambda row, _: span(_late(board, row)), width=6, rank=9),
        Column(title="ANSWERS", cell=lambda row, _: _answers(row), width=11, rank=8),
    )


def draw_cluster(board: Board, choice: Choice, window: Window) -> Body:
    """The nodes, those without an answer too."""
    sample = board.nodes.sample
    if sample is None:
        words = "this node belongs to no cluster"
        return Body(lines=[fit([span(words, Style.DIM)], window.width)][: max(0, window.height)])
    health = sample.health
    words = f"controller {health.controller_id or 'none'}, "
    words += f"{health.healthy} of {health.node_count} nodes are healthy"
    lines: list[Line] = [section("cluster", words, window.width)]
    wrong = needs(sample)
    state = span(", ".join(wrong), Style.BAD) if wrong else span("all copies complete", Style.GOOD)
    lines = [*lines, fit([span("  "), state], window.width)][: max(0, window.height - 2)]
    body = draw_rows(
        board.nodes.tracks.values(),
        _columns(board),
        choice,
        msgspec.structs.replace(window, height=window.height - len(lines)),
        name=lambda row: row.name,
        usual="NODE",
        empty="no nodes",
    )
    return msgspec.structs.replace(body, lines=[*lines, *body.lines])


def draw_cluster_node(board: Board, choice: Choice, window: Window) -> Body:
    """One node: how it is, and what goes through it."""
    track = board.nodes.tracks.get(choice.opened)
    if track is None:
        gone = span(f"the node {choice.opened} does not belong to the cluster", Style.DIM)
        return Body(lines=[fit([gone], window.width)][: max(0, window.height)])
    node, answer = track.look.node, track.look.answer
    words = f"{_role(track)}, leads {node.leaders}, keeps {node.replicas}, goqueue {node.version}"
    lines = [section(f"node {node.id}", f"{words}; escape goes back", window.width)]
    pieces = [_status(track), span(f"  {node.client_address or 'no address for clients'}")]
    if answer is None:
        pieces.append(span(f"  {track.look.failure}", Style.BAD))
    else:
        pieces.append(span(f"  up {age(parse_duration(answer.readiness.uptime))}", Style.DIM))
    lines.append(fit(pieces, window.width))
    if answer is not None:
        lines += check_lines(answer.readiness, window.width)
    lines = lines[: max(0, window.height - 2)]
    body = draw_rows(
        track.shown_topics,
        TOPIC_COLUMNS,
        choice,
        msgspec.structs.replace(window, height=window.height - len(lines)),
        name=lambda row: row.name,
        usual="IN/s",
        empty="nothing goes through this node now",
    )
    return msgspec.structs.replace(body, lines=[*lines, *body.lines], under_cursor="")
