"""The deletion of tenants: a few things in each turn, and from the journal on after a crash.

That a tenant is being deleted is stated first: from then on its keys are refused and nothing new
gets its prefix. Then its schedules, topics, groups, subjects, producers and keys go, each as if an
operator had deleted it; when none is left and the logs are gone, the tenant itself. Its id is free
then.

Invariant: a tenant leaves the registry after everything with its prefix, so nothing of it ever
passes to `default`; and after its producers and the keys of its group commits, so nothing of it
passes to whoever gets the id next.
Crash points: before `deleting` is durable nothing happened; after it the next start continues with
what is left. Producers are in another journal: that they are forgotten is durable before the
tenant leaves. Cost: at most `_SHARE` things of a kind a turn.
"""

from collections.abc import Callable

from goqueue.broker.groups.membership import Membership
from goqueue.broker.outbox import TenantEmptied
from goqueue.broker.scheduler import Scheduler
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.turns import Errand
from goqueue.model import MILLISECOND, Answer, Code, Instant, Now, Refused, RequestId
from goqueue.model.requests import DeleteTenant, DeleteTopic, Done, TenantStatus
from goqueue.security import KeyDeleted, Tenant, TenantDeleted, field_changes
from goqueue.transactions import TenantForgotten

__all__ = ["DeleteTopicFn", "TenantDeletion"]

DeleteTopicFn = Callable[[RequestId | None, DeleteTopic, Now], None]

_SHARE = 32
# Logs that are being made or removed are waited for.
_RETRY_NS = 20 * MILLISECOND


class TenantDeletion:
    """Deletes tenants with all that they have."""

    def __init__(
        self,
        state: NodeState,
        quotas: TenantQuotas,
        scheduler: Scheduler,
        membership: Membership,
        coordinator: TransactionCoordinator,
    ) -> None:
        self._state = state
        self._quotas = quotas
        self._scheduler = scheduler
        self._membership = membership
        self._coordinator = coordinator
        # The tenants that are being deleted, and who waits for that.
        self._deletions: dict[str, list[RequestId]] = {}
        # Those of which nothing is left but that this is durable.
        self._emptied: dict[str, None] = {}

    def begin(self, now: Now) -> None:
        """A life begins: continue what an earlier one began."""
        for tenant in self._state.security.tenants:
            if tenant.status is TenantStatus.DELETING:
                self._deletions[tenant.id] = []
        if self._deletions:
            self._state.alarms.set(Errand.TENANTS, now.instant)

    def delete(self, request: RequestId, command: DeleteTenant, now: Now) -> None:
        """Begin a deletion, or wait for one that was begun; answered when the tenant is gone."""
        state = self._state
        state.metadata.check_room()
        tenant = state.security.tenants.find(command.id)
        before = tenant.stated
        stated = state.security.tenants.begin_deletion(command.id, now.wall)
        if before.status is not TenantStatus.DELETING:
            topics = len(self._quotas.topics_of(tenant))
            if topics and not command.is_forced:
                raise Refused(Code.TENANT_NOT_EMPTY, tenant=command.id, used=topics)
            state.metadata.propose([stated])
            state.audit.record(request, state.journals.of_topics, field_changes(before, stated))
        self._deletions.setdefault(command.id, []).append(request)
        state.alarms.bring_forward(Errand.TENANTS, now.instant)

    def resume(self, now: Now, delete_topic: DeleteTopicFn) -> None:
        """Delete some more of what deleted tenants have."""
        for id_ in [each for each in self._deletions if each not in self._emptied]:
            tenant = self._state.security.tenants.get(id_)
            assert tenant is not None, "a tenant leaves when its deletion ends"
            try:
                is_empty = self._delete_some(tenant, now, delete_topic)
            except Refused:
                # A journal or a topic is busy: what is left is tried again.
                is_empty = False
            if is_empty:
                self._emptied[id_] = None
                forgotten = TenantForgotten(tenant=id_)
                journal = self._state.journals.of_producers
                journal.note([forgotten], [TenantEmptied(id_)])
        if len(self._deletions) > len(self._emptied):
            later = now.instant if self._state.budget.is_spent else now.instant + _RETRY_NS
            self._state.alarms.bring_forward(Errand.TENANTS, Instant(later))

    def _delete_some(self, tenant: Tenant, now: Now, delete_topic: DeleteTopicFn) -> bool:
        """Delete a share of what is left; whether nothing is, not even a log."""
        state, prefix = self._state, f"{tenant.id}."
        schedules = [each for each in state.schedules if each.spec.name.startswith(prefix)]
        for schedule in schedules[:_SHARE]:
            # One whose tick is on its way comes next time.
            self._scheduler.remove(schedule, now)
        topics = [state.catalog.get(name) for name in self._quotas.topics_of(tenant)]
        for topic in topics[:_SHARE]:
            if topic is not None and topic.is_open:
                delete_topic(None, DeleteTopic(name=topic.name), now)
                state.budget.spend(topic.stated.partitions)
        groups = self._quotas.groups_of(tenant)
        for name in groups[:_SHARE]:
            self._membership.forget(state.groups.find(name))
        subjects = state.schemas.names_with(prefix)
        for subject in subjects[:_SHARE]:
            changes = state.schemas.remove_subject(subject)
            state.metadata.propose(changes)
            state.budget.spend(len(changes))
        keys = state.security.keys.of_tenant(tenant.id)
        for key in keys[:_SHARE]:
            state.metadata.propose([KeyDeleted(id=key)])
        has_producers = not self._coordinator.forget_some_of(tenant.id, _SHARE, now)
        has_leaving = state.catalog.is_leaving(prefix)
        left = (schedules, topics, groups, subjects, keys)
        return not (any(left) or has_producers or has_leaving)

    def end(self, tenant: str) -> None:
        """That nothing is left of a tenant is committed: it leaves, and whoever waits is told."""
        del self._emptied[tenant]
        waiting = self._deletions.pop(tenant)
        answers = [Answer(request=request, reply=Done()) for request in waiting]
        self._state.metadata.propose([TenantDeleted(id=tenant)], answers)
        self._quotas.forget(tenant)
