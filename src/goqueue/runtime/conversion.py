"""Turns the data directory of a stopped single node into that of the first node of a cluster.

A node without listeners recovers the directory and ends what is under way (dead letters on their
way, markers of transactions). After its clean stop its memory says all that its journals say; that
is written into new journals, which replace the old ones at once (`StagedLogs`). Logs of topics are
not touched.

Invariant: before anything is changed it is known that all can be taken over.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from goqueue.broker import (
    GROUPS_LOG,
    METADATA_SETTINGS,
    TOPICS_LOG,
    ConvertedNode,
    Node,
)
from goqueue.cluster import Voter
from goqueue.runtime.clock import read_clock
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.membership import cluster_of
from goqueue.runtime.offline_node import run_offline
from goqueue.runtime.os_files import OsFileSystem
from goqueue.runtime.pump import Pump
from goqueue.storage import LOGS, StagedLogs

__all__ = ["ConvertedDirectory", "NotConvertible", "convert_directory"]

# What is under way ends by itself, within milliseconds.
_ATTEMPTS = 5
_PAUSE_S = 0.1
_REPLACED = (TOPICS_LOG.topic, GROUPS_LOG.topic)
_OF_MEMBERS = ("__broker_state", "__metadata", "__consumer_offsets")


class NotConvertible(Exception):
    """Why a directory cannot be taken over; nothing was changed. Each is one sentence."""

    def __init__(self, obstacles: Sequence[str]) -> None:
        super().__init__("; ".join(obstacles))
        self.obstacles = tuple(obstacles)


class ConvertedDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a data directory; the counts are 0 if only the rest of it was done."""

    cluster_id: str
    unclaimed: str
    topics: int = 0
    groups: int = 0


async def convert_directory(
    data_dir: str, node_id: str, others: tuple[str, ...]
) -> ConvertedDirectory:
    """Convert a directory, or end a conversion that was cut short.

    Raises NotConvertible, DataDirectoryUnusable, NodeHalted and OSError.
    """
    directory = DataDirectory(data_dir, may_be_converted=True)
    try:
        files = OsFileSystem(data_dir)
        staged = StagedLogs(files)
        if staged.is_pending:
            return _finish(files, staged)
        _check_alone(files)
        node = await _recover(directory)
        conversion = node.conversion
        obstacles = conversion.obstacles()
        if not conversion.is_settled:
            obstacles.append("something is still under way: try again")
        if obstacles:
            raise NotConvertible(obstacles)
        now = read_clock()
        me = Voter(node_id, directory.directory_id())
        converted = conversion.logs(ConvertedNode(me=me, others=others, at=now.wall))
        staged.clear()
        for each in converted:
            staged.write(each.log, METADATA_SETTINGS, each.records, now)
        staged.replace((*_REPLACED, *_OF_MEMBERS))
        done = _finish(files, staged)
        topics, groups = conversion.counts
        return msgspec.structs.replace(done, topics=topics, groups=groups)
    finally:
        directory.close()


def _check_alone(files: OsFileSystem) -> None:
    """A directory of a member is not converted; one that never entered a cluster is none."""
    if files.kind(LOGS) is None:
        raise NotConvertible(["the directory holds no data of a single node"])
    entered = cluster_of(files)
    if entered:
        raise NotConvertible([f"the node belongs to the cluster {entered} already"])
    if files.kind(f"{LOGS}/{TOPICS_LOG.topic}") is None:
        raise NotConvertible(["the directory holds no data of a single node"])


async def _recover(directory: DataDirectory) -> Node:
    """The node after a stop at which nothing was under way, if that can be had."""

    async def settle(node: Node, _: Pump) -> None:
        for _attempt in range(_ATTEMPTS):
            if node.conversion.is_settled:
                return
            await asyncio.sleep(_PAUSE_S)

    for _attempt in range(_ATTEMPTS - 1):
        node, _ = await run_offline(directory, settle)
        if node.conversion.is_settled:
            return node
    node, _ = await run_offline(directory, settle)
    return node


def _finish(files: OsFileSystem, staged: StagedLogs) -> ConvertedDirectory:
    unclaimed = staged.finish()
    return ConvertedDirectory(cluster_id=cluster_of(files), unclaimed=unclaimed)
