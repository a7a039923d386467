"""Continues a cluster on the data directory of a stopped node, when its voters are lost for good.

New journals replace the old ones at once (`StagedLogs`); a run that was cut short is completed by
the next one. Partitions are not touched.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.broker import (
    BROKER_STATE_LOG,
    METADATA_LOG,
    METADATA_SETTINGS,
    RecoveryPlan,
    StoredBrokerState,
    Survivor,
    decode_records,
)
from goqueue.model import LogId, Offset
from goqueue.runtime.clock import read_clock
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.membership import cluster_of
from goqueue.runtime.os_files import OsFileSystem
from goqueue.storage import DamageFound, OfflineLog, StagedLogs, log_directory

__all__ = ["NotRecoverable", "follow_cluster", "plan_recovery", "recover_cluster"]


class NotRecoverable(Exception):
    """Why a directory cannot continue its cluster, or follow another; nothing was changed."""


def plan_recovery(data_dir: str) -> RecoveryPlan | None:
    """What a recovery would mean; None if one was cut short, and only has to be completed.

    Raises NotRecoverable, DataDirectoryUnusable and OSError, as the others do.
    """
    with _opened(data_dir) as (directory, files):
        if StagedLogs(files).is_pending:
            return None
        return _survivor(directory, files).plan()


def recover_cluster(data_dir: str) -> str:
    """Make this node the only voter of a recovered cluster; its id."""
    with _opened(data_dir) as (directory, files):
        staged = StagedLogs(files)
        if not staged.is_pending:
            survivor = _survivor(directory, files)
            now = read_clock()
            metadata, own = survivor.logs(now.wall)
            staged.clear()
            staged.write(
                metadata.log, METADATA_SETTINGS, metadata.records, now, start=survivor.start
            )
            staged.write(own.log, METADATA_SETTINGS, own.records, now)
            staged.replace((METADATA_LOG.topic, BROKER_STATE_LOG.topic))
        staged.finish()
        return cluster_of(files)


def follow_cluster(data_dir: str, cluster_id: str) -> None:
    """Let this node follow a cluster that was recovered on another node."""
    with _opened(data_dir) as (directory, files):
        staged = StagedLogs(files)
        if not staged.is_pending:
            survivor = _read(directory, files)
            if not survivor.cluster_id:
                raise NotRecoverable("it belongs to no cluster: start it with an empty directory")
            if survivor.cluster_id == cluster_id:
                raise NotRecoverable(f"it belongs to the cluster {cluster_id} already")
            own = survivor.following(cluster_id)
            staged.clear()
            staged.write(own.log, METADATA_SETTINGS, own.records, read_clock())
            staged.replace((METADATA_LOG.topic, BROKER_STATE_LOG.topic))
        staged.finish()


@contextmanager
def _opened(data_dir: str) -> Iterator[tuple[DataDirectory, OsFileSystem]]:
    directory = DataDirectory(data_dir, may_be_converted=True)
    try:
        yield directory, OsFileSystem(data_dir)
    finally:
        directory.close()


def _survivor(directory: DataDirectory, files: OsFileSystem) -> Survivor:
    survivor = _read(directory, files)
    obstacle = survivor.obstacle()
    if obstacle is not None:
        raise NotRecoverable(obstacle)
    return survivor


def _read(directory: DataDirectory, files: OsFileSystem) -> Survivor:
    """The node as its logs say; nothing is written."""
    stored = StoredBrokerState()
    own, _ = _batches(files, BROKER_STATE_LOG)
    for batch in own:
        stored.read(batch)
    metadata, committed = _batches(files, METADATA_LOG)
    records = [record for batch in metadata for record in decode_records(batch)]
    return Survivor(directory.directory_id(), stored, records, committed)


def _batches(files: OsFileSystem, log: LogId) -> tuple[list[memoryview], Offset]:
    """All records of a log, and up to where it knew them to be committed."""
    if files.kind(log_directory(log)) is None:
        return [], Offset(0)
    opened = OfflineLog(files, log, METADATA_SETTINGS)
    try:
        if opened.log.damaged:
            raise NotRecoverable(f"the log {log} is damaged: recover on another node")
        return list(opened.batches()), opened.committed
    except DamageFound as damage:
        raise NotRecoverable(f"the log {log} is damaged: recover on another node") from damage
    finally:
        opened.close()
