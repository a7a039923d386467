"""What a reader makes of the bytes of an answer."""

from collections.abc import Iterable

import msgspec

from goqueue.model import Record
from goqueue.model.requests import Isolation, Records
from goqueue.records import decode, visible, walk

__all__ = ["Reading", "is_aborted", "messages_in", "records_in"]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads, and how; one name stands for one reader that goes on where it was."""

    reader: str
    isolation: Isolation = Isolation.READ_COMMITTED
    is_final: bool = False

    @property
    def is_committed(self) -> bool:
        return self.isolation is Isolation.READ_COMMITTED


def is_aborted(record: Record, reply: Records) -> bool:
    """Whether an answer says of a record that it is not to be shown."""
    return any(first <= record.offset < following for first, following in reply.aborted)


def messages_in(data: Iterable[memoryview]) -> list[Record]:
    """The messages in the bytes of an answer."""
    found: list[Record] = []
    for piece in data:
        if len(piece):
            found.extend(visible(piece, 0, len(piece)))
    return found


def records_in(data: Iterable[memoryview]) -> list[Record]:
    """The records in the bytes of an answer, also those that are no messages."""
    found: list[Record] = []
    for piece in data:
        if len(piece):
            found.extend(decode(piece, position) for position in walk(piece).positions)
    return found
