"""Keys, ACLs, tenants and quotas: what may be asked about them, and what is answered.

The shell draws what needs chance (ids and secrets) and derives the verifiers; no secret is part of
a command or a reply. `KeyVerifiers`, `AclSpec` and `Quotas` are also what the journal stores: a
released field keeps its name and its unit, and a new one has a default.
"""

import enum

import msgspec

from goqueue.model.callers import KeyId
from goqueue.model.ids import HOUR, Timestamp
from goqueue.model.limits import MIB

__all__ = [
    "ACLS_MAX",
    "GRACE_NS_KEY_MAX",
    "KEYS_MAX",
    "KEY_EXPIRES_NS_MAX",
    "METADATA_CHARACTERS_MAX",
    "METADATA_MAX",
    "TENANTS_MAX",
    "AclDeleted",
    "AclDescription",
    "AclEffect",
    "AclList",
    "AclSpec",
    "AlterQuotas",
    "AlterTenant",
    "CallerDescription",
    "CreateAcl",
    "CreateKey",
    "CreateTenant",
    "DeleteAcl",
    "DeleteTenant",
    "DescribeCaller",
    "DescribeQuotas",
    "DescribeTenant",
    "DescribeTenantStatistics",
    "DescribeUsage",
    "KeyDescription",
    "KeyList",
    "KeyVerifiers",
    "ListAcls",
    "ListKeys",
    "ListTenantGroups",
    "ListTenantTopics",
    "ListTenants",
    "Operation",
    "QuotaChanges",
    "Quotas",
    "ResetUsage",
    "ResourceType",
    "RevokeKey",
    "Role",
    "RotateKey",
    "ScramVerifier",
    "SecurityCommand",
    "SecurityReply",
    "SetTenantStatus",
    "TenantChanges",
    "TenantDescription",
    "TenantList",
    "TenantNames",
    "TenantStatistics",
    "TenantStatus",
    "TenantUsage",
]

KEYS_MAX = 100_000
ACLS_MAX = 100_000
TENANTS_MAX = 10_000
# Of one key or tenant: entries, and characters of a name or a value.
METADATA_MAX = 16
METADATA_CHARACTERS_MAX = 256
# How long a key may be valid: a hundred years.
KEY_EXPIRES_NS_MAX = 100 * 365 * 24 * HOUR
# The longest time for which the secret before a rotation stays valid.
GRACE_NS_KEY_MAX = 7 * 24 * HOUR


class Role(enum.StrEnum):
    """What a key may do; a key has one or more."""

    ADMIN = "admin"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    READONLY = "readonly"


class ResourceType(enum.StrEnum):
    """What an ACL is about."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


class Operation(enum.StrEnum):
    """What is done to a resource. ACLs name all but `describe`, which any of them implies."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    ALTER = "alter"
    DELETE = "delete"
    ALL = "all"
    DESCRIBE = "describe"


class AclEffect(enum.StrEnum):
    """What a matching ACL decides. A deny wins."""

    ALLOW = "allow"
    DENY = "deny"


class TenantStatus(enum.StrEnum):
    """Suspended: nothing new is stored. Disabled: nothing is done. Deleting: soon gone."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DISABLED = "disabled"
    DELETING = "deleting"


# Stored with a key


class ScramVerifier(msgspec.Struct, frozen=True):
    """What proves a password in SCRAM (RFC 5802) without being one."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class KeyVerifiers(msgspec.Struct, frozen=True, kw_only=True):
    """What a node keeps of a secret: enough to check it in each protocol, not to use it.

    `sigv4` is sealed with the secret of the node.
    """

    digest: bytes
    scram_256: ScramVerifier
    scram_512: ScramVerifier
    sigv4: bytes


class AclSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: whom it is about (a key id, `role:<role>` or `*`), what, and what it decides.

    `resource_name` is a glob with `*` and `?`.
    """

    principal: str
    resource_type: ResourceType
    resource_name: str
    operation: Operation
    effect: AclEffect


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a tenant; 0 is no limit. The defaults are those of a new tenant."""

    max_messages_per_second: int = 1000
    max_bytes_per_second: int = 10 * MIB
    max_consume_messages_per_second: int = 5000
    max_consume_bytes_per_second: int = 50 * MIB
    max_storage_bytes: int = 10 * 1024 * MIB
    max_topics: int = 100
    max_partitions_per_topic: int = 16
    max_total_partitions: int = 500
    max_message_size_bytes: int = MIB
    max_retention_hours: int = 168
    max_delay_hours: int = 168
    max_connections: int = 100
    max_consumer_groups: int = 50
    max_consumers_per_group: int = 20


class QuotaChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Limits to change; None leaves one as it is."""

    max_messages_per_second: int | None = None
    max_bytes_per_second: int | None = None
    max_consume_messages_per_second: int | None = None
    max_consume_bytes_per_second: int | None = None
    max_storage_bytes: int | None = None
    max_topics: int | None = None
    max_partitions_per_topic: int | None = None
    max_total_partitions: int | None = None
    max_message_size_bytes: int | None = None
    max_retention_hours: int | None = None
    max_delay_hours: int | None = None
    max_connections: int | None = None
    max_consumer_groups: int | None = None
    max_consumers_per_group: int | None = None


# Commands about keys


class CreateKey(msgspec.Struct, frozen=True, kw_only=True):
    """Accept a new secret; answered by `KeyDescription`.

    The shell drew the id and the secret: `prefix` is the part of it that may be shown.
    `certificate` names the client certificate that proves this key: `uri:…`, `dns:…`, `sha256:…`.
    """

    id: KeyId
    prefix: str
    verifiers: KeyVerifiers
    name: str
    roles: frozenset[Role]
    tenant: str = "default"
    expires_in_ns: int | None = None
    metadata: dict[str, str] = {}
    certificate: str = ""


class ListKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys in the order of their ids, after one of them; answered by `KeyList`."""

    after: str = ""
    limit: int = 1000


class RevokeKey(msgspec.Struct, frozen=True, kw_only=True):
    """End a key at once; answered by `KeyDescription`."""

    id: KeyId


class RotateKey(msgspec.Struct, frozen=True, kw_only=True):
    """Give a key a new secret; the old one stays valid for a while.

    Answered by `KeyDescription`.
    """

    id: KeyId
    prefix: str
    verifiers: KeyVerifiers
    grace_ns: int = 0


class DescribeCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `CallerDescription`."""


# Commands about ACLs


class CreateAcl(msgspec.Struct, frozen=True, kw_only=True):
    """Add a rule under an id that the shell drew; answered by `AclDescription`."""

    id: str
    acl: AclSpec


class ListAcls(msgspec.Struct, frozen=True, kw_only=True):
    """ACLs in the order of their ids, after one of them; answered by `AclList`."""

    after: str = ""
    limit: int = 1000


class DeleteAcl(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `AclDeleted`."""

    id: str


# Commands about tenants


