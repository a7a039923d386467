"""Backups and restores: commands, and what callers see of a backup.

A backup is taken, and restored, while the node serves. Both take longer than a request, so the
replies tell how far it is; callers ask again.
"""

import enum

import msgspec

from goqueue.model.ids import Timestamp

__all__ = [
    "BackupDescription",
    "BackupList",
    "BackupProgress",
    "BackupStatistics",
    "BackupSummary",
    "CreateBackup",
    "DeleteBackup",
    "DescribeBackup",
    "ListBackups",
    "RestoreBackup",
    "RestoreDescription",
    "SavedSchema",
    "SavedTopic",
]


class BackupProgress(enum.StrEnum):
    """How far a backup, or a restore, is."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class CreateBackup(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a backup; answered by `BackupDescription` once there is space for it.

    `has_topics`: messages; `has_offsets`: groups and their positions; `has_config`: settings of
    topics, schedules, tenants and ACLs; `has_schemas`: schemas with their ids.
    """

    has_topics: bool = True
    has_offsets: bool = True
    has_schemas: bool = True
    has_config: bool = True


class ListBackups(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `BackupList`."""


class DescribeBackup(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `BackupDescription`."""

    backup: str


class DeleteBackup(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a backup; answered by `Done` once it is gone after any crash."""

    backup: str


class RestoreBackup(msgspec.Struct, frozen=True, kw_only=True):
    """Begin to restore a backup; answered by `BackupDescription`.

    A topic that exists is refused, or left as it is if `skips_existing`.
    """

    backup: str
    skips_existing: bool = False


class SavedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a backup."""

    name: str
    partitions: int


class SavedSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a subject in a backup."""

    subject: str
    version: int


class BackupStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup amounts to; of a running one, so far."""

    topics: int = 0
    partitions: int = 0
    messages: int = 0
    bytes: int = 0
    groups: int = 0
    schemas: int = 0
    duration_ns: int = 0


class BackupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup says of itself. Stored in its manifest: fields are only added, with a default.

    `created_at` is the moment that the backup shows.
    """

    id: str
    created_at: Timestamp
    node: str
    cluster: str
    version: str
    statistics: BackupStatistics
    topics: tuple[SavedTopic, ...] = ()
    groups: tuple[str, ...] = ()
    schemas: tuple[SavedSchema, ...] = ()


class RestoreDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The last restore of a backup in this life of the node."""

    state: BackupProgress
    topics_restored: int = 0
    groups_restored: int = 0
    schedules_restored: int = 0
    schemas_restored: int = 0
    # Topics, schedules and other versions of schemas that were there already.
    skipped: int = 0
    error: str | None = None
    tenants_restored: int = 0
    acls_restored: int = 0
    # Rules that allow something and were deleted since the backup: they stay deleted.
    acls_skipped: int = 0


class BackupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A backup as it is now."""

    summary: BackupSummary
    state: BackupProgress
    error: str | None = None
    restore: RestoreDescription | None = None


class BackupList(msgspec.Struct, frozen=True, kw_only=True):
    """All backups, the newest first."""

    backups: tuple[BackupDescription, ...]
