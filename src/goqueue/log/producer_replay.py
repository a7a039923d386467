"""What stored records say of producers, in the order of their offsets."""

from collections.abc import Iterator

import msgspec

from goqueue.log.batch_mark import BATCH_HEADER, BatchMark, marks_in, parse_mark
from goqueue.log.control import ControlKind, Marker, ended_by
from goqueue.log.producer_state import ProducerState
from goqueue.model import Offset
from goqueue.records import Buffer, Columns, Flag, decode

__all__ = ["Interruption", "replay", "statements_in"]

_CONTROL = int(Flag.CONTROL)


class Interruption(msgspec.Struct, frozen=True):
    """A control record of the log itself: no batch of a producer goes on behind it."""


def statements_in(
    data: Buffer, columns: Columns
) -> Iterator[tuple[int, BatchMark | Marker | Interruption]]:
    """Marks of batches, markers of transactions and what else ends a batch, by record."""
    found: list[tuple[int, BatchMark | Marker | Interruption]] = list(marks_in(data, columns))
    for index, flags in enumerate(columns.flags):
        if flags & _CONTROL:
            record = decode(data, columns.positions[index])
            marker = ended_by(record)
            if marker is not None:
                found.append((index, marker))
            elif record.key == BATCH_HEADER.encode():
                # Compaction took the message and left what it said of its batch.
                mark = parse_mark(record.value or b"")
                if mark is not None:
                    found.append((index, mark))
            elif record.key != ControlKind.PLACEHOLDER.encode():
                # A placeholder stands where a record was that may have been of a batch.
                found.append((index, Interruption()))
    found.sort(key=lambda entry: entry[0])
    return iter(found)


def replay(authors: ProducerState, data: Buffer, columns: Columns, start: Offset) -> None:
    """Learn what committed records from `start` on say."""
    for index, statement in statements_in(data, columns):
        offset = columns.offsets[index]
        if offset < start:
            continue
        # All of it is committed.
        authors.commit(offset)
        if isinstance(statement, Interruption):
            authors.interrupt(offset)
        elif isinstance(statement, BatchMark):
            authors.append(statement, offset)
        else:
            authors.end(
                statement.producer,
                statement.epoch,
                statement.transaction,
                offset,
                is_commit=statement.is_commit,
            )
            authors.commit(offset + 1)
