"""What a log says about delayed messages, and the snapshot that saves reading it."""

import msgspec

from goqueue.delivery import Delays, DelaysStated
from goqueue.log import cancelled_by
from goqueue.model import Record
from goqueue.records import Flag, decode, walk

__all__ = [
    "DELAYED_FROM",
    "DELIVER_AT",
    "OF_THE_LOG",
    "decode_delays",
    "delays_snapshot",
    "replay_delays",
]

DELAYED_FROM = "gq.delayed-from"
DELIVER_AT = "gq.deliver-at"
# What a record says about its own log is not true in another.
OF_THE_LOG = (DELAYED_FROM, DELIVER_AT)
_DECODER = msgspec.json.Decoder(DelaysStated)


def delays_snapshot(topic: int, partition: int) -> str:
    """The name of the snapshot of a partition's delays: by number, since names may be long."""
    return f"delays-{topic}-{partition}"


def decode_delays(data: bytes) -> DelaysStated | None:
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError:
        return None


def replay_delays(delays: Delays, data: memoryview) -> None:
    """Take in stored records: what was delayed, what of it was delivered or cancelled since."""
    columns = walk(data)
    # Most records have nothing to do with delays, and a search is cheaper than to decode them.
    has_deliveries = DELAYED_FROM.encode() in bytes(data)
    for position, flags in zip(columns.positions, columns.flags, strict=True):
        if flags & Flag.DELAYED:
            record = decode(data, position)
            delays.add(record.offset, _number(record, DELIVER_AT) or 0, record.priority)
        elif flags & Flag.CONTROL:
            record = decode(data, position)
            cancelled = cancelled_by(record)
            if cancelled is None:
                delays.pass_control(record.offset)
            else:
                delays.cancel(cancelled, record.offset)
        elif has_deliveries and flags & Flag.HEADERS:
            record = decode(data, position)
            first = _number(record, DELAYED_FROM)
            if first is not None:
                delays.deliver(first, record.offset)


def _number(record: Record, name: str) -> int | None:
    value = next((value for header, value in record.headers if header == name), None)
    return int(value) if value is not None and value.isdigit() else None
