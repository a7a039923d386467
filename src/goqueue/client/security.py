"""Keys, ACLs and tenants: `q.keys`, `q.acls`, `q.tenants` and `q.whoami()`.

All of it needs an admin key of the tenant `default`, except `whoami`. Lists are read page by page,
and returned whole.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Literal, TypedDict, TypeVar, Unpack

import msgspec

from goqueue.client.admin import check_keywords
from goqueue.client.http import Request, Transport, get, post, target
from goqueue.client.values import duration

__all__ = [
    "Acl",
    "Acls",
    "ApiKey",
    "ApiKeys",
    "Caller",
    "NewApiKey",
    "QuotaSettings",
    "Tenant",
    "TenantQuotas",
    "TenantStats",
    "TenantUsage",
    "Tenants",
    "whoami",
]

Span = str | float | dt.timedelta
RoleName = Literal["admin", "producer", "consumer", "readonly"]
_PAGE = 1000


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret; `last_used_at` is known to the minute."""

    id: str
    name: str
    prefix: str
    roles: tuple[str, ...]
    tenant: str
    created_at: dt.datetime
    revoked: bool
    expires_at: dt.datetime | None = None
    last_used_at: dt.datetime | None = None
    metadata: dict[str, str] = {}
    certificate: str | None = None


class NewApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key with its secret in `key`: store it now, nobody can show it again."""

    id: str
    key: str
    prefix: str
    name: str
    roles: tuple[str, ...]
    tenant: str
    expires_at: dt.datetime | None = None
    metadata: dict[str, str] = {}
    certificate: str | None = None

    def __repr__(self) -> str:
        return f"NewApiKey(id={self.id!r}, name={self.name!r}, key='{self.prefix}…')"


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The key that this connection proves."""

    key_id: str
    name: str
    roles: tuple[str, ...]
    tenant: str
    expires_at: dt.datetime | None = None


class Acl(msgspec.Struct, frozen=True, kw_only=True):
    """A rule. `resource_name` is a glob; a deny wins over every allow."""

    id: str
    principal: str
    resource_type: str
    resource_name: str
    operation: str
    effect: str


class TenantQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a tenant; 0 is no limit."""

    max_messages_per_second: int
    max_bytes_per_second: int
    max_consume_messages_per_second: int
    max_consume_bytes_per_second: int
    max_storage_bytes: int
    max_topics: int
    max_partitions_per_topic: int
    max_total_partitions: int
    max_message_size_bytes: int
    max_retention_hours: int
    max_delay_hours: int
    max_connections: int
    max_consumer_groups: int
    max_consumers_per_group: int


class QuotaSettings(TypedDict, total=False):
    """Limits of a tenant by name; 0 is no limit."""

    max_messages_per_second: int
    max_bytes_per_second: int
    max_consume_messages_per_second: int
    max_consume_bytes_per_second: int
    max_storage_bytes: int
    max_topics: int
    max_partitions_per_topic: int
    max_total_partitions: int
    max_message_size_bytes: int
    max_retention_hours: int
    max_delay_hours: int
    max_connections: int
    max_consumer_groups: int
    max_consumers_per_group: int


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant; `status` is active, suspended, disabled or deleting."""

    id: str
    name: str
    status: str
    created_at: dt.datetime
    updated_at: dt.datetime
    quotas: TenantQuotas
    display_name: str | None = None
    description: str | None = None
    suspended_at: dt.datetime | None = None
    suspend_reason: str | None = None
    metadata: dict[str, str] = {}


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
    last_updated: dt.datetime


class TenantStats(msgspec.Struct, frozen=True, kw_only=True):
    """How much of its quotas a tenant uses; 0 where there is no limit."""

    tenant_id: str
    storage_usage_percent: float
    topic_usage_percent: float
    partition_usage_percent: float
    connection_usage_percent: float
    quota_violations_total: int


class _KeyPage(msgspec.Struct, frozen=True):
    keys: tuple[ApiKey, ...]
    next: str | None = None


class _AclPage(msgspec.Struct, frozen=True):
    acls: tuple[Acl, ...]
    next: str | None = None


class _TenantPage(msgspec.Struct, frozen=True):
    tenants: tuple[Tenant, ...]
    next: str | None = None


class _Topics(msgspec.Struct, frozen=True):
    topics: tuple[str, ...]


class _Groups(msgspec.Struct, frozen=True):
    groups: tuple[str, ...]


