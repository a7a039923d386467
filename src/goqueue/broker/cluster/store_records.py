"""How the metadata of a cluster lies in an external store.

    <prefix>/live/controller              who decides; held by a lease. Created at: its epoch
    <prefix>/live/head                    where the log ends, and from where on it is kept
    <prefix>/log/<version>                one record, as JSON
    <prefix>/parts/<version>/<epoch>/<n>  pieces of the changes of a record that is too large

Numbers in keys have twenty digits, so the order of keys is that of versions. A record is in the log
when the head says so, never before. It names the digest of the record before it and has one of its
own, so a record of another history, or one of which a part is missing, is noticed by any reader.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import msgspec

from goqueue.broker.cluster.etcd_calls import KeyValue, ReadKeys
from goqueue.broker.cluster.metadata_records import MetadataRecord
from goqueue.cluster import FEATURE_LEVEL, MetadataChange
from goqueue.model import Offset

__all__ = [
    "RECORDS_READ_MAX",
    "StoreKeys",
    "StoreUnusable",
    "StoredController",
    "StoredHead",
    "StoredRecord",
    "decode_stored",
    "digest_of",
]

# A record with more than this share of a part stores its changes in parts: many are read at once.
_INLINE_SHARE = 16
RECORDS_READ_MAX = 64
_PARTS_READ_MAX = 4
_DIGITS = 20

_changes_decoder = msgspec.json.Decoder(list[MetadataChange])


class StoreUnusable(Exception):
    """What the store holds is not to be believed; one sentence for the operator."""


class StoredController(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides: one run of a broker."""

    broker: str
    directory: str
    incarnation: int


class StoredHead(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the log: the version and the digest of the last record; and the first one kept."""

    cluster_id: str
    version: int
    digest: str
    base: int = 1


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record: its changes, or in how many parts they lie."""

    version: int
    epoch: int
    before: str
    digest: str
    parts: int = 0
    changes: msgspec.Raw = msgspec.Raw(b"[]")

    @property
    def is_whole(self) -> bool:
        """Whether the changes are here."""
        return not self.parts

    def with_changes(self, pieces: Sequence[bytes]) -> "StoredRecord":
        """The record with its changes; raises StoreUnusable if they are others than it had."""
        changes = b"".join(pieces) if self.parts else bytes(self.changes)
        if digest_of(self.before, self.version, self.epoch, changes) != self.digest:
            raise StoreUnusable(f"the record {self.version} in etcd is damaged")
        return msgspec.structs.replace(self, parts=0, changes=msgspec.Raw(changes))

    def decoded(self) -> MetadataRecord:
        """The record as brokers apply it."""
        try:
            changes = _changes_decoder.decode(self.changes)
        except msgspec.DecodeError as error:
            words = f"is of a later version than this one understands (level {FEATURE_LEVEL})"
            raise StoreUnusable(f"the record {self.version} in etcd {words}: {error}") from None
        return MetadataRecord(Offset(self.version), tuple(changes))

    @classmethod
    def of(
        cls, version: int, epoch: int, before: str, changes: bytes, part_bytes: int
    ) -> "StoredRecord":
        """A record that stores its changes in parts of this size, unless they are few."""
        digest = digest_of(before, version, epoch, changes)
        is_small = len(changes) * _INLINE_SHARE <= part_bytes
        parts = 0 if is_small else -(-len(changes) // part_bytes)
        return cls(
            version=version,
            epoch=epoch,
            before=before,
            digest=digest,
            parts=parts,
            changes=msgspec.Raw(b"[]" if parts else changes),
        )


def digest_of(before: str, version: int, epoch: int, changes: bytes) -> str:
    """What a record and all before it hash to."""
    hashed = blake2b(f"{before}/{version}/{epoch}/".encode(), digest_size=16)
    hashed.update(changes)
    return hashed.hexdigest()


Stored = StoredController | StoredHead | StoredRecord

_controllers = msgspec.json.Decoder(StoredController)
_heads = msgspec.json.Decoder(StoredHead)
_records = msgspec.json.Decoder(StoredRecord)


class StoreKeys:
    """The keys of one cluster."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.rstrip("/")
        self.controller = self._key("live", "controller")
        self.head = self._key("live", "head")

    def _key(self, *names: str) -> bytes:
        return "/".join((self._prefix, *names)).encode()

    def record(self, version: int) -> bytes:
        return self._key("log", f"{version:0{_DIGITS}d}")

    def parts(self, version: int, epoch: int | None = None) -> bytes:
        """Where the parts of a version lie, or those that one epoch wrote."""
        names = ("parts", f"{version:0{_DIGITS}d}")
        return self._key(*names, *(() if epoch is None else (f"{epoch:0{_DIGITS}d}",)))

    def part(self, version: int, epoch: int, number: int) -> bytes:
        return self.parts(version, epoch) + f"/{number:06d}".encode()

    def read_live(self) -> ReadKeys:
        """Who decides, and where the log ends."""
        return ReadKeys(key=self._key("live", ""), range_end=self._key("live0"), limit=2)

    def read_records(self, first: int, last: int) -> ReadKeys:
        return ReadKeys(
            key=self.record(first), range_end=self.record(last + 1), limit=RECORDS_READ_MAX
        )

    def read_parts(self, record: StoredRecord, first: int) -> ReadKeys:
        """The next few parts of a record."""
        place = (record.version, record.epoch)
        end = self.part(*place, record.parts)
        return ReadKeys(key=self.part(*place, first), range_end=end, limit=_PARTS_READ_MAX)

    def pieces(
        self, record: StoredRecord, changes: bytes, part_bytes: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """The parts of a record to write, with their keys."""
        for number in range(record.parts):
            piece = changes[number * part_bytes :][:part_bytes]
            yield self.part(record.version, record.epoch, number), piece


def decode_stored(found: KeyValue, keys: StoreKeys) -> Stored:
    """What lies under a key; raises StoreUnusable."""
    try:
        if found.key == keys.controller:
            return _controllers.decode(found.value)
        return (
            _heads.decode(found.value) if found.key == keys.head else _records.decode(found.value)
        )
    except msgspec.DecodeError as error:
        name = found.key.decode(errors="replace")
        raise StoreUnusable(f"the key {name} in etcd holds something else: {error}") from None