class CreateTenant(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TenantDescription`.

    With `adopts`, existing names with its prefix become its own.
    """

    id: str
    name: str
    display_name: str = ""
    description: str = ""
    quotas: QuotaChanges = QuotaChanges()
    metadata: dict[str, str] = {}
    adopts: bool = False


class ListTenants(msgspec.Struct, frozen=True, kw_only=True):
    """Tenants in the order of their ids, after one of them; answered by `TenantList`."""

    status: TenantStatus | None = None
    after: str = ""
    limit: int = 1000


class DescribeTenant(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TenantDescription`."""

    id: str


class TenantChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a tenant to change; None leaves one as it is."""

    name: str | None = None
    display_name: str | None = None
    description: str | None = None
    metadata: dict[str, str] | None = None


class AlterTenant(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TenantDescription`."""

    id: str
    changes: TenantChanges


class DeleteTenant(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a tenant with its keys, and if forced all that it has; answered by `Done`."""

    id: str
    is_forced: bool = False


class SetTenantStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Activate, suspend or disable a tenant; answered by `TenantDescription`."""

    id: str
    status: TenantStatus
    reason: str = ""


class DescribeQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `Quotas`."""

    tenant: str


class AlterQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `Quotas`."""

    tenant: str
    changes: QuotaChanges


class DescribeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TenantUsage`."""

    tenant: str


class ResetUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Set the totals of a tenant to zero; answered by `TenantUsage`."""

    tenant: str


class DescribeTenantStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TenantStatistics`."""

    tenant: str


class ListTenantTopics(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TenantNames`."""

    tenant: str


class ListTenantGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `TenantNames`."""

    tenant: str


# Replies


class KeyDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret. Times that are not known are None."""

    id: KeyId
    name: str
    prefix: str
    roles: tuple[Role, ...]
    tenant: str
    created_at: Timestamp
    expires_at: Timestamp | None = None
    last_used_at: Timestamp | None = None
    is_revoked: bool = False
    metadata: dict[str, str] = {}
    certificate: str = ""
    # Of a change in a cluster: the nodes that are not known to decide by it.
    pending_nodes: tuple[str, ...] = ()


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of keys; `next` is the `after` of the following page."""

    keys: tuple[KeyDescription, ...]
    next: str | None = None


class CallerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Who the caller is."""

    key_id: KeyId
    name: str
    roles: tuple[Role, ...]
    tenant: str
    expires_at: Timestamp | None = None


class AclDescription(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL under its id."""

    id: str
    acl: AclSpec


class AclList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of ACLs; `next` is the `after` of the following page."""

    acls: tuple[AclDescription, ...]
    next: str | None = None


class AclDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL is gone."""

    id: str


class TenantDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant with its quotas."""

    id: str
    name: str
    display_name: str
    description: str
    status: TenantStatus
    created_at: Timestamp
    updated_at: Timestamp
    quotas: Quotas
    metadata: dict[str, str]
    suspended_at: Timestamp | None = None
    suspend_reason: str = ""


class TenantList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tenants; `next` is the `after` of the following page."""

    tenants: tuple[TenantDescription, ...]
    next: str | None = None


class TenantUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant has used since its totals were reset, and what it holds now."""

    tenant_id: str
    total_messages_published: int
    total_bytes_published: int
    total_messages_consumed: int
    total_bytes_consumed: int
    storage_bytes: int
    topic_count: int
    partition_count: int
    connection_count: int
    last_updated: Timestamp


class TenantStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How much of its quotas a tenant uses, in percent; 0 where there is no limit."""

    tenant_id: str
    storage_usage_percent: float
    topic_usage_percent: float
    partition_usage_percent: float
    connection_usage_percent: float
    quota_violations_total: int


class TenantNames(msgspec.Struct, frozen=True, kw_only=True):
    """The topics or the groups of a tenant."""

    tenant_id: str
    names: tuple[str, ...]


SecurityCommand = (
    CreateKey
    | ListKeys
    | RevokeKey
    | RotateKey
    | DescribeCaller
    | CreateAcl
    | ListAcls
    | DeleteAcl
    | CreateTenant
    | ListTenants
    | DescribeTenant
    | AlterTenant
    | DeleteTenant
    | SetTenantStatus
    | DescribeQuotas
    | AlterQuotas
    | DescribeUsage
    | ResetUsage
    | DescribeTenantStatistics
    | ListTenantTopics
    | ListTenantGroups
)
SecurityReply = (
    KeyDescription
    | KeyList
    | CallerDescription
    | AclDescription
    | AclList
    | AclDeleted
    | TenantDescription
    | TenantList
    | Quotas
    | TenantUsage
    | TenantStatistics
    | TenantNames
)
