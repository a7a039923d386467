"""What a caller may do, and what one that may not learns from the refusal."""

from typing import get_args

import msgspec
import pytest

from goqueue.model import ANONYMOUS, LOCAL, Caller, Code, Instant, KeyId, Now, Refused, Timestamp
from goqueue.model.requests import (
    AclEffect,
    CheckHealth,
    Command,
    CreateTopic,
    DescribeCaller,
    DescribeTopic,
    Join,
    ListKeys,
    ListTenants,
    ListTopics,
    Operation,
    Publish,
    Read,
    Receive,
    ResourceType,
    Role,
    SecurityCommand,
    TenantStatus,
)
from goqueue.security import RULES, UNLIMITED, Access, Scope
from tests.unit.security.callers import NOW, Known, command_about

COMMANDS = [*get_args(Command), *get_args(SecurityCommand)]
CLUSTER_READS = {each for each in COMMANDS if Role.READONLY in RULES[each].roles}
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE = Operation.READ, Operation.WRITE


def outcome(access: Access, caller: Caller, command: object, now: Now = NOW) -> Code | None:
    """The code with which a command is refused."""
    try:
        access.admit(caller, command, now)  # type: ignore[arg-type]  # of a generated type
    except Refused as refused:
        return refused.code
    access.leave(is_refused=True)
    return None


@pytest.fixture
def known() -> Known:
    known = Known()
    known.add_tenant("acme")
    known.add_tenant("globex")
    return known


# The table: roles by commands by whose name it is


def expected(kind: type, role: Role, tenant: str, whose: str) -> Code | None:
    """What the contract says, read from the rule but decided apart from `Access`."""
    rule = RULES[kind]
    is_admin, is_default = role is Role.ADMIN, tenant == "default"
    if is_admin and is_default:
        return None
    if rule.scope is Scope.CLUSTER:
        is_reader = role is Role.READONLY and kind in CLUSTER_READS
        return None if is_default and is_reader else Code.PERMISSION_DENIED
    if not is_admin and role not in rule.roles:
        return Code.PERMISSION_DENIED
    if rule.name is None or whose in ("own", "absent"):
        return None
    is_topic = rule.kind is TOPIC
    if whose == "foreign" or (whose == "internal" and not is_default):
        if rule.operation is Operation.CREATE:
            return Code.PERMISSION_DENIED
        return Code.TOPIC_NOT_FOUND if is_topic else Code.GROUP_NOT_FOUND
    if is_topic:
        return Code.TOPIC_INTERNAL
    # A group may have any name, but not read such a topic.
    return None if rule.others is None else Code.TOPIC_INTERNAL


@pytest.mark.parametrize("whose", ["own", "absent", "foreign", "internal"])
@pytest.mark.parametrize("tenant", ["default", "acme"])
@pytest.mark.parametrize("role", Role)
def test_every_command_by_role_tenant_and_owner_of_the_name(
    known: Known, role: Role, tenant: str, whose: str
) -> None:
    access = known.access()
    caller = known.add_key(role, tenant=tenant)
    own = "orders" if tenant == "default" else "acme.orders"
    name = {
        "own": own,
        # Names are checked before objects: what does not exist is answered as what does.
        "absent": own.replace("orders", "nothing"),
        "foreign": "globex.orders",
        "internal": "__topics",
    }[whose]
    for kind in COMMANDS:
        found = outcome(access, caller, command_about(kind, name))
        assert found is expected(kind, role, tenant, whose), kind.__name__


@pytest.mark.parametrize("kind", COMMANDS)
def test_without_a_key_there_are_only_probes(known: Known, kind: type) -> None:
    is_probe = RULES[kind].scope is Scope.PROBE
    found = outcome(known.access(), ANONYMOUS, command_about(kind, "orders"))
    assert found is (None if is_probe else Code.UNAUTHENTICATED)


def test_the_caller_of_a_node_without_authentication_is_unlimited() -> None:
    assert UNLIMITED.key == LOCAL.key
    assert UNLIMITED.is_unlimited


# Keys


def test_a_key_is_looked_up_at_each_command(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.PRODUCER)
    publish = Publish(topic="orders", batch=bytearray())
    assert outcome(access, caller, publish) is None
    known.revoke(caller)
    assert outcome(access, caller, publish) is Code.UNAUTHENTICATED


def test_a_key_that_nobody_has_is_not_authenticated(known: Known) -> None:
    caller = Caller(KeyId("key_ffffffffffffffff"))
    assert outcome(known.access(), caller, DescribeCaller()) is Code.UNAUTHENTICATED


def test_a_key_ends_at_its_expiry_without_any_change(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.ADMIN, expires_at=Timestamp(NOW.wall + 10))
    assert outcome(access, caller, DescribeCaller()) is None
    at_expiry = Now(Instant(NOW.instant + 10), Timestamp(NOW.wall + 10))
    assert outcome(access, caller, DescribeCaller(), at_expiry) is Code.UNAUTHENTICATED