_CALLERS = msgspec.json.Decoder(Caller)
_NEW_KEYS = msgspec.json.Decoder(NewApiKey)
_KEY_PAGES = msgspec.json.Decoder(_KeyPage)
_ACLS = msgspec.json.Decoder(Acl)
_ACL_PAGES = msgspec.json.Decoder(_AclPage)
_TENANTS = msgspec.json.Decoder(Tenant)
_TENANT_PAGES = msgspec.json.Decoder(_TenantPage)
_QUOTAS = msgspec.json.Decoder(TenantQuotas)
_USAGE = msgspec.json.Decoder(TenantUsage)
_STATS = msgspec.json.Decoder(TenantStats)
_TOPICS = msgspec.json.Decoder(_Topics)
_GROUPS = msgspec.json.Decoder(_Groups)
_QUOTA_NAMES = tuple(QuotaSettings.__annotations__)

Page = TypeVar("Page")


async def whoami(transport: Transport) -> Caller:
    """What `q.whoami()` asks."""
    return await transport.read(get("whoami"), _CALLERS)


class ApiKeys:
    """`q.keys`: create, list, rotate and revoke API keys."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        roles: Iterable[RoleName | str],
        *,
        tenant: str = "default",
        expires_in: Span | None = None,
        metadata: Mapping[str, str] | None = None,
        certificate: str | None = None,
    ) -> NewApiKey:
        """Create a key; the answer has its secret, this once.

        If the answer is lost, a key exists whose secret nobody knows: it shows no `last_used_at`.
        Revoke it, and create another.
        """
        fields: dict[str, object] = {"name": name, "roles": list(roles), "tenant": tenant}
        if expires_in is not None:
            fields["expires_in"] = _span(expires_in)
        if metadata is not None:
            fields["metadata"] = dict(metadata)
        if certificate is not None:
            fields["certificate"] = certificate
        return await self._transport.read(post("admin", "keys", fields=fields), _NEW_KEYS)

    async def list(self) -> tuple[ApiKey, ...]:
        """All keys by id, also those that are revoked."""
        found: list[ApiKey] = []
        after: str | None = ""
        while after is not None:
            page = await self._transport.read(_page("keys", after), _KEY_PAGES)
            found += page.keys
            after = page.next
        return tuple(found)

    async def rotate(self, key_id: str, *, grace: Span | None = None) -> NewApiKey:
        """Give a key a new secret; the present one stays valid for `grace`, at most 168h."""
        fields: dict[str, object] = {} if grace is None else {"grace": _span(grace)}
        request = post("admin", "keys", key_id, "rotate", fields=fields)
        return await self._transport.read(request, _NEW_KEYS)

    async def revoke(self, key_id: str) -> None:
        """End a key at once; it stays in the list."""
        await self._transport.ask(_delete("keys", key_id))


class Acls:
    """`q.acls`: the rules that non-admin keys need while ACLs are enabled."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        principal: str,
        resource: str,
        operation: str,
        *,
        effect: Literal["allow", "deny"] = "allow",
    ) -> Acl:
        """Add a rule about `resource`, such as "topic:orders*", for a key id, "role:…" or "*"."""
        kind, colon, name = resource.partition(":")
        if not colon:
            known = "topic:NAME, group:NAME or cluster:*"
            raise ValueError(f"{resource!r} is no resource: write {known}")
        fields: dict[str, object] = {
            "principal": principal,
            "resource_type": kind,
            "resource_name": name,
            "operation": operation,
            "effect": effect,
        }
        return await self._transport.read(post("admin", "acls", fields=fields), _ACLS)

    async def list(self) -> tuple[Acl, ...]:
        """All rules by id."""
        found: list[Acl] = []
        after: str | None = ""
        while after is not None:
            page = await self._transport.read(_page("acls", after), _ACL_PAGES)
            found += page.acls
            after = page.next
        return tuple(found)

    async def delete(self, acl_id: str) -> None:
        """Delete a rule."""
        await self._transport.ask(_delete("acls", acl_id))


