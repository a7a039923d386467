"""Backups over HTTP: bodies, handlers and routes."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import Count, TimeText
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import ParameterLocation, name
from goqueue.gateways.http.routing.router import Route
from goqueue.model import MILLISECOND, Code, format_time
from goqueue.model.requests import (
    BackupDescription,
    BackupList,
    BackupProgress,
    CreateBackup,
    DeleteBackup,
    DescribeBackup,
    Done,
    ListBackups,
    RestoreBackup,
)

__all__ = [
    "BACKUP_ROUTES",
    "Backup",
    "BackupDetail",
    "BackupStats",
    "BackupTopic",
    "Backups",
    "CreateBackupBody",
    "DeletedBackup",
    "RestoreBackupBody",
    "RestoreOut",
    "SchemaVersion",
]


class CreateBackupBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup is to hold; without fields, everything."""

    include_topics: Annotated[bool, Meta(description="Messages, also delayed ones.")] = True
    include_offsets: Annotated[bool, Meta(description="Groups and their positions.")] = True
    include_schemas: Annotated[
        bool, Meta(description="Schemas: subjects, versions, ids and levels.")
    ] = True
    include_config: Annotated[
        bool, Meta(description="Settings of topics, schedules, tenants and ACLs.")
    ] = True


class RestoreBackupBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to restore a backup."""

    skip_existing: Annotated[
        bool,
        Meta(description="Leave topics and schemas that exist as they are, instead of refusing."),
    ] = False


class BackupStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup amounts to; of a running one, so far."""

    topic_count: Count
    partition_count: Count
    total_messages: Count
    total_bytes: Count
    consumer_group_count: Count
    schema_count: Count
    duration_ms: Count


class RestoreOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last restore of a backup since the node started.

    `skipped` counts topics, schedules and versions of schemas that existed otherwise,
    `acls_skipped` rules that allow something and were deleted since the backup: they stay deleted.
    """

    state: BackupProgress
    topics_restored: Count
    groups_restored: Count
    schedules_restored: Count
    schemas_restored: Count
    tenants_restored: Count
    acls_restored: Count
    acls_skipped: Count
    skipped: Count
    error: str | None = None


class Backup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A backup; `timestamp` is the moment that it shows."""

    backup_id: Annotated[str, Meta(examples=["2025-01-31-120000"])]
    state: BackupProgress
    timestamp: TimeText
    broker_id: str
    cluster_id: str
    version: str
    stats: BackupStats
    error: str | None = None
    restore: RestoreOut | None = None


class BackupTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a backup."""

    name: str
    num_partitions: Count


class SchemaVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A schema of a backup."""

    subject: str
    version: Count


class BackupDetail(Backup, frozen=True, kw_only=True):
    """A backup with the names of what it holds."""

    topics: tuple[BackupTopic, ...] = ()
    consumer_groups: tuple[str, ...] = ()
    schemas: tuple[SchemaVersion, ...] = ()


class Backups(msgspec.Struct, frozen=True, kw_only=True):
    """The backups, the newest first."""

    backups: tuple[Backup, ...]
    count: Count


class DeletedBackup(msgspec.Struct, frozen=True, kw_only=True):
    """The backup is gone."""

    deleted: bool
    id: str


_SECTION = "Backups"
_ID = name("backup", "id of the backup", location=ParameterLocation.PATH)


async def _create(call: Call) -> Backup:
    body = call.body(CreateBackupBody)
    command = CreateBackup(
        has_topics=body.include_topics,
        has_offsets=body.include_offsets,
        has_schemas=body.include_schemas,
        has_config=body.include_config,
    )
    return _backup(call, await call.ask(command, BackupDescription))


async def _list(call: Call) -> Backups:
    found = await call.ask(ListBackups(), BackupList)
    backups = tuple(_backup(call, each) for each in found.backups)
    return Backups(backups=backups, count=len(backups))


