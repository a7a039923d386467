"""Replays stored records into the producer state of a partition, in offset order."""

from collections.abc import Iterator

import msgspec

from goqueue.log.batch_mark import BatchMark, marks_in, parse_mark
from goqueue.log.control import (
    ControlKind,
    Marker,
    Restored,
    controls_in,
    ended_by,
    restored_by,
)
from goqueue.log.producer_state import ProducerState
from goqueue.model import BATCH_HEADER, Offset
from goqueue.records import Buffer, Columns, decode

__all__ = ["Interruption", "Statement", "replay", "statements_in"]


class Interruption(msgspec.Struct, frozen=True):
    """A control record of the log itself: no batch of a producer continues behind it."""


Statement = BatchMark | Marker | Restored | Interruption


def statements_in(data: Buffer, columns: Columns) -> Iterator[tuple[int, Statement]]:
    """Batch marks, transaction markers and other records that end a batch, by record."""
    found: list[tuple[int, Statement]] = list(marks_in(data, columns))
    for index in controls_in(columns):
        record = decode(data, columns.positions[index])
        marker = ended_by(record)
        if marker is not None:
            found.append((index, marker))
        elif record.key == BATCH_HEADER.encode():
            # Compaction removed the message and left the mark of its batch.
            mark = parse_mark(record.value or b"")
            if mark is not None:
                found.append((index, mark))
        elif record.key != ControlKind.PLACEHOLDER.encode():
            # A placeholder replaces a record that may have belonged to a batch.
            found.append((index, restored_by(record) or Interruption()))
    found.sort(key=lambda entry: entry[0])
    return iter(found)


def replay(producers: ProducerState, data: Buffer, columns: Columns, start: Offset) -> None:
    """Update the state from committed records from `start` on."""
    for index, statement in statements_in(data, columns):
        offset = columns.offsets[index]
        if offset < start:
            continue
        # All of it is committed.
        producers.commit(offset)
        if isinstance(statement, Interruption):
            producers.interrupt(offset)
        elif isinstance(statement, BatchMark):
            producers.append(statement, offset)
        elif isinstance(statement, Restored):
            producers.forget_all(offset, statement.committed)
        else:
            producers.end(
                statement.producer,
                statement.epoch,
                statement.transaction,
                offset,
                is_commit=statement.is_commit,
            )
            producers.commit(offset + 1)
