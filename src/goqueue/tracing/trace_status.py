"""The status of a trace, derived from what happened to its messages in order.

A trace may cover many messages, if they were sent in one span. It is pending while one of them is
available or in flight, and an error once one of them was refused or dead-lettered. A redrive clears
the error of its dead letter.

A copy of a message does not say where it was copied from. If several messages of one trace are
pending, or have failed in one group, the oldest is taken as the origin: the choice makes no
difference to the status.
"""

import msgspec

from goqueue.model.requests import TraceStatus
from goqueue.tracing.trace_entry import Kind, Place

__all__ = ["Fate", "Step"]

# The position of a message: a log and an offset.
_Position = tuple[Place, int]


class Step(msgspec.Struct, frozen=True):
    """One event; `is_delayed` marks the publication of a delayed message."""

    kind: Kind
    group: str
    place: Place
    offset: int
    is_delayed: bool = False


class Fate:
    """Receives every step in order and derives the status."""

    def __init__(self) -> None:
        # Copies that were not delivered yet, and whether they are delayed.
        self._waiting: dict[_Position, bool] = {}
        # Deliveries by group and position, and whether they failed.
        self._held: dict[tuple[str, _Position], bool] = {}
        # Rejected in a group, and not dead-lettered yet.
        self._rejected: dict[str, int] = {}
        self._dead_letters: dict[_Position, None] = {}
        self._is_refused = False

    @property
    def status(self) -> TraceStatus:
        if self._is_refused or self._dead_letters or any(self._rejected.values()):
            return TraceStatus.ERROR
        if self._waiting or self._held:
            return TraceStatus.PENDING
        return TraceStatus.COMPLETED

    def take(self, step: Step) -> None:
        """Process the next step."""
        position = (step.place, step.offset)
        delivery = (step.group, position)
        if step.group:
            # It was delivered.
            self._waiting.pop(position, None)
        match step.kind:
            case Kind.PUBLISH:
                self._waiting[position] = step.is_delayed
            case Kind.FETCH | Kind.RELEASE:
                self._held[delivery] = False
            case Kind.ACK:
                self._held.pop(delivery, None)
            case Kind.NACK | Kind.EXPIRE:
                self._held[delivery] = True
            case Kind.EXTEND:
                self._held.setdefault(delivery, False)
            case Kind.REFUSE:
                self._is_refused = True
            case _:
                self._move(step, position)

    def _move(self, step: Step, position: _Position) -> None:
        """A step that moves or removes a message."""
        match step.kind:
            case Kind.FIRE:
                self._end_delay(step.place)
                self._waiting[position] = False
            case Kind.ABORT:
                self._waiting.pop(position, None)
            case Kind.CANCEL:
                if self._waiting.pop(position, None) is None:
                    self._end_delay(step.place)
            case Kind.REJECT:
                self._held.pop((step.group, position), None)
                self._rejected[step.group] = self._rejected.get(step.group, 0) + 1
            case Kind.DEAD_LETTER:
                self._bury(step.group)
                self._dead_letters[position] = None
            case Kind.REDRIVE:
                if self._dead_letters:
                    del self._dead_letters[next(iter(self._dead_letters))]
                self._waiting[position] = False

    def _end_delay(self, place: Place) -> None:
        for position, is_delayed in self._waiting.items():
            if is_delayed and position[0] == place:
                del self._waiting[position]
                return

    def _bury(self, group: str) -> None:
        """A message of this group was dead-lettered."""
        if self._rejected.get(group, 0):
            self._rejected[group] -= 1
            return
        for delivery, has_failed in self._held.items():
            if has_failed and delivery[0] == group:
                del self._held[delivery]
                return