def test_a_key_of_a_tenant_that_is_gone_is_not_authenticated(known: Known) -> None:
    caller = known.add_key(Role.ADMIN, tenant="gone")
    assert outcome(known.access(), caller, DescribeCaller()) is Code.UNAUTHENTICATED


# Tenants


def test_a_suspended_tenant_stores_nothing_and_reads_on(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.ADMIN, tenant="acme")
    known.add_tenant("acme", TenantStatus.SUSPENDED)
    refused = {
        kind.__name__
        for kind in COMMANDS
        if outcome(access, caller, command_about(kind, "acme.orders")) is Code.TENANT_INACTIVE
    }
    assert refused == {kind.__name__ for kind, rule in RULES.items() if rule.stores}
    assert {"Publish", "CreateTopic", "AlterTopic", "DeleteTopic", "Redrive"} <= refused
    assert not refused & {"Read", "Poll", "Ack", "CancelDelayed", "EndTransaction"}


@pytest.mark.parametrize("status", [TenantStatus.DISABLED, TenantStatus.DELETING])
def test_a_disabled_tenant_is_refused_everything(known: Known, status: TenantStatus) -> None:
    access = known.access()
    caller = known.add_key(Role.ADMIN, tenant="acme")
    known.add_tenant("acme", status)
    for kind in COMMANDS:
        found = outcome(access, caller, command_about(kind, "acme.orders"))
        assert found is Code.TENANT_INACTIVE, kind.__name__


def test_a_name_changes_hands_when_its_tenant_is_made(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.CONSUMER)
    read = Read(topic="initech.orders", partition=0)
    assert outcome(access, caller, read) is None
    known.add_tenant("initech")
    assert outcome(access, caller, read) is Code.TOPIC_NOT_FOUND


@pytest.mark.parametrize(
    "name", ["acme", "acmeorders", "Acme.orders", "acme%2eorders", ".acme.orders", "x.acme.orders"]
)
def test_names_that_resemble_those_of_a_tenant_are_not_its(known: Known, name: str) -> None:
    access = known.access()
    caller = known.add_key(Role.ADMIN, tenant="acme")
    assert outcome(access, caller, DescribeTopic(name=name)) is Code.TOPIC_NOT_FOUND


def test_every_topic_of_a_command_is_checked(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.CONSUMER, tenant="acme")
    topics = ("acme.orders", "globex.orders")
    join = Join(group="acme.readers", client_id="c", topics=topics, token=str(1))
    assert outcome(access, caller, join) is Code.TOPIC_NOT_FOUND
    receive = Receive(group="readers", topics=("acme.orders",))
    assert outcome(access, caller, receive) is Code.GROUP_NOT_FOUND


def test_a_refusal_shows_a_foreign_name_as_an_absent_one(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.CONSUMER, tenant="acme")
    with pytest.raises(Refused) as refused:
        access.admit(caller, Read(topic="globex.orders", partition=0), NOW)
    assert refused.value.facts == {"topic": "globex.orders"}


# ACLs


def test_acls_have_no_effect_while_they_are_off(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.CONSUMER)
    known.add_acl("*", "*", effect=AclEffect.DENY)
    assert outcome(access, caller, Read(topic="orders", partition=0)) is None
    known.add_acl(caller.key, "*", Operation.CREATE)
    assert outcome(access, caller, CreateTopic(name="bills")) is Code.PERMISSION_DENIED


def test_with_acls_on_no_match_is_a_deny_and_admins_are_exempt(known: Known) -> None:
    access = known.access(acl_enabled=True)
    consumer, admin = known.add_key(Role.CONSUMER), known.add_key(Role.ADMIN, tenant="acme")
    assert outcome(access, consumer, Read(topic="orders", partition=0)) is Code.PERMISSION_DENIED
    assert outcome(access, admin, Read(topic="acme.orders", partition=0)) is None


def test_a_refusal_by_acls_names_what_is_not_allowed(known: Known) -> None:
    access = known.access(acl_enabled=True)
    producer = known.add_key(Role.PRODUCER)
    with pytest.raises(Refused) as refused:
        access.admit(producer, Publish(topic="orders", batch=bytearray()), NOW)
    assert refused.value.facts["reason"] == "ACLs do not allow the key to write topic orders"
    with pytest.raises(Refused) as refused:
        access.admit(producer, command_about(Read, "orders"), NOW)
    assert refused.value.facts["reason"] == "no role of the key may do this"


def test_a_deny_that_comes_later_ends_what_was_allowed(known: Known) -> None:
    access = known.access(acl_enabled=True)
    caller = known.add_key(Role.CONSUMER)
    read = Read(topic="orders", partition=0)
    known.add_acl(caller.key, "ord*", READ)
    assert outcome(access, caller, read) is None
    known.add_acl("role:consumer", "orders", READ, AclEffect.DENY)
    assert outcome(access, caller, read) is Code.PERMISSION_DENIED


