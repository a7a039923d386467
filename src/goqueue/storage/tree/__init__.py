"""The directories of a data directory: logs made and thrown away, what nobody claims, snapshots."""

from goqueue.storage.tree.changes import TreeChanges
from goqueue.storage.tree.snapshots import load_snapshot, save_snapshot
from goqueue.storage.tree.trash import Trash
from goqueue.storage.tree.unclaimed import Moved, move_unclaimed

__all__ = [
    "Moved",
    "Trash",
    "TreeChanges",
    "load_snapshot",
    "move_unclaimed",
    "save_snapshot",
]
