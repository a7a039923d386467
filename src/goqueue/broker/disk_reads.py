"""What the node reads for itself, and for whom: the purpose of each `Fetch` and `Find`.

A fetch is answered by `Fetched`, a search by `Found`, each with the token under which its purpose
is kept in `NodeState`; the node hands the answer to the component that asked. The unions are
closed: a purpose that the node does not know is a type error.
"""

import msgspec

from goqueue.broker.delayed.due_batches import DueBatch
from goqueue.cluster import Voter
from goqueue.model import LogId, Offset, ReplicaLog, RequestId, Slice
from goqueue.model.requests import Read

__all__ = [
    "AuditFetch",
    "CancelledFetch",
    "ClusterFetch",
    "DueFetch",
    "FetchPurpose",
    "FindPurpose",
    "FoldFetch",
    "ForwardFetch",
    "JournalFetch",
    "LagFetch",
    "MoveFetch",
    "NodeFetchPurpose",
    "PriorityFetch",
    "ReadAheadFetch",
    "ReadSearch",
    "RedriveFetch",
    "RepairFetch",
    "ReplayFetch",
    "ReplicaFetch",
    "ResetSearch",
]


class ReadAheadFetch(msgspec.Struct, frozen=True):
    """Records that the queue of a group does not know yet."""

    group: int
    wanted: Slice


class MoveFetch(msgspec.Struct, frozen=True):
    """The records of a batch of dead-letter moves; all below `below`, if they fit."""

    batch: int
    below: Offset


class PriorityFetch(msgspec.Struct, frozen=True):
    """More of a backlog, to be counted in the priority index."""

    wanted: Slice


class DueFetch(msgspec.Struct, frozen=True):
    """Records of delayed messages that are due."""

    batch: DueBatch


class CancelledFetch(msgspec.Struct, frozen=True):
    """The record of a delayed message that was cancelled: its trace is in it."""

    log: LogId
    message: Offset


class RedriveFetch(msgspec.Struct, frozen=True):
    """Dead letters that a redrive chooses from."""

    request: RequestId
    log: LogId
    upto: Offset


class LagFetch(msgspec.Struct, frozen=True):
    """The oldest unsettled message of a partition: its age is the lag in time."""

    request: RequestId
    log: LogId


class AuditFetch(msgspec.Struct, frozen=True):
    """The last record of the audit log, at a start."""


class JournalFetch(msgspec.Struct, frozen=True):
    """A journal, at a start; `upto` is where the next fetch begins."""

    log: LogId
    upto: Offset


class ReplayFetch(msgspec.Struct, frozen=True):
    """A partition, at a start: what it says of delayed messages and producers."""

    log: LogId
    upto: Offset
    offset: Offset


class ClusterFetch(msgspec.Struct, frozen=True):
    """A log of this member of a cluster, at a start; `upto` is where the next fetch begins."""

    log: LogId
    upto: Offset


class ReplicaFetch(msgspec.Struct, frozen=True):
    """Records for a follower that is behind; `stream` is the number of its subscription."""

    log: ReplicaLog
    follower: Voter
    epoch: int
    stream: int


class RepairFetch(msgspec.Struct, frozen=True):
    """Committed records for a follower that has them damaged."""

    log: ReplicaLog
    follower: Voter
    epoch: int
    first: Offset


class FoldFetch(msgspec.Struct, frozen=True):
    """Records of a follower, for what they say; `run` is the number of this folding."""

    log: LogId
    below: Offset
    run: int


class ForwardFetch(msgspec.Struct, frozen=True):
    """Records for the client of another broker."""

    request: RequestId
    wanted: Slice


class ReadSearch(msgspec.Struct, frozen=True):
    """The offset at which a read by time begins."""

    request: RequestId
    command: Read


class ResetSearch(msgspec.Struct, frozen=True):
    """The offset of one partition in a reset by time."""

    request: RequestId
    log: LogId


NodeFetchPurpose = (
    ReadAheadFetch
    | MoveFetch
    | PriorityFetch
    | DueFetch
    | CancelledFetch
    | RedriveFetch
    | LagFetch
    | AuditFetch
    | JournalFetch
    | ReplayFetch
)
FetchPurpose = (
    NodeFetchPurpose | ClusterFetch | ReplicaFetch | RepairFetch | FoldFetch | ForwardFetch
)
FindPurpose = ReadSearch | ResetSearch
