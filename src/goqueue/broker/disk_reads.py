"""What the node reads for itself, and for whom: the purpose of each `Fetch` and `Find`.

A fetch is answered by `Fetched`, a search by `Found`, each with the token under which its purpose
is kept in `NodeState`; the node hands the answer to the component that asked. The unions are
closed: a purpose that the node does not know is a type error.
"""

import msgspec

from goqueue.broker.delayed.due_batches import DueBatch
from goqueue.model import LogId, Offset, RequestId, Slice
from goqueue.model.requests import Read

__all__ = [
    "CancelledFetch",
    "DueFetch",
    "FetchPurpose",
    "FindPurpose",
    "JournalFetch",
    "LagFetch",
    "MoveFetch",
    "PriorityFetch",
    "ReadAheadFetch",
    "ReadSearch",
    "RedriveFetch",
    "ReplayFetch",
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


class JournalFetch(msgspec.Struct, frozen=True):
    """A journal, at a start; `upto` is where the next fetch begins."""

    log: LogId
    upto: Offset


class ReplayFetch(msgspec.Struct, frozen=True):
    """A partition, at a start: what it says of delayed messages and producers."""

    log: LogId
    upto: Offset
    offset: Offset


class ReadSearch(msgspec.Struct, frozen=True):
    """The offset at which a read by time begins."""

    request: RequestId
    command: Read


class ResetSearch(msgspec.Struct, frozen=True):
    """The offset of one partition in a reset by time."""

    request: RequestId
    log: LogId


FetchPurpose = (
    ReadAheadFetch
    | MoveFetch
    | PriorityFetch
    | DueFetch
    | CancelledFetch
    | RedriveFetch
    | LagFetch
    | JournalFetch
    | ReplayFetch
)
FindPurpose = ReadSearch | ResetSearch
