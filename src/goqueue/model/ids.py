"""Names and numbers that identify things, and the two kinds of time.

Times are integers of nanoseconds. `Instant` is monotonic and serves every deadline;
`Timestamp` is wall time and stamps records. A jumping wall clock can therefore neither
expire a lease nor start an election.
"""

from typing import NewType

import msgspec

__all__ = ["HOUR", "MILLISECOND", "SECOND", "Instant", "LogId", "Now", "Offset", "Timestamp"]

Instant = NewType("Instant", int)
Timestamp = NewType("Timestamp", int)
Offset = NewType("Offset", int)

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
HOUR = 3_600 * SECOND


class LogId(msgspec.Struct, frozen=True, order=True):
    """One partition of one topic: the name of one log."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Now(msgspec.Struct, frozen=True):
    """The moment at which the core is asked to decide, told by the shell."""

    instant: Instant
    wall: Timestamp
