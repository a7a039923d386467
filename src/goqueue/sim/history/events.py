"""What clients did and were told, in order: the evidence that the checkers judge.

Values only, and only what clients can know. The index of an event in the history is its time: a
request that was sent before an answer arrived may have taken effect before it.
"""

import msgspec

__all__ = [
    "Added",
    "Asked",
    "Began",
    "Copied",
    "Delivered",
    "Died",
    "Drained",
    "EndAsked",
    "Ended",
    "Event",
    "Failed",
    "Fenced",
    "Gone",
    "Grouped",
    "History",
    "Lost",
    "Polled",
    "Sent",
    "Stood",
    "Taken",
]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A value was sent to a log; the same value again is a retry.

    `process` is the sender: a producer with its epoch. `log` is None where the broker chooses.
    """

    value: int
    process: str
    log: str | None = None
    transaction: int | None = None
    sequence: int | None = None


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The sender was told the offset of its value; `asked` is when it was sent."""

    value: int
    log: str
    offset: int
    asked: int
    is_duplicate: bool = False


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The sender was told that its value is certainly not stored."""

    value: int
    asked: int


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """A reader got a part of a log: everything in it, by offset.

    The piece begins at `first` and ends before `upto`. A reader that follows a log continues where
    its last piece ended; a reader of the final phase reads everything from the start.
    """

    reader: str
    log: str
    first: int
    upto: int
    values: tuple[tuple[int, int], ...]
    stable: int
    start: int = 0
    is_committed: bool = True
    is_final: bool = False


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a queue was delivered to a member."""

    group: str
    log: str
    offset: int
    value: int


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction was requested; the history knows it by this number."""

    transaction: int
    process: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets or acks of a group were sent, to take effect with a transaction."""

    transaction: int
    group: str
    log: str
    floor: int = 0
    offsets: tuple[int, ...] = ()


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """The node accepted them into the transaction."""

    transaction: int
    asked: int


class EndAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a transaction was requested."""

    transaction: int
    is_commit: bool


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """A group commit of several transactions was requested, and nothing else may commit them."""

    transactions: tuple[int, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a transaction is known; `asked` is when its end was requested, if it was."""

    transaction: int
    is_commit: bool
    asked: int | None = None


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """A process was fenced: nothing that it sends from now on may be stored."""

    process: str


class Stood(msgspec.Struct, frozen=True, kw_only=True):
    """The committed offset of a group that only transactions move."""

    group: str
    log: str
    floor: int


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """A value is the copy of another, made by a worker of a group.

    `source` says where the other stands and what it is: `log:offset=value`.
    """

    group: str
    source: str
    value: int


class Died(msgspec.Struct, frozen=True, kw_only=True):
    """A message is among the dead letters of a group."""

    group: str
    source: str


class Drained(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a group found nothing left to copy in a log."""

    group: str
    log: str


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A log without syncs may have lost everything from this offset on."""

    log: str
    end: int


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """A log was deleted."""

    log: str


Event = (
    Sent
    | Taken
    | Failed
    | Polled
    | Delivered
    | Began
    | Asked
    | Added
    | EndAsked
    | Grouped
    | Ended
    | Fenced
    | Stood
    | Copied
    | Died
    | Drained
    | Lost
    | Gone
)


class History:
    """Events in the order in which clients observed them."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def note(self, event: Event) -> int:
        """Record an event, and return its time."""
        self._events.append(event)
        return len(self._events) - 1

    @property
    def events(self) -> list[Event]:
        return list(self._events)
