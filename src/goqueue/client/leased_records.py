"""Leased records: what a poll answers in stored bytes, as messages with their leases.

Owns what is made of the shares that `docs/reference/lease-records.md` describes. A poll costs one
pass over its bytes in compiled code, and a message and a lease for each of its records.

Invariant: every leased offset becomes one message, in the order of delivery; what lies between the
leased records is passed over. An answer that is anything else is refused as a whole.
"""

from collections.abc import Callable, Iterable

import msgspec

from goqueue.client.ack_sender import AckSender
from goqueue.client.errors import GoQueueError
from goqueue.client.fetcher import decode_leased
from goqueue.client.leases import Grant, HeldLease
from goqueue.client.message import Message
from goqueue.client.stored_records import read_seed
from goqueue.model import LogId
from goqueue.records import Corrupt, ShareHeader, read_shares

__all__ = ["LeaseTerms", "read_leased"]

# More than any poll asks for: a wrong range must not take all memory.
_OFFSETS_MAX = 100_000


class LeaseTerms(msgspec.Struct, frozen=True, eq=False):
    """Who settles the leases of one poll, how long they last, and from when on."""

    settling: AckSender
    lease_s: Callable[[str], float]
    polled_at: float


def read_leased(body: bytes, terms: LeaseTerms) -> list[Message]:
    """The messages of an answer, each with its lease."""
    try:
        shares = read_shares(body)
    except Corrupt as corrupt:
        raise _invalid(str(corrupt)) from corrupt
    messages: list[Message] = []
    for share in shares:
        header = share.header
        leases = _leases(header, terms)
        log = LogId(header.topic, header.partition)
        seed = read_seed(header.trace_seed.encode())
        found = decode_leased(log, bytes(share.data), leases, seed)
        if len(found) != len(leases):
            raise _invalid(f"{len(found)} records of {len(leases)} leased messages of {log}")
        messages += _in_order(found, leases)
    return messages


def _leases(share: ShareHeader, terms: LeaseTerms) -> dict[int, HeldLease]:
    """Leases by offset, in the order of delivery."""
    lease_s = terms.lease_s(share.topic)
    expires_at = terms.polled_at + lease_s
    held: dict[int, HeldLease] = {}
    count = 0
    for lease in share.leases:
        grant = Grant(terms.settling, lease_s, lease.delivery_count)
        handle = lease.handle
        for first, following in lease.offsets:
            count += following - first
            if not 0 <= first < following <= first + _OFFSETS_MAX:
                raise _invalid(f"{first} to {following} is no range of offsets")
            for offset in range(first, following):
                held[offset] = HeldLease(grant, handle, offset, expires_at, share.deadline)
    if count != len(held):
        raise _invalid("an offset is leased twice")
    return held


def _in_order(found: list[Message], leases: Iterable[int]) -> list[Message]:
    """Messages as they are to be delivered, out of those in the order of offsets."""
    order = list(leases)
    if all(message.offset == offset for message, offset in zip(found, order, strict=True)):
        return found
    by_offset = {message.offset: message for message in found}
    return [by_offset[offset] for offset in order]


def _invalid(what: str) -> GoQueueError:
    return GoQueueError("response_invalid", f"the answer to a poll is not valid: {what}")
