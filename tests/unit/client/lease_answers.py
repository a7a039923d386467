"""Answers about leases, written as docs/reference/lease-records.md describes them."""

import struct
from collections.abc import Callable, Sequence

import msgspec

from goqueue import records
from goqueue.client.ack_sender import AckSender
from goqueue.client.leases import Grant, HeldLease
from goqueue.model import Folded, Message
from tests.unit.client.peer import Answer, Asked, json_answer

__all__ = ["DEADLINE", "HANDLE", "Share", "held", "leased", "named", "settled"]

HANDLE = "orders:0:1:3.1.2a.c2f1"
DEADLINE = "2030-01-01T00:00:31Z"

# The handle of a lease, and its ranges in the order of delivery.
Ranges = list[tuple[int, int]]


class Share(msgspec.Struct, kw_only=True):
    """What a poll got of one partition: leases with their ranges, or how many messages they are."""

    topic: str = "orders"
    partition: int = 0
    leases: Sequence[tuple[str, Ranges | int]]
    data: bytes
    delivery_count: int = 1
    trace_seed: str | None = None

    def encode(self) -> bytes:
        header: dict[str, object] = {
            "topic": self.topic,
            "partition": self.partition,
            "deadline": DEADLINE,
            "leases": [
                {
                    "handle": handle,
                    "delivery_count": self.delivery_count,
                    "count" if isinstance(named, int) else "offsets": named,
                }
                for handle, named in self.leases
            ],
        }
        if self.trace_seed is not None:
            header["trace_seed"] = self.trace_seed
        text = msgspec.json.encode(header)
        return struct.pack(">II", len(text), len(self.data)) + text + self.data


def leased(*offsets: int) -> bytes:
    """A share whose values are the offsets; those that follow each other are one lease."""
    data = b""
    ranges: Ranges = []
    for offset in offsets:
        record = records.build([Message(value=b"%d" % offset)])
        records.stamp(record, offset, 1_000_000_000)
        data += record
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return Share(leases=[(HANDLE, ranges)], data=data).encode()


def held(settling: AckSender, offset: int, lease_s: float = 30.0, at: float = 0.0) -> HeldLease:
    """A lease of `orders`, polled at a time."""
    return HeldLease(Grant(settling, lease_s, 1), HANDLE, offset, at + lease_s, DEADLINE)


def named(asked: Asked) -> list[int]:
    """The offsets that a request to settle names."""
    body = msgspec.json.decode(asked.body)
    return [
        offset
        for lease in body["leases"]
        for offset in Folded(lease.get("offsets", []), lease.get("steps", [])).unfold()
    ]


def settled(asked: Asked, is_stale: Callable[[int], bool]) -> Answer:
    """The answer to a request to settle: those that are stale are refused."""
    offsets = named(asked)
    refused = [
        {
            "handle": HANDLE,
            "offsets": [[offset, offset + 1]],
            "code": "receipt_stale",
            "error": "too late",
        }
        for offset in offsets
        if is_stale(offset)
    ]
    count = len(offsets) - len(refused)
    return json_answer({"count": count, "refused": refused, "new_deadline": DEADLINE})
