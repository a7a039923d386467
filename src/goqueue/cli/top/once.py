"""One picture without a terminal: as text, or as JSON or YAML for programs.

Rates need two samples, so this takes one interval.
"""

import asyncio
import datetime as dt

import msgspec

from goqueue.cli.options import Output
from goqueue.cli.output import write_document
from goqueue.cli.top.cluster_view import needs
from goqueue.cli.top.frame import draw_all
from goqueue.cli.top.model import Board, LaneSum, Wants
from goqueue.cli.top.nodes import NodeTrack
from goqueue.cli.top.source import Source
from goqueue.cli.top.state import View
from goqueue.cli.top.terminal import Palette
from goqueue.client.admin_replies import (
    DelayStats,
    Readiness,
    ReliabilityStats,
    TransactionDescription,
    TransactionStats,
)
from goqueue.model import SECOND

__all__ = ["Document", "document_of", "look_twice", "print_picture", "write_picture"]

# Each costs a request.
_LAGS_MAX = 200
_DUES_MAX = 50
_ROWS = 20


class TopicPicture(msgspec.Struct, frozen=True, kw_only=True):
    """A topic; rates are per second, and null while they are not known."""

    name: str
    partitions: int
    total_messages: int
    total_size_bytes: int
    publish_rate: float | None
    consume_rate: float | None


class GroupPicture(msgspec.Struct, frozen=True, kw_only=True):
    """A group; `lag` is null if it was not asked for."""

    name: str
    state: str
    members: int
    lag: int | None
    lag_change_rate: float | None
    settle_rate: float | None
    in_flight: int
    oldest_s: float


class NodePicture(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a cluster; rates are null while they are not known, `failure` if it answers."""

    name: str
    status: str
    is_controller: bool
    leaders: int
    replicas: int
    publish_rate: float | None
    consume_rate: float | None
    disk_free_bytes: int | None
    failure: str | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The picture for programs."""

    server: str
    time: dt.datetime
    node_id: str
    version: str
    readiness: Readiness
    publish_rate: float | None
    consume_rate: float | None
    total_lag: int
    topics: list[TopicPicture]
    groups: list[GroupPicture]
    lanes: tuple[LaneSum, ...]
    delays: DelayStats
    next_due: dict[str, dt.datetime]
    reliability: ReliabilityStats
    transactions: TransactionStats
    open_transactions: tuple[TransactionDescription, ...]
    disk_free_bytes: int | None
    disk_size_bytes: int | None
    error_rate: float | None
    nodes: list[NodePicture]
    needs: list[str]


async def look_twice(source: Source, interval_s: float) -> Board:
    """All that is known after one interval."""
    board = Board()
    first = await source.take(Wants(has_lanes=True, has_metrics=True))
    board.apply(first)
    wants = Wants(
        lags=board.groups.choose((), _LAGS_MAX),
        dues=tuple(sorted(first.delays.by_topic)[:_DUES_MAX]),
        has_lanes=True,
        has_transactions=True,
        has_metrics=board.wants_metrics,
    )
    board.apply(await source.take(wants))
    await asyncio.sleep(interval_s)
    board.apply(await source.take(wants))
    return board


def print_picture(
    board: Board, server: str, width: int, palette: Palette, *, only: View | None, wanted: str
) -> None:
    now = dt.datetime.now(dt.UTC)
    for line in draw_all(board, width, _ROWS, now, server, only=only, wanted=wanted):
        print(palette.paint(line))


def write_picture(board: Board, server: str, output: Output) -> None:
    write_document(document_of(board, server), output)


def document_of(board: Board, server: str) -> Document:
    sample = board.sample
    assert sample is not None, "a picture is of something"
    return Document(
        server=server,
        time=sample.time,
        node_id=sample.stats.node_id,
        version=sample.version.version,
        readiness=sample.readiness,
        publish_rate=board.topics.published,
        consume_rate=board.topics.consumed,
        total_lag=board.groups.lag,
        topics=[
            TopicPicture(
                name=track.name,
                partitions=track.stats.partitions,
                total_messages=track.stats.total_messages,
                total_size_bytes=track.stats.total_size_bytes,
                publish_rate=track.published,
                consume_rate=track.consumed,
            )
            for track in board.topics
        ],
        groups=[
            GroupPicture(
                name=track.name,
                state=track.summary.state,
                members=track.summary.members,
                lag=track.lag,
                lag_change_rate=track.change,
                settle_rate=track.settled,
                in_flight=track.in_flight,
                oldest_s=track.oldest_ns / SECOND,
            )
            for track in board.groups
        ],
        lanes=board.lanes,
        delays=sample.delays,
        next_due=sample.dues,
        reliability=sample.reliability,
        transactions=sample.transactions,
        open_transactions=sample.open_transactions or (),
        disk_free_bytes=None if board.machine is None else board.machine.free_bytes,
        disk_size_bytes=None if board.machine is None else board.machine.size_bytes,
        error_rate=board.rate("errors"),
        nodes=[_node_picture(track) for track in board.nodes.tracks.values()],
        needs=[] if board.nodes.sample is None else needs(board.nodes.sample),
    )


def _node_picture(track: NodeTrack) -> NodePicture:
    node = track.look.node
    return NodePicture(
        name=track.name,
        status=node.status,
        is_controller=node.is_controller,
        leaders=node.leaders,
        replicas=node.replicas,
        publish_rate=track.topics.published,
        consume_rate=track.topics.consumed,
        disk_free_bytes=None if track.machine is None else track.machine.free_bytes,
        failure=track.look.failure or None,
    )
