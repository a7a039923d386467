"""Quotas: what a tenant holds and does, compared with what it may.

Counts are taken from the catalog, the groups and the logs, never stored. A tenant's topics and
groups are found by their prefix; those of `default` are all the others. The size of the logs is
summed at most once a second for each tenant, and what is published meanwhile is added to it.

A publish or a read is charged to the owner of the topic, a poll to the owner of the group. Redrives
and messages of schedules are publishes: a tick above a quota waits. Dead letters and messages that
fall due are never refused.

Invariant: a refusal changes nothing but the count of violations.
Cost: a tenant without quotas costs one lookup by the prefix of a name.
"""

from collections.abc import Iterable, Sequence

import msgspec

from goqueue.broker.state import NodeState
from goqueue.model import HOUR, SECOND, Code, Instant, LogId, Now, PrefixIndex, Refused
from goqueue.model.requests import (
    SCHEDULES_BYTES_MAX,
    SCHEDULES_MAX,
    ScheduleSpec,
    TenantStatus,
    TopicConfig,
)
from goqueue.security import Tenant, TenantMeter, check_count

__all__ = ["Held", "PollAllowance", "TenantQuotas"]

_REFRESH_NS = SECOND
# A tenant gets at most one of so many shares of what is bounded for the whole node.
_SHARES = 10


class Held(msgspec.Struct, frozen=True):
    """What a tenant holds now."""

    topics: int
    partitions: int
    storage_bytes: int


class PollAllowance(msgspec.Struct, frozen=True):
    """What a poll may get now; with `wait_ns` nothing before that is over."""

    messages_max: int | None
    bytes_max: int | None
    wait_ns: int


class _Storage(msgspec.Struct):
    """The size of a tenant's logs when it was summed up, and what came since."""

    size: int
    until: Instant


def names_with_prefix(state: NodeState, prefix: str) -> int:
    """How many topics, groups, schedules and subjects begin with a prefix and a dot."""
    subjects = len(state.schemas.names_with(f"{prefix}."))
    schedules = sum(each.spec.name.startswith(f"{prefix}.") for each in state.schedules)
    topics, groups = state.catalog.prefixes, state.groups.prefixes
    return topics.count(prefix) + groups.count(prefix) + schedules + subjects


