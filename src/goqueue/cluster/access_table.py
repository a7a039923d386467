"""Keys, ACLs and tenants in the image of a cluster: the changes to them, and what they add up to.

Decides nothing and checks nobody: the controller decides by the registry of its node, which follows
this table. The table is what a record of the log can state again.

A table of ten thousand keys is megabytes, so it is stated in pieces: one in the record that states
the rest of the image, each of the others in a later record, among whatever is decided meanwhile.
Each piece is true where it stands. So a log that begins with a statement adds up to the same table
once the last piece is there; until then the table is not whole, and nobody may decide by it.

Invariants
- Two tables that applied the same changes have the same sum, in whatever order they were stated.
- The last piece of a statement says the sum, so a table that lost an ACL on the way is found out.

Cost: a change touches its entry, and encodes it twice for the sum. Memory: an entry holds the
change that stated it, about 1 KB for a key; verifiers are shared with the registry.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar, assert_never

import msgspec

from goqueue.model import KeyId
from goqueue.security import (
    AclDeleted,
    AclStated,
    KeyDeleted,
    KeyRevoked,
    KeyStated,
    TenantDeleted,
    TenantStated,
)

__all__ = ["AccessChange", "AccessEntry", "AccessStated", "AccessTable"]

AccessChange = (
    KeyStated | KeyRevoked | KeyDeleted | AclStated | AclDeleted | TenantStated | TenantDeleted
)
AccessEntry = KeyStated | AclStated | TenantStated

K = TypeVar("K", bound=str)
E = TypeVar("E", KeyStated, AclStated, TenantStated)

_PIECE_ENTRIES = 128


class AccessStated(msgspec.Struct, frozen=True, kw_only=True, tag="access_stated"):
    """A piece of the keys, ACLs and tenants, as of the version before this record.

    The last piece has the `sum` of all that was there then.
    """

    entries: tuple[AccessEntry, ...]
    is_last: bool = False
    sum: int = 0


class AccessTable:
    """The keys, ACLs and tenants of one image."""

    def __init__(self) -> None:
        self._tenants: dict[str, TenantStated] = {}
        self._keys: dict[KeyId, KeyStated] = {}
        self._acls: dict[str, AclStated] = {}
        self._sum = 0
        # Whether no piece is missing of a statement that the log begins with.
        self._is_whole = True

    def __len__(self) -> int:
        return len(self._tenants) + len(self._keys) + len(self._acls)

    @property
    def sum(self) -> int:
        """Says what is here: two tables with the same sum hold the same."""
        return self._sum

    @property
    def is_whole(self) -> bool:
        """Whether all of the statement that the log begins with was taken in."""
        return self._is_whole

    @property
    def tenants(self) -> Mapping[str, TenantStated]:
        return self._tenants

    @property
    def keys(self) -> Mapping[KeyId, KeyStated]:
        return self._keys

    @property
    def acls(self) -> Mapping[str, AclStated]:
        return self._acls

    def entries(self) -> Iterator[AccessEntry]:
        """All entries: tenants first, since keys are theirs."""
        yield from self._tenants.values()
        yield from self._keys.values()
        yield from self._acls.values()

    # Changes

    def apply(self, change: AccessChange) -> None:
        """Become what a change says; one that names what is gone changes nothing."""
        match change:
            case KeyStated():
                self._put(self._keys, change.id, change)
            case KeyRevoked():
                known = self._keys.get(change.id)
                if known is not None:
                    self._put(self._keys, change.id, _revoked(known))
            case KeyDeleted():
                self._remove(self._keys, change.id)
            case AclStated():
                self._put(self._acls, change.id, change)
            case AclDeleted():
                self._remove(self._acls, change.id)
            case TenantStated():
                self._put(self._tenants, change.id, change)
            case TenantDeleted():
                self._remove(self._tenants, change.id)
            case _:
                assert_never(change)

    def _put(self, entries: dict[K, E], key: K, entry: E) -> None:
        before = entries.get(key)
        if before is not None:
            self._sum ^= _sum_of(before)
        entries[key] = entry
        self._sum ^= _sum_of(entry)

    def _remove(self, entries: dict[K, E], key: K) -> None:
        before = entries.pop(key, None)
        if before is not None:
            self._sum ^= _sum_of(before)

    # Statements

    def begin_statement(self) -> None:
        """The log begins with a statement, whose pieces follow."""
        self._is_whole = False

    def take_piece(self, piece: AccessStated) -> None:
        """Take in a piece; a table that is whole knows all that it says."""
        if self._is_whole:
            return
        for entry in piece.entries:
            self.apply(entry)
        if piece.is_last:
            assert self._sum == piece.sum, "the statement of keys, ACLs and tenants is not complete"
            self._is_whole = True

    def state_pieces(self) -> Iterator[AccessStated]:
        """All entries again, each true when it is asked for, and as it is then.

        What is new meanwhile is in a record of its own, behind the beginning.
        """
        finds: list[Callable[[], AccessEntry | None]] = []
        finds += [partial(self._tenants.get, each) for each in self._tenants]
        finds += [partial(self._keys.get, each) for each in self._keys]
        finds += [partial(self._acls.get, each) for each in self._acls]
        for first in range(0, len(finds), _PIECE_ENTRIES):
            asked = [find() for find in finds[first : first + _PIECE_ENTRIES]]
            found = tuple(each for each in asked if each is not None)
            is_last = first + _PIECE_ENTRIES >= len(finds)
            yield AccessStated(entries=found, is_last=is_last, sum=self._sum if is_last else 0)


def _revoked(key: KeyStated) -> KeyStated:
    return msgspec.structs.replace(
        key, is_revoked=True, verifiers=None, previous=None, previous_until=0
    )


def _sum_of(entry: AccessEntry) -> int:
    """A number of 63 bits that says what an entry is."""
    encoded = msgspec.json.encode(entry, order="sorted")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest()) >> 1