class Tenants:
    """`q.tenants`: tenants, their quotas and what they use."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        *,
        id: str | None = None,  # noqa: A002 - the name in the API
        display_name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str] | None = None,
        adopt: bool = False,
        **quotas: Unpack[QuotaSettings],
    ) -> Tenant:
        """Create a tenant; its id is made from the name if none is given.

        Existing topics and groups with its prefix are refused, or with `adopt` become its own.
        """
        check_keywords("create", quotas, _QUOTA_NAMES)
        fields: dict[str, object] = {"name": name, "adopt": adopt, "quotas": dict(quotas)}
        fields |= _given(id=id, display_name=display_name, description=description)
        if metadata is not None:
            fields["metadata"] = dict(metadata)
        return await self._transport.read(post("admin", "tenants", fields=fields), _TENANTS)

    async def list(self, *, status: str | None = None) -> tuple[Tenant, ...]:
        """All tenants by id, or those with a status."""
        found: list[Tenant] = []
        after: str | None = ""
        while after is not None:
            page = await self._transport.read(_page("tenants", after, status), _TENANT_PAGES)
            found += page.tenants
            after = page.next
        return tuple(found)

    async def describe(self, tenant: str) -> Tenant:
        """One tenant; `NotFound` if there is none of this id."""
        return await self._transport.read(get("admin", "tenants", tenant), _TENANTS)

    async def alter(
        self,
        tenant: str,
        *,
        name: str | None = None,
        display_name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Tenant:
        """Change what a tenant is called; what is not given stays."""
        fields = _given(name=name, display_name=display_name, description=description)
        if metadata is not None:
            fields["metadata"] = dict(metadata)
        return await self._transport.read(_send("PATCH", tenant, fields=fields), _TENANTS)

    async def delete(self, tenant: str, *, force: bool = False) -> None:
        """Delete a tenant and its keys; with `force` its topics and groups, too."""
        await self._transport.ask(_delete("tenants", tenant, is_forced=force))

    async def suspend(self, tenant: str, reason: str) -> Tenant:
        """Let a tenant store nothing new."""
        return await self._transport.read(
            _send("POST", tenant, "suspend", fields={"reason": reason}), _TENANTS
        )

    async def activate(self, tenant: str) -> Tenant:
        """Let a tenant do everything again."""
        return await self._transport.read(_send("POST", tenant, "activate", fields={}), _TENANTS)

    async def disable(self, tenant: str) -> Tenant:
        """Let a tenant do nothing."""
        return await self._transport.read(_send("POST", tenant, "disable", fields={}), _TENANTS)

    async def quotas(self, tenant: str) -> TenantQuotas:
        """The limits of a tenant."""
        return await self._transport.read(get("admin", "tenants", tenant, "quotas"), _QUOTAS)

    async def set_quotas(self, tenant: str, **quotas: Unpack[QuotaSettings]) -> TenantQuotas:
        """Change limits of a tenant; those that are not named stay."""
        check_keywords("set_quotas", quotas, _QUOTA_NAMES)
        request = _send("PUT", tenant, "quotas", fields=dict(quotas))
        return await self._transport.read(request, _QUOTAS)

    async def usage(self, tenant: str) -> TenantUsage:
        """What a tenant has used and holds."""
        return await self._transport.read(get("admin", "tenants", tenant, "usage"), _USAGE)

    async def reset_usage(self, tenant: str) -> TenantUsage:
        """Set the totals of a tenant to zero."""
        request = _send("POST", tenant, "usage", "reset", fields={})
        return await self._transport.read(request, _USAGE)

    async def stats(self, tenant: str) -> TenantStats:
        """How much of its quotas a tenant uses."""
        return await self._transport.read(get("admin", "tenants", tenant, "stats"), _STATS)

    async def topics(self, tenant: str) -> tuple[str, ...]:
        """The topics of a tenant by name."""
        request = get("admin", "tenants", tenant, "topics")
        return (await self._transport.read(request, _TOPICS)).topics

    async def groups(self, tenant: str) -> tuple[str, ...]:
        """The groups of a tenant by name."""
        request = get("admin", "tenants", tenant, "groups")
        return (await self._transport.read(request, _GROUPS)).groups


def _span(given: Span) -> str | float:
    return duration(given.total_seconds()) if isinstance(given, dt.timedelta) else given


def _given(**fields: str | None) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _page(kind: str, after: str, status: str | None = None) -> Request:
    return get("admin", kind, limit=_PAGE, after=after or None, status=status)


def _delete(kind: str, id_: str, *, is_forced: bool = False) -> Request:
    query = {"force": "true"} if is_forced else {}
    # To delete it again is refused as not found, so a repeat could hide that it was done.
    return Request(method="DELETE", target=target("admin", kind, id_, **query))


def _send(method: str, tenant: str, *more: str, fields: Mapping[str, object]) -> Request:
    return Request(
        method=method,
        target=target("admin", "tenants", tenant, *more),
        body=msgspec.json.encode(fields),
        is_repeatable=True,
    )
