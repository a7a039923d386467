"""What a log says about delayed messages, and the snapshot that saves reading it."""

from array import array
from bisect import bisect_left

import msgspec

from goqueue.delivery import Delays, DelaysStated
from goqueue.log import (
    BatchMark,
    Marker,
    Restored,
    Statement,
    cancelled_by,
    statements_in,
)
from goqueue.model import (
    BATCH_HEADER,
    DELAYED_FROM_HEADER,
    DELIVER_HEADER,
    Record,
    TransactionKey,
)
from goqueue.records import Flag, decode, find_delayed, walk

__all__ = ["OF_THE_LOG", "Replay", "decode_delays", "delays_snapshot"]

# What a record says about its own log is not true in another.
OF_THE_LOG = (DELAYED_FROM_HEADER, DELIVER_HEADER, BATCH_HEADER)
_MAY_DELIVER = Flag.HEADERS | Flag.DELAYED
_DECODER = msgspec.json.Decoder(DelaysStated)


def delays_snapshot(topic: int, partition: int) -> str:
    """The name of the snapshot of a partition's delays: by number, since names may be long."""
    return f"delays-{topic}-{partition}"


def decode_delays(data: bytes) -> DelaysStated | None:
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError:
        return None


class Replay:
    """Takes in stored records, piece after piece, for what they say of delayed messages."""

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        # The last batch that was part of a transaction: it may go on in the next piece.
        self._batch: _Batch | None = None

    def apply(self, data: memoryview) -> None:
        """What was delayed, what of it was delivered, cancelled or aborted since."""
        delays = self._delays
        columns = walk(data)
        delayed = find_delayed(data)
        delays.add_all(delayed.offsets, delayed.dues, delayed.priorities)
        statements = dict(statements_in(data, columns))
        self._hold(delayed.offsets, columns.offsets, statements)
        # Most records have nothing to do with delays, and a search is cheaper than to decode them.
        has_deliveries = DELAYED_FROM_HEADER.encode() in bytes(data)
        for index, flags in enumerate(columns.flags):
            statement = statements.get(index)
            if isinstance(statement, Marker):
                holder = TransactionKey(statement.producer, statement.transaction)
                delays.release(holder, is_commit=statement.is_commit)
            elif isinstance(statement, Restored):
                delays.release_all(TransactionKey(*each) for each in statement.committed)
                delays.pass_control(columns.offsets[index])
            elif flags & Flag.CONTROL:
                self._take_control(decode(data, columns.positions[index]))
            elif has_deliveries and flags & _MAY_DELIVER == Flag.HEADERS:
                record = decode(data, columns.positions[index])
                first = _delivered_by(record)
                if first is not None:
                    delays.deliver(first, record.offset)

    def _take_control(self, record: Record) -> None:
        cancelled = cancelled_by(record)
        if cancelled is None:
            self._delays.pass_control(record.offset)
        else:
            self._delays.cancel(cancelled, record.offset)

    def _hold(
        self,
        delayed: "array[int]",
        offsets: "array[int]",
        statements: dict[int, Statement],
    ) -> None:
        """What is part of a transaction does not wait before that has committed."""
        batches = [] if self._batch is None else [self._batch]
        for index, statement in statements.items():
            first = offsets[index]
            if batches and batches[-1].following > first:
                # A torn batch ends where another record begins.
                batches[-1] = msgspec.structs.replace(batches[-1], following=first)
            if isinstance(statement, BatchMark) and statement.transaction:
                holder = TransactionKey(statement.producer, statement.transaction)
                batches.append(_Batch(first, first + statement.count, holder))
        for batch in batches:
            begin = bisect_left(delayed, batch.first)
            self._delays.hold(batch.holder, delayed[begin : bisect_left(delayed, batch.following)])
        self._batch = batches[-1] if batches else None


class _Batch(msgspec.Struct, frozen=True):
    """Records that are part of a transaction."""

    first: int
    following: int
    holder: TransactionKey


def _delivered_by(record: Record) -> int | None:
    """The delayed message that this record delivers; None if it delivers none."""
    value = next((value for name, value in record.headers if name == DELAYED_FROM_HEADER), None)
    return int(value) if value is not None and value.isdigit() else None
