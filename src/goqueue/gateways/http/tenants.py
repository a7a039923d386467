"""Tenants, their quotas and their usage over HTTP: bodies, handlers and routes."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies import Count, TimeText
from goqueue.gateways.http.keys import ADMIN_SECTION, AFTER, PAGE_LIMIT, PLAIN, Metadata
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import Parameter, boolean, identifier
from goqueue.gateways.http.routing.router import Route
from goqueue.model import Code, Refused, Timestamp, format_time
from goqueue.model.requests import (
    AlterQuotas,
    AlterTenant,
    CreateTenant,
    DeleteTenant,
    DescribeQuotas,
    DescribeTenant,
    DescribeTenantStatistics,
    DescribeUsage,
    Done,
    ListTenantGroups,
    ListTenants,
    ListTenantTopics,
    QuotaChanges,
    Quotas,
    ResetUsage,
    SetTenantStatus,
    TenantChanges,
    TenantDescription,
    TenantList,
    TenantNames,
    TenantStatistics,
    TenantStatus,
    TenantUsage,
)

__all__ = [
    "TENANT_ROUTES",
    "AlterTenantBody",
    "CreateTenantBody",
    "DeletedTenant",
    "NoTenantFields",
    "QuotasBody",
    "QuotasOut",
    "SuspendBody",
    "Tenant",
    "TenantGroups",
    "TenantStats",
    "TenantTopics",
    "Tenants",
    "Usage",
]

_QUOTA_MAX = (1 << 53) - 1
_Limit = Annotated[int, Meta(ge=0, le=_QUOTA_MAX, description="0: no limit.")]
_TenantId = Annotated[
    str,
    Meta(
        description="What its names begin with; absent, it is made from `name`.",
        extra_json_schema={"pattern": "^[a-z][a-z0-9-]{2,63}$"},
        examples=["acme"],
    ),
]


class QuotasBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Quotas to change; what is absent stays as it is."""

    max_messages_per_second: _Limit | None = None
    max_bytes_per_second: _Limit | None = None
    max_consume_messages_per_second: _Limit | None = None
    max_consume_bytes_per_second: _Limit | None = None
    max_storage_bytes: _Limit | None = None
    max_topics: _Limit | None = None
    max_partitions_per_topic: _Limit | None = None
    max_total_partitions: _Limit | None = None
    max_message_size_bytes: _Limit | None = None
    max_retention_hours: _Limit | None = None
    max_delay_hours: _Limit | None = None
    max_connections: _Limit | None = None
    max_consumer_groups: _Limit | None = None
    max_consumers_per_group: _Limit | None = None


