"""Trace entries: one for all messages to which the same thing happened at the same time.

An entry holds positions and what cannot be derived from them. Trace contexts of messages and ids of
spans are derived on request, so recording costs the same for one message and for a thousand.

Invariant: the columns of an entry have equal length, and an entry never changes.
"""

import enum
import hashlib
from array import array
from collections.abc import Mapping, Sequence

import msgspec

from goqueue.records import CONTEXT_BYTES, GIVEN_CONTEXT_BYTES, DelayedRecords, derive_contexts

__all__ = ["Kind", "Place", "TraceEntry", "place_of"]

_SEED_BYTES = 16


class Kind(enum.IntEnum):
    """The operation. The numbers are part of span ids: never reuse one."""

    PUBLISH = 1
    REFUSE = 2
    FETCH = 3
    ACK = 4
    NACK = 5
    REJECT = 6
    EXTEND = 7
    EXPIRE = 8
    FIRE = 9
    CANCEL = 10
    DEAD_LETTER = 11
    REDRIVE = 12
    REBALANCE = 13
    REPLICATE = 14
    RELEASE = 15
    ABORT = 16


class Place(msgspec.Struct, frozen=True):
    """A log of one incarnation of a topic, with the seed of contexts that the broker derives."""

    topic: str
    partition: int
    high: int
    low: int


def place_of(topic: str, partition: int, life: str) -> Place:
    """The place of a partition; `life` distinguishes topics of the same name."""
    named = f"{topic}\n{partition}\n{life}".encode()
    seed = hashlib.blake2b(named, digest_size=_SEED_BYTES).digest()
    return Place(topic, partition, int.from_bytes(seed[:8]), int.from_bytes(seed[8:]))


class TraceEntry(msgspec.Struct, frozen=True):
    """One thing that happened to some messages of one log.

    `given` has the contexts that messages carry, by their index here. `waiting` has the due times
    of delayed messages.
    """

    kind: Kind
    place: Place
    offsets: Sequence[int]
    at: int
    until: int
    given: Mapping[int, bytes] = {}
    attempts: Sequence[int] = ()
    group: str = ""
    group_number: int = 0
    member: str = ""
    detail: str = ""
    keys: "array[int] | None" = None
    waiting: DelayedRecords | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def contexts(self) -> bytes:
        """The contexts of all messages, in order."""
        made = derive_contexts(self.place.high, self.place.low, self.offsets)
        if not self.given:
            return made
        contexts = bytearray(made)
        for index in self.given:
            start = index * CONTEXT_BYTES
            contexts[start : start + CONTEXT_BYTES] = self.context(index)
        return bytes(contexts)

    def context(self, index: int) -> bytes:
        """The context of one message: the one it carries, or the one of its first position."""
        given = self.given.get(index, b"")
        if len(given) == GIVEN_CONTEXT_BYTES:
            return given[:CONTEXT_BYTES]
        origin = int.from_bytes(given) if given else self.offsets[index]
        return derive_contexts(self.place.high, self.place.low, (origin,))

    def attempt(self, index: int) -> int:
        """The delivery that this was about; 0 for none."""
        return self.attempts[index] if self.attempts else 0

    def only(self, chosen: Sequence[int]) -> "TraceEntry":
        """The same entry for some of the messages."""
        keys, attempts = self.keys, self.attempts
        return msgspec.structs.replace(
            self,
            offsets=[self.offsets[index] for index in chosen],
            given={
                place: self.given[index]
                for place, index in enumerate(chosen)
                if index in self.given
            },
            attempts=[attempts[index] for index in chosen] if attempts else (),
            keys=None if keys is None else array("Q", (keys[index] for index in chosen)),
        )
