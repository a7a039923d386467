"""Answers to reads and polls, written from stored records without an object per message.

Owns the frame of these answers and their limits; `records.JsonMessages` writes the messages.
Which records are shown at all is decided as in `gateways/visibility.py`.

A poll brings at most 4 MiB of records, or one record whatever its size, and decompresses at most
64 MiB. A read shows 4 MiB of messages and the one that passes that. Both are written in steps of a
mebibyte of text.
"""

from goqueue.gateways.http.json_chunks import Steps
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.gateways.visibility import AbortedRanges
from goqueue.model import format_time
from goqueue.model.requests import Leased, Records, receipt_parts
from goqueue.records import JsonMessages, RecordFinder

__all__ = ["ReadAnswer", "encode_poll"]

_ANSWER_BYTES_MAX = 4 * 1024 * 1024
_UNPACKED_BYTES_MAX = 64 * 1024 * 1024
_HEAD = b'{"messages":['
# What a message is larger as JSON than as a record, for a first guess: names, times, receipt.
_READ_FORM_BYTES = 200
_POLL_FORM_BYTES = 340


class ReadAnswer:
    """The visible messages of consecutive reads of a partition, within the limits of an answer."""

    def __init__(self, count_max: int, bytes_max: int = _ANSWER_BYTES_MAX) -> None:
        self._count_max = count_max
        self._messages = JsonMessages(_HEAD, bytes_max)

    @property
    def room(self) -> int:
        """How many bytes of messages the answer still takes; none, if not positive."""
        return self._messages.room

    @property
    def count(self) -> int:
        """How many messages it has."""
        return self._messages.count

    def add(self, records: Records) -> Steps[int]:
        """Add the visible ones among the records that were read; where the next read starts."""
        messages, log = self._messages, records.log
        pieces = [piece for piece in records.data if len(piece)]
        size = sum(map(len, pieces))
        expected = size + min(size, (self._count_max - messages.count) * _READ_FORM_BYTES)
        messages.begin_partition(log.topic, log.partition, records.seed, expected)
        aborted = AbortedRanges(records.aborted).ranges
        following: int = records.upto
        for piece in pieces:
            following = messages.add_visible(piece, records.offset, self._count_max, aborted)
            while messages.ends_step():
                yield
                following = messages.add_visible(piece, following, self._count_max, aborted)
            if messages.is_full:
                break
        return following

    def response(self, next_offset: int) -> HttpResponse:
        """The answer; nothing can be added any more."""
        return self.close(b'],"next_offset":%d}' % next_offset)

    def close(self, tail: bytes) -> HttpResponse:
        """The answer with what follows its messages."""
        return HttpResponse(200, self._messages.take(tail))


def encode_poll(leased: Leased) -> Steps[HttpResponse]:
    """The messages of a poll, in the order in which they were leased."""
    if leased.is_rebalance_required:
        return HttpResponse(200, b'{"messages":[],"rebalance_required":true}')
    messages = JsonMessages(_HEAD, _UNPACKED_BYTES_MAX)
    for share in leased.partitions:
        log, expected = share.log, share.size + _POLL_FORM_BYTES * len(share)
        messages.begin_partition(log.topic, log.partition, share.seed, expected)
        finder = RecordFinder(share.data)
        deadline = format_time(share.deadline)
        for lease in share.leases:
            start, end = receipt_parts(lease.handle)
            messages.begin_lease(start, end, lease.attempt, deadline)
            added = 0
            while added < len(lease.offsets):
                added = messages.add_found(finder, lease.offsets, added)
                if messages.ends_step():
                    yield
    return HttpResponse(200, messages.take(b"]}"))
