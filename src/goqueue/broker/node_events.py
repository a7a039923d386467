"""Everything that the shell may report to a node, as one union.

`Node.handle` takes any of them; the packages that define them know nothing of each other.
"""

from goqueue.broker.recovery.start import Opened
from goqueue.model import (
    Asked,
    BackupEvent,
    Compacted,
    Created,
    Damaged,
    Deleted,
    Dropped,
    Failed,
    Fetched,
    Filled,
    Found,
    Left,
    Loaded,
    Observed,
    PeerEvent,
    Repaired,
    SchemaChecked,
    SchemaCompiled,
    StoreEvent,
    Synced,
    Truncated,
    Woke,
)

__all__ = ["NodeEvent", "RareEvent"]

# What comes seldom, or to few nodes.
RareEvent = (
    Observed
    | Loaded
    | Opened
    | BackupEvent
    | SchemaChecked
    | SchemaCompiled
    | PeerEvent
    | StoreEvent
)

NodeEvent = (
    Asked
    | Left
    | Woke
    | Fetched
    | Found
    | Synced
    | Failed
    | Filled
    | Damaged
    | Repaired
    | Truncated
    | Dropped
    | Compacted
    | Created
    | Deleted
    | RareEvent
)
