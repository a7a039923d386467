"""Leased records: what a poll answers in stored bytes, as messages with their leases.

Owns what is made of the shares that `docs/reference/lease-records.md` describes. A poll costs one
pass over its bytes in compiled code, and a message and a lease for each of its records.

Invariant: every leased offset becomes one message, in the order of delivery; what lies between
leased records that are named is passed over. An answer that is anything else is refused as a whole.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec

from goqueue.client.ack_sender import AckSender
from goqueue.client.errors import GoQueueError
from goqueue.client.fetcher import decode_leased
from goqueue.client.leases import Grant, HeldLease
from goqueue.client.message import Message
from goqueue.client.stored_records import read_seed
from goqueue.model import LogId
from goqueue.records import Corrupt, LeasedShare, LeaseEntry, ShareHeader, read_shares

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
        read = _read_exact if share.is_exact else _read_scattered
        messages += read(share, _Holder(share.header, terms))
    return messages


class _Holder:
    """Makes the leases of a share."""

    def __init__(self, share: ShareHeader, terms: LeaseTerms) -> None:
        self.log = LogId(share.topic, share.partition)
        self.seed = read_seed(share.trace_seed.encode())
        self._terms = terms
        self._lease_s = terms.lease_s(share.topic)
        self._expires_at = terms.polled_at + self._lease_s
        self._deadline = share.deadline

    def hold(self, lease: LeaseEntry, offsets: Iterable[int]) -> list[HeldLease]:
        """The leases of messages with these offsets."""
        grant = Grant(self._terms.settling, self._lease_s, lease.delivery_count)
        handle, expires_at, deadline = lease.handle, self._expires_at, self._deadline
        return [HeldLease(grant, handle, offset, expires_at, deadline) for offset in offsets]


def _read_exact(share: LeasedShare, holder: _Holder) -> list[Message]:
    """The messages of a share that has their records only, in the order of delivery."""
    counts = [each.count for each in share.header.leases]
    if min(counts) <= 0 or sum(counts) > _OFFSETS_MAX:
        raise _invalid(f"leases of {holder.log} have {counts} messages")

    def hold(offsets: Sequence[int]) -> list[HeldLease]:
        if len(offsets) != sum(counts) or len(set(offsets)) != len(offsets):
            raise _invalid(f"{len(offsets)} records of {sum(counts)} leased messages")
        left = iter(offsets)
        return [
            held
            for each in share.header.leases
            for held in holder.hold(each, islice(left, each.count))
        ]

    return _decode(share, holder, hold, sum(counts))


def _read_scattered(share: LeasedShare, holder: _Holder) -> list[Message]:
    """The messages of a share that names them, as others may be between them."""
    leases: dict[int, HeldLease] = {}
    count = 0
    for each in share.header.leases:
        for first, following in each.offsets:
            count += following - first
            if not 0 <= first < following <= first + _OFFSETS_MAX:
                raise _invalid(f"{first} to {following} is no range of offsets")
            leases.update(
                (held.offset, held) for held in holder.hold(each, range(first, following))
            )
    if count != len(leases):
        raise _invalid("an offset is leased twice")
    found = _decode(share, holder, lambda offsets: list(map(leases.get, offsets)), count)
    return _in_order(found, leases)


def _decode(
    share: LeasedShare,
    holder: _Holder,
    hold: Callable[[Sequence[int]], Sequence[HeldLease | None]],
    count: int,
) -> list[Message]:
    found = decode_leased(holder.log, bytes(share.data), hold, holder.seed)
    if len(found) != count:
        raise _invalid(f"{len(found)} records of {count} leased messages of {holder.log}")
    return found


def _in_order(found: list[Message], leases: Iterable[int]) -> list[Message]:
    """Messages as they are to be delivered, out of those in the order of offsets."""
    order = list(leases)
    if all(message.offset == offset for message, offset in zip(found, order, strict=True)):
        return found
    by_offset = {message.offset: message for message in found}
    return [by_offset[offset] for offset in order]


def _invalid(what: str) -> GoQueueError:
    return GoQueueError("response_invalid", f"the answer to a poll is not valid: {what}")
