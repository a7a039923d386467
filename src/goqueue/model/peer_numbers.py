"""The numbers that messages between brokers may have.

A message with any other number is refused when it is decoded: no broker acts on it, repeats it or
stores it. The largest counter leaves room to count on; no cluster reaches it.
"""

from typing import Annotated

from msgspec import Meta

from goqueue.model.ids import Instant, Offset, Timestamp

__all__ = ["COUNTER_MAX", "PeerCounter", "PeerInstant", "PeerNanoseconds", "PeerOffset", "PeerTime"]

COUNTER_MAX = 2**53
_NANOSECONDS_MAX = 2**62

PeerCounter = Annotated[int, Meta(ge=0, le=COUNTER_MAX)]
PeerOffset = Annotated[Offset, Meta(ge=0, le=COUNTER_MAX)]
# Instants are of the sender's own clock, which counts nanoseconds.
PeerInstant = Annotated[Instant, Meta(ge=0, le=_NANOSECONDS_MAX)]
PeerNanoseconds = Annotated[int, Meta(ge=0, le=_NANOSECONDS_MAX)]
# A wall clock may be wrong by any time, which must not end a link.
PeerTime = Annotated[Timestamp, Meta(ge=-_NANOSECONDS_MAX, le=_NANOSECONDS_MAX)]
