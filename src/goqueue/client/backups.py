"""Backups: taken, listed, restored and deleted.

Taking a backup and restoring one take longer than a request. `create` and `restore` return when it
is begun; `wait` and `wait_for_restore` return when it has ended.
"""

import asyncio
import datetime as dt
from collections.abc import Callable

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.http import Request, Transport, get, post, target

__all__ = [
    "Backup",
    "BackupRestore",
    "BackupSchema",
    "BackupStats",
    "BackupTopic",
    "Backups",
]


class BackupStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup amounts to; of a running one, so far."""

    topic_count: int = 0
    partition_count: int = 0
    total_messages: int = 0
    total_bytes: int = 0
    consumer_group_count: int = 0
    schema_count: int = 0
    duration_ms: int = 0


class BackupRestore(msgspec.Struct, frozen=True, kw_only=True):
    """The last restore of a backup; `state` is running, completed or failed.

    `skipped` counts topics, schedules and versions of schemas that existed otherwise,
    `acls_skipped` rules that allow something and were deleted since the backup: they stay deleted.
    """

    state: str
    topics_restored: int = 0
    groups_restored: int = 0
    schedules_restored: int = 0
    schemas_restored: int = 0
    tenants_restored: int = 0
    acls_restored: int = 0
    acls_skipped: int = 0
    skipped: int = 0
    error: str | None = None


class BackupTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a backup."""

    name: str
    num_partitions: int


class BackupSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a subject in a backup."""

    subject: str
    version: int


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A backup of the moment `timestamp`; `state` is running, completed or failed.

    Lists leave out `topics`, `consumer_groups` and `schemas`.
    """

    backup_id: str
    state: str
    timestamp: dt.datetime
    broker_id: str
    cluster_id: str
    version: str
    stats: BackupStats
    error: str | None = None
    restore: BackupRestore | None = None
    topics: tuple[BackupTopic, ...] = ()
    consumer_groups: tuple[str, ...] = ()
    schemas: tuple[BackupSchema, ...] = ()


class _BackupList(msgspec.Struct, frozen=True):
    backups: tuple[Backup, ...]


_BACKUPS = msgspec.json.Decoder(Backup)
_LISTS = msgspec.json.Decoder(_BackupList)
_ROUTE = ("admin", "backup")
_POLL_S = 0.2
Progress = Callable[[Backup], None]


class Backups:
    """`q.backups`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        *,
        topics: bool = True,
        offsets: bool = True,
        schemas: bool = True,
        config: bool = True,
    ) -> Backup:
        """Begin a backup of this moment; see `wait`.

        While another backup or a restore is running, the code is `backup_busy`.
        """
        fields: dict[str, object] = {
            "include_topics": topics,
            "include_offsets": offsets,
            "include_schemas": schemas,
            "include_config": config,
        }
        return await self._transport.read(post(*_ROUTE, fields=fields), _BACKUPS)

    async def list(self) -> tuple[Backup, ...]:
        """All backups, the newest first."""
        return (await self._transport.read(get(*_ROUTE), _LISTS)).backups

    async def describe(self, backup_id: str) -> Backup:
        """One backup, with the names of what it holds; `NotFound` if there is none."""
        return await self._transport.read(get(*_ROUTE, backup_id), _BACKUPS)

    async def delete(self, backup_id: str) -> None:
        """Delete a backup."""
        request = Request(method="DELETE", target=target(*_ROUTE, backup_id))
        await self._transport.ask(request)

    async def restore(self, backup_id: str, *, skip_existing: bool = False) -> Backup:
        """Begin to restore a backup; see `wait_for_restore`.

        `TopicExists` if one of its topics exists, unless those are to be skipped.
        """
        fields: dict[str, object] = {"skip_existing": skip_existing}
        request = post(*_ROUTE, backup_id, "restore", fields=fields)
        return await self._transport.read(request, _BACKUPS)

    async def wait(self, backup_id: str, *, progress: Progress | None = None) -> Backup:
        """Wait until a backup is complete; `progress` is called with it as it grows.

        Raises `GoQueueError` with the code `backup_failed` if it fails.
        """
        while True:
            found = await self.describe(backup_id)
            if found.state == "failed":
                raise GoQueueError("backup_failed", found.error or "the backup failed")
            if found.state != "running":
                return found
            await _report(found, progress)

    async def wait_for_restore(
        self, backup_id: str, *, progress: Progress | None = None
    ) -> BackupRestore:
        """Wait until the restore of a backup has ended.

        Raises `GoQueueError` with the code `restore_failed` if it fails: nothing was restored then.
        """
        while True:
            found = await self.describe(backup_id)
            if found.restore is None or found.restore.state == "failed":
                error = None if found.restore is None else found.restore.error
                raise GoQueueError("restore_failed", error or "the node was restarted")
            if found.restore.state != "running":
                return found.restore
            await _report(found, progress)


async def _report(found: Backup, progress: Progress | None) -> None:
    if progress is not None:
        progress(found)
    await asyncio.sleep(_POLL_S)
