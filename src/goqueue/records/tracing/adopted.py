"""Records that take over the trace context of the request that brought them."""

import contextlib

import msgspec

from goqueue.model import Header, Refused
from goqueue.records.columns import walk
from goqueue.records.record import decode, encode
from goqueue.records.tracing.given import GIVEN_BYTES, look

__all__ = ["adopt"]


def adopt(batch: bytearray, headers: tuple[Header, ...]) -> bytearray:
    """The same batch; records that give no context have these headers, if there is room."""
    contexts = look(batch).contexts
    named = {name for name, _ in headers}
    positions = [*walk(batch).positions, len(batch)]
    adopted = bytearray()
    for index, position in enumerate(positions[:-1]):
        piece: bytes | bytearray = batch[position : positions[index + 1]]
        if len(contexts.get(index, b"")) != GIVEN_BYTES:
            record = decode(piece)
            own = tuple(header for header in record.headers if header[0] not in named)
            # A trace is not worth a message.
            with contextlib.suppress(Refused):
                piece = encode(msgspec.structs.replace(record, headers=(*own, *headers)))
        adopted += piece
    return adopted
