"""Tenants and ACLs in backups: in force with the topics of a restore, or not at all."""

import msgspec
import pytest

from goqueue.broker.backup_state import AclsSaved, acls_digest
from goqueue.broker.restored_access import ACCESS_ITEMS_MAX, RestoredAccess
from goqueue.model import SECOND, Code, Refused, Timestamp
from goqueue.model.requests import (
    AclDeleted,
    AclDescription,
    AclEffect,
    AclList,
    AclSpec,
    BackupDescription,
    BackupProgress,
    CreateAcl,
    CreateBackup,
    CreateSchedule,
    CreateTenant,
    CreateTopic,
    DeleteAcl,
    DeleteSchedule,
    DeleteTopic,
    Done,
    KeyDescription,
    KeyList,
    ListAcls,
    ListKeys,
    ListSchedules,
    ListTenants,
    Operation,
    QuotaChanges,
    Quotas,
    ResourceType,
    RestoreBackup,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleList,
    ScheduleSpec,
    SetTenantStatus,
    TenantDescription,
    TenantList,
    TenantStatus,
    TopicDescription,
)
from goqueue.security import AclStated, SecurityRegistry, TenantStated
from tests.unit.broker.backup_words import back_up, files_of, fresh_node, restore
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.security.secrets import new_key
from tests.unit.storage.memory_files import Killed, MemoryFiles

ACL = AclSpec(
    principal="key_0000000000000001",
    resource_type=ResourceType.TOPIC,
    resource_name="acme.*",
    operation=Operation.READ,
    effect=AclEffect.DENY,
)


def shared_node() -> DrivenNode:
    """A node with a suspended tenant that has a topic, a key and an ACL."""
    node = DrivenNode()
    quotas = QuotaChanges(max_topics=7)
    node.ask(CreateTenant(id="acme", name="Acme", quotas=quotas), TenantDescription)
    node.ask(CreateTopic(name="acme.orders", partitions=1), TopicDescription)
    node.ask(new_key(1, tenant="acme"), KeyDescription)
    node.ask(CreateAcl(id="acl_1", acl=ACL), AclDescription)
    status = SetTenantStatus(id="acme", status=TenantStatus.SUSPENDED, reason="unpaid")
    node.ask(status, TenantDescription)
    return node


def tenants(node: DrivenNode) -> dict[str, TenantDescription]:
    return {each.id: each for each in node.ask(ListTenants(), TenantList).tenants}


def acls(node: DrivenNode) -> dict[str, AclSpec]:
    return {each.id: each.acl for each in node.ask(ListAcls(), AclList).acls}


def test_a_restore_brings_tenants_and_acls_and_no_keys() -> None:
    node = shared_node()
    backup = back_up(node).summary.id
    fresh = fresh_node(node)
    assert restore(fresh, backup).state is BackupProgress.COMPLETED
    for is_restarted in (False, True):
        if is_restarted:
            fresh.restart()
        acme = tenants(fresh)["acme"]
        assert (acme.status, acme.suspend_reason) == (TenantStatus.SUSPENDED, "unpaid")
        assert acme.quotas.max_topics == 7
        assert acls(fresh) == {"acl_1": ACL}
        assert fresh.ask(ListKeys(), KeyList).keys == ()


def test_no_file_of_a_backup_has_a_digest_of_a_key() -> None:
    node = shared_node()
    back_up(node)
    verifiers = new_key(1).verifiers
    for path, content in files_of(node).items():
        assert verifiers.digest not in bytes(content), path
        assert b"verifiers" not in bytes(content), path


def test_a_backup_without_configuration_has_neither() -> None:
    node = shared_node()
    backup = back_up(node, CreateBackup(has_config=False)).summary.id
    fresh = fresh_node(node)
    restore(fresh, backup)
    assert list(tenants(fresh)) == ["default"]
    assert acls(fresh) == {}


