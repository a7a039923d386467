"""Lease handles: `topic:partition:deliveryCount:nonce`.

A handle names one lease of one group. The nonce carries the group's number, the epoch of the
broker's life and the serial number of the lease, and ends in a keyed sum over all that stands
before it: a handle can be read by people and made by nobody else. It says what was delivered, not
whether the lease still runs; that is the queue's to know.

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
    """One lease of one group on one partition."""

    log: LogId
    attempt: int
    group: int
    epoch: int
    serial: int


class LeaseHandles:
    """Writes and reads handles with one secret key."""

    def __init__(self, key: bytes, epoch: int) -> None:
        self._keyed = hashlib.blake2b(key=key, digest_size=_SUM_BYTES)
        self._epoch = epoch
        # The partition that was read last: handles come in piles of the same.
        self._last = ("", "", LogId("", 0))

    @property
    def epoch(self) -> int:
        """Which life of the broker the leases of today belong to."""
        return self._epoch

    def write(self, log: LogId, group: int, attempt: int, serial: int) -> str:
        """The handle of a lease of this life."""
        body = f"{log.topic}:{log.partition}:{attempt}:{group:x}.{self._epoch:x}.{serial:x}"
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