class QuotasOut(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a tenant; 0 is no limit."""

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


_Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=PLAIN)]
_Label = Annotated[str, Meta(max_length=256, pattern=PLAIN)]
_Description = Annotated[str, Meta(max_length=1024, pattern=PLAIN)]


class CreateTenantBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant to create. With `adopt`, existing names with its prefix become its own."""

    name: _Name
    id: _TenantId | None = None
    display_name: _Label | None = None
    description: _Description | None = None
    quotas: QuotasBody | None = None
    metadata: Metadata | None = None
    adopt: bool | None = None


class AlterTenantBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change; what is absent stays as it is."""

    name: _Name | None = None
    display_name: _Label | None = None
    description: _Description | None = None
    metadata: Metadata | None = None


class SuspendBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a tenant is suspended."""

    reason: Annotated[str, Meta(min_length=1, max_length=1024, pattern=PLAIN)]


class NoTenantFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing has to be given."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tenant. Suspended: nothing new is stored. Disabled: nothing is done."""

    id: str
    name: str
    status: TenantStatus
    created_at: TimeText
    updated_at: TimeText
    quotas: QuotasOut
    display_name: str | None = None
    description: str | None = None
    suspended_at: TimeText | None = None
    suspend_reason: str | None = None
    metadata: dict[str, str] | None = None


class Tenants(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of the tenants by id; `next` is the `after` of the following page."""

    tenants: list[Tenant]
    count: Count
    next: str | None = None


class DeletedTenant(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant is gone, with its keys and all that it had."""

    deleted: bool
    id: str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant has used since its totals were reset, and what it holds now."""

    tenant_id: str
    total_messages_published: Count
    total_bytes_published: Count
    total_messages_consumed: Count
    total_bytes_consumed: Count
    storage_bytes: Count
    topic_count: Count
    partition_count: Count
    connection_count: Count
    last_updated: TimeText


class TenantStats(msgspec.Struct, frozen=True, kw_only=True):
    """How much of its quotas a tenant uses; 0 where there is no limit."""

    tenant_id: str
    storage_usage_percent: float
    topic_usage_percent: float
    partition_usage_percent: float
    connection_usage_percent: float
    quota_violations_total: Count


class TenantTopics(msgspec.Struct, frozen=True, kw_only=True):
    """The topics of a tenant by name."""

    tenant_id: str
    topics: list[str]
    count: Count


class TenantGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of a tenant by name."""

    tenant_id: str
    groups: list[str]
    count: Count


def _read_status(given: str) -> TenantStatus:
    try:
        return TenantStatus(given)
    except ValueError:
        reason = "must be one of " + ", ".join(TenantStatus)
        raise Refused(Code.REQUEST_INVALID, field="status", reason=reason) from None


_TENANT = identifier("tenant", "id of the tenant")
_STATUS: Parameter[TenantStatus | None] = Parameter(
    name="status",
    summary="only those with this status",
    schema={"type": "string", "enum": list(TenantStatus)},
    read=_read_status,
)
_FORCE = boolean("force", "delete its topics and groups, too")
_NOT_IN_AN_ID = re.compile(r"[^a-z0-9]+", re.ASCII)


def _slug(name: str) -> str:
    """An id made from a name, if one can be made; the core checks it."""
    return _NOT_IN_AN_ID.sub("-", name.lower()).strip("-")[:64]


async def _create(call: Call) -> Tenant:
    body = call.body(CreateTenantBody)
    command = CreateTenant(
        id=_slug(body.name) if body.id is None else body.id,
        name=body.name,
        display_name=body.display_name or "",
        description=body.description or "",
        quotas=_changes(body.quotas or QuotasBody()),
        metadata=body.metadata or {},
        adopts=bool(body.adopt),
    )
    return _tenant(await call.ask(command, TenantDescription))


async def _list(call: Call) -> Tenants:
    command = ListTenants(status=call[_STATUS], after=call[AFTER], limit=call[PAGE_LIMIT])
    listed = await call.ask(command, TenantList)
    tenants = [_tenant(each) for each in listed.tenants]
    return Tenants(tenants=tenants, count=len(tenants), next=listed.next)


async def _describe(call: Call) -> Tenant:
    return _tenant(await call.ask(DescribeTenant(id=call[_TENANT]), TenantDescription))


async def _alter(call: Call) -> Tenant:
    body = call.body(AlterTenantBody)
    changes = TenantChanges(
        name=body.name,
        display_name=body.display_name,
        description=body.description,
        metadata=body.metadata,
    )
    command = AlterTenant(id=call[_TENANT], changes=changes)
    return _tenant(await call.ask(command, TenantDescription))


async def _delete(call: Call) -> DeletedTenant:
    await call.ask(DeleteTenant(id=call[_TENANT], is_forced=call[_FORCE]), Done)
    return DeletedTenant(deleted=True, id=call[_TENANT])


async def _suspend(call: Call) -> Tenant:
    body = call.body(SuspendBody)
    return await _set_status(call, TenantStatus.SUSPENDED, body.reason)


async def _activate(call: Call) -> Tenant:
    call.body(NoTenantFields)
    return await _set_status(call, TenantStatus.ACTIVE)


async def _disable(call: Call) -> Tenant:
    call.body(NoTenantFields)
    return await _set_status(call, TenantStatus.DISABLED)


async def _set_status(call: Call, status: TenantStatus, reason: str = "") -> Tenant:
    command = SetTenantStatus(id=call[_TENANT], status=status, reason=reason)
    return _tenant(await call.ask(command, TenantDescription))


async def _quotas(call: Call) -> QuotasOut:
    return _quotas_out(await call.ask(DescribeQuotas(tenant=call[_TENANT]), Quotas))


async def _alter_quotas(call: Call) -> QuotasOut:
    body = call.body(QuotasBody)
    command = AlterQuotas(tenant=call[_TENANT], changes=_changes(body))
    return _quotas_out(await call.ask(command, Quotas))


async def _usage(call: Call) -> Usage:
    return _usage_out(await call.ask(DescribeUsage(tenant=call[_TENANT]), TenantUsage))


async def _reset_usage(call: Call) -> Usage:
    call.body(NoTenantFields)
    return _usage_out(await call.ask(ResetUsage(tenant=call[_TENANT]), TenantUsage))


async def _stats(call: Call) -> TenantStats:
    command = DescribeTenantStatistics(tenant=call[_TENANT])
    stats = await call.ask(command, TenantStatistics)
    return msgspec.convert(stats, TenantStats, from_attributes=True)


async def _topics(call: Call) -> TenantTopics:
    found = await call.ask(ListTenantTopics(tenant=call[_TENANT]), TenantNames)
    return TenantTopics(tenant_id=found.tenant_id, topics=list(found.names), count=len(found.names))


async def _groups(call: Call) -> TenantGroups:
    found = await call.ask(ListTenantGroups(tenant=call[_TENANT]), TenantNames)
    return TenantGroups(tenant_id=found.tenant_id, groups=list(found.names), count=len(found.names))


def _changes(body: QuotasBody) -> QuotaChanges:
    return msgspec.convert(body, QuotaChanges, from_attributes=True)


def _quotas_out(quotas: Quotas) -> QuotasOut:
    return msgspec.convert(quotas, QuotasOut, from_attributes=True)


def _usage_out(usage: TenantUsage) -> Usage:
    return Usage(
        tenant_id=usage.tenant_id,
        total_messages_published=usage.total_messages_published,
        total_bytes_published=usage.total_bytes_published,
        total_messages_consumed=usage.total_messages_consumed,
        total_bytes_consumed=usage.total_bytes_consumed,
        storage_bytes=usage.storage_bytes,
        topic_count=usage.topic_count,
        partition_count=usage.partition_count,
        connection_count=usage.connection_count,
        last_updated=format_time(usage.last_updated),
    )


def _tenant(described: TenantDescription) -> Tenant:
    return Tenant(
        id=described.id,
        name=described.name,
        status=described.status,
        created_at=format_time(described.created_at),
        updated_at=format_time(described.updated_at),
        quotas=_quotas_out(described.quotas),
        display_name=described.display_name or None,
        description=described.description or None,
        suspended_at=_time(described.suspended_at),
        suspend_reason=described.suspend_reason or None,
        metadata=described.metadata or None,
    )


def _time(at: Timestamp | None) -> str | None:
    return None if at is None else format_time(at)


_ABSENT = (Code.TENANT_NOT_FOUND,)
_CHANGED = (Code.TENANT_NOT_FOUND, Code.TENANT_INACTIVE)
_STATUS_ERRORS = (*_CHANGED, Code.PERMISSION_DENIED)

TENANT_ROUTES = (
    Route(
        method="POST",
        path="/admin/tenants",
        section=ADMIN_SECTION,
        summary="Create a tenant: the owner of all names that begin with its id and a dot",
        run=_create,
        body=CreateTenantBody,
        answer=Tenant,
        status=201,
        errors=(
            Code.NAME_INVALID,
            Code.TENANT_EXISTS,
            Code.TENANT_NOT_EMPTY,
            Code.QUOTA_EXCEEDED,
        ),
        writes=True,
        example={"name": "Acme", "quotas": {"max_messages_per_second": 500}},
    ),
    Route(
        method="GET",
        path="/admin/tenants",
        section=ADMIN_SECTION,
        summary="List the tenants by id",
        run=_list,
        parameters=(_STATUS, AFTER, PAGE_LIMIT),
        answer=Tenants,
    ),
    Route(
        method="GET",
        path="/admin/tenants/{tenant}",
        section=ADMIN_SECTION,
        summary="Describe a tenant",
        run=_describe,
        parameters=(_TENANT,),
        answer=Tenant,
        errors=_ABSENT,
    ),
    Route(
        method="PATCH",
        path="/admin/tenants/{tenant}",
        section=ADMIN_SECTION,
        summary="Change what a tenant is called",
        run=_alter,
        parameters=(_TENANT,),
        body=AlterTenantBody,
        answer=Tenant,
        errors=_CHANGED,
        writes=True,
        example={"description": "pays monthly"},
    ),
    Route(
        method="DELETE",
        path="/admin/tenants/{tenant}",
        section=ADMIN_SECTION,
        summary="Delete a tenant and its keys; with `force` all that it has",
        run=_delete,
        parameters=(_TENANT, _FORCE),
        answer=DeletedTenant,
        errors=(Code.TENANT_NOT_FOUND, Code.TENANT_NOT_EMPTY, Code.PERMISSION_DENIED),
        writes=True,
    ),
    Route(
        method="POST",
        path="/admin/tenants/{tenant}/suspend",
        section=ADMIN_SECTION,
        summary="Suspend a tenant: its keys store nothing new",
        run=_suspend,
        parameters=(_TENANT,),
        body=SuspendBody,
        answer=Tenant,
        errors=_STATUS_ERRORS,
        writes=True,
        example={"reason": "invoice overdue"},
    ),
    Route(
        method="POST",
        path="/admin/tenants/{tenant}/activate",
        section=ADMIN_SECTION,
        summary="Activate a tenant that was suspended or disabled",
        run=_activate,
        parameters=(_TENANT,),
        body=NoTenantFields,
        answer=Tenant,
        errors=_STATUS_ERRORS,
        writes=True,
    ),
    Route(
        method="POST",
        path="/admin/tenants/{tenant}/disable",
        section=ADMIN_SECTION,
        summary="Disable a tenant: its keys can do nothing",
        run=_disable,
        parameters=(_TENANT,),
        body=NoTenantFields,
        answer=Tenant,
        errors=_STATUS_ERRORS,
        writes=True,
    ),
    Route(
        method="GET",
        path="/admin/tenants/{tenant}/quotas",
        section=ADMIN_SECTION,
        summary="Describe the quotas of a tenant",
        run=_quotas,
        parameters=(_TENANT,),
        answer=QuotasOut,
        errors=_ABSENT,
    ),
    Route(
        method="PUT",
        path="/admin/tenants/{tenant}/quotas",
        section=ADMIN_SECTION,
        summary="Change quotas of a tenant; those that are not named stay",
        run=_alter_quotas,
        parameters=(_TENANT,),
        body=QuotasBody,
        answer=QuotasOut,
        errors=_CHANGED,
        writes=True,
        example={"max_messages_per_second": 500},
    ),
    Route(
        method="GET",
        path="/admin/tenants/{tenant}/usage",
        section=ADMIN_SECTION,
        summary="Say what a tenant has used and holds",
        run=_usage,
        parameters=(_TENANT,),
        answer=Usage,
        errors=_ABSENT,
    ),
    Route(
        method="POST",
        path="/admin/tenants/{tenant}/usage/reset",
        section=ADMIN_SECTION,
        summary="Set the totals of a tenant to zero",
        run=_reset_usage,
        parameters=(_TENANT,),
        body=NoTenantFields,
        answer=Usage,
        errors=_ABSENT,
        writes=True,
    ),
    Route(
        method="GET",
        path="/admin/tenants/{tenant}/stats",
        section=ADMIN_SECTION,
        summary="Say how much of its quotas a tenant uses",
        run=_stats,
        parameters=(_TENANT,),
        answer=TenantStats,
        errors=_ABSENT,
    ),
    Route(
        method="GET",
        path="/admin/tenants/{tenant}/topics",
        section=ADMIN_SECTION,
        summary="List the topics of a tenant",
        run=_topics,
        parameters=(_TENANT,),
        answer=TenantTopics,
        errors=_ABSENT,
    ),
    Route(
        method="GET",
        path="/admin/tenants/{tenant}/groups",
        section=ADMIN_SECTION,
        summary="List the groups of a tenant",
        run=_groups,
        parameters=(_TENANT,),
        answer=TenantGroups,
        errors=_ABSENT,
    ),
)
