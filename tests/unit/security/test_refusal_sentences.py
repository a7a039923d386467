"""What an operator reads when keys, ACLs or tenants are refused: one clear sentence."""

import msgspec
import pytest

from goqueue.gateways.errors import error_body
from goqueue.model import HOUR, Refused, Timestamp
from goqueue.model.requests import (
    AclEffect,
    AclSpec,
    CreateTenant,
    CreateTopic,
    Operation,
    ResourceType,
    Role,
    RotateKey,
    SetTenantStatus,
    TenantStatus,
)
from goqueue.security import ApiKeys
from goqueue.security.acls import check_acl
from goqueue.security.tenants import Tenants
from tests.unit.security.callers import NOW, Known
from tests.unit.security.secrets import key_id, new_key, verifiers_of

WALL = Timestamp(1_000 * HOUR)


def sentence(refused: "pytest.ExceptionInfo[Refused]", code: str) -> str:
    body = error_body(refused.value)
    assert body.code == code
    return body.error


def test_the_built_in_tenant_is_named_by_the_refusal_to_suspend_or_delete_it() -> None:
    tenants = Tenants()
    suspend = SetTenantStatus(id="default", status=TenantStatus.SUSPENDED, reason="x")
    expected = "The client is not allowed to do this: the tenant `default` is built in."
    with pytest.raises(Refused) as refused:
        tenants.set_status(suspend, WALL)
    assert sentence(refused, "permission_denied") == expected
    with pytest.raises(Refused) as refused:
        tenants.begin_deletion("default", WALL)
    assert sentence(refused, "permission_denied") == expected


def test_an_id_of_a_tenant_is_refused_without_advice_about_names_of_topics() -> None:
    with pytest.raises(Refused) as refused:
        Tenants().create(CreateTenant(id="A", name="a"), WALL)
    assert sentence(refused, "name_invalid") == (
        "The name is not valid: `id` is a lower-case letter and 2 to 63 lower-case letters, "
        "digits or hyphens."
    )


def test_a_name_outside_of_the_tenant_is_refused_with_the_prefix_that_it_needs() -> None:
    known = Known()
    known.add_tenant("acme")
    caller = known.add_key(Role.ADMIN, tenant="acme")
    with pytest.raises(Refused) as refused:
        known.access().admit(caller, CreateTopic(name="orders"), NOW)
    assert sentence(refused, "permission_denied") == (
        "The client is not allowed to do this: names of the tenant begin with `acme.`."
    )


@pytest.mark.parametrize(("at", "end"), [(0, "was revoked"), (2 * HOUR, "has expired")])
def test_a_key_that_has_ended_is_not_rotated_and_the_sentence_says_why(at: int, end: str) -> None:
    keys = ApiKeys()
    keys.apply(keys.create(msgspec.structs.replace(new_key(1), expires_in_ns=HOUR), WALL))
    if not at:
        keys.apply(keys.revoke(key_id(1)))
    command = RotateKey(id=key_id(1), prefix="gq_", verifiers=verifiers_of("next"), grace_ns=0)
    with pytest.raises(Refused) as refused:
        keys.rotate(command, Timestamp(WALL + at))
    assert sentence(refused, "request_invalid") == (
        f"The request is not valid: `id` names a key that {end}: create another one."
    )


def test_a_glob_with_too_many_stars_is_told_how_many_it_may_have() -> None:
    acl = AclSpec(
        principal="*",
        resource_type=ResourceType.TOPIC,
        resource_name="*a" * 9,
        operation=Operation.WRITE,
        effect=AclEffect.ALLOW,
    )
    with pytest.raises(Refused) as refused:
        check_acl(acl)
    assert sentence(refused, "request_invalid") == (
        "The request is not valid: `resource_name` has more than 8 stars."
    )
