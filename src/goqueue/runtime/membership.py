"""Whether a data directory is that of a node of a cluster.

A node that runs alone knows only the topics of its own journal, and moves all other logs away: on
the directory of a member that would be every topic. So it is asked before a node starts alone.
"""

from goqueue.broker import BROKER_STATE_LOG, METADATA_SETTINGS, StoredBrokerState
from goqueue.runtime.data_directory import DataDirectoryUnusable
from goqueue.runtime.os_files import OsFileSystem
from goqueue.storage import OfflineLog, log_directory

__all__ = ["cluster_of", "require_alone"]


def cluster_of(files: OsFileSystem) -> str:
    """The cluster that the node of this directory has entered; empty if it has not."""
    if files.kind(log_directory(BROKER_STATE_LOG)) is None:
        return ""
    journal = OfflineLog(files, BROKER_STATE_LOG, METADATA_SETTINGS)
    stored = StoredBrokerState()
    try:
        for batch in journal.batches():
            stored.read(batch)
    finally:
        journal.close()
    return stored.state.cluster_id


def require_alone(data_dir: str) -> None:
    """Refuse the directory of a member to a node that runs alone.

    Raises DataDirectoryUnusable and OSError; the caller holds the directory.
    """
    entered = cluster_of(OsFileSystem(data_dir))
    if entered:
        raise DataDirectoryUnusable(
            f"{data_dir} is that of a node of the cluster {entered}: start it with cluster.enabled "
            "(alone it would move all topics of the cluster out of the way)"
        )
