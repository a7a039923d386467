"""The registry states everything, and what it states becomes the same again."""

import msgspec
import pytest

from goqueue.model import HOUR, Code, Instant, Now, Refused, Timestamp
from goqueue.model.requests import AlterQuotas, CreateTenant, QuotaChanges
from goqueue.security import SecurityChange, SecurityRegistry, UsageStated
from tests.unit.security.secrets import key_id, new_key

_NOW = Timestamp(1_000 * HOUR)
_CHANGE: msgspec.json.Decoder[SecurityChange] = msgspec.json.Decoder(SecurityChange)


def _filled() -> SecurityRegistry:
    registry = SecurityRegistry()
    for number in range(3):
        tenant = CreateTenant(id=f"tenant-{number}", name="x")
        registry.apply(registry.tenants.create(tenant, _NOW))
    changes = QuotaChanges(max_messages_per_second=5)
    registry.apply(
        registry.tenants.alter_quotas(AlterQuotas(tenant="default", changes=changes), _NOW)
    )
    for number in range(600):
        registry.apply(registry.create_key(new_key(number, tenant="tenant-1"), _NOW))
        registry.keys.record_use(key_id(number), Timestamp(_NOW + number * HOUR))
    registry.apply(registry.keys.revoke(key_id(7)))
    registry.meters.of("tenant-2").count_published(3, 30)
    used = registry.keys.take_used()
    while used:
        registry.apply(UsageStated(last_used=used))
        used = registry.keys.take_used()
    totals = registry.meters.take(registry.meters.changed(), Now(Instant(0), _NOW))
    registry.apply(UsageStated(totals=totals))
    return registry


def test_what_is_stated_becomes_the_same_registry() -> None:
    registry, again = _filled(), SecurityRegistry()
    for changes in registry.changes():
        for change in changes:
            copy = _CHANGE.decode(msgspec.json.encode(change))
            assert not isinstance(copy, str)
            again.apply(copy)  # type: ignore[arg-type]  # of a registry only

    assert list(again.changes()) == list(registry.changes())
    assert again.keys.list_page("", 10_000) == registry.keys.list_page("", 10_000)
    assert again.tenants.list_page(None, "", 100) == registry.tenants.list_page(None, "", 100)
    assert again.meters.of("tenant-2").totals == registry.meters.of("tenant-2").totals


def test_every_piece_of_a_statement_is_small() -> None:
    for changes in _filled().changes():
        assert len(msgspec.json.encode(changes)) < 32 * 1024


def test_every_change_of_a_decision_raises_the_version() -> None:
    registry = SecurityRegistry()
    seen = [registry.version]
    registry.apply(registry.create_key(new_key(1), _NOW))
    seen.append(registry.version)
    registry.apply(registry.keys.revoke(key_id(1)))
    seen.append(registry.version)
    registry.apply(registry.tenants.create(CreateTenant(id="acme", name="x"), _NOW))
    seen.append(registry.version)
    assert seen == sorted(set(seen))
    registry.apply(UsageStated())
    assert registry.version == seen[-1]


def test_a_debt_is_told_early_to_keys_of_the_tenant_only() -> None:
    registry = SecurityRegistry()
    registry.apply(registry.tenants.create(CreateTenant(id="acme", name="x"), _NOW))
    registry.apply(registry.create_key(new_key(1, tenant="acme"), _NOW))
    registry.apply(registry.create_key(new_key(2), _NOW))
    registry.meters.of("acme").charge_publish(10_000, 0, Instant(0))

    for key in (None, key_id(1)):
        with pytest.raises(Refused) as refused:
            registry.check_publish("acme.orders", key, Instant(0))
        assert refused.value.code is Code.RATE_LIMITED
    registry.check_publish("acme.orders", key_id(2), Instant(0))
    registry.check_publish("orders", None, Instant(0))

    # Where the topic is not known yet, the tenant of the key decides, unless that is `default`.
    with pytest.raises(Refused) as refused:
        registry.check_publisher(key_id(1), Instant(0))
    assert refused.value.code is Code.RATE_LIMITED
    registry.meters.of("default").charge_publish(10_000, 0, Instant(0))
    registry.check_publisher(key_id(2), Instant(0))


def test_connections_of_a_tenant_are_counted_up_to_its_quota() -> None:
    registry = SecurityRegistry()
    quotas = QuotaChanges(max_connections=2)
    registry.apply(registry.tenants.create(CreateTenant(id="acme", name="x", quotas=quotas), _NOW))
    registry.apply(registry.create_key(new_key(1, tenant="acme"), _NOW))
    registry.apply(registry.create_key(new_key(2), _NOW))

    assert [registry.open_connection(key_id(1)) for _ in range(2)] == ["acme", "acme"]
    with pytest.raises(Refused) as refused:
        registry.open_connection(key_id(1))
    assert refused.value.facts == {"quota": "max_connections", "limit": 2, "used": 2}
    assert [registry.open_connection(key_id(2)) for _ in range(5)] == ["default"] * 5
    registry.close_connection("acme", key_id(1))
    registry.open_connection(key_id(1))
    registry.close_connection("gone", key_id(3))


def test_connections_of_one_key_are_bounded_where_its_tenant_has_no_quota() -> None:
    registry = SecurityRegistry()
    registry.apply(registry.create_key(new_key(1), _NOW))
    registry.apply(registry.create_key(new_key(2), _NOW))
    for _ in range(2_000):
        registry.open_connection(key_id(1))

    with pytest.raises(Refused) as refused:
        registry.open_connection(key_id(1))
    assert refused.value.code is Code.QUOTA_EXCEEDED
    assert refused.value.facts["quota"] == "connections_per_key"
    registry.open_connection(key_id(2))
    registry.close_connection("default", key_id(1))
    registry.open_connection(key_id(1))
