"""Keys, ACLs and tenants together: one `apply`, one version, one statement.

Invariant: `version` rises with every change that may alter a decision, so what was decided at a
version holds as long as the version stays, live, on replay and on every node alike.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from goqueue.model import Code, Instant, KeyId, Refused, Timestamp
from goqueue.model.requests import CreateKey, TenantStatus
from goqueue.security.acls import Acls
from goqueue.security.api_keys import DEFAULT_TENANT, ApiKeys
from goqueue.security.changes import (
    USAGE_ENTRIES_MAX,
    AclDeleted,
    AclStated,
    KeyDeleted,
    KeyRevoked,
    KeyStated,
    TenantDeleted,
    TenantStated,
    UsageStated,
)
from goqueue.security.quotas import TenantMeters
from goqueue.security.tenants import Tenants

__all__ = ["KEY_CONNECTIONS_MAX", "RegistryChange", "SecurityRegistry"]

# Connections of one key, whatever the quota of its tenant.
KEY_CONNECTIONS_MAX = 2_000

RegistryChange = (
    KeyStated
    | KeyRevoked
    | KeyDeleted
    | AclStated
    | AclDeleted
    | TenantStated
    | TenantDeleted
    | UsageStated
)


class SecurityRegistry:
    """Everything that says who may do what."""

    def __init__(self) -> None:
        self.keys = ApiKeys()
        self.acls = Acls()
        self.tenants = Tenants()
        self.meters = TenantMeters()
        self.version = 0
        # What the journal of a member of a cluster says of keys and tenants that it has not read.
        self._early: list[UsageStated] = []
        # Open connections that have proved a key, by the key; memory only.
        self._connections: Counter[KeyId] = Counter()

    def apply(self, change: RegistryChange) -> None:
        """Become what a change says."""
        match change:
            case KeyStated() | KeyRevoked() | KeyDeleted():
                self.keys.apply(change)
            case AclStated() | AclDeleted():
                self.acls.apply(change)
            case TenantStated():
                self.tenants.apply(change)
                self.meters.configure(change.id, change.quotas)
            case TenantDeleted():
                self.tenants.apply(change)
                self.meters.forget(change.id)
            case UsageStated():
                if not self.keys.is_current:
                    self._early.append(change)
                self.keys.apply_used(change)
                self.meters.apply(change)
                return
        self.version += 1

    def claim_usage(self) -> None:
        """The keys and tenants of the cluster are read: what was known of their use is theirs."""
        early, self._early = self._early, []
        for usage in early:
            self.keys.apply_used(usage)
            self.meters.apply(usage)

    def check_publish(self, topic: str, key: KeyId | None, now: Instant) -> None:
        """Refuse a publish whose tenant is in debt, before anything of it was read.

        A key of another tenant must not learn that: what it may publish to is decided later.
        """
        if not self.tenants.limited:
            return
        tenant = self.tenants.owner_of(topic)
        if not tenant.is_limited:
            return
        meter = self.meters.of(tenant.stated.id)
        # Almost nobody is in debt: who asks is looked up for those only.
        if meter.is_in_debt(now):
            caller = None if key is None else self.keys.get(key)
            if caller is None or caller.tenant == tenant.id:
                meter.check_publish(now)

    def check_publisher(self, key: KeyId, now: Instant) -> None:
        """Refuse any publish with a key whose tenant is in debt; it has no topics but its own.

        Keys of `default` may publish for other tenants, which pay for it.
        """
        caller = self.keys.get(key)
        tenant = None if caller is None else self.tenants.get(caller.tenant)
        if tenant is not None and tenant.is_limited and not tenant.is_default:
            self.meters.of(tenant.id).check_publish(now)

    def open_connection(self, key: KeyId) -> str:
        """Count a connection of the tenant of a key; refuses one above its quota."""
        found = self.keys.get(key)
        tenant = self.tenants.default if found is None else self.tenants.get(found.tenant)
        if tenant is None:
            raise Refused(Code.UNAUTHENTICATED)
        meter, limit = self.meters.of(tenant.id), tenant.quotas.max_connections
        if limit and meter.connections >= limit:
            meter.violate()
            raise Refused(
                Code.QUOTA_EXCEEDED, quota="max_connections", limit=limit, used=meter.connections
            )
        if self._connections[key] >= KEY_CONNECTIONS_MAX:
            raise Refused(
                Code.QUOTA_EXCEEDED,
                quota="connections_per_key",
                limit=KEY_CONNECTIONS_MAX,
                used=KEY_CONNECTIONS_MAX,
            )
        self._connections[key] += 1
        meter.connections += 1
        return tenant.id

    def close_connection(self, tenant: str, key: KeyId) -> None:
        """A connection that was counted is gone; its tenant may be, too."""
        self._connections[key] -= 1
        if self._connections[key] <= 0:
            del self._connections[key]
        if self.tenants.get(tenant) is not None:
            meter = self.meters.of(tenant)
            meter.connections = max(0, meter.connections - 1)

    def create_key(self, command: CreateKey, wall: Timestamp) -> KeyStated:
        """A new key of a tenant that exists and stays."""
        tenant = self.tenants.get(command.tenant)
        if tenant is None or tenant.status is TenantStatus.DELETING:
            raise Refused(Code.TENANT_NOT_FOUND, tenant=command.tenant)
        return self.keys.create(command, wall)

    def changes(self, *, own_only: bool = False) -> Iterator[Sequence[RegistryChange]]:
        """Everything again, a few changes at a time, each true when it is asked for.

        With `own_only` what this node alone knows: the rest is in the metadata of its cluster.
        """
        tenants = [tenant.id for tenant in self.tenants]
        keys = [key.id for key in self.keys]
        if not own_only:
            yield from self._stated(tenants, keys)
        yield from ([each] for each in self._early)
        for first in range(0, len(keys), USAGE_ENTRIES_MAX):
            used = self.keys.state_used(keys[first : first + USAGE_ENTRIES_MAX])
            if used:
                yield [UsageStated(last_used=used)]
        for first in range(0, len(tenants), USAGE_ENTRIES_MAX):
            totals = tuple(self.meters.state(tenants[first : first + USAGE_ENTRIES_MAX]))
            if totals:
                yield [UsageStated(totals=totals)]

    def _stated(
        self, tenants: Sequence[str], keys: Sequence[KeyId]
    ) -> Iterator[Sequence[RegistryChange]]:
        for id_ in tenants:
            tenant = self.tenants.get(id_)
            if tenant is not None and (id_ != DEFAULT_TENANT or tenant.stated.updated_at):
                yield [tenant.stated]
        for key_id in keys:
            stated = self.keys.state(key_id)
            if stated is not None:
                yield [stated]
        for acl_id in self.acls.ids:
            acl = self.acls.get(acl_id)
            if acl is not None:
                yield [AclStated(id=acl_id, acl=acl)]
