"""Reads the records of an external store that the head counts: in order, each of them once.

Invariant: what is taken continues the history that this broker knows. A record names the digest of
the one before it; where the reading begins anew, or in a new life, the newest record that was known
before is compared when it comes by.
"""

from collections.abc import Iterator

from goqueue.broker.cluster.broker_state import StoreMark
from goqueue.broker.cluster.etcd_calls import RangeReply, ReadKeys
from goqueue.broker.cluster.metadata_records import MetadataRecord
from goqueue.broker.cluster.store_records import (
    StoredHead,
    StoredRecord,
    StoreKeys,
    StoreUnusable,
    decode_stored,
)

__all__ = ["ReadRecord", "StoreReader"]

ReadRecord = tuple[StoredRecord, MetadataRecord]


class StoreReader:
    """How far the records of the store were read."""

    def __init__(self, keys: StoreKeys, known: StoreMark) -> None:
        self._keys = keys
        # The newest record that was known before the reading began.
        self._known = known
        self._end = StoreMark()
        self._begins_at = 1
        # A record of which parts are missing.
        self._partial: tuple[StoredRecord, list[bytes]] | None = None

    @property
    def end(self) -> StoreMark:
        """The newest record that was read."""
        return self._end

    @property
    def begins_at(self) -> int:
        """The version of the first record that was read, which needs none before it."""
        return self._begins_at

    @property
    def is_partial(self) -> bool:
        """Whether parts of a record are missing."""
        return self._partial is not None

    def must_begin_anew(self, head: StoredHead) -> bool:
        """Whether records that are missing here are gone."""
        return self._end.version + 1 < head.base

    def begin_anew(self, head: StoredHead) -> None:
        """Continue with the base, which states all that was before it."""
        if self._end.version > self._known.version:
            self._known = self._end
        self._begins_at = head.base
        self._end = StoreMark(version=head.base - 1)
        self._partial = None

    def next_call(self, head: StoredHead) -> ReadKeys | None:
        """What to read next; None: everything that the head counts is here."""
        if self._partial is not None:
            record, pieces = self._partial
            return self._keys.read_parts(record, len(pieces))
        if self._end.version >= head.version:
            return None
        return self._keys.read_records(self._end.version + 1, head.version)

    def cancel(self) -> None:
        """Parts may be missing because others took their place: read their record again."""
        self._partial = None

    def take(self, reply: RangeReply) -> list[ReadRecord]:
        """What was read, as far as it follows; raises StoreUnusable.

        Nothing follows where the base is a later one by now: then the head says so.
        """
        if self._partial is None:
            return list(self._whole_records(reply))
        record, pieces = self._partial
        pieces += [each.value for each in reply.kvs]
        if len(pieces) < record.parts and reply.kvs:
            return []
        self._partial = None
        return [self._next(record.with_changes(pieces))] if len(pieces) >= record.parts else []

    def _whole_records(self, reply: RangeReply) -> Iterator[ReadRecord]:
        for found in reply.kvs:
            record = decode_stored(found, self._keys)
            if not isinstance(record, StoredRecord) or record.version != self._end.version + 1:
                return
            if not record.is_whole:
                self._partial = (record, [])
                return
            yield self._next(record.with_changes(()))

    def _next(self, record: StoredRecord) -> ReadRecord:
        known = self._known
        is_known = not self._end.digest or record.before == self._end.digest
        if record.version == known.version + 1 and known.digest:
            is_known = is_known and record.before == known.digest
        if record.version == known.version:
            is_known = is_known and record.digest == known.digest
        if not is_known:
            words = f"the record {record.version} in etcd is of another history"
            raise StoreUnusable(f"{words}: it was restored from a backup and changed after that")
        read = (record, record.decoded())
        self._end = StoreMark(version=record.version, digest=record.digest)
        return read
