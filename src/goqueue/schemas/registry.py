"""The registry: subjects, their versions, the ids of their contents, and the levels.

Decides changes and applies them; never parses a schema. Whether two texts are equal content is
told by the one form that a check found (`digest`); whether a version may be added was checked
before.

Invariants
- An id names one content for ever: ids rise, and one that was given out is never given out again,
  also when all that used it was removed. `SchemasNumbered` says so where nothing else is left to.
- Equal content has one id as long as a version has it.
- A content is there as long as a version has it, deleted or not; a version that a schema refers to
  is not deleted.
- A version of a subject is never a version of another content: numbers rise as long as the subject
  is known, and one that is deleted keeps its number until it is removed.

Cost: a lookup by id or by subject and version is two dictionary lookups, whatever there is.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from goqueue.model import (
    Code,
    Level,
    Refused,
    SchemaDescription,
    SchemaPlace,
    SchemaReference,
    SchemaText,
    SchemaType,
    Visible,
)

__all__ = [
    "CLUSTER_LIMITS",
    "VERSIONS_MAX",
    "RegistryLimits",
    "SchemaChange",
    "SchemaCopy",
    "SchemaLevelStated",
    "SchemaRegistry",
    "SchemaRemoved",
    "SchemaStated",
    "SchemaVersionRemoved",
    "SchemaVersionStated",
    "SchemasNumbered",
]

VERSIONS_MAX = 10_000
_SUBJECTS_MAX = 100_000
DEFAULT_LEVEL = Level.BACKWARD


class RegistryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a node keeps in memory for schemas: all texts together, and what there is besides.

    Entries are contents, versions and levels of subjects.
    """

    bytes_max: int
    entries_max: int


_NODE_LIMITS = RegistryLimits(bytes_max=256 * 1024 * 1024, entries_max=2_000_000)
# Every node of a cluster has all of it, and its log states all of it again from time to time.
CLUSTER_LIMITS = RegistryLimits(bytes_max=32 * 1024 * 1024, entries_max=100_000)


# Journal entries: fields are only ever added, at the end, with a default.


class SchemasNumbered(msgspec.Struct, frozen=True, kw_only=True, tag="schemas_numbered"):
    """Ids below this one were used."""

    ids_upto: int


class SchemaStated(msgspec.Struct, frozen=True, kw_only=True, tag="schema", omit_defaults=True):
    """A content and its id; `digest` is the sum of its one form."""

    id: int
    language: SchemaType
    text: str
    digest: str
    references: tuple[SchemaReference, ...] = ()

    @property
    def schema(self) -> SchemaText:
        return SchemaText(type=self.language, text=self.text, references=self.references)


class SchemaRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="schema_removed"):
    """No version has a content any more."""

    id: int


class SchemaVersionStated(
    msgspec.Struct, frozen=True, kw_only=True, tag="schema_version", omit_defaults=True
):
    """A version of a subject, after a change of any kind."""

    subject: str
    version: int
    id: int
    is_deleted: bool = False


class SchemaVersionRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="schema_version_removed"):
    """A version is gone for good."""

    subject: str
    version: int


class SchemaLevelStated(msgspec.Struct, frozen=True, kw_only=True, tag="schema_level"):
    """The level of a subject, or without one the global level; None: there is none of its own."""

    subject: str
    level: Level | None


SchemaChange = (
    SchemasNumbered
    | SchemaStated
    | SchemaRemoved
    | SchemaVersionStated
    | SchemaVersionRemoved
    | SchemaLevelStated
)


class _Version(msgspec.Struct, frozen=True):
    id: int
    is_deleted: bool


class SchemaCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A registry at one moment: what changes afterwards does not show."""

    next_id: int
    level: Level
    contents: list[SchemaStated]
    levels: dict[str, Level]
    subjects: dict[str, dict[int, _Version]]

    def versions(self, subject: str) -> list[SchemaVersionStated]:
        """The versions of a subject, the lowest first."""
        known = self.subjects.get(subject, {})
        return [
            SchemaVersionStated(
                subject=subject, version=number, id=version.id, is_deleted=version.is_deleted
            )
            for number, version in sorted(known.items())
        ]


class SchemaRegistry:
    """Everything that is registered."""

    def __init__(self) -> None:
        self.limits = _NODE_LIMITS
        # Rises with every change.
        self.revision = 0
        self._clear()

    def _clear(self) -> None:
        self._next_id = 1
        self._contents: dict[int, SchemaStated] = {}
        # The versions that have a content. Apart from the contents: while a journal is stated
        # again, a version may be said before its content.
        self._places: dict[int, dict[SchemaPlace, None]] = {}
        self._by_digest: dict[str, int] = {}
        # Versions by number, the lowest first.
        self._subjects: dict[str, dict[int, _Version]] = {}
        # Their names in order: to sort them all would take longer than a turn.
        self._names: list[str] = []
        self._levels: dict[str, Level] = {}
        self._global_level = DEFAULT_LEVEL
        # By what is referred to, the ids of the contents that refer to it.
        self._referrers: dict[SchemaPlace, dict[int, None]] = {}
        self._bytes = 0
        self._version_count = 0

    # What there is

    @property
    def text_bytes(self) -> int:
        """The size of all texts."""
        return self._bytes

    @property
    def entry_count(self) -> int:
        """How many contents, versions and levels of subjects there are."""
        return len(self._contents) + self._version_count + len(self._levels)

    @property
    def next_id(self) -> int:
        return self._next_id

    @property
    def content_count(self) -> int:
        return len(self._contents)

    @property
    def subjects(self) -> list[str]:
        """All that are known, also those with nothing but deleted versions."""
        return list(self._names)

    def content(self, id_: int) -> SchemaStated:
        """What an id stands for; refuses one that stands for nothing."""
        found = self._contents.get(id_)
        if found is None:
            raise Refused(Code.SCHEMA_NOT_FOUND, schema_id=id_)
        return found

    def copy(self) -> SchemaCopy:
        """Everything as it is now; texts are shared."""
        return SchemaCopy(
            next_id=self._next_id,
            level=self._global_level,
            contents=list(self._contents.values()),
            levels=dict(self._levels),
            subjects={name: dict(versions) for name, versions in self._subjects.items()},
        )

    def get(self, id_: int) -> SchemaStated | None:
        """What an id stands for; None if nothing."""
        return self._contents.get(id_)

    def unused(self) -> list[int]:
        """The ids of contents that no version has: a restore was cut short."""
        return sorted(id_ for id_ in self._contents if id_ not in self._places)

    def version_id(self, place: SchemaPlace) -> int | None:
        """The id of a version, deleted or not; None if there is none."""
        version = self._subjects.get(place.subject, {}).get(place.version)
        return None if version is None else version.id

    def places(self, id_: int) -> tuple[SchemaPlace, ...]:
        """The versions that have a content, deleted or not."""
        return tuple(self._places.get(id_, ()))

    def id_of(self, digest: str) -> int | None:
        """The id of a content by the sum of its one form."""
        return self._by_digest.get(digest)

    def versions(self, subject: str, visible: Visible = Visible.LIVE) -> tuple[int, ...]:
        """The versions of a subject that exist, or were deleted; none: there is no subject."""
        known = self._subjects.get(subject, {})
        return tuple(
            sorted(
                number
                for number, version in known.items()
                if visible is Visible.ALL or version.is_deleted is (visible is Visible.DELETED)
            )
        )

    def require_versions(self, subject: str, visible: Visible = Visible.LIVE) -> tuple[int, ...]:
        """As `versions`; refuses a subject that has none."""
        found = self.versions(subject, visible)
        if not found:
            raise Refused(Code.SUBJECT_NOT_FOUND, subject=subject)
        return found

    def resolve(
        self, subject: str, version: int | None, visible: Visible = Visible.LIVE
    ) -> SchemaPlace:
        """A version that exists, None: the latest; refuses what does not."""
        found = self.require_versions(subject, visible)
        if version is None:
            return SchemaPlace(subject, found[-1])
        if version not in found:
            raise Refused(Code.VERSION_NOT_FOUND, subject=subject, version=version)
        return SchemaPlace(subject, version)

    def id_at(self, place: SchemaPlace) -> int:
        """The id of a version that exists, deleted or not."""
        return self._subjects[place.subject][place.version].id

    def has(self, place: SchemaPlace, id_: int) -> bool:
        """Whether a version has this content, deleted or not."""
        version = self._subjects.get(place.subject, {}).get(place.version)
        return version is not None and version.id == id_

    def is_deleted(self, place: SchemaPlace) -> bool:
        """Whether a version has left the lists, or never was."""
        version = self._subjects.get(place.subject, {}).get(place.version)
        return version is None or version.is_deleted

    def describe(self, place: SchemaPlace) -> SchemaDescription:
        """A version that exists."""
        id_ = self.id_at(place)
        return SchemaDescription(
            subject=place.subject,
            version=place.version,
            id=id_,
            schema=self._contents[id_].schema,
        )

    def find(self, subject: str, id_: int | None, *, shows_deleted: bool) -> SchemaPlace | None:
        """The version of a subject with a content: a live one if there is one, the newest."""
        places = () if id_ is None else self.places(id_)
        own = [place for place in places if place.subject == subject]
        live = [place for place in own if not self.is_deleted(place)]
        found = live or (own if shows_deleted else [])
        return max(found, key=lambda place: place.version) if found else None

    def find_text(self, subject: str, schema: SchemaText) -> SchemaPlace | None:
        """The live version of a subject that was written in just these words, of the newest few."""
        for version in reversed(self.versions(subject)[-_COMPARED_TEXTS:]):
            place = SchemaPlace(subject, version)
            if self._contents[self.id_at(place)].schema == schema:
                return place
        return None

    def referrers(self, place: SchemaPlace) -> tuple[int, ...]:
        """The ids of contents that refer to a version, and that a live version has."""
        ids = self._referrers.get(place, {})
        return tuple(sorted(id_ for id_ in ids if not all(map(self.is_deleted, self.places(id_)))))

    # Levels

    def level(self, subject: str) -> Level:
        """The level that counts for a subject."""
        return self._levels.get(subject, self._global_level)

    @property
    def has_global_level(self) -> bool:
        """Whether the global level is another than that of a new node."""
        return self._global_level is not DEFAULT_LEVEL

    def own_level(self, subject: str) -> Level | None:
        """The level that was set for a subject; for the empty name the global one."""
        return self._levels.get(subject) if subject else self._global_level

    # Decisions: changes, or a refusal

    def check_room(self, subject: str, schema: SchemaText) -> None:
        """Refuse a schema that there is no room for."""
        known = self._subjects.get(subject, {})
        if len(known) >= VERSIONS_MAX:
            raise _full("versions of a subject", VERSIONS_MAX, len(known))
        if not known and len(self._subjects) >= _SUBJECTS_MAX:
            raise _full("subjects", _SUBJECTS_MAX, len(self._subjects))
        limit = self.limits.bytes_max
        if self._bytes + len(schema.text) > limit:
            raise _full("bytes of schemas", limit, self._bytes)
        self._check_entries(2)

    def check_level(self, subject: str) -> None:
        """Refuse a level that there is no room for."""
        if subject and subject not in self._levels:
            self._check_entries(1)

    def _check_entries(self, more: int) -> None:
        limit, used = self.limits.entries_max, self.entry_count
        if used + more > limit:
            raise _full("versions and levels of schemas", limit, used)

    def register(self, subject: str, schema: SchemaText, digest: str) -> list[SchemaChange]:
        """Add a version with this content, which the subject has not."""
        changes: list[SchemaChange] = []
        id_ = self._by_digest.get(digest)
        if id_ is None:
            id_ = self._next_id
            changes.append(
                SchemaStated(
                    id=id_,
                    language=schema.type,
                    text=schema.text,
                    digest=digest,
                    references=schema.references,
                )
            )
        version = max(self._subjects.get(subject, {}), default=0) + 1
        changes.append(SchemaVersionStated(subject=subject, version=version, id=id_))
        return changes

    def delete(self, subject: str, version: int | None, *, permanently: bool) -> list[SchemaChange]:
        """Delete one version; one that was deleted is removed."""
        if not permanently:
            if version is not None and self._is_gone(SchemaPlace(subject, version)):
                raise Refused(
                    Code.VERSION_NOT_FOUND, subject=subject, version=version, state=_IS_DELETED
                )
            return self._delete([self.resolve(subject, version)])
        place = self.resolve(subject, version, Visible.ALL)
        if not self.is_deleted(place):
            raise Refused(
                Code.VERSION_NOT_FOUND, subject=subject, version=place.version, state=_IS_LIVE
            )
        return self._remove([place])

    def delete_subject(self, subject: str, *, permanently: bool) -> list[SchemaChange]:
        """Delete all versions; those that were deleted are removed."""
        if not permanently:
            if not self.versions(subject) and subject in self._subjects:
                raise Refused(Code.SUBJECT_NOT_FOUND, subject=subject, state=_IS_DELETED)
            found = self.require_versions(subject)
            return self._delete([SchemaPlace(subject, version) for version in found])
        every = self.require_versions(subject, Visible.ALL)
        if self.versions(subject):
            raise Refused(Code.SUBJECT_NOT_FOUND, subject=subject, state=_IS_LIVE)
        changes = self._remove([SchemaPlace(subject, version) for version in every])
        if subject in self._levels:
            changes.append(SchemaLevelStated(subject=subject, level=None))
        return changes

    def _is_gone(self, place: SchemaPlace) -> bool:
        version = self._subjects.get(place.subject, {}).get(place.version)
        return version is not None and version.is_deleted

    def _delete(self, places: Sequence[SchemaPlace]) -> list[SchemaChange]:
        self._check_referrers(places)
        return [
            SchemaVersionStated(
                subject=place.subject,
                version=place.version,
                id=self.id_at(place),
                is_deleted=True,
            )
            for place in places
        ]

    def names_with(self, prefix: str) -> list[str]:
        """All subjects that begin like this, also those with nothing but a level."""
        names = dict.fromkeys((*self._subjects, *self._levels))
        return sorted(name for name in names if name.startswith(prefix))

    def remove_subject(self, subject: str) -> list[SchemaChange]:
        """Remove all that a subject has, whoever refers to it: those go as well."""
        every = self.versions(subject, Visible.ALL)
        changes = self._removed([SchemaPlace(subject, version) for version in every])
        if subject in self._levels:
            changes.append(SchemaLevelStated(subject=subject, level=None))
        return changes

    def _remove(self, places: Sequence[SchemaPlace]) -> list[SchemaChange]:
        self._check_referrers(places)
        return self._removed(places)

    def _removed(self, places: Sequence[SchemaPlace]) -> list[SchemaChange]:
        going = dict.fromkeys(places)
        removed = [
            SchemaVersionRemoved(subject=each.subject, version=each.version) for each in places
        ]
        unused = [
            SchemaRemoved(id=id_)
            for id_ in dict.fromkeys(map(self.id_at, places))
            if all(place in going for place in self.places(id_))
        ]
        return [*removed, *unused]

    def _check_referrers(self, places: Sequence[SchemaPlace]) -> None:
        """Refuse to delete what others need; versions that go together need each other no more."""
        going = dict.fromkeys(places)
        for place in places:
            for id_ in self._referrers.get(place, {}):
                users = [each for each in self.places(id_) if each not in going]
                if any(not self.is_deleted(each) for each in users) or (
                    users and self.is_deleted(place)
                ):
                    raise Refused(
                        Code.SCHEMA_REFERENCED, subject=place.subject, version=place.version
                    )

    # Changes

    def apply(self, change: SchemaChange) -> None:
        """Become what a change says."""
        self.revision += 1
        match change:
            case SchemasNumbered():
                self._next_id = max(self._next_id, change.ids_upto)
            case SchemaStated():
                self._add(change)
            case SchemaRemoved():
                self._forget(change.id)
            case SchemaVersionStated():
                if change.subject not in self._subjects:
                    insort(self._names, change.subject)
                versions = self._subjects.setdefault(change.subject, {})
                self._version_count += change.version not in versions
                versions[change.version] = _Version(change.id, change.is_deleted)
                place = SchemaPlace(change.subject, change.version)
                self._places.setdefault(change.id, {})[place] = None
            case SchemaVersionRemoved():
                self._remove_version(SchemaPlace(change.subject, change.version))
            case SchemaLevelStated(subject=""):
                self._global_level = change.level or DEFAULT_LEVEL
            case SchemaLevelStated():
                if change.level is None:
                    self._levels.pop(change.subject, None)
                else:
                    self._levels[change.subject] = change.level

    def adopt(self, changes: Iterable[SchemaChange]) -> None:
        """Become what these changes say, and nothing else."""
        revision = self.revision
        self._clear()
        for change in changes:
            self.apply(change)
        # Whoever remembers a revision must not take this for it.
        self.revision = max(self.revision, revision) + 1

    def _add(self, stated: SchemaStated) -> None:
        if stated.id in self._contents:
            # Stated again.
            return
        self._contents[stated.id] = stated
        self._by_digest[stated.digest] = stated.id
        self._next_id = max(self._next_id, stated.id + 1)
        self._bytes += len(stated.text)
        for reference in stated.references:
            place = SchemaPlace(reference.subject, reference.version)
            self._referrers.setdefault(place, {})[stated.id] = None

    def _forget(self, id_: int) -> None:
        content = self._contents.pop(id_, None)
        if content is None:
            return
        self._bytes -= len(content.text)
        if self._by_digest.get(content.digest) == id_:
            del self._by_digest[content.digest]
        for reference in content.references:
            place = SchemaPlace(reference.subject, reference.version)
            users = self._referrers.get(place, {})
            users.pop(id_, None)
            if not users:
                self._referrers.pop(place, None)

    def _remove_version(self, place: SchemaPlace) -> None:
        versions = self._subjects.get(place.subject, {})
        version = versions.pop(place.version, None)
        if version is not None:
            self._version_count -= 1
            places = self._places[version.id]
            del places[place]
            if not places:
                del self._places[version.id]
        if not versions and self._subjects.pop(place.subject, None) is not None:
            del self._names[bisect_left(self._names, place.subject)]

    def changes(self) -> Iterator[Sequence[SchemaChange]]:
        """Everything again, a few changes at a time, each true when it is asked for.

        A version that comes while this is said may be said before its content.
        """
        yield [SchemasNumbered(ids_upto=self._next_id)]
        if self._global_level is not DEFAULT_LEVEL:
            yield [SchemaLevelStated(subject="", level=self._global_level)]
        for subject in list(self._levels):
            level = self._levels.get(subject)
            if level is not None:
                yield [SchemaLevelStated(subject=subject, level=level)]
        for id_ in list(self._contents):
            content = self._contents.get(id_)
            if content is None:
                continue
            yield [content]
            for place in self.places(id_):
                version = self._subjects.get(place.subject, {}).get(place.version)
                if version is not None and version.id == id_:
                    yield [
                        SchemaVersionStated(
                            subject=place.subject,
                            version=place.version,
                            id=id_,
                            is_deleted=version.is_deleted,
                        )
                    ]


# Registering the same text again is what clients do when they start: nothing is parsed for that.
_COMPARED_TEXTS = 16
_IS_DELETED = "deleted"
_IS_LIVE = "not deleted"


def _full(what: str, limit: int, used: int) -> Refused:
    return Refused(Code.QUOTA_EXCEEDED, quota=what, limit=limit, used=used)
