"""Keys, ACLs and tenants without await.

The classes wrap those of `goqueue.client.security`, method by method.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, Unpack

from goqueue.client.security import (
    Acl,
    Acls,
    ApiKey,
    ApiKeys,
    NewApiKey,
    QuotaSettings,
    RoleName,
    Span,
    Tenant,
    TenantQuotas,
    Tenants,
    TenantStats,
    TenantUsage,
)
from goqueue.client.sync.loop_thread import LoopThread

__all__ = ["SyncAcls", "SyncApiKeys", "SyncTenants"]


class SyncApiKeys:
    # Generated from ApiKeys by `make sync-client`.
    """`q.keys`: create, list, rotate and revoke API keys."""

    def __init__(self, loop: LoopThread, api_keys: ApiKeys) -> None:
        self._loop = loop
        self._api_keys = api_keys

    def create(
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
        return self._loop.call(
            self._api_keys.create(
                name,
                roles,
                tenant=tenant,
                expires_in=expires_in,
                metadata=metadata,
                certificate=certificate,
            )
        )

    def list(self) -> tuple[ApiKey, ...]:
        """All keys by id, also those that are revoked."""
        return self._loop.call(self._api_keys.list())

    def rotate(self, key_id: str, *, grace: Span | None = None) -> NewApiKey:
        """Give a key a new secret; the present one stays valid for `grace`, at most 168h."""
        return self._loop.call(self._api_keys.rotate(key_id, grace=grace))

    def revoke(self, key_id: str) -> None:
        """End a key at once; it stays in the list."""
        self._loop.call(self._api_keys.revoke(key_id))


class SyncAcls:
    # Generated from Acls by `make sync-client`.
    """`q.acls`: the rules that non-admin keys need while ACLs are enabled."""

    def __init__(self, loop: LoopThread, acls: Acls) -> None:
        self._loop = loop
        self._acls = acls

    def create(
        self,
        principal: str,
        resource: str,
        operation: str,
        *,
        effect: Literal["allow", "deny"] = "allow",
    ) -> Acl:
        """Add a rule about `resource`, such as "topic:orders*", for a key id, "role:…" or "*"."""
        return self._loop.call(self._acls.create(principal, resource, operation, effect=effect))

    def list(self) -> tuple[Acl, ...]:
        """All rules by id."""
        return self._loop.call(self._acls.list())

    def delete(self, acl_id: str) -> None:
        """Delete a rule."""
        self._loop.call(self._acls.delete(acl_id))


class SyncTenants:
    # Generated from Tenants by `make sync-client`.
    """`q.tenants`: tenants, their quotas and what they use."""

    def __init__(self, loop: LoopThread, tenants: Tenants) -> None:
        self._loop = loop
        self._tenants = tenants

    def create(
        self,
        name: str,
        *,
        id: str | None = None,
        display_name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str] | None = None,
        adopt: bool = False,
        **quotas: Unpack[QuotaSettings],
    ) -> Tenant:
        """Create a tenant; its id is made from the name if none is given.

        Existing topics and groups with its prefix are refused, or with `adopt` become its own.
        """
        return self._loop.call(
            self._tenants.create(
                name,
                id=id,
                display_name=display_name,
                description=description,
                metadata=metadata,
                adopt=adopt,
                **quotas,
            )
        )

    def list(self, *, status: str | None = None) -> tuple[Tenant, ...]:
        """All tenants by id, or those with a status."""
        return self._loop.call(self._tenants.list(status=status))

    def describe(self, tenant: str) -> Tenant:
        """One tenant; `NotFound` if there is none of this id."""
        return self._loop.call(self._tenants.describe(tenant))

    def alter(
        self,
        tenant: str,
        *,
        name: str | None = None,
        display_name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Tenant:
        """Change what a tenant is called; what is not given stays."""
        return self._loop.call(
            self._tenants.alter(
                tenant,
                name=name,
                display_name=display_name,
                description=description,
                metadata=metadata,
            )
        )

    def delete(self, tenant: str, *, force: bool = False) -> None:
        """Delete a tenant and its keys; with `force` its topics and groups, too."""
        self._loop.call(self._tenants.delete(tenant, force=force))

    def suspend(self, tenant: str, reason: str) -> Tenant:
        """Let a tenant store nothing new."""
        return self._loop.call(self._tenants.suspend(tenant, reason))

    def activate(self, tenant: str) -> Tenant:
        """Let a tenant do everything again."""
        return self._loop.call(self._tenants.activate(tenant))

    def disable(self, tenant: str) -> Tenant:
        """Let a tenant do nothing."""
        return self._loop.call(self._tenants.disable(tenant))

    def quotas(self, tenant: str) -> TenantQuotas:
        """The limits of a tenant."""
        return self._loop.call(self._tenants.quotas(tenant))

    def set_quotas(self, tenant: str, **quotas: Unpack[QuotaSettings]) -> TenantQuotas:
        """Change limits of a tenant; those that are not named stay."""
        return self._loop.call(self._tenants.set_quotas(tenant, **quotas))

    def usage(self, tenant: str) -> TenantUsage:
        """What a tenant has used and holds."""
        return self._loop.call(self._tenants.usage(tenant))

    def reset_usage(self, tenant: str) -> TenantUsage:
        """Set the totals of a tenant to zero."""
        return self._loop.call(self._tenants.reset_usage(tenant))

    def stats(self, tenant: str) -> TenantStats:
        """How much of its quotas a tenant uses."""
        return self._loop.call(self._tenants.stats(tenant))

    def topics(self, tenant: str) -> tuple[str, ...]:
        """The topics of a tenant by name."""
        return self._loop.call(self._tenants.topics(tenant))

    def groups(self, tenant: str) -> tuple[str, ...]:
        """The groups of a tenant by name."""
        return self._loop.call(self._tenants.groups(tenant))
