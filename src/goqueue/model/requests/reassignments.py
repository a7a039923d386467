"""Reassignments: commands that move partitions to other nodes, and what callers see of the moves.

Only the nodes of a cluster have partitions to move. The contract of the fields is that of the HTTP
API: states and names are its words.
"""

import msgspec

from goqueue.model.ids import Timestamp

__all__ = [
    "CancelReassignment",
    "DescribeCoordinators",
    "ListReassignments",
    "MoveDescription",
    "ReassignmentCommand",
    "ReassignmentDescription",
    "ReassignmentList",
    "StartReassignment",
    "TransferLeader",
    "WantedMove",
]


class WantedMove(msgspec.Struct, frozen=True, array_like=True):
    """The nodes that are to keep a partition, the preferred leader first."""

    topic: str
    partition: int
    replicas: tuple[str, ...]


class StartReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """Move partitions to other nodes; answered by `ReassignmentDescription` when committed.

    Each node sends new replicas at most `bytes_per_second` of what they lack; 0: no limit. A
    partition that takes longer than `timeout_s` from when its move began stays where it was.
    """

    moves: tuple[WantedMove, ...]
    bytes_per_second: int = 0
    timeout_s: int = 3600


class ListReassignments(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `ReassignmentList`: those that run and those that ended lately, or only `id`."""

    id: str = ""


class CancelReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """Give up the moves that are not over; answered by `ReassignmentDescription`.

    One that has ended is answered as it is.
    """

    id: str


class TransferLeader(msgspec.Struct, frozen=True, kw_only=True):
    """Let a replica in sync lead a partition, without a loss; answered by `LeaderElected`.

    Without `node` the preferred one leads: the first replica.
    """

    topic: str
    partition: int
    node: str = ""


class DescribeCoordinators(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `MetadataDescription`, with the partitions of the log of coordinators alone."""


ReassignmentCommand = (
    StartReassignment
    | ListReassignments
    | CancelReassignment
    | TransferLeader
    | DescribeCoordinators
)


class MoveDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a reassignment; `error` says why it is not moved, or what it waits for."""

    topic: str
    partition: int
    old_replicas: tuple[str, ...]
    new_replicas: tuple[str, ...]
    state: str
    catchup_percent: float
    bytes_transferred: int
    error: str = ""


class ReassignmentDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A reassignment: it has ended when all of its partitions have."""

    id: str
    state: str
    partitions: tuple[MoveDescription, ...]
    bytes_per_second: int
    started_at: Timestamp
    completed_at: Timestamp | None = None
    error: str = ""


class ReassignmentList(msgspec.Struct, frozen=True, kw_only=True):
    """The reassignments that are known, oldest first."""

    reassignments: tuple[ReassignmentDescription, ...]