def test_an_acl_does_not_replace_a_role_except_to_administer_topics(known: Known) -> None:
    access = known.access(acl_enabled=True)
    caller = known.add_key(Role.CONSUMER)
    known.add_acl(caller.key, "*")
    publish = Publish(topic="orders", batch=bytearray())
    assert outcome(access, caller, publish) is Code.PERMISSION_DENIED
    assert outcome(access, caller, CreateTopic(name="orders")) is None


def test_an_acl_reaches_neither_other_tenants_nor_internal_names(known: Known) -> None:
    access = known.access(acl_enabled=True)
    caller = known.add_key(Role.CONSUMER)
    known.add_acl("*", "*")
    assert outcome(access, caller, Read(topic="acme.x", partition=0)) is Code.TOPIC_NOT_FOUND
    assert outcome(access, caller, Read(topic="__topics", partition=0)) is Code.TOPIC_INTERNAL


def test_reading_about_tenants_needs_an_acl_of_the_cluster(known: Known) -> None:
    access = known.access(acl_enabled=True)
    caller = known.add_key(Role.READONLY)
    assert outcome(access, caller, ListTenants()) is Code.PERMISSION_DENIED
    known.add_acl("role:readonly", "*", READ, kind=ResourceType.CLUSTER)
    assert outcome(access, caller, ListTenants()) is None
    assert outcome(access, caller, ListKeys()) is Code.PERMISSION_DENIED


# What handlers find


def test_a_handler_that_checks_nothing_is_a_bug(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.READONLY)
    access.admit(caller, ListTopics(), NOW)
    with pytest.raises(AssertionError, match="unchecked"):
        access.leave()


def test_a_list_shows_what_the_caller_may_describe(known: Known) -> None:
    access = known.access(acl_enabled=True)
    caller = known.add_key(Role.READONLY, tenant="acme")
    known.add_acl(caller.key, "acme.o*", WRITE)
    access.admit(caller, ListTopics(), NOW)
    sees = access.visible_topics()
    access.leave()
    assert sees is not None
    names = ["acme.orders", "acme.bills", "orders", "globex.orders", "__topics"]
    assert list(filter(sees, names)) == ["acme.orders"]
    # Also in a later turn, by what holds then.
    known.add_acl(caller.key, "acme.*", effect=AclEffect.DENY)
    assert not any(map(sees, names))


def test_a_handler_requires_what_it_finds_of_the_command_at_hand(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.CONSUMER, tenant="acme")
    access.admit(caller, CheckHealth(), NOW)
    access.require(TOPIC, "acme.orders", READ)
    with pytest.raises(Refused) as refused:
        access.require(GROUP, "globex.readers", READ)
    assert refused.value.code is Code.GROUP_NOT_FOUND
    with pytest.raises(Refused):
        access.require_tenant("globex", Refused(Code.PRODUCER_NOT_FOUND))
    access.leave()
    # The broker itself is not limited.
    access.require(GROUP, "globex.readers", READ)


def test_what_is_remembered_is_bounded(known: Known) -> None:
    access = known.access()
    principal = access.admit(known.add_key(Role.CONSUMER, tenant="acme"), CheckHealth(), NOW)
    for number in range(70_000):
        assert access.may(principal, TOPIC, f"acme.{number}", READ)
    assert access.decision_count <= 65_537


def test_commands_that_passed_are_remembered_within_the_same_bound(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.PRODUCER, tenant="acme")
    for number in range(66_000):
        access.admit(caller, Publish(topic=f"acme.{number}", batch=bytearray()), NOW)
    # About names and about commands.
    assert 0 < access.decision_count <= 2 * 65_536


def test_a_command_that_passed_is_refused_when_another_secret_proves_the_key(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.PRODUCER)
    publish = Publish(topic="orders", batch=bytearray())
    assert outcome(access, caller, publish) is None
    stolen = msgspec.structs.replace(caller, proof=b"another!")
    assert outcome(access, stolen, publish) is Code.UNAUTHENTICATED
    assert outcome(access, caller, publish) is None


def test_a_command_that_passed_is_refused_at_the_expiry_of_its_key(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.PRODUCER, expires_at=Timestamp(NOW.wall + 10))
    publish = Publish(topic="orders", batch=bytearray())
    for at, code in ((9, None), (9, None), (10, Code.UNAUTHENTICATED)):
        now = Now(NOW.instant, Timestamp(NOW.wall + at))
        assert outcome(access, caller, publish, now) is code


def test_what_passed_for_one_name_command_or_key_is_decided_anew_for_another(known: Known) -> None:
    access = known.access()
    caller = known.add_key(Role.PRODUCER, tenant="acme")
    reader = known.add_key(Role.CONSUMER, tenant="acme")
    publish = Publish(topic="acme.orders", batch=bytearray())
    for _ in range(2):
        assert outcome(access, caller, publish) is None
        foreign = Publish(topic="globex.orders", batch=bytearray())
        assert outcome(access, caller, foreign) is Code.TOPIC_NOT_FOUND
        describe = command_about(Read, "acme.orders")
        assert outcome(access, caller, describe) is Code.PERMISSION_DENIED
        assert outcome(access, reader, publish) is Code.PERMISSION_DENIED