class TenantQuotas:
    """Refuses what is above a quota."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._tenants = state.security.tenants
        self._storage: dict[str, _Storage] = {}

    # What a tenant holds

    def names_with_prefix(self, prefix: str) -> int:
        """How many topics, groups, schedules and subjects begin with a prefix and a dot."""
        return names_with_prefix(self._state, prefix)

    def topics_of(self, tenant: Tenant) -> Sequence[str]:
        """The names of its topics."""
        names = (topic.name for topic in self._state.catalog.all)
        return self._owned(tenant, self._state.catalog.prefixes, names)

    def groups_of(self, tenant: Tenant) -> Sequence[str]:
        """The names of its groups."""
        names = (group.name for group in self._state.groups)
        return self._owned(tenant, self._state.groups.prefixes, names)

    def _owned(self, tenant: Tenant, prefixes: PrefixIndex, names: Iterable[str]) -> Sequence[str]:
        if not tenant.is_default:
            return prefixes.names(tenant.id)
        owner = self._state.security.tenants.owner
        return [name for name in names if owner(name) == tenant.id]

    def count(self, tenant: Tenant, *, with_copies: bool = True) -> Held:
        """What a tenant holds here: one step for each of its partitions.

        Without copies each partition counts on the node that leads it, so nodes can be added up.
        """
        topics = partitions = size = 0
        for name in self.topics_of(tenant):
            topic = self._state.catalog.get(name)
            if topic is None:
                continue
            topics += 1
            partitions += topic.stated.partitions
            for number in range(topic.stated.partitions):
                partition = self._state.partitions.get(LogId(name, number))
                if partition is not None and (with_copies or not partition.log.is_followed):
                    size += partition.log.size
        return Held(topics, partitions, size)

    # Topics

    def check_topic(self, name: str, partitions: int, config: TopicConfig) -> None:
        """Refuse a new topic that is above a quota of its owner."""
        tenant = self._owner(name)
        _check_stays(tenant)
        if not tenant.is_limited:
            return
        quotas = tenant.quotas
        try:
            check_count("max_partitions_per_topic", quotas.max_partitions_per_topic, 0, partitions)
            _check_retention(tenant, config)
            if quotas.max_topics or quotas.max_total_partitions:
                held = self.count(tenant)
                check_count("max_topics", quotas.max_topics, held.topics)
                check_count(
                    "max_total_partitions",
                    quotas.max_total_partitions,
                    held.partitions,
                    partitions,
                )
        except Refused:
            self._meter(tenant).violate()
            raise

    def check_config(self, name: str, before: TopicConfig, config: TopicConfig) -> None:
        """Refuse other settings that are above a quota; what was above it before may stay."""
        tenant = self._owner(name)
        if tenant.is_limited and config.retention_hours != before.retention_hours:
            try:
                _check_retention(tenant, config)
            except Refused:
                self._meter(tenant).violate()
                raise

    def dead_letter_hours(self, name: str, hours: int) -> int:
        """How long dead letters are kept: as long as the tenant keeps anything, if that is less."""
        limit = self._owner(name).quotas.max_retention_hours
        return min(hours, limit) if limit else hours

    # Groups

    def check_new_group(self, name: str) -> None:
        """Refuse another group of a tenant that has as many as it may."""
        tenant = self._owner(name)
        _check_stays(tenant)
        limit = tenant.quotas.max_consumer_groups
        if limit:
            self._check(tenant, "max_consumer_groups", limit, len(self.groups_of(tenant)))

    def check_new_member(self, name: str, members: int) -> None:
        """Refuse another member of a group that has as many as its tenant allows."""
        tenant = self._owner(name)
        limit = tenant.quotas.max_consumers_per_group
        if limit:
            self._check(tenant, "max_consumers_per_group", limit, members)

    # Schedules

    def check_schedule(self, spec: ScheduleSpec, before: ScheduleSpec | None = None) -> None:
        """Refuse a schedule of a tenant that has its share of what all tenants may have together.

        `before` is what the schedule replaces. There is no quota to set: without this bound one
        tenant could leave no schedule to the others.
        """
        tenant = self._owner(spec.name)
        if tenant.is_default:
            return
        held = self._state.schedules.held_by(tenant.id)
        more = spec.message.size
        if before is None:
            self._check(tenant, "schedules", SCHEDULES_MAX // _SHARES, held.schedules)
        else:
            more -= before.message.size
        if more > 0:
            limit = SCHEDULES_BYTES_MAX // _SHARES
            quota = "bytes of scheduled messages"
            self._check(tenant, quota, limit, held.message_bytes, more)

    def _check(self, tenant: Tenant, quota: str, limit: int, used: int, more: int = 1) -> None:
        try:
            check_count(quota, limit, used, more)
        except Refused:
            self._meter(tenant).violate()
            raise

    # Publishing

    def check_active(self, name: str) -> None:
        """Refuse what the broker would publish for a tenant that may not publish itself."""
        status = self._owner(name).status
        if status is not TenantStatus.ACTIVE:
            raise Refused(Code.TENANT_INACTIVE, state=status.value)

    def check_publish(self, topic: str, size: int, dues: Sequence[int] | None, now: Now) -> None:
        """Refuse a publish before anything of it is done."""
        if not self._tenants.limited:
            return
        tenant = self._owner(topic)
        if not tenant.is_limited:
            return
        quotas, meter = tenant.quotas, self._meter(tenant)
        if dues and quotas.max_delay_hours:
            limit_ns = quotas.max_delay_hours * HOUR
            if max(dues) > now.wall + limit_ns:
                meter.violate()
                raise Refused(
                    Code.DELAY_TOO_LONG,
                    quota="max_delay_hours",
                    maximum=f"{quotas.max_delay_hours}h",
                )
        meter.check_publish(now.instant)
        if quotas.max_storage_bytes:
            used = self._storage_bytes(tenant, now)
            self._check(tenant, "max_storage_bytes", quotas.max_storage_bytes, used, size)

    def charge_publish(self, topic: str, messages: int, size: int, now: Now) -> None:
        """A publish is being appended."""
        if not self._tenants.limited:
            return
        tenant = self._owner(topic)
        if tenant.is_limited:
            self._meter(tenant).charge_publish(messages, size, now.instant)
            storage = self._storage.get(tenant.id)
            if storage is not None:
                storage.size += size

    def message_bytes_max(self, topic: str, limit: int) -> int:
        """How large a message of a topic may be."""
        if not self._tenants.limited:
            return limit
        own = self._owner(topic).quotas.max_message_size_bytes
        return min(own, limit) if own else limit

    def _storage_bytes(self, tenant: Tenant, now: Now) -> int:
        storage = self._storage.get(tenant.id)
        if storage is None or now.instant >= storage.until:
            size = self.count(tenant).storage_bytes
            storage = _Storage(size, Instant(now.instant + _REFRESH_NS))
            self._storage[tenant.id] = storage
        return storage.size

    # Consuming

    def check_read(self, topic: str, now: Now) -> None:
        """Refuse a read of a tenant that has read too much of late."""
        if not self._tenants.limited:
            return
        tenant = self._owner(topic)
        if tenant.is_limited:
            self._meter(tenant).check_consume(now.instant)

    def poll_allowance(self, group: str, now: Now) -> PollAllowance | None:
        """What a poll of a group may get now; None: everything."""
        if not self._tenants.limited:
            return None
        tenant = self._owner(group)
        if not tenant.is_limited:
            return None
        meter = self._meter(tenant)
        if not meter.limits_consuming:
            return None
        return PollAllowance(
            meter.consume_room(now.instant),
            meter.consume_bytes_room(now.instant),
            meter.consume_wait_ns(now.instant),
        )

    def charge_poll(self, group: str, messages: int, now: Now) -> None:
        """Messages were leased; their bytes are charged when they are read."""
        tenant = self._owner(group)
        if tenant.is_limited:
            self._meter(tenant).charge_leased(messages, now.instant)

    def forget(self, tenant: str) -> None:
        """A tenant is gone."""
        self._storage.pop(tenant, None)

    def _owner(self, name: str) -> Tenant:
        return self._tenants.owner_of(name)

    def _meter(self, tenant: Tenant) -> TenantMeter:
        return self._state.security.meters.of(tenant.id)


def _check_stays(tenant: Tenant) -> None:
    if tenant.status is TenantStatus.DELETING:
        raise Refused(Code.TENANT_INACTIVE, tenant=tenant.id, reason="is being deleted")


def _check_retention(tenant: Tenant, config: TopicConfig) -> None:
    limit = tenant.quotas.max_retention_hours
    hours = config.retention_hours
    if limit and (hours < 0 or hours > limit):
        raise Refused(
            Code.QUOTA_EXCEEDED, quota="max_retention_hours", limit=limit, used=max(hours, 0)
        )
