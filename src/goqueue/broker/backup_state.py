"""What a backup says besides records: topics, groups, positions, schedules, tenants, ACLs, schemas.

Numbers are given anew by the node that restores. Leases, members, producers and everything that
lets somebody in are not here: a backup gives nobody access. A node that does not know a kind of
item refuses the backup.

Each name comes with the tenant that owned it, if a version wrote it that knew tenants: a restore
gives nothing of one tenant to another.

Items are stored: fields are only ever added, at the end, with a default.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.delivery import PositionStated
from goqueue.groups import Group
from goqueue.model import Level
from goqueue.model.requests import (
    AclSpec,
    Assignor,
    Mode,
    ScheduleSpec,
    TenantStatus,
    TopicConfig,
)
from goqueue.schedules import Schedule
from goqueue.schemas import SchemaCopy, SchemaStated
from goqueue.security import DEFAULT_TENANT, AclStated, SecurityRegistry, TenantStated

__all__ = [
    "AclsSaved",
    "BackupItem",
    "BackupStateWriter",
    "GroupSaved",
    "PositionSaved",
    "ScheduleSaved",
    "SchemasSaved",
    "SubjectSaved",
    "TopicSaved",
    "VersionSaved",
    "acls_digest",
    "decode_items",
    "saved_group",
    "saved_schedule",
    "saved_subjects",
    "saved_tenants",
    "saved_topic",
]


class TopicSaved(msgspec.Struct, frozen=True, kw_only=True, tag="topic", omit_defaults=True):
    """A topic; without its settings it gets the default ones."""

    name: str
    partitions: int
    created_at: int
    config: TopicConfig | None = None
    holds_dead_letters: bool = False
    has_delays: bool = False
    has_lanes: bool = False
    has_producers: bool = False
    tenant: str | None = None


class GroupSaved(msgspec.Struct, frozen=True, kw_only=True, tag="group", omit_defaults=True):
    """A group without its members, and the topics that they subscribed to."""

    name: str
    mode: Mode
    assignor: Assignor
    created_at: int
    topics: tuple[str, ...] = ()
    tenant: str | None = None


class PositionSaved(msgspec.Struct, frozen=True, kw_only=True, tag="position"):
    """Where a group stood in a partition; without a group, which dead letters were put back."""

    topic: str
    partition: int
    position: PositionStated
    group: str | None = None


class ScheduleSaved(msgspec.Struct, frozen=True, kw_only=True, tag="schedule", omit_defaults=True):
    """A schedule, and up to when it has ticked."""

    spec: ScheduleSpec
    created_at: int
    upto: int
    is_paused: bool = False
    sent: int = 0
    last_tick: int | None = None
    tenant: str | None = None


class AclsSaved(msgspec.Struct, frozen=True, kw_only=True, tag="acls"):
    """How many ACLs the backup holds, and their sum: none may be lost on the way."""

    count: int
    digest: str


class SchemasSaved(msgspec.Struct, frozen=True, kw_only=True, tag="schemas"):
    """What the registry says of all schemas: the next id, and the level without another one."""

    next_id: int
    level: Level


class VersionSaved(msgspec.Struct, frozen=True, array_like=True):
    """One version of a subject."""

    version: int
    id: int
    is_deleted: bool = False


class SubjectSaved(msgspec.Struct, frozen=True, kw_only=True, tag="subject", omit_defaults=True):
    """A subject with its versions, deleted ones too; `level` is its own."""

    name: str
    versions: tuple[VersionSaved, ...] = ()
    level: Level | None = None
    tenant: str | None = None


# Tenants, ACLs and contents of schemas are stated as in the journal; keys are in no backup.
BackupItem = (
    TopicSaved
    | GroupSaved
    | PositionSaved
    | ScheduleSaved
    | TenantStated
    | AclStated
    | AclsSaved
    | SchemasSaved
    | SchemaStated
    | SubjectSaved
)
_DECODER = msgspec.json.Decoder(list[BackupItem])
# One chunk is decoded within a turn.
_CHUNK_BYTES = 128 * 1024


def decode_items(chunk: bytes) -> Sequence[BackupItem]:
    """The items of a chunk; raises msgspec.MsgspecError."""
    return _DECODER.decode(chunk)


class BackupStateWriter:
    """Gathers items into chunks of JSON."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._encoded: list[bytes] = []
        self._size = 0

    def add(self, item: BackupItem) -> int:
        """Take in an item; its size in bytes."""
        encoded = msgspec.json.encode(item)
        if self._encoded and self._size + len(encoded) > _CHUNK_BYTES:
            self._finish_chunk()
        self._encoded.append(encoded)
        self._size += len(encoded)
        return len(encoded)

    def _finish_chunk(self) -> None:
        self._chunks.append(b"[" + b",".join(self._encoded) + b"]")
        self._encoded, self._size = [], 0

    def chunks(self) -> tuple[bytes, ...]:
        """All items in the order in which they came."""
        if self._encoded:
            self._finish_chunk()
        return tuple(self._chunks)


def saved_topic(topic: Topic, tenant: str, *, has_config: bool) -> TopicSaved:
    stated = topic.stated
    return TopicSaved(
        name=stated.name,
        partitions=stated.partitions,
        created_at=stated.created_at,
        config=stated.config if has_config else None,
        holds_dead_letters=stated.holds_dead_letters,
        has_delays=stated.has_delays,
        has_lanes=stated.has_lanes,
        has_producers=stated.has_producers,
        tenant=tenant,
    )


def saved_group(group: Group, tenant: str) -> GroupSaved:
    stated = group.stated
    return GroupSaved(
        name=stated.group,
        mode=stated.mode,
        assignor=stated.assignor,
        created_at=stated.created_at,
        topics=group.known_topics,
        tenant=tenant,
    )


def saved_schedule(schedule: Schedule, tenant: str) -> ScheduleSaved:
    stated = schedule.stated
    return ScheduleSaved(
        spec=stated.spec,
        created_at=stated.created_at,
        upto=stated.upto,
        is_paused=stated.is_paused,
        sent=stated.sent,
        last_tick=stated.last_tick,
        tenant=tenant,
    )


def acls_digest(acls: Mapping[str, AclSpec]) -> str:
    """The sum of rules with their ids, in whatever order they are."""
    digest = hashlib.sha256()
    for acl_id in sorted(acls):
        digest.update(msgspec.json.encode((acl_id, acls[acl_id])) + b"\n")
    return digest.hexdigest()


def saved_subjects(schemas: SchemaCopy, owner: Callable[[str], str]) -> Iterator[SubjectSaved]:
    """All subjects, also those that have nothing but a level."""
    for name in sorted({*schemas.subjects, *schemas.levels}):
        yield SubjectSaved(
            name=name,
            versions=tuple(
                VersionSaved(each.version, each.id, each.is_deleted)
                for each in schemas.versions(name)
            ),
            level=schemas.levels.get(name),
            tenant=owner(name),
        )


def saved_tenants(security: SecurityRegistry) -> list[TenantStated]:
    """All tenants but the one that every node has, and those that are about to be gone."""
    return [
        tenant.stated
        for tenant in security.tenants
        if tenant.id != DEFAULT_TENANT and tenant.status is not TenantStatus.DELETING
    ]
