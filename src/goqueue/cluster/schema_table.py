"""Schemas in the image of a cluster: the changes to them, and what they add up to.

Decides nothing and parses nothing: the controller decides by the registry of its node, which
follows this table. The table is what a record of the log can state again, in pieces as that of keys
is (see `access_table`), of a bounded number of entries and bytes.

Invariants
- An id names one content for ever: what is stated of an id again changes nothing, and
  `SchemasNumbered` says which ids were used when nothing else does.
- Two tables that applied the same changes have the same sum, in whatever order they were stated.
- The last piece of a statement says the sum, so a table that lost a version is found out.

Cost: a change touches its entry, and encodes it twice for the sum. Memory: an entry holds the
change that stated it; texts are shared with the registry of the node.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar, assert_never

import msgspec

from goqueue.model import SchemaPlace
from goqueue.schemas import (
    SchemaChange,
    SchemaLevelStated,
    SchemaRemoved,
    SchemasNumbered,
    SchemaStated,
    SchemaVersionRemoved,
    SchemaVersionStated,
)

__all__ = ["SchemaTable", "SchemasStated"]

_Entry = SchemasNumbered | SchemaStated | SchemaVersionStated | SchemaLevelStated

K = TypeVar("K")
E = TypeVar("E", SchemaStated, SchemaVersionStated, SchemaLevelStated)

_PIECE_ENTRIES = 128
_PIECE_BYTES = 256 * 1024


class SchemasStated(msgspec.Struct, frozen=True, kw_only=True, tag="schemas_stated"):
    """A piece of the schemas, as of the version before this record.

    The last piece has the `sum` of all that was there then.
    """

    entries: tuple[_Entry, ...]
    is_last: bool = False
    sum: int = 0


class SchemaTable:
    """The schemas of one image."""

    def __init__(self) -> None:
        self._ids_upto = 1
        self._contents: dict[int, SchemaStated] = {}
        self._versions: dict[SchemaPlace, SchemaVersionStated] = {}
        self._levels: dict[str, SchemaLevelStated] = {}
        self._sum = 0
        self._version = 0
        # Whether no piece is missing of a statement that the log begins with.
        self._is_whole = True

    def __len__(self) -> int:
        is_numbered = self._ids_upto > 1
        return is_numbered + len(self._contents) + len(self._versions) + len(self._levels)

    @property
    def sum(self) -> int:
        """Says what is here: two tables with the same sum hold the same."""
        return self._sum ^ (_sum_of(self._numbered()) if self._ids_upto > 1 else 0)

    @property
    def stated_sum(self) -> int | msgspec.UnsetType:
        """The sum, for a statement of the image; unset: no piece follows."""
        return self.sum if len(self) else msgspec.UNSET

    @property
    def version(self) -> int:
        """The version of the image that changed a schema last, as far as this node read it."""
        return self._version

    @property
    def is_whole(self) -> bool:
        """Whether all of the statement that the log begins with was taken in."""
        return self._is_whole

    def entries(self) -> Iterator[_Entry]:
        """All that there is, as changes."""
        yield self._numbered()
        yield from self._contents.values()
        yield from self._versions.values()
        yield from self._levels.values()

    def _numbered(self) -> SchemasNumbered:
        return SchemasNumbered(ids_upto=self._ids_upto)

    # Changes

    def apply(self, change: SchemaChange, version: int = 0) -> None:
        """Become what a change says; one that names what is gone changes nothing."""
        self._version = max(self._version, version)
        match change:
            case SchemasNumbered():
                self._ids_upto = max(self._ids_upto, change.ids_upto)
            case SchemaStated():
                self._ids_upto = max(self._ids_upto, change.id + 1)
                if change.id not in self._contents:
                    self._put(self._contents, change.id, change)
            case SchemaRemoved():
                self._remove(self._contents, change.id)
            case SchemaVersionStated():
                place = SchemaPlace(change.subject, change.version)
                self._put(self._versions, place, change)
            case SchemaVersionRemoved():
                self._remove(self._versions, SchemaPlace(change.subject, change.version))
            case SchemaLevelStated(level=None):
                self._remove(self._levels, change.subject)
            case SchemaLevelStated():
                self._put(self._levels, change.subject, change)
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

    def take_piece(self, piece: SchemasStated, version: int = 0) -> None:
        """Take in a piece; a table that is whole knows all that it says."""
        if self._is_whole:
            return
        for entry in piece.entries:
            self.apply(entry, version)
        if piece.is_last:
            assert self.sum == piece.sum, "the statement of schemas is not complete"
            self._is_whole = True

    def state_pieces(self) -> Iterator[SchemasStated]:
        """All entries again, each true when it is asked for, and as it is then.

        What is new meanwhile is in a record of its own, behind the beginning.
        """
        if not len(self):
            return
        finds: list[Callable[[], _Entry | None]] = [self._numbered]
        finds += [partial(self._contents.get, each) for each in self._contents]
        finds += [partial(self._versions.get, each) for each in self._versions]
        finds += [partial(self._levels.get, each) for each in self._levels]
        asked = 0
        while asked < len(finds):
            found: list[_Entry] = []
            size = 0
            while asked < len(finds) and len(found) < _PIECE_ENTRIES and size < _PIECE_BYTES:
                entry = finds[asked]()
                asked += 1
                if entry is not None:
                    found.append(entry)
                    size += len(entry.text) if isinstance(entry, SchemaStated) else 0
            is_last = asked == len(finds)
            yield SchemasStated(
                entries=tuple(found), is_last=is_last, sum=self.sum if is_last else 0
            )


def _sum_of(entry: _Entry) -> int:
    """A number of 63 bits that says what an entry is."""
    encoded = msgspec.json.encode(entry, order="sorted")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest()) >> 1