def test_what_the_node_has_stays_as_it_is() -> None:
    node = shared_node()
    backup = back_up(node).summary.id
    fresh = fresh_node(node)
    mine = CreateTenant(id="acme", name="mine", quotas=QuotaChanges(max_topics=3))
    fresh.ask(mine, TenantDescription)
    assert restore(fresh, backup).state is BackupProgress.COMPLETED
    assert tenants(fresh)["acme"].quotas.max_topics == 3


def test_a_tenant_does_not_take_over_names_of_the_node() -> None:
    node = shared_node()
    backup = back_up(node).summary.id
    fresh = fresh_node(node)
    fresh.ask(CreateTopic(name="acme.other", partitions=1), TopicDescription)
    refused = restore(fresh, backup)
    assert refused.state is BackupProgress.FAILED
    assert "prefix" in (refused.error or "")
    assert list(tenants(fresh)) == ["default"]
    assert acls(fresh) == {}
    # Left out, its topics would become those of somebody else.
    assert "would belong to default" in (restore(fresh, backup, skips_existing=True).error or "")
    assert list(tenants(fresh)) == ["default"]
    assert acls(fresh) == {}


def tenant(**changes: object) -> TenantStated:
    fields = {"id": "acme", "name": "x", "created_at": 1, "updated_at": 1, "quotas": Quotas()}
    return TenantStated(**fields | changes)  # type: ignore[arg-type]  # what a stranger wrote


@pytest.mark.parametrize(
    "item",
    [
        tenant(id="../x"),
        tenant(name=""),
        tenant(description="line\nbreak"),
        tenant(metadata={"x": "y" * 300}),
        tenant(status=TenantStatus.DELETING),
        AclStated(id="", acl=ACL),
        AclStated(
            id="acl_2",
            acl=AclSpec(
                principal="everybody",
                resource_type=ResourceType.TOPIC,
                resource_name="*",
                operation=Operation.ALL,
                effect=AclEffect.ALLOW,
            ),
        ),
    ],
)
def test_what_no_command_could_have_made_is_refused(item: TenantStated | AclStated) -> None:
    with pytest.raises(Refused) as refused:
        RestoredAccess(SecurityRegistry(), lambda _: 0).check(item, Timestamp(0), skips=True)
    assert refused.value.code in (Code.REQUEST_INVALID, Code.NAME_INVALID)


def test_there_are_not_more_than_fit_into_a_turn() -> None:
    access = RestoredAccess(SecurityRegistry(), lambda _: 0)
    for number in range(ACCESS_ITEMS_MAX):
        access.check(tenant(id=f"tenant-{number}"), Timestamp(0), skips=True)
    with pytest.raises(Refused, match="2000 tenants and ACLs"):
        access.check(tenant(id="one-more"), Timestamp(0), skips=True)


ALLOW = AclSpec(
    principal="key_0000000000000001",
    resource_type=ResourceType.TOPIC,
    resource_name="other.*",
    operation=Operation.READ,
    effect=AclEffect.ALLOW,
)
EVERYBODY = msgspec.structs.replace(ALLOW, principal="*")


def without_topics() -> CreateBackup:
    return CreateBackup(has_topics=False, has_offsets=False, has_schemas=False)


def test_tenants_and_acls_come_back_without_any_topic() -> None:
    node = shared_node()
    node.ask(DeleteTopic(name="acme.orders"), Done)
    backup = back_up(node, without_topics()).summary.id
    fresh = fresh_node(node)
    restored = restore(fresh, backup)
    assert restored.state is BackupProgress.COMPLETED
    assert (restored.topics_restored, restored.tenants_restored, restored.acls_restored) == (
        0,
        1,
        1,
    )
    for is_restarted in (False, True):
        if is_restarted:
            fresh.restart()
        assert tenants(fresh)["acme"].status is TenantStatus.SUSPENDED
        assert acls(fresh) == {"acl_1": ACL}


def test_what_was_deleted_comes_back_beside_topics_that_exist() -> None:
    node = shared_node()
    backup = back_up(node).summary.id
    node.ask(DeleteAcl(id="acl_1"), AclDeleted)
    restored = restore(node, backup, skips_existing=True)
    assert (restored.topics_restored, restored.skipped, restored.acls_restored) == (0, 1, 1)
    assert acls(node) == {"acl_1": ACL}


