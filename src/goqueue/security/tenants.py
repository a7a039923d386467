"""Tenants: who owns a name, and in which state an owner is.

A tenant owns every topic, group and subject whose name begins with its id and a dot; names are
always full, so a name in a log, a receipt or a header says whose it is. An id has no dot, hence a
name has one owner. `default` owns the rest; it always exists and cannot be deleted or stopped.

Durable state changes only in `apply`. A tenant that is being deleted keeps its names until all of
them are gone.

Invariant: `owner` depends on the name and on which tenants exist, on nothing else.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Iterator

import msgspec

from goqueue.model import Code, Refused, Timestamp
from goqueue.model.requests import (
    TENANTS_MAX,
    AlterQuotas,
    AlterTenant,
    CreateTenant,
    QuotaChanges,
    Quotas,
    SetTenantStatus,
    TenantDescription,
    TenantList,
    TenantStatus,
)
from goqueue.security.api_keys import DEFAULT_TENANT, PAGE_MAX, check_metadata, check_text
from goqueue.security.changes import TenantDeleted, TenantStated

__all__ = ["NO_QUOTAS", "Tenant", "Tenants"]

_ID = re.compile(r"[a-z][a-z0-9-]{2,63}", re.ASCII)
# What JSON numbers hold exactly everywhere.
_QUOTA_MAX = (1 << 53) - 1

NO_QUOTAS = Quotas(**dict.fromkeys(Quotas.__struct_fields__, 0))

_BUILT_IN = f"the tenant `{DEFAULT_TENANT}` is built in"


class Tenant:
    """One tenant."""

    __slots__ = ("is_limited", "stated")

    def __init__(self, stated: TenantStated) -> None:
        self.restate(stated)

    def restate(self, stated: TenantStated) -> None:
        """Become what was stated."""
        self.stated = stated
        # Whether there is any quota to look at.
        self.is_limited = stated.quotas != NO_QUOTAS

    @property
    def id(self) -> str:
        return self.stated.id

    @property
    def status(self) -> TenantStatus:
        return self.stated.status

    @property
    def quotas(self) -> Quotas:
        return self.stated.quotas

    @property
    def is_default(self) -> bool:
        return self.stated.id == DEFAULT_TENANT

    def describe(self) -> TenantDescription:
        """What may be told of it: everything."""
        stated = self.stated
        suspended_at = stated.suspended_at
        return TenantDescription(
            id=stated.id,
            name=stated.name,
            display_name=stated.display_name,
            description=stated.description,
            status=stated.status,
            created_at=Timestamp(stated.created_at),
            updated_at=Timestamp(stated.updated_at),
            quotas=stated.quotas,
            metadata=stated.metadata,
            suspended_at=None if suspended_at is None else Timestamp(suspended_at),
            suspend_reason=stated.suspend_reason,
        )


class Tenants:
    """All tenants of a node."""

    def __init__(self) -> None:
        built_in = TenantStated(
            id=DEFAULT_TENANT, name=DEFAULT_TENANT, created_at=0, updated_at=0, quotas=NO_QUOTAS
        )
        self.default = Tenant(built_in)
        self._tenants: dict[str, Tenant] = {DEFAULT_TENANT: self.default}
        self._ids = [DEFAULT_TENANT]
        # How many have a quota at all: while none has, nothing needs to be looked up.
        self.limited = 0

    def __len__(self) -> int:
        return len(self._tenants)

    def __iter__(self) -> Iterator[Tenant]:
        """The tenants in the order of their ids."""
        return (self._tenants[id_] for id_ in self._ids)

    # Asking

    def get(self, tenant: str) -> Tenant | None:
        return self._tenants.get(tenant)

    def find(self, tenant: str) -> Tenant:
        found = self._tenants.get(tenant)
        if found is None:
            raise Refused(Code.TENANT_NOT_FOUND, tenant=tenant)
        return found

    def owner(self, name: str) -> str:
        """The tenant to which a topic, a group or a subject of this name belongs."""
        if len(self._tenants) == 1:
            return DEFAULT_TENANT
        prefix, dot, _ = name.partition(".")
        return prefix if dot and prefix in self._tenants else DEFAULT_TENANT

    def owner_of(self, name: str) -> Tenant:
        """The same, as a tenant."""
        if len(self._tenants) == 1:
            return self.default
        prefix = name.partition(".")[0]
        # A name without a dot belongs to `default`, also where a tenant has this very id.
        found = self._tenants.get(prefix) if len(prefix) < len(name) else None
        return self.default if found is None else found

    def list_page(self, status: TenantStatus | None, after: str, limit: int) -> TenantList:
        """Tenants in the order of their ids, after one of them, only those of a status."""
        count = max(1, min(limit, PAGE_MAX))
        found: list[Tenant] = []
        for id_ in self._ids[bisect_right(self._ids, after) :]:
            tenant = self._tenants[id_]
            if status is None or tenant.status is status:
                if len(found) == count:
                    return TenantList(tenants=_describe(found), next=found[-1].id)
                found.append(tenant)
        return TenantList(tenants=_describe(found))

    # Deciding: each raises Refused, or returns the change to journal and apply

    def create(self, command: CreateTenant, wall: Timestamp) -> TenantStated:
        """A new tenant; which names it would take over is the caller's to check."""
        if not _ID.fullmatch(command.id):
            reason = "is a lower-case letter and 2 to 63 lower-case letters, digits or hyphens"
            raise Refused(Code.NAME_INVALID, field="id", reason=reason)
        if command.id in self._tenants:
            raise Refused(Code.TENANT_EXISTS, tenant=command.id)
        check_text(command.name, "name", minimum=1)
        check_text(command.display_name, "display_name")
        check_text(command.description, "description", maximum=1024)
        check_metadata(command.metadata)
        if len(self._tenants) >= TENANTS_MAX:
            raise Refused(
                Code.QUOTA_EXCEEDED, quota="tenants", limit=TENANTS_MAX, used=len(self._tenants)
            )
        return TenantStated(
            id=command.id,
            name=command.name,
            created_at=wall,
            updated_at=wall,
            quotas=_merge(Quotas(), command.quotas),
            display_name=command.display_name,
            description=command.description,
            metadata=command.metadata,
        )

    def alter(self, command: AlterTenant, wall: Timestamp) -> TenantStated:
        stated = self._find_for_change(command.id).stated
        changes = command.changes
        if changes.name is not None:
            check_text(changes.name, "name", minimum=1)
        if changes.display_name is not None:
            check_text(changes.display_name, "display_name")
        if changes.description is not None:
            check_text(changes.description, "description", maximum=1024)
        if changes.metadata is not None:
            check_metadata(changes.metadata)
        return TenantStated(
            id=stated.id,
            name=stated.name if changes.name is None else changes.name,
            created_at=stated.created_at,
            updated_at=wall,
            quotas=stated.quotas,
            display_name=(
                stated.display_name if changes.display_name is None else changes.display_name
            ),
            description=stated.description if changes.description is None else changes.description,
            status=stated.status,
            metadata=stated.metadata if changes.metadata is None else changes.metadata,
            suspended_at=stated.suspended_at,
            suspend_reason=stated.suspend_reason,
        )

    def set_status(self, command: SetTenantStatus, wall: Timestamp) -> TenantStated:
        tenant = self._find_for_change(command.id)
        if command.status is TenantStatus.DELETING:
            raise Refused(Code.REQUEST_INVALID, field="status", reason="tenants are deleted")
        if tenant.is_default:
            raise Refused(Code.PERMISSION_DENIED, tenant=tenant.id, reason=_BUILT_IN)
        is_suspended = command.status is TenantStatus.SUSPENDED
        if is_suspended:
            check_text(command.reason, "reason", minimum=1, maximum=1024)
        return msgspec.structs.replace(
            tenant.stated,
            status=command.status,
            updated_at=wall,
            suspended_at=wall if is_suspended else None,
            suspend_reason=command.reason if is_suspended else "",
        )

    def alter_quotas(self, command: AlterQuotas, wall: Timestamp) -> TenantStated:
        stated = self._find_for_change(command.tenant).stated
        quotas = _merge(stated.quotas, command.changes)
        return msgspec.structs.replace(stated, quotas=quotas, updated_at=wall)

    def begin_deletion(self, tenant: str, wall: Timestamp) -> TenantStated:
        """From now on nobody uses the tenant; to ask again continues the same deletion."""
        found = self.find(tenant)
        if found.is_default:
            raise Refused(Code.PERMISSION_DENIED, tenant=tenant, reason=_BUILT_IN)
        return msgspec.structs.replace(found.stated, status=TenantStatus.DELETING, updated_at=wall)

    def _find_for_change(self, tenant: str) -> Tenant:
        found = self.find(tenant)
        if found.status is TenantStatus.DELETING:
            raise Refused(Code.TENANT_INACTIVE, tenant=tenant, reason="is being deleted")
        return found

    # Applying

    def apply(self, change: TenantStated | TenantDeleted) -> None:
        """The only mutator of durable state."""
        known = self._tenants.get(change.id)
        was_limited = known is not None and known.is_limited
        if isinstance(change, TenantDeleted):
            if known is not None and known is not self.default:
                self.limited -= was_limited
                del self._tenants[change.id]
                del self._ids[bisect_right(self._ids, change.id) - 1]
        elif known is not None:
            known.restate(change)
            self.limited += known.is_limited - was_limited
        else:
            made = self._tenants[change.id] = Tenant(change)
            self.limited += made.is_limited
            insort(self._ids, change.id)


def _describe(tenants: list[Tenant]) -> tuple[TenantDescription, ...]:
    return tuple(tenant.describe() for tenant in tenants)


def _merge(quotas: Quotas, changes: QuotaChanges) -> Quotas:
    """Quotas with those changed that are given."""
    given: dict[str, int] = {}
    for field in Quotas.__struct_fields__:
        value: int | None = getattr(changes, field)
        if value is None:
            continue
        if not 0 <= value <= _QUOTA_MAX:
            reason = f"is not between 0 (no limit) and {_QUOTA_MAX}"
            raise Refused(Code.REQUEST_INVALID, field=field, reason=reason)
        given[field] = value
    return msgspec.structs.replace(quotas, **given)
