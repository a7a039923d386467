"""The group coordinator of a cluster: what a single node does for groups, in one leader epoch.

Whoever leads the partition `__consumer_offsets-0` coordinates all groups: their members, positions
and queues, in the journal that this partition is. The coordinator is the memory and the components
of a node (`NodeState`, `Components`) over that journal. They are created when the epoch begins,
from what the log says, and dropped with it, so nothing of an epoch outlives it.

- `coordinators`: follows the role of this broker, and passes on what concerns the coordinator.
- `group_coordinator`: one epoch: commands, time, turns.
- `coordinator_replay`: reads the journal before anything is served.
- `coordinator_state`: the memory of an epoch, and the partitions as it sees them.
"""
