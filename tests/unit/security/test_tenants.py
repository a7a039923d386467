"""Tenants: who owns a name, and what may be done to an owner."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import HOUR, Code, Refused, Timestamp
from goqueue.model.requests import (
    AlterQuotas,
    AlterTenant,
    CreateTenant,
    QuotaChanges,
    Quotas,
    SetTenantStatus,
    TenantChanges,
    TenantStatus,
)
from goqueue.security import NO_QUOTAS, TenantDeleted, Tenants, TenantStated

_NOW = Timestamp(1_000 * HOUR)


def _with_tenants(*ids: str) -> Tenants:
    tenants = Tenants()
    for id_ in ids:
        tenants.apply(tenants.create(CreateTenant(id=id_, name=id_), _NOW))
    return tenants


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("acme.orders", "acme"),
        ("acme.orders.dlq", "acme"),
        ("acme.", "acme"),
        ("acme", "default"),
        ("acmeorders", "default"),
        ("acme-orders", "default"),
        ("Acme.orders", "default"),
        (".acme.orders", "default"),
        ("__acme.orders", "default"),
        ("globex.orders", "default"),
        ("default.orders", "default"),
        ("x.acme.orders", "default"),
        ("acme%2eorders", "default"),
        ("orders", "default"),
    ],
)
def test_the_part_before_the_first_dot_names_the_owner(name: str, owner: str) -> None:
    tenants = _with_tenants("acme")
    assert tenants.owner(name) == owner
    assert tenants.owner_of(name).id == owner
    assert Tenants().owner_of(name).id == "default"


@given(
    st.lists(st.sampled_from(("abc", "abcd", "xyz", "x-1")), unique=True),
    st.text("abcdx-1.", max_size=9),
)
def test_a_name_has_one_owner_whoever_else_exists(ids: list[str], name: str) -> None:
    tenants = _with_tenants(*ids)

    owners = [each.id for each in tenants if name.startswith(f"{each.id}.")]
    assert tenants.owner(name) == (owners[0] if owners else "default")
    assert tenants.owner_of(name).id == tenants.owner(name)
    assert len(owners) <= 1


@pytest.mark.parametrize(
    "id_", ["", "ab", "Acme", "1acme", "acme.x", "-acme", "a" * 65, "acme_x", "äcme", "acme\n"]
)
def test_an_id_with_another_form_is_refused(id_: str) -> None:
    with pytest.raises(Refused) as refused:
        Tenants().create(CreateTenant(id=id_, name="x"), _NOW)
    assert refused.value.code is Code.NAME_INVALID


def test_an_id_is_given_once_and_default_is_taken() -> None:
    tenants = _with_tenants("acme")
    for id_ in ("acme", "default"):
        with pytest.raises(Refused) as refused:
            tenants.create(CreateTenant(id=id_, name="x"), _NOW)
        assert refused.value.code is Code.TENANT_EXISTS


def test_a_new_tenant_has_the_quotas_of_the_contract_and_default_has_none() -> None:
    tenants = _with_tenants("acme")

    assert tenants.find("acme").quotas == Quotas()
    assert tenants.default.quotas == NO_QUOTAS


def test_quotas_are_merged_into_the_present_ones() -> None:
    tenants = _with_tenants("acme")
    changes = QuotaChanges(max_topics=0, max_connections=7)
    tenants.apply(tenants.alter_quotas(AlterQuotas(tenant="acme", changes=changes), _NOW))

    assert tenants.find("acme").quotas == Quotas(max_topics=0, max_connections=7)


@pytest.mark.parametrize("value", [-1, 1 << 53])
def test_a_quota_that_is_no_limit_is_refused(value: int) -> None:
    tenants = _with_tenants("acme")
    command = AlterQuotas(tenant="acme", changes=QuotaChanges(max_topics=value))

    with pytest.raises(Refused) as refused:
        tenants.alter_quotas(command, _NOW)
    assert refused.value.facts.get("field") == "max_topics"


def test_a_suspended_tenant_says_why_and_since_when_until_it_is_active() -> None:
    tenants = _with_tenants("acme")
    suspend = SetTenantStatus(id="acme", status=TenantStatus.SUSPENDED, reason="unpaid")
    tenants.apply(tenants.set_status(suspend, _NOW))
    described = tenants.find("acme").describe()
    assert (described.suspended_at, described.suspend_reason) == (_NOW, "unpaid")

    activate = SetTenantStatus(id="acme", status=TenantStatus.ACTIVE)
    tenants.apply(tenants.set_status(activate, _NOW))
    described = tenants.find("acme").describe()
    assert (described.suspended_at, described.suspend_reason) == (None, "")


def test_a_suspension_needs_a_reason() -> None:
    with pytest.raises(Refused) as refused:
        _with_tenants("acme").set_status(
            SetTenantStatus(id="acme", status=TenantStatus.SUSPENDED), _NOW
        )
    assert refused.value.facts.get("field") == "reason"


@pytest.mark.parametrize("status", [TenantStatus.SUSPENDED, TenantStatus.DISABLED])
def test_default_cannot_be_stopped_or_deleted(status: TenantStatus) -> None:
    tenants = Tenants()
    with pytest.raises(Refused) as refused:
        tenants.set_status(SetTenantStatus(id="default", status=status, reason="x"), _NOW)
    assert refused.value.code is Code.PERMISSION_DENIED
    with pytest.raises(Refused) as refused:
        tenants.begin_deletion("default", _NOW)
    assert refused.value.code is Code.PERMISSION_DENIED
    tenants.apply(TenantDeleted(id="default"))
    assert tenants.get("default") is tenants.default


def test_a_tenant_that_is_being_deleted_keeps_its_names_and_is_not_changed() -> None:
    tenants = _with_tenants("acme")
    tenants.apply(tenants.begin_deletion("acme", _NOW))

    assert tenants.owner("acme.orders") == "acme"
    with pytest.raises(Refused) as refused:
        tenants.alter(AlterTenant(id="acme", changes=TenantChanges(name="x")), _NOW)
    assert refused.value.code is Code.TENANT_INACTIVE
    with pytest.raises(Refused):
        tenants.set_status(SetTenantStatus(id="acme", status=TenantStatus.ACTIVE), _NOW)
    with pytest.raises(Refused):
        tenants.alter_quotas(AlterQuotas(tenant="acme", changes=QuotaChanges()), _NOW)
    tenants.begin_deletion("acme", _NOW)
    tenants.apply(TenantDeleted(id="acme"))
    assert tenants.owner("acme.orders") == "default"


def test_a_change_leaves_what_it_does_not_name() -> None:
    tenants = Tenants()
    command = CreateTenant(id="acme", name="Acme", display_name="D", metadata={"a": "b"})
    tenants.apply(tenants.create(command, _NOW))
    later = Timestamp(_NOW + 1)
    changes = TenantChanges(description="new")
    tenants.apply(tenants.alter(AlterTenant(id="acme", changes=changes), later))

    described = tenants.find("acme").describe()
    assert described.display_name == "D"
    assert described.description == "new"
    assert described.metadata == {"a": "b"}
    assert (described.created_at, described.updated_at) == (_NOW, later)


def test_pages_of_a_status_follow_each_other() -> None:
    tenants = _with_tenants("one", "two", "three", "four")
    suspend = SetTenantStatus(id="two", status=TenantStatus.SUSPENDED, reason="x")
    tenants.apply(tenants.set_status(suspend, _NOW))

    first = tenants.list_page(TenantStatus.ACTIVE, "", 2)
    second = tenants.list_page(TenantStatus.ACTIVE, first.next or "", 2)
    assert [each.id for each in first.tenants] == ["default", "four"]
    assert [each.id for each in second.tenants] == ["one", "three"]
    assert second.next is None


def test_what_the_journal_stores_becomes_the_same_tenant() -> None:
    command = CreateTenant(id="acme", name="Acme", description="d", metadata={"a": "b"})
    stated = Tenants().create(command, _NOW)

    assert msgspec.json.decode(msgspec.json.encode(stated), type=TenantStated) == stated


def test_it_is_known_whether_any_tenant_has_a_quota() -> None:
    tenants = Tenants()
    none = QuotaChanges(**dict.fromkeys(Quotas.__struct_fields__, 0))
    seen = [tenants.limited]
    for change in (
        lambda: tenants.create(CreateTenant(id="acme", name="x"), _NOW),
        lambda: tenants.create(CreateTenant(id="free", name="x", quotas=none), _NOW),
        lambda: tenants.alter_quotas(
            AlterQuotas(tenant="default", changes=QuotaChanges(max_topics=1)), _NOW
        ),
        lambda: tenants.alter_quotas(AlterQuotas(tenant="acme", changes=none), _NOW),
        lambda: tenants.alter_quotas(AlterQuotas(tenant="default", changes=none), _NOW),
    ):
        made: Callable[[], TenantStated] = change
        tenants.apply(made())
        seen.append(tenants.limited)
    assert seen == [0, 1, 1, 2, 1, 0]
    tenants.apply(TenantDeleted(id="acme"))
    assert tenants.limited == 0
