"""Leased records on the wire: what a poll got of each partition, in stored bytes.

A share is two lengths (unsigned, 4 bytes, big-endian), a JSON header of the first length, and
records of the second. Shares follow each other without anything between. The form is described in
docs/reference/lease-records.md; gateways write it and clients read it.

Invariant: what was written is read back; every other sequence of bytes is refused, not guessed.
Cost: one small JSON text for each partition; records are sent as they were read.
"""

import struct
from collections.abc import Iterator, Sequence

import msgspec

from goqueue.records.layout import Buffer, Corrupt

__all__ = ["LeaseEntry", "LeasedShare", "ShareHeader", "read_shares", "write_share"]

_LENGTHS = struct.Struct(">II")


class LeaseEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lease: its messages as ranges [first, next), in the order of delivery.

    Or how many there are: then the records of the share are those of its leases, one lease after
    the other, in the order of delivery.
    """

    handle: str
    delivery_count: int
    offsets: Sequence[tuple[int, int]] = ()
    count: int = 0

    def __iter__(self) -> Iterator[int]:
        """The offsets in the order of delivery, where they are named."""
        for first, following in self.offsets:
            yield from range(first, following)


class ShareHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a poll got of one partition; `deadline` is a time as text."""

    topic: str
    partition: int
    deadline: str
    leases: Sequence[LeaseEntry]
    trace_seed: str = ""


class LeasedShare(msgspec.Struct, frozen=True, eq=False):
    """A share as it was read: the records of its leases are in `data`, perhaps between others."""

    header: ShareHeader
    data: memoryview

    @property
    def is_exact(self) -> bool:
        """Whether the records are those of the leases alone, in the order of delivery."""
        return any(each.count for each in self.header.leases)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ShareHeader)


def write_share(header: ShareHeader, pieces: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """A share as buffers to be sent one after the other."""
    text = _encoder.encode(header)
    lengths = _LENGTHS.pack(len(text), sum(map(len, pieces)))
    return (lengths + text, *pieces)


def read_shares(data: Buffer) -> list[LeasedShare]:
    """The shares of a reply, which keep its bytes; raises Corrupt where they are none."""
    whole = memoryview(data)
    shares: list[LeasedShare] = []
    position = 0
    while position < len(whole):
        begin = position + _LENGTHS.size
        if begin > len(whole):
            raise Corrupt(position, "a share ends within its lengths")
        header_length, records_length = _LENGTHS.unpack_from(whole, position)
        records = begin + header_length
        end = records + records_length
        if end > len(whole):
            raise Corrupt(position, "a share is longer than what follows")
        try:
            header = _decoder.decode(whole[begin:records])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(position, f"the header of a share cannot be read: {error}") from error
        shares.append(LeasedShare(header, whole[records:end]))
        position = end
    return shares
