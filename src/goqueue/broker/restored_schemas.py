"""Schemas of a backup: their ids stay what they are, because messages name them.

A restore takes two steps. Contents are journaled first, a few at a time: a content that no version
has is not listed and harms nobody. Versions and levels follow in the record of the decision, so
subjects are there with the topics or not at all; what was journaled before is removed if the
restore fails, also by the next start (`undo_contents`).

What the node has stays as it is. A version with the same id is the same schema. One with another
id, an id that means another content here, and a content that has another id here are conflicts:
they end the restore, or with `skips` these versions are left out and counted.

The global level is restored only on a node that has no subjects yet, and none of its own.

Bound: `VERSIONS_MAX` new versions, which fit into the turn of the decision.
"""

import re
from collections.abc import Callable, Generator, Sequence

from goqueue.broker.backup_state import SchemasSaved, SubjectSaved
from goqueue.broker.metadata import MetadataStore
from goqueue.model import Code, Level, Refused, SchemaPlace, check_name
from goqueue.schemas import (
    SCHEMA_BYTES_MAX,
    SchemaChange,
    SchemaLevelStated,
    SchemaRegistry,
    SchemaRemoved,
    SchemasNumbered,
    SchemaStated,
    SchemaVersionStated,
)

__all__ = ["VERSIONS_MAX", "RestoredSchemas", "SavedSchemas", "undo_contents"]

VERSIONS_MAX = 20_000
_ID_MAX = 2**31 - 1
_VERSION_MAX = 2**31 - 1
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_UNIT_BYTES = 512

SavedSchemas = SchemasSaved | SchemaStated | SubjectSaved


