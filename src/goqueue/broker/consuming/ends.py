"""Both ends of a move: where a message comes from, where it goes, and what its copy says of that.

Never moves anything. Names and numbers are looked up each time, since topics and groups may be
deleted, and made again, while a move is under way.
"""

import enum
from typing import NamedTuple

import msgspec

from goqueue.broker.consuming.letters import PREFIX, REDRIVEN, messages_in, read_letter
from goqueue.broker.messages.topics import Topics
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.delivery import Position
from goqueue.model import Answer, Header, LogId, Now, Offset, RequestId, Timestamp, format_time

__all__ = ["LETTERS_GROUP", "Cause", "DeadLetterEnds", "Move", "Route"]

# The number of no group: the place of redrives among the dead letters.
LETTERS_GROUP = 0


class Cause(enum.StrEnum):
    """Why a message moves."""

    REJECTED = "rejected"
    MAX_DELIVERIES = "max_deliveries"
    REDRIVE = "redrive"


class Route(NamedTuple):
    """The way of messages: for which group, from which partition, and where to.

    Topics and groups that messages leave are numbers, so none is taken for its namesake; the topic
    that they go to is a name, since it may have to be made first.
    """

    group: int
    topic: int
    partition: int
    target: str
    target_partition: int

    @property
    def is_redrive(self) -> bool:
        return self.group == LETTERS_GROUP


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A message that leaves one log for another, and who wants to hear of it."""

    route: Route
    offset: Offset
    at: Timestamp
    cause: Cause
    attempts: int = 0
    reason: str = ""
    # Who is answered when the message is there, and the redrive that it is a part of.
    answer: Answer | None = None
    redrive: RequestId | None = None


class DeadLetterEnds:
    """Looks up where moves begin and end."""

    def __init__(self, state: NodeState, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    def position(self, route: Route) -> Position | None:
        """Where the message comes from; None if its topic or its group is gone."""
        topic = self._state.catalog.numbered(route.topic)
        is_ours = route.group == LETTERS_GROUP or self._state.groups.numbered(route.group)
        if topic is None or not is_ours:
            return None
        log = LogId(topic.name, route.partition)
        return self._state.positions.setdefault(route.group, {}).setdefault(log, Position(0))

    def source(self, route: Route) -> Partition | None:
        """The partition that the message leaves."""
        topic = self._state.catalog.numbered(route.topic)
        if topic is None or self.position(route) is None:
            return None
        return self._state.partitions.get(LogId(topic.name, route.partition))

    def target(self, route: Route, now: Now) -> Partition | None:
        """The partition that the message goes to; a topic of letters is made if it is missing."""
        topic = self._state.catalog.get(route.target)
        if topic is None and not route.is_redrive:
            origin = self._state.catalog.numbered(route.topic)
            if origin is None:
                # Deleted meanwhile, as its letters were.
                return None
            topic = self._topics.ensure_letters(origin, route.target, now)
        if topic is None or not topic.is_open:
            return None
        number = route.target_partition % topic.stated.partitions
        return self._state.partitions.get(LogId(topic.name, number))

    def headers(self, move: Move, source: LogId, data: memoryview) -> tuple[Header, ...]:
        """What the copy says of where it came from."""
        if move.route.is_redrive:
            return ((REDRIVEN, f"{source}:{move.offset}".encode()),)
        group = self._state.groups.numbered(move.route.group)
        before = next((read_letter(record.headers) for record in messages_in(data)), None)
        facts = {
            "topic": source.topic,
            "partition": str(move.route.partition),
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
