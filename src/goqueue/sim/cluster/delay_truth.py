"""What the records of one partition must say of its delayed messages, whatever failed.

Each message is delivered once, after it was due by the clock of the broker that fired it, and never
if it was cancelled; nobody is told otherwise.
"""

import msgspec

from goqueue.log import cancelled_by
from goqueue.model import DELAYED_FROM_HEADER, DELIVER_HEADER, Offset, Record
from goqueue.records import Flag, decode, scan
from goqueue.sim.cluster.delay_clients import DelayPlace
from goqueue.sim.oracle import Violation

__all__ = ["DelayTruth", "is_delivery"]


class _Delivery(msgspec.Struct, frozen=True):
    record: Record
    first: Offset


class DelayTruth:
    """The delayed messages of one partition, as its records tell."""

    def __init__(self, number: int, data: bytes) -> None:
        self._number = number
        self._delayed: dict[Offset, Record] = {}
        self._delivered: dict[Offset, Offset] = {}
        self._cancelled: dict[Offset, None] = {}
        # When messages fired, and those that were cancelled.
        self.fired_at: dict[DelayPlace, int] = {}
        self.cancelled: dict[DelayPlace, None] = {}
        for position in scan(data).columns.positions:
            self._add(decode(data, position))

    def _add(self, record: Record) -> None:
        cancelled = cancelled_by(record)
        if cancelled is not None:
            self._end(Offset(cancelled))
            self._cancelled[Offset(cancelled)] = None
            self.cancelled[self._number, Offset(cancelled)] = None
        elif record.flags & Flag.DELAYED:
            self._delayed[Offset(record.offset)] = record
        elif is_delivery(record):
            first = Offset(int(_header(record, DELAYED_FROM_HEADER)))
            self._end(first)
            self._check_delivery(_Delivery(record, first))
            self._delivered[first] = Offset(record.offset)
            self.fired_at[self._number, first] = record.timestamp

    def _end(self, first: Offset) -> None:
        """A message is delivered or cancelled: it must be there, and must wait."""
        if first not in self._delayed:
            raise Violation("only what was delayed fires", self._name(first))
        if first in self._delivered or first in self._cancelled:
            raise Violation("a delay ends once", self._name(first))

    def _check_delivery(self, delivery: _Delivery) -> None:
        delayed, record = self._delayed[delivery.first], delivery.record
        if delayed.value != record.value:
            raise Violation("a delay fires as it was published", self._name(delivery.first))
        due = int(_header(delayed, DELIVER_HEADER))
        if record.timestamp < due:
            early = f"{self._name(delivery.first)}: {record.timestamp}, due at {due}"
            raise Violation("no delay fires early", early)

    def _name(self, first: Offset) -> str:
        return f"{first} of partition {self._number}"

    @property
    def delivered_count(self) -> int:
        return len(self._delivered)

    @property
    def waiting(self) -> dict[DelayPlace, int]:
        """The messages that wait, and when they are due."""
        return {
            (self._number, first): int(_header(record, DELIVER_HEADER))
            for first, record in self._delayed.items()
            if first not in self._delivered and first not in self._cancelled
        }

    def check_told(
        self, cancelled: dict[DelayPlace, None], delivered: dict[DelayPlace, Offset]
    ) -> None:
        """What a client was told is so."""
        for number, first in cancelled:
            if number == self._number and first not in self._cancelled:
                where = f"{self._name(first)}: {self._delivered.get(first)}"
                raise Violation("what was cancelled never fires", where)
        for (number, first), offset in delivered.items():
            if number == self._number and self._delivered.get(first) != offset:
                where = f"{self._name(first)} at {offset}: {self._delivered.get(first)}"
                raise Violation("what was delivered is there", where)


def is_delivery(record: Record) -> bool:
    """Whether a record delivers a delayed message."""
    return any(name == DELAYED_FROM_HEADER for name, _ in record.headers)


def _header(record: Record, wanted: str) -> bytes:
    return next(value for name, value in record.headers if name == wanted)
