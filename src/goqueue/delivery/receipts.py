"""Receipt handles: `topic:partition:offset:deliveryCount:nonce`.

A handle names one delivery to one group. The nonce carries the group's number, the epoch of the
broker's life and the serial number of the lease, and ends in a keyed sum over all that stands
before it: a handle can be read by people and made by nobody else. It says what was delivered, not
whether the lease still runs; that is the queue's to know.
"""

import hashlib
import hmac
from collections.abc import Sequence

import msgspec

from goqueue.model import Code, LogId, Offset, Refused

__all__ = ["Receipt", "Receipts"]

_SUM_BYTES = 8
_HANDLE_CHARACTERS_MAX = 512


class Receipt(msgspec.Struct, frozen=True):
    """One delivery of one message to one group."""

    log: LogId
    offset: Offset
    attempt: int
    group: int
    epoch: int
    serial: int


class Receipts:
    """Writes and reads handles with one secret key."""

    def __init__(self, key: bytes, epoch: int) -> None:
        self._keyed = hashlib.blake2b(key=key, digest_size=_SUM_BYTES)
        self._epoch = epoch
        # The partition that was read last: receipts come in piles of the same.
        self._last = ("", "", LogId("", 0))

    @property
    def epoch(self) -> int:
        """Which life of the broker the leases of today belong to."""
        return self._epoch

    def write(self, log: LogId, group: int, delivered: Sequence[tuple[int, int, int]]) -> list[str]:
        """Handles for messages of one partition, each given as offset, attempt, serial."""
        prefix = f"{log.topic}:{log.partition}:"
        middle = f":{group:x}.{self._epoch:x}."
        keyed = self._keyed
        handles = []
        for offset, attempt, serial in delivered:
            body = f"{prefix}{offset}:{attempt}{middle}{serial:x}"
            summed = keyed.copy()
            summed.update(body.encode())
            handles.append(f"{body}.{summed.hexdigest()}")
        return handles

    def read(self, handle: str) -> Receipt:
        """What a handle names; refuses what is none of ours."""
        if len(handle) > _HANDLE_CHARACTERS_MAX or not handle.isascii():
            raise Refused(Code.RECEIPT_INVALID)
        body, _, given = handle.rpartition(".")
        summed = self._keyed.copy()
        summed.update(body.encode())
        if not hmac.compare_digest(summed.hexdigest(), given):
            raise Refused(Code.RECEIPT_INVALID)
        # The sum holds, so we wrote every part of it.
        topic, number, offset, attempt, nonce = body.split(":")
        group, epoch, serial = nonce.split(".")
        last_topic, last_number, log = self._last
        if number != last_number or topic != last_topic:
            log = LogId(topic, int(number))
            self._last = (topic, number, log)
        return Receipt(
            log,
            Offset(int(offset)),
            int(attempt),
            int(group, 16),
            int(epoch, 16),
            int(serial, 16),
        )
