"""What clients did and were told, in order: the evidence that the checkers judge.

Values only, and only what clients can know. The place of an event in the history is its time: what
was asked before something was answered may have happened before it.
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
    """A value is on its way to a log; the same value again is a retry of the same message.

    `process` is the sender: a producer with its epoch. `log` is None where the broker chooses.
    """

    value: int
    process: str
    log: str | None = None
    transaction: int | None = None
    sequence: int | None = None


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The sender was told that its value stands here; `asked` is when it was sent."""

    value: int
    log: str
    offset: int
    asked: int
    is_duplicate: bool = False


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The sender was told that its value was surely not taken, in answer to what it sent then."""

    value: int
    asked: int


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """A reader was shown a piece of a log: all that it was shown, by offset.

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
    """A member of a group was handed a message of a queue."""

    group: str
    log: str
    offset: int
    value: int


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody asked for a transaction; it is known by this number from now on."""

    transaction: int
    process: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a group was asked to take effect with a transaction."""

    transaction: int
    group: str
    log: str
    floor: int = 0
    offsets: tuple[int, ...] = ()


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """The progress that was asked for then belongs to the transaction."""

    transaction: int
    asked: int


class EndAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants a transaction to end."""

    transaction: int
    is_commit: bool


class Grouped(msgspec.Struct, frozen=True, kw_only=True):
    """Several transactions are asked to be committed by one decision, and in no other way."""

    transactions: tuple[int, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """It is known how a transaction ended; `asked` is when its end was asked for, if by anybody."""

    transaction: int
    is_commit: bool
    asked: int | None = None


class Fenced(msgspec.Struct, frozen=True, kw_only=True):
    """Another holds the rights of a process: nothing that it sends from now on may be taken."""

    process: str


class Stood(msgspec.Struct, frozen=True, kw_only=True):
    """A group that only transactions move was said to stand here."""

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
    """What a log had from this offset on may be gone, as it was allowed to be."""

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
    """Events in the order in which clients met them."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def note(self, event: Event) -> int:
        """Keep an event; its time."""
        self._events.append(event)
        return len(self._events) - 1

    @property
    def events(self) -> list[Event]:
        return list(self._events)
