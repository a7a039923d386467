"""Both ends of a move: where a message comes from, where it goes, and what its copy says of that.

Never moves anything. Names and numbers are looked up each time, since topics and groups may be
deleted, and made again, while a move is under way.
"""

import enum

import msgspec

from goqueue.broker.consuming.letters import PREFIX, REDRIVEN, messages_in, read_letter
from goqueue.broker.messages.topics import Topics
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.delivery import Position
from goqueue.model import Header, LogId, Now, Offset, Timestamp, format_time

__all__ = ["LETTERS_GROUP", "Cause", "Ends", "Move"]

# The number of no group: the place of redrives among the dead letters.
LETTERS_GROUP = 0


class Cause(enum.StrEnum):
    """Why a message moves."""

    REJECTED = "rejected"
    MAX_DELIVERIES = "max_deliveries"
    REDRIVE = "redrive"


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A message on its way from one log to another."""

    number: int
    group: int
    topic: int
    partition: int
    offset: Offset
    target: str
    target_partition: int
    at: Timestamp
    cause: Cause
    attempts: int = 0
    reason: str = ""


class Ends:
    """Looks up where moves begin and end."""

    def __init__(self, state: NodeState, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    def position(self, move: Move) -> Position | None:
        """Where the message comes from; None if its topic or its group is gone."""
        topic = self._state.catalog.numbered(move.topic)
        is_ours = move.group == LETTERS_GROUP or self._state.groups.numbered(move.group)
        if topic is None or not is_ours:
            return None
        log = LogId(topic.name, move.partition)
        return self._state.positions.setdefault(move.group, {}).setdefault(log, Position(0))

    def source(self, move: Move) -> Partition | None:
        """The partition that the message leaves."""
        topic = self._state.catalog.numbered(move.topic)
        if topic is None or self.position(move) is None:
            return None
        return self._state.partitions.get(LogId(topic.name, move.partition))

    def target(self, move: Move, now: Now) -> Partition | None:
        """The partition that the message goes to; a topic of letters is made if it is missing."""
        topic = self._state.catalog.get(move.target)
        if topic is None and move.cause != Cause.REDRIVE:
            origin = self._state.catalog.numbered(move.topic)
            if origin is None:
                # Deleted meanwhile, as its letters were.
                return None
            topic = self._topics.ensure_letters(origin, move.target, now)
        if topic is None or not topic.is_open:
            return None
        number = move.target_partition % topic.stated.partitions
        return self._state.partitions.get(LogId(topic.name, number))

    def headers(self, move: Move, source: LogId, data: memoryview) -> tuple[Header, ...]:
        """What the copy says of where it came from."""
        if move.cause == Cause.REDRIVE:
            return ((REDRIVEN, f"{source}:{move.offset}".encode()),)
        group = self._state.groups.numbered(move.group)
        before = next((read_letter(record.headers) for record in messages_in(data)), None)
        facts = {
            "topic": source.topic,
            "partition": str(move.partition),
            "offset": str(move.offset),
            "group": "" if group is None else group.name,
            "deliveries": str(move.attempts),
            "hops": str(1 if before is None else before.hops + 1),
            "time": format_time(move.at),
            "cause": move.cause,
        }
        if move.reason:
            facts["reason"] = move.reason
        return tuple((PREFIX + name, value.encode()) for name, value in facts.items())
