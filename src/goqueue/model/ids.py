"""Names and numbers that identify things, and the two kinds of time.

Times are integers of nanoseconds. `Instant` is monotonic and serves every deadline;
`Timestamp` is wall time and stamps records. A jumping wall clock can therefore neither
expire a lease nor start an election.
"""

import re
from typing import NamedTuple, NewType

import msgspec

from goqueue.model.errors import Code, Refused

__all__ = [
    "HOUR",
    "MILLISECOND",
    "NAME_CHARACTERS_MAX",
    "SECOND",
    "Instant",
    "LogId",
    "Now",
    "Offset",
    "RequestId",
    "Timestamp",
    "TransactionKey",
    "check_name",
    "is_internal",
]

Instant = NewType("Instant", int)
Timestamp = NewType("Timestamp", int)
Offset = NewType("Offset", int)
RequestId = NewType("RequestId", int)

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
HOUR = 3_600 * SECOND


class LogId(msgspec.Struct, frozen=True, order=True):
    """One partition of one topic: the name of one log."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TransactionKey(NamedTuple):
    """One transaction: its producer, and its number among those of this producer.

    A dead-letter move is a transaction of the broker itself: it has a producer of its own, with one
    transaction. In logs and journals its producer is the negative number of the move; nothing else
    knows that.
    """

    producer: int
    number: int

    @classmethod
    def of_move(cls, move: int) -> "TransactionKey":
        """The transaction of a move of the broker's own."""
        return cls(-move, 1)

    @property
    def is_internal(self) -> bool:
        """Whether it is a move of the broker's own."""
        return self.producer < 0

    @property
    def move(self) -> int:
        """The number of the broker's own move."""
        assert self.is_internal
        return -self.producer

    def __str__(self) -> str:
        """How callers know a transaction."""
        return f"{self.producer}-{self.number}"


class Now(msgspec.Struct, frozen=True):
    """The moment at which the core is asked to decide, told by the shell."""

    instant: Instant
    wall: Timestamp


NAME_CHARACTERS_MAX = 249
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_CHARACTERS_MAX}}}", re.ASCII)


def check_name(name: str, field: str) -> str:
    """Refuse what cannot name a topic, group, client or member."""
    if name in {".", ".."} or not _NAME.fullmatch(name):
        raise Refused(Code.NAME_INVALID, field=field)
    return name


def is_internal(topic: str) -> bool:
    """Whether a topic belongs to the broker: readable by admins, writable by nobody."""
    return topic.startswith("__")
