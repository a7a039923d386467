"""Calls of etcd's API v3 as JSON, the form in which every etcd takes them over HTTP/1.1.

Only the words of etcd stand here: what keys mean is in `store_records`, what makes a call safe in
`external_metadata` and `controller_lease`. Numbers of 64 bits come as strings, keys and values in
base64; a field that is zero is left out. A reply is hostile until it was read by one of these.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

__all__ = [
    "Compare",
    "DeleteKeys",
    "EtcdCall",
    "GrantLease",
    "KeepLease",
    "KeyValue",
    "LeaseReply",
    "PutKey",
    "RangeReply",
    "ReadKeys",
    "RevokeLease",
    "Transaction",
    "TransactionReply",
    "read_lease",
    "read_range",
    "read_transaction",
]


class ReadKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Read keys in order; linearizable: all that was answered before is in them."""

    path: ClassVar[str] = "/v3/kv/range"

    key: bytes
    range_end: bytes
    limit: int


class Compare(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a revision of a key must be; a key that is not there has the revision 0."""

    key: bytes
    target: str
    result: str = msgspec.field(default_factory=lambda: "EQUAL")
    create_revision: int | None = None
    mod_revision: int | None = None

    @classmethod
    def created(cls, key: bytes, revision: int) -> "Compare":
        return cls(key=key, target="CREATE", create_revision=revision)

    @classmethod
    def modified(cls, key: bytes, revision: int) -> "Compare":
        return cls(key=key, target="MOD", mod_revision=revision)


class PutKey(msgspec.Struct, frozen=True, kw_only=True):
    """Write a value; with a lease the key goes when that ends."""

    key: bytes
    value: bytes
    lease: int = 0


class DeleteKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the keys from one up to another."""

    key: bytes
    range_end: bytes


class _Put(msgspec.Struct, frozen=True):
    request_put: PutKey


class _Delete(msgspec.Struct, frozen=True):
    request_delete_range: DeleteKeys


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """Do all of it if all comparisons hold, else nothing."""

    path: ClassVar[str] = "/v3/kv/txn"

    compare: tuple[Compare, ...]
    success: tuple[_Put | _Delete, ...]

    @classmethod
    def of(
        cls,
        compared: Sequence[Compare],
        written: Sequence[PutKey],
        deleted: Sequence[DeleteKeys] = (),
    ) -> "Transaction":
        puts, deletions = (_Put(each) for each in written), (_Delete(each) for each in deleted)
        return cls(compare=tuple(compared), success=(*puts, *deletions))


class GrantLease(msgspec.Struct, frozen=True, kw_only=True):
    """A new lease under an id of our own choice."""

    path: ClassVar[str] = "/v3/lease/grant"

    ID: int
    TTL: int


class KeepLease(msgspec.Struct, frozen=True, kw_only=True):
    """Let the time of a lease begin anew."""

    path: ClassVar[str] = "/v3/lease/keepalive"

    ID: int


class RevokeLease(msgspec.Struct, frozen=True, kw_only=True):
    """End a lease, and the keys that it holds."""

    path: ClassVar[str] = "/v3/lease/revoke"

    ID: int


EtcdCall = ReadKeys | Transaction | GrantLease | KeepLease | RevokeLease


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """A key, and at which revisions it was created and last written."""

    key: bytes
    value: bytes = b""
    create_revision: int
    mod_revision: int
    lease: int = 0


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    revision: int


class RangeReply(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that were found, in order."""

    header: _Header
    kvs: tuple[KeyValue, ...] = ()
    more: bool = False


class TransactionReply(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it was done, and the revision that it, or the store, has."""

    header: _Header
    succeeded: bool = False

    @property
    def revision(self) -> int:
        return self.header.revision


class LeaseReply(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds a lease lasts from now on; none: it has ended."""

    TTL: int = 0


class _KeptLease(msgspec.Struct, frozen=True):
    result: LeaseReply


_ranges = msgspec.json.Decoder(RangeReply, strict=False)
_transactions = msgspec.json.Decoder(TransactionReply, strict=False)
_leases = msgspec.json.Decoder(LeaseReply, strict=False)
_kept_leases = msgspec.json.Decoder(_KeptLease, strict=False)


def read_range(body: bytes) -> RangeReply:
    """Raises msgspec.DecodeError, as the others do."""
    return _ranges.decode(body)


def read_transaction(body: bytes) -> TransactionReply:
    return _transactions.decode(body)


def read_lease(call: GrantLease | KeepLease, body: bytes) -> LeaseReply:
    if isinstance(call, KeepLease):
        # The reply of a stream, of which there is one.
        return _kept_leases.decode(body).result
    return _leases.decode(body)
