"""Commands about keys, ACLs and tenants.

Each decides by the registry, applies and journals its change with its audit record, and is answered
when both are durable. What is read waits for the journal as well: nobody hears of a key that a
crash could take back.
"""

from collections.abc import Callable, Sequence

from goqueue.broker.access_changes import AccessChanges, AccessCommand
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.model import LOCAL, Code, Now, Refused, RequestId
from goqueue.model.requests import (
    CallerDescription,
    DescribeCaller,
    DescribeQuotas,
    DescribeTenant,
    DescribeTenantStatistics,
    DescribeUsage,
    ListAcls,
    ListKeys,
    ListTenantGroups,
    ListTenants,
    ListTenantTopics,
    Reply,
    ResetUsage,
    Role,
    TenantNames,
    TenantStatistics,
    TenantUsage,
)
from goqueue.security import (
    DEFAULT_TENANT,
    FieldChange,
    RegistryChange,
    UsageStated,
    field_changes,
)

__all__ = ["SecurityAdmin"]

# So many items of a list cost one unit of a turn.
_ITEMS_PER_UNIT = 10


class SecurityAdmin:
    """Takes commands about keys, ACLs and tenants."""

    def __init__(self, state: NodeState, quotas: TenantQuotas) -> None:
        self._state = state
        self._registry = state.security
        self._quotas = quotas
        self._changes = AccessChanges(state.security, quotas)

    def change(self, request: RequestId, command: AccessCommand, now: Now) -> None:
        """Change keys, ACLs, tenants or quotas."""
        self._state.metadata.check_room()
        decided = self._changes.decide(command, now)
        self._change(request, decided.change, decided.changes, decided.reply)

    # Keys

    def list_keys(self, request: RequestId, command: ListKeys, _: Now) -> None:
        page = self._registry.keys.list_page(command.after, command.limit)
        self._state.budget.spend(len(page.keys) // _ITEMS_PER_UNIT)
        self._answer(request, page)

    def describe_caller(self, request: RequestId, _: DescribeCaller, __: Now) -> None:
        """Who asks, as the node knows him."""
        caller = self._state.caller
        key = self._registry.keys.get(caller.key)
        if key is not None:
            described = CallerDescription(
                key_id=key.id,
                name=key.name,
                roles=tuple(sorted(key.roles)),
                tenant=key.tenant,
                expires_at=key.expires_at,
            )
        elif caller.key == LOCAL.key:
            described = CallerDescription(
                key_id=LOCAL.key, name="local", roles=(Role.ADMIN,), tenant=DEFAULT_TENANT
            )
        else:
            raise Refused(Code.UNAUTHENTICATED)
        self._answer(request, described)

    # ACLs

    def list_acls(self, request: RequestId, command: ListAcls, _: Now) -> None:
        page = self._registry.acls.page(command)
        self._state.budget.spend(len(page.acls) // _ITEMS_PER_UNIT)
        self._answer(request, page)

    # Tenants

    def describe_tenant(self, request: RequestId, command: DescribeTenant, _: Now) -> None:
        self._answer(request, self._registry.tenants.find(command.id).describe())

    def list_tenants(self, request: RequestId, command: ListTenants, _: Now) -> None:
        page = self._registry.tenants.list_page(command.status, command.after, command.limit)
        self._state.budget.spend(len(page.tenants) // _ITEMS_PER_UNIT)
        self._answer(request, page)

    def describe_quotas(self, request: RequestId, command: DescribeQuotas, _: Now) -> None:
        self._answer(request, self._registry.tenants.find(command.tenant).quotas)

    # Usage

    def describe_usage(self, request: RequestId, command: DescribeUsage, now: Now) -> None:
        self._answer(request, self._usage(command.tenant, now))

    def reset_usage(self, request: RequestId, command: ResetUsage, now: Now) -> None:
        self._state.metadata.check_room()
        tenant = self._registry.tenants.find(command.tenant).id
        meter = self._registry.meters.of(tenant)
        before = meter.totals
        meter.reset(now.wall)
        changes = field_changes(before, meter.totals)
        usage = UsageStated(totals=(meter.totals,))
        self._change(request, usage, changes, lambda: self._usage(tenant, now))

    def _usage(self, tenant: str, now: Now) -> TenantUsage:
        found = self._registry.tenants.find(tenant)
        totals = self._registry.meters.of(found.id).totals
        held = self._quotas.count(found, with_copies=False)
        return TenantUsage(
            tenant_id=tenant,
            total_messages_published=totals.published_messages,
            total_bytes_published=totals.published_bytes,
            total_messages_consumed=totals.consumed_messages,
            total_bytes_consumed=totals.consumed_bytes,
            storage_bytes=held.storage_bytes,
            topic_count=held.topics,
            partition_count=held.partitions,
            connection_count=self._registry.meters.of(found.id).connections,
            last_updated=now.wall,
        )

    def describe_statistics(
        self, request: RequestId, command: DescribeTenantStatistics, _: Now
    ) -> None:
        tenant = self._registry.tenants.find(command.tenant)
        held, quotas = self._quotas.count(tenant, with_copies=False), tenant.quotas
        meter = self._registry.meters.of(tenant.id)
        statistics = TenantStatistics(
            tenant_id=tenant.id,
            storage_usage_percent=_percent(held.storage_bytes, quotas.max_storage_bytes),
            topic_usage_percent=_percent(held.topics, quotas.max_topics),
            partition_usage_percent=_percent(held.partitions, quotas.max_total_partitions),
            connection_usage_percent=_percent(meter.connections, quotas.max_connections),
            quota_violations_total=meter.violations,
        )
        self._answer(request, statistics)

    def list_topics(self, request: RequestId, command: ListTenantTopics, _: Now) -> None:
        tenant = self._registry.tenants.find(command.tenant)
        names = self._quotas.topics_of(tenant)
        self._answer(request, TenantNames(tenant_id=tenant.id, names=tuple(sorted(names))))

    def list_groups(self, request: RequestId, command: ListTenantGroups, _: Now) -> None:
        tenant = self._registry.tenants.find(command.tenant)
        names = TenantNames(
            tenant_id=tenant.id, names=tuple(sorted(self._quotas.groups_of(tenant)))
        )
        if self._state.coordinator_epoch is None:
            self._answer(request, names)
        else:
            # Of a cluster the coordinator says it, which keeps no journal of tenants.
            self._state.journals.answer_current(request, names)

    # Journal

    def _change(
        self,
        request: RequestId,
        change: RegistryChange,
        changes: Sequence[FieldChange],
        reply: Callable[[], Reply],
    ) -> None:
        """Apply a change, journal it with its record, and answer when both are durable."""
        self._state.metadata.propose([change])
        self._state.metadata.answer(request, reply())
        self._state.audit.record(request, self._state.journals.of_topics, changes)

    def _answer(self, request: RequestId, reply: Reply) -> None:
        """Answer when all that the answer may show is committed."""
        self._state.metadata.answer(request, reply)


def _percent(used: int, limit: int) -> float:
    return round(100 * used / limit, 2) if limit else 0.0