def test_a_second_restore_without_topics_that_is_cut_short_leaves_nothing() -> None:
    node = shared_node()
    spec = ScheduleSpec(
        name="report",
        topic="reports",
        message=ScheduledMessage(value=b"tick"),
        every_ns=3600 * SECOND,
    )
    node.ask(CreateTopic(name="reports", partitions=1), TopicDescription)
    node.ask(CreateSchedule(spec=spec), ScheduleDescription)
    backup = back_up(node, CreateBackup(has_offsets=False)).summary.id
    first = fresh_node(node)
    restore(first, backup)
    first.ask(DeleteSchedule(name="report"), Done)
    first.ask(DeleteAcl(id="acl_1"), AclDeleted)
    # One that is committed, without a topic: the next must not be taken for it.
    assert restore(first, backup, skips_existing=True).schedules_restored == 1
    first.ask(DeleteSchedule(name="report"), Done)
    first.ask(DeleteAcl(id="acl_1"), AclDeleted)
    content = first.files.copy()
    seen = set()
    operations, is_cut_short = 0, True
    while is_cut_short:
        files = MemoryFiles(content)
        killed = DrivenNode(files)
        files.faults.operations_left = operations
        try:
            killed.ask(RestoreBackup(backup=backup, skips_existing=True), BackupDescription)
            is_cut_short = False
        except Killed:
            operations += 1
        after = DrivenNode(MemoryFiles(files.copy()))
        schedules = after.ask(ListSchedules(), ScheduleList).schedules
        there = (len(schedules), len(acls(after)))
        assert there in ((0, 0), (1, 1)), operations
        seen.add(there)
    assert seen == {(0, 0), (1, 1)}


@pytest.mark.parametrize(
    "rule", [ALLOW, EVERYBODY, msgspec.structs.replace(ALLOW, principal="role:consumer")]
)
def test_a_rule_that_allows_and_was_deleted_since_stays_deleted(rule: AclSpec) -> None:
    node = shared_node()
    node.ask(CreateAcl(id="acl_2", acl=rule), AclDescription)
    backup = back_up(node, without_topics()).summary.id
    for id_ in ("acl_1", "acl_2"):
        node.ask(DeleteAcl(id=id_), AclDeleted)
    restored = restore(node, backup, skips_existing=True)
    assert restored.state is BackupProgress.COMPLETED
    assert (restored.acls_restored, restored.acls_skipped) == (1, 1)
    # What denies comes back: nobody gets anything by it.
    assert acls(node) == {"acl_1": ACL}


def test_a_new_node_gets_rules_that_allow_also_if_it_has_a_first_key() -> None:
    node = shared_node()
    for number, rule in enumerate((ALLOW, EVERYBODY), start=2):
        node.ask(CreateAcl(id=f"acl_{number}", acl=rule), AclDescription)
    backup = back_up(node, without_topics()).summary.id
    fresh = fresh_node(node)
    fresh.advance(SECOND)
    fresh.ask(new_key(9), KeyDescription)
    restored = restore(fresh, backup)
    assert (restored.acls_restored, restored.acls_skipped) == (3, 0)
    assert acls(fresh) == {"acl_1": ACL, "acl_2": ALLOW, "acl_3": EVERYBODY}


@pytest.mark.parametrize(
    "kept", [{}, {"acl_1": ACL, "acl_2": ALLOW}, {"acl_1": ALLOW}], ids=["lost", "more", "changed"]
)
def test_a_backup_whose_acls_are_not_those_that_it_names_is_refused(
    kept: dict[str, AclSpec],
) -> None:
    access = RestoredAccess(SecurityRegistry(), lambda _: 0)
    told = AclsSaved(count=1, digest=acls_digest({"acl_1": ACL}))
    for id_, acl in kept.items():
        access.check(AclStated(id=id_, acl=acl), Timestamp(0), skips=False)
    access.check(told, Timestamp(0), skips=False)
    with pytest.raises(Refused) as refused:
        access.check_whole()
    assert "ACLs" in str(refused.value)