async def _describe(call: Call) -> BackupDetail:
    found = await call.ask(DescribeBackup(backup=call[_ID]), BackupDescription)
    backup = _backup(call, found)
    return BackupDetail(
        **msgspec.structs.asdict(backup),
        topics=tuple(
            BackupTopic(name=each.name, num_partitions=each.partitions)
            for each in found.summary.topics
        ),
        consumer_groups=found.summary.groups,
        schemas=tuple(
            SchemaVersion(subject=each.subject, version=each.version)
            for each in found.summary.schemas
        ),
    )


async def _delete(call: Call) -> DeletedBackup:
    await call.ask(DeleteBackup(backup=call[_ID]), Done)
    return DeletedBackup(deleted=True, id=call[_ID])


async def _restore(call: Call) -> Backup:
    body = call.body(RestoreBackupBody)
    command = RestoreBackup(backup=call[_ID], skips_existing=body.skip_existing)
    return _backup(call, await call.ask(command, BackupDescription))


def _backup(call: Call, found: BackupDescription) -> Backup:
    summary, restore = found.summary, found.restore
    statistics = summary.statistics
    return Backup(
        backup_id=summary.id,
        state=found.state,
        timestamp=format_time(summary.created_at),
        broker_id=summary.node,
        # A node that is in no cluster is one of its own.
        cluster_id=summary.cluster or summary.node,
        # While it is written, it is by this node.
        version=summary.version or call.context.facts.version,
        stats=BackupStats(
            topic_count=statistics.topics,
            partition_count=statistics.partitions,
            total_messages=statistics.messages,
            total_bytes=statistics.bytes,
            consumer_group_count=statistics.groups,
            schema_count=statistics.schemas,
            duration_ms=statistics.duration_ns // MILLISECOND,
        ),
        error=found.error,
        restore=None
        if restore is None
        else RestoreOut(
            state=restore.state,
            topics_restored=restore.topics_restored,
            groups_restored=restore.groups_restored,
            schedules_restored=restore.schedules_restored,
            schemas_restored=restore.schemas_restored,
            tenants_restored=restore.tenants_restored,
            acls_restored=restore.acls_restored,
            acls_skipped=restore.acls_skipped,
            skipped=restore.skipped,
            error=restore.error,
        ),
    )


BACKUP_ROUTES = (
    Route(
        method="POST",
        path="/admin/backup",
        section=_SECTION,
        summary="Begin a backup of this moment",
        run=_create,
        body=CreateBackupBody,
        answer=Backup,
        status=202,
        errors=(Code.BACKUP_BUSY, Code.STORAGE_FULL),
        writes=True,
    ),
    Route(
        method="GET",
        path="/admin/backup",
        section=_SECTION,
        summary="List the backups, the newest first",
        run=_list,
        answer=Backups,
    ),
    Route(
        method="GET",
        path="/admin/backup/{backup}",
        section=_SECTION,
        summary="Describe a backup, or how far it is",
        run=_describe,
        parameters=(_ID,),
        answer=BackupDetail,
        errors=(Code.BACKUP_NOT_FOUND,),
    ),
    Route(
        method="DELETE",
        path="/admin/backup/{backup}",
        section=_SECTION,
        summary="Delete a backup",
        run=_delete,
        parameters=(_ID,),
        answer=DeletedBackup,
        errors=(Code.BACKUP_NOT_FOUND, Code.BACKUP_BUSY),
        writes=True,
    ),
    Route(
        method="POST",
        path="/admin/backup/{backup}/restore",
        section=_SECTION,
        summary="Begin to restore a backup; the answer of GET tells how far that is",
        run=_restore,
        parameters=(_ID,),
        body=RestoreBackupBody,
        answer=Backup,
        status=202,
        errors=(Code.BACKUP_NOT_FOUND, Code.BACKUP_BUSY, Code.TOPIC_EXISTS),
        writes=True,
    ),
)
