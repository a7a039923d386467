"""Schemas: commands, and what callers see of subjects, versions and ids.

A subject is a name with numbered versions; a version has the id of its content. Equal content has
one id, whatever subjects use it.
"""

import enum

import msgspec

from goqueue.model.errors import Code

__all__ = [
    "CheckCompatibility",
    "Compatibility",
    "CompatibilityChecked",
    "DeleteSchema",
    "DeleteSubject",
    "DescribeCompatibility",
    "DescribeRegistry",
    "DescribeSchema",
    "FindSchema",
    "FindSchemaById",
    "Level",
    "ListReferrers",
    "ListSchemaUses",
    "ListSubjects",
    "ListVersions",
    "RegisterSchema",
    "RegistryDescription",
    "ResetCompatibility",
    "SchemaCommand",
    "SchemaDescription",
    "SchemaIds",
    "SchemaPlace",
    "SchemaPlaces",
    "SchemaReference",
    "SchemaReply",
    "SchemaText",
    "SchemaType",
    "SetCompatibility",
    "SubjectList",
    "VersionList",
    "Violation",
    "Visible",
]


class SchemaType(enum.StrEnum):
    """The language of a schema."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Level(enum.StrEnum):
    """Which versions of a subject a new one has to be compatible with, and in which direction."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_backward(self) -> bool:
        """Whether the new schema has to read data of the old ones."""
        return self in _BACKWARD

    @property
    def is_forward(self) -> bool:
        """Whether the old schemas have to read data of the new one."""
        return self in _FORWARD

    @property
    def is_transitive(self) -> bool:
        """Whether all versions count, and not the latest alone."""
        return self in _TRANSITIVE


_TRANSITIVE = frozenset(
    (Level.BACKWARD_TRANSITIVE, Level.FORWARD_TRANSITIVE, Level.FULL_TRANSITIVE)
)
_FULL = frozenset((Level.FULL, Level.FULL_TRANSITIVE))
_BACKWARD = _FULL | {Level.BACKWARD, Level.BACKWARD_TRANSITIVE}
_FORWARD = _FULL | {Level.FORWARD, Level.FORWARD_TRANSITIVE}


class Visible(enum.StrEnum):
    """Which subjects and versions a list shows: what was deleted and can be restored, or not."""

    LIVE = "live"
    ALL = "all"
    DELETED = "deleted"


class Violation(msgspec.Struct, frozen=True):
    """Why a value is refused: where in it, and what is wrong there."""

    code: Code
    path: str
    reason: str


class SchemaReference(msgspec.Struct, frozen=True, kw_only=True):
    """A schema that another one uses under a name."""

    name: str
    subject: str
    version: int


class SchemaText(msgspec.Struct, frozen=True, kw_only=True):
    """A schema as its author wrote it."""

    type: SchemaType
    text: str
    references: tuple[SchemaReference, ...] = ()


# Commands


class RegisterSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Add a version to a subject; answered by `SchemaDescription`, also if it is there already."""

    subject: str
    schema: SchemaText


class FindSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The version of a subject with this content; answered by `SchemaDescription`."""

    subject: str
    schema: SchemaText
    shows_deleted: bool = False


class CheckCompatibility(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a schema could be registered; answered by `CompatibilityChecked`.

    Against one version, or the latest if `version` is None; `is_whole` checks as a registration
    would, against all that the level of the subject names.
    """

    subject: str
    schema: SchemaText
    version: int | None = None
    is_whole: bool = False


class ListSubjects(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `SubjectList`."""

    prefix: str = ""
    visible: Visible = Visible.LIVE


class ListVersions(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `VersionList`."""

    subject: str
    visible: Visible = Visible.LIVE


class DescribeSchema(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a subject, None: the latest; answered by `SchemaDescription`."""

    subject: str
    version: int | None = None
    shows_deleted: bool = False


class FindSchemaById(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `SchemaDescription` of any version with this id, also of a deleted one."""

    id: int


class ListSchemaUses(msgspec.Struct, frozen=True, kw_only=True):
    """The subjects and versions with an id; answered by `SchemaPlaces`."""

    id: int
    shows_deleted: bool = False


class ListReferrers(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of schemas that refer to a version; answered by `SchemaIds`."""

    subject: str
    version: int | None = None


class DeleteSubject(msgspec.Struct, frozen=True, kw_only=True):
    """Delete all versions of a subject; answered by `VersionList`.

    First they leave the lists. With `is_permanent` those that have left are forgotten.
    """

    subject: str
    is_permanent: bool = False


class DeleteSchema(msgspec.Struct, frozen=True, kw_only=True):
    """Delete one version, None: the latest; answered by `VersionList` with that one."""

    subject: str
    version: int | None = None
    is_permanent: bool = False


class DescribeCompatibility(msgspec.Struct, frozen=True, kw_only=True):
    """The level of a subject, or the global one if it is empty; answered by `Compatibility`.

    Without `falls_back` a subject without a level of its own is refused.
    """

    subject: str = ""
    falls_back: bool = True


class SetCompatibility(msgspec.Struct, frozen=True, kw_only=True):
    """Set the level of a subject, or the global one; answered by `Compatibility`."""

    level: Level
    subject: str = ""


class ResetCompatibility(msgspec.Struct, frozen=True, kw_only=True):
    """Let a subject follow the global level; answered by `Compatibility`, as it was."""

    subject: str


class DescribeRegistry(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `RegistryDescription`."""


SchemaCommand = (
    RegisterSchema
    | FindSchema
    | CheckCompatibility
    | ListSubjects
    | ListVersions
    | DescribeSchema
    | FindSchemaById
    | ListSchemaUses
    | ListReferrers
    | DeleteSubject
    | DeleteSchema
    | DescribeCompatibility
    | SetCompatibility
    | ResetCompatibility
    | DescribeRegistry
)


# Replies


class SchemaDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: SchemaText


class CompatibilityChecked(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a schema from being registered; nothing: it can be."""

    messages: tuple[str, ...] = ()


class SubjectList(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects by name."""

    subjects: tuple[str, ...]


class VersionList(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of a subject, the lowest first."""

    versions: tuple[int, ...]


class SchemaPlace(msgspec.Struct, frozen=True):
    """A version of a subject."""

    subject: str
    version: int


class SchemaPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where an id is used."""

    places: tuple[SchemaPlace, ...]


class SchemaIds(msgspec.Struct, frozen=True, kw_only=True):
    """Ids, the lowest first."""

    ids: tuple[int, ...]


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """A level."""

    level: Level


class RegistryDescription(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is in the registry, as far as the caller sees it."""

    subjects: int
    schemas: int
    versions: int
    level: Level


SchemaReply = (
    SchemaDescription
    | CompatibilityChecked
    | SubjectList
    | VersionList
    | SchemaPlaces
    | SchemaIds
    | Compatibility
    | RegistryDescription
)
