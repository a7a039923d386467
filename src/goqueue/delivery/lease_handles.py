"""Lease handles: `topic:partition:deliveryCount:nonce`.

A handle names one lease of one group. The nonce carries the group's number, the epoch of the
partition and the serial number of the lease, and ends in a keyed sum over all that stands before
it: a handle can be read by people and made by nobody else. It says what was delivered, not whether
the lease still runs; that is the queue's to know.

The epoch of a partition is its leader epoch; on a standalone node, whose partitions have none, it
is the number of this run of the node, as it always was. Epochs only rise, and leases end with the
epoch in which they began: a handle of another epoch names no lease, and what it names that was
settled may be acked again. A cluster seals with a key of its own, so a handle of a standalone node
is not taken for one of the cluster that it becomes, whatever its number.

The receipt of one message is the handle with an offset put in (`goqueue.model.receipt_of`). The sum
does not cover the offset: of a lease only messages that are in it can be settled, and one who was
given the receipt of one of them was given them all. So a handle is summed once for a whole lease.
"""

import hashlib
import hmac

import msgspec

from goqueue.model import Code, LogId, Refused

__all__ = ["LeaseHandles", "LeaseName"]

_SUM_BYTES = 8
_HANDLE_CHARACTERS_MAX = 512


class LeaseName(msgspec.Struct, frozen=True):
    """One lease of one group on one partition, in one epoch of it."""

    log: LogId
    attempt: int
    group: int
    epoch: int
    serial: int


class LeaseHandles:
    """Writes and reads handles with one secret key."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hashlib.blake2b(key=key, digest_size=_SUM_BYTES)
        # The partition that was read last: handles come in piles of the same.
        self._last = ("", "", LogId("", 0))

    def write(self, name: LeaseName) -> str:
        """The handle of a lease."""
        log = name.log
        body = (
            f"{log.topic}:{log.partition}:{name.attempt}:"
            f"{name.group:x}.{name.epoch:x}.{name.serial:x}"
        )
        return f"{body}.{self._sum(body)}"

    def _sum(self, body: str) -> str:
        summed = self._keyed.copy()
        summed.update(body.encode())
        return summed.hexdigest()

    def read(self, handle: str) -> LeaseName:
        """What a handle names; refuses what is none of ours."""
        if len(handle) > _HANDLE_CHARACTERS_MAX or not handle.isascii():
            raise Refused(Code.RECEIPT_INVALID)
        body, _, given = handle.rpartition(".")
        if not hmac.compare_digest(self._sum(body), given):
            raise Refused(Code.RECEIPT_INVALID)
        # The sum holds, so we wrote every part of it.
        topic, number, attempt, nonce = body.split(":")
        group, epoch, serial = nonce.split(".")
        last_topic, last_number, log = self._last
        if number != last_number or topic != last_topic:
            log = LogId(topic, int(number))
            self._last = (topic, number, log)
        return LeaseName(log, int(attempt), int(group, 16), int(epoch, 16), int(serial, 16))