class RestoredSchemas:
    """What one restore brings."""

    def __init__(self, registry: SchemaRegistry, metadata: MetadataStore, *, skips: bool) -> None:
        self._registry = registry
        self._metadata = metadata
        self._skips = skips
        self._next_id = 0
        self._level: Level | None = None
        self._contents: dict[int, SchemaStated] = {}
        self._subjects: dict[str, SubjectSaved] = {}
        # Ids of the backup that mean the same here, or will.
        self._agreed: set[int] = set()
        self._stated: list[int] = []
        self._versions: list[SchemaVersionStated] = []
        self._levels: list[SchemaLevelStated] = []
        self.skipped = 0
        self.restored = 0

    def check(self, item: SavedSchemas, check_owner: Callable[[str, str | None], None]) -> None:
        """Take in an item; refuses what no registry could have said."""
        match item:
            case SchemasSaved():
                _require(0 < item.next_id <= _ID_MAX + 1, "a schema id is out of range")
                self._next_id, self._level = item.next_id, item.level
            case SchemaStated():
                is_valid = (
                    0 < item.id <= _ID_MAX
                    and item.id not in self._contents
                    and len(item.text.encode()) <= SCHEMA_BYTES_MAX
                    and _DIGEST.fullmatch(item.digest) is not None
                )
                _require(is_valid, "a schema is not valid")
                self._contents[item.id] = item
            case SubjectSaved():
                check_name(item.name, "subject")
                check_owner(item.name, item.tenant)
                numbers = [each.version for each in item.versions]
                is_valid = (
                    item.name not in self._subjects
                    and numbers == sorted(set(numbers))
                    and all(0 < number <= _VERSION_MAX for number in numbers)
                )
                _require(is_valid, "a subject is not valid")
                self._subjects[item.name] = item

    def state(self) -> Generator[int, None, None]:
        """Journal the contents and find out which versions follow; raises Refused."""
        if not self._contents and not self._subjects:
            return
        # First: nobody gets one of these ids while they are stated.
        upto = max(self._next_id, max(self._contents, default=0) + 1)
        self._metadata.propose([SchemasNumbered(ids_upto=upto)])
        for content in self._contents.values():
            yield 1 + len(content.text) // _UNIT_BYTES
            self._state_content(content)
        for subject in self._subjects.values():
            yield 1 + len(subject.versions)
            self._choose_versions(subject)
        _require(
            len(self._versions) <= VERSIONS_MAX,
            f"more than {VERSIONS_MAX} versions of schemas are missing here",
        )
        self._check_references()

    def _state_content(self, content: SchemaStated) -> None:
        known = self._registry.get(content.id)
        if known is None:
            if self._registry.id_of(content.digest) is None:
                self._metadata.check_room()
                # The registry's own bound on bytes.
                self._registry.check_room("", content.schema)
                self._metadata.propose([content])
                self._stated.append(content.id)
                self._agreed.add(content.id)
                return
        elif known.digest == content.digest and known.language is content.language:
            self._agreed.add(content.id)
            return
        self._conflict(f"the schema with the id {content.id} is another one here", 0)

    def _choose_versions(self, subject: SubjectSaved) -> None:
        name = subject.name
        for each in subject.versions:
            _require(each.id in self._contents, f"{name} has a version without a schema")
            here = self._registry.version_id(SchemaPlace(name, each.version))
            if each.id not in self._agreed:
                self.skipped += 1
            elif here is None:
                self._versions.append(
                    SchemaVersionStated(
                        subject=name,
                        version=each.version,
                        id=each.id,
                        is_deleted=each.is_deleted,
                    )
                )
            elif here != each.id:
                self._conflict(f"{name} version {each.version} is another schema here", 1)
        if subject.level is not None and self._registry.own_level(name) is None:
            self._levels.append(SchemaLevelStated(subject=name, level=subject.level))

    def _check_references(self) -> None:
        """Refuse a schema whose reference would lead to another one than it did."""
        chosen = {(each.subject, each.version) for each in self._versions}
        saved = {
            (subject.name, each.version): each.id
            for subject in self._subjects.values()
            for each in subject.versions
        }
        for id_ in self._stated:
            for reference in self._contents[id_].references:
                place = (reference.subject, reference.version)
                meant = saved.get(place)
                here = self._registry.version_id(SchemaPlace(*place))
                is_here = here == meant and meant in self._agreed
                if meant is not None and place not in chosen and not is_here:
                    reason = f"the schema {id_} refers to {place[0]} version {place[1]}"
                    _require(False, f"{reason}, which is another schema here")

    def _conflict(self, reason: str, count: int) -> None:
        _require(self._skips, reason)
        self.skipped += count

    def changes(self) -> Sequence[SchemaChange]:
        """What puts the versions in force. What came into being meanwhile stays."""
        registry = self._registry
        is_fresh = not registry.subjects and not registry.has_global_level
        versions = [
            each
            for each in self._versions
            if registry.version_id(SchemaPlace(each.subject, each.version)) is None
        ]
        self.restored = len(versions)
        self.skipped += len(self._versions) - len(versions)
        levels = [each for each in self._levels if registry.own_level(each.subject) is None]
        if self._level is not None and is_fresh:
            levels.append(SchemaLevelStated(subject="", level=self._level))
        used = {each.id for each in versions}
        unused = [
            SchemaRemoved(id=id_)
            for id_ in self._stated
            if id_ not in used and not registry.places(id_)
        ]
        return [*versions, *levels, *unused]

    def undo(self) -> None:
        """The restore has failed: remove what nobody uses."""
        undo_contents(self._registry, self._metadata, self._stated)


def undo_contents(registry: SchemaRegistry, metadata: MetadataStore, ids: Sequence[int]) -> None:
    """Remove contents that no version has."""
    unused = [
        SchemaRemoved(id=id_)
        for id_ in ids
        if registry.get(id_) is not None and not registry.places(id_)
    ]
    if unused:
        metadata.propose(unused)


def _require(is_true: bool, reason: str) -> None:
    if not is_true:
        raise Refused(Code.REQUEST_INVALID, reason=reason)
