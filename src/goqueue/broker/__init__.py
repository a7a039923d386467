"""The node: the whole broker as one deterministic machine, events in and effects out.

`Node` decides; it never waits, reads a clock, or touches a file or a socket. A *shell* does all
that for it. `goqueue.runtime` is the shell of a real process, `goqueue.sim` the one of the
simulator; both drive the same class, so whatever holds in the one holds in the other.

Usage
-----
```python
node = Node("node-1", secret)
carry_out(node.start())
while running:
    event = wait_for_event(until=node.next_deadline())
    carry_out(node.handle(event, now()))
carry_out(node.stop(now()))
```

`secret` seals receipts and is the same in every life of the data directory. `now` carries two
clocks: a monotonic instant, by which every deadline goes, and the wall time, which stamps
records.

The duties of a shell
---------------------
1. **One at a time.** Call `start`, then `handle` for each event, never from two threads and never
   while another call runs. Every call returns the effects of one turn. Where several events wait,
   `handle_some` takes a few of them into one turn. An exception from any of them is a bug: what
   the node knows can no longer be trusted, so the process ends without another call.
2. **Events in order.** Report the disk events of one log in the order in which they happened.
   Events of different logs, and commands, may come in any order.
3. **Effects in order, per log.** `Write`, `Sync` and `Reshape` of one log are carried out in the
   order given; logs are independent of each other. Nothing may be reordered past a `Reshape`, and
   a write that fails is never tried again: report `Filled` when there was no space (and drop the
   writes of this log until its `Rewind`), `Failed` for every other error and for every error of a
   sync.
4. **Durable before reported.** `Synced(upto)` promises that everything below `upto` survives a
   power cut (with `is_durable=False`: that it survives the process). The node acknowledges
   publishes, commits offsets and hands out redeliveries because of it. `Created`, `Truncated`,
   `Dropped` and `Compacted` promise the same of files and directories.
5. **Answers at once.** `Answer` and `Serve` leave when the turn returns them, whatever the disk
   is doing: the node holds back what must wait for a journal. For `Serve` the shell reads the
   slices itself, fills them in with `fill`, and tells the node with `served` what came of it.
6. **Reads for the node.** Each `Fetch`, `Find` and `Load` is answered by exactly one `Fetched`,
   `Found` or `Loaded`, with None when nothing can be read. What `Fetched` brings must not change
   afterwards. Bytes that fail their checksum are never returned: report `Damaged` and bring None.
7. **Commands.** Each `Asked` has a request number that was never used before, and gets exactly
   one `Answer` or `Serve`. When a caller is gone, report `Left`; an answer that comes all the
   same is dropped.
8. **Deadlines.** Handle `Woke` at `next_deadline`, or as soon after it as other events allow; a
   deadline that has passed means that the node has more to do and that others go first. Waking
   too early or too often is harmless. A node that was away for longer hears those who wait before
   it takes their leases away.
9. **Backups.** `HoldSegments` is carried out by whoever changes the segments of logs, between two
   of their changes, and answered by `SegmentsHeld` or `BackupJobFailed`. Jobs (`RunBackupJob`) run
   one at a time in the order given, beside everything else; `BackupJobs` of `goqueue.storage` makes
   their steps, and each event among them is reported.
10. **Report.** A `Report` is for the operator's log. Nothing depends on it.
11. **Halt.** After `Halt` no event is handled any more: the process ends, and a start from the
   logs is the way back.
12. **Stop.** `stop` ends waiting requests and returns the last effects. Keep handling events
    until `is_quiet`, then close the disk; to leave this out loses snapshots, and nothing else.

What must be durable before what
--------------------------------
- A record before its acknowledgement, and before any reader of committed messages sees it.
- A journal's change before every answer and effect that follows from it: a topic before its logs,
  the deletion of a topic before that of its logs, the count of a redelivery before the
  redelivery, the decision of a transaction before its markers, the epoch of this life before its
  first receipt.
- A marker before its transaction is forgotten, everything that is stated again before the old
  segments of a journal are dropped.

The node keeps all of these by the order of its effects and by what it holds back until `Synced`;
a shell that obeys 3 and 4 needs to know none of them.

A start
-------
`start` opens the two journals (`Open`, answered by `Opened` with what recovery found), then the
logs that they name. Until the epoch of the new life is committed, `is_serving` is False and
commands are refused as `broker_unavailable`, except those that ask how the node is. A data
directory serves one node at a time: the shell holds a lock on it.
"""

from goqueue.broker.audit import AUDIT_LOG, AUDIT_SETTINGS, AuditConfig
from goqueue.broker.cluster import ClusterConfig, ClusterMember, ExternalMetadata, QuorumMetadata
from goqueue.broker.cluster.broker_state import BROKER_STATE_LOG, StoredBrokerState
from goqueue.broker.cluster.cluster_config import METADATA_LOG, METADATA_SETTINGS
from goqueue.broker.cluster.metadata_records import decode_records
from goqueue.broker.conversion import ConvertedLog, ConvertedNode
from goqueue.broker.groups.leases import fill
from goqueue.broker.journal import JournalLimits
from goqueue.broker.node import Node
from goqueue.broker.node_events import NodeEvent
from goqueue.broker.quorum_recovery import RecoveryPlan, Survivor
from goqueue.broker.recovery.start import GROUPS_LOG, TOPICS_LOG, Opened
from goqueue.broker.replication.hosted_logs import HostedLog
from goqueue.broker.storage_health import StorageHealth
from goqueue.broker.turns import TURN_UNITS, TurnBudget

__all__ = [
    "AUDIT_LOG",
    "AUDIT_SETTINGS",
    "BROKER_STATE_LOG",
    "GROUPS_LOG",
    "METADATA_LOG",
    "METADATA_SETTINGS",
    "TOPICS_LOG",
    "TURN_UNITS",
    "AuditConfig",
    "ClusterConfig",
    "ClusterMember",
    "ConvertedLog",
    "ConvertedNode",
    "ExternalMetadata",
    "HostedLog",
    "JournalLimits",
    "Node",
    "NodeEvent",
    "Opened",
    "QuorumMetadata",
    "RecoveryPlan",
    "StorageHealth",
    "StoredBrokerState",
    "Survivor",
    "TurnBudget",
    "decode_records",
    "fill",
]
