"""Keys, ACLs and tenants in the node: durable when answered, and the same after a restart."""

import msgspec
import pytest

from goqueue.broker import JournalLimits
from goqueue.model import (
    SECOND,
    Caller,
    Code,
    KeyId,
    ListSubjects,
    LogId,
    Message,
    Refused,
    RegisterSchema,
    SchemaDescription,
    SchemaReference,
    SchemaText,
    SchemaType,
    SubjectList,
)
from goqueue.model.requests import (
    AclDeleted,
    AclDescription,
    AclEffect,
    AclList,
    AclSpec,
    AlterQuotas,
    AlterTenant,
    BeginTransaction,
    CallerDescription,
    CommitGroup,
    CreateAcl,
    CreateTenant,
    CreateTopic,
    DeleteAcl,
    DeleteTenant,
    DescribeCaller,
    DescribeQuotas,
    DescribeTenant,
    DescribeTenantStatistics,
    DescribeTransactions,
    DescribeUsage,
    Done,
    GroupCommitted,
    InitProducer,
    KeyDescription,
    KeyList,
    ListAcls,
    ListKeys,
    ListTenantGroups,
    ListTenants,
    ListTenantTopics,
    ListTopics,
    ListTransactions,
    Operation,
    Owner,
    PrepareTransaction,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    QuotaChanges,
    Quotas,
    ResetUsage,
    ResourceType,
    RevokeKey,
    Role,
    SetTenantStatus,
    TenantChanges,
    TenantDescription,
    TenantList,
    TenantNames,
    TenantStatistics,
    TenantStatus,
    TenantUsage,
    TopicDescription,
    TopicList,
    TransactionBegan,
    TransactionList,
    TransactionPrepared,
    TransactionStatistics,
)
from goqueue.records import build
from goqueue.security import USAGE_ENTRIES_MAX
from tests.unit.broker.driven_node import Crashed, DrivenNode, cut_off
from tests.unit.broker.users import create, join, publish, read
from tests.unit.security.secrets import key_id, new_key, new_secret, verifiers_of

TOPICS = LogId("__topics", 0)
AUDIT = LogId("__audit", 0)
_ACL = AclSpec(
    principal="role:producer",
    resource_type=ResourceType.TOPIC,
    resource_name="acme.*",
    operation=Operation.WRITE,
    effect=AclEffect.ALLOW,
)


def _tenant(node: DrivenNode, id_: str = "acme", **quotas: int) -> TenantDescription:
    command = CreateTenant(id=id_, name=id_, quotas=QuotaChanges(**quotas))
    return node.ask(command, TenantDescription)


def _refusal(node: DrivenNode, command: object) -> Refused:
    with pytest.raises(Refused) as refused:
        node.ask(command, Done)  # type: ignore[arg-type]  # any command
    return refused.value


def _told(node: DrivenNode) -> tuple[object, ...]:
    """All that a client can learn of keys, ACLs and tenants."""
    return (
        node.ask(ListKeys(), KeyList),
        node.ask(ListAcls(), AclList),
        node.ask(ListTenants(), TenantList),
    )


def _filled() -> DrivenNode:
    node = DrivenNode()
    _tenant(node, max_topics=3)
    _tenant(node, "globex")
    suspend = SetTenantStatus(id="globex", status=TenantStatus.SUSPENDED, reason="unpaid")
    node.ask(suspend, TenantDescription)
    node.ask(new_key(1, tenant="acme", role=Role.PRODUCER), KeyDescription)
    node.ask(new_key(2), KeyDescription)
    node.ask(new_key(3), KeyDescription)
    node.ask(RevokeKey(id=key_id(2)), KeyDescription)
    node.ask(new_secret(3, "rotated", 60 * SECOND), KeyDescription)
    node.ask(CreateAcl(id="acl_1", acl=_ACL), AclDescription)
    node.ask(CreateAcl(id="acl_2", acl=_ACL), AclDescription)
    node.ask(DeleteAcl(id="acl_2"), AclDeleted)
    return node


@pytest.mark.parametrize("without_snapshots", [False, True])
@pytest.mark.parametrize("is_clean", [False, True])
def test_everything_is_the_same_after_a_restart(*, is_clean: bool, without_snapshots: bool) -> None:
    node = _filled()
    told = _told(node)
    if is_clean:
        node.stop()
    node.restart(without_snapshots=without_snapshots)

    assert _told(node) == told

    def key_of(secret: str) -> KeyId | None:
        proven = node.node.keys.identify(verifiers_of(secret).digest, node.now.wall)
        return None if proven is None else proven.id

    assert key_of("secret 1") == key_id(1)
    assert key_of("secret 2") is None
    assert key_of("rotated") == key_id(3)
    assert key_of("secret 3") == key_id(3)


def test_a_journal_that_is_stated_again_keeps_keys_acls_and_tenants() -> None:
    node = DrivenNode(limits=JournalLimits(snapshot_bytes=4096, restate_bytes=20_000))
    _tenant(node)
    for number in range(40):
        node.ask(new_key(number), KeyDescription)
        node.ask(CreateAcl(id=f"acl_{number}", acl=_ACL), AclDescription)
    told = _told(node)
    node.advance(5 * SECOND)
    node.restart()

    assert _told(node) == told


def test_an_answer_waits_for_the_journal_and_for_the_audit_log() -> None:
    node = DrivenNode()
    node.slow_down(TOPICS)
    request = node.begin(new_key(1))
    assert not node.is_answered(request)
    node.speed_up()
    assert node.is_answered(request)

    node.slow_down(AUDIT)
    request = node.begin(new_key(2))
    assert not node.is_answered(request)
    node.speed_up()
    assert node.reply(request, KeyDescription).id == key_id(2)


def test_without_authentication_a_caller_is_admin_of_default() -> None:
    described = DrivenNode().ask(DescribeCaller(), CallerDescription)

    assert described == CallerDescription(
        key_id=KeyId("local"), name="local", roles=(Role.ADMIN,), tenant="default"
    )


def test_a_key_of_a_tenant_that_does_not_exist_is_refused() -> None:
    assert _refusal(DrivenNode(), new_key(1, tenant="acme")).code is Code.TENANT_NOT_FOUND


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (RevokeKey(id=key_id(9)), Code.KEY_NOT_FOUND),
        (new_secret(9, "x"), Code.KEY_NOT_FOUND),
        (DeleteAcl(id="acl_9"), Code.ACL_NOT_FOUND),
        (DescribeTenant(id="nobody"), Code.TENANT_NOT_FOUND),
        (DeleteTenant(id="nobody"), Code.TENANT_NOT_FOUND),
        (DescribeUsage(tenant="nobody"), Code.TENANT_NOT_FOUND),
        (ResetUsage(tenant="nobody"), Code.TENANT_NOT_FOUND),
        (DescribeQuotas(tenant="nobody"), Code.TENANT_NOT_FOUND),
        (DescribeTenantStatistics(tenant="nobody"), Code.TENANT_NOT_FOUND),
        (ListTenantTopics(tenant="nobody"), Code.TENANT_NOT_FOUND),
        (ListTenantGroups(tenant="nobody"), Code.TENANT_NOT_FOUND),
        (DeleteTenant(id="default"), Code.PERMISSION_DENIED),
    ],
)
def test_what_does_not_exist_or_is_built_in_is_refused(command: object, code: Code) -> None:
    assert _refusal(DrivenNode(), command).code is code


def test_a_tenant_does_not_take_over_names_that_exist_unless_it_adopts_them() -> None:
    node = DrivenNode()
    create(node, "acme.orders")
    assert _refusal(node, CreateTenant(id="acme", name="x")).code is Code.TENANT_NOT_EMPTY
    node.ask(CreateTenant(id="acme", name="x", adopts=True), TenantDescription)

    names = node.ask(ListTenantTopics(tenant="acme"), TenantNames).names
    assert names == ("acme.orders",)
    assert node.ask(ListTenantTopics(tenant="default"), TenantNames).names == ()


def test_a_tenant_has_the_topics_and_groups_with_its_prefix() -> None:
    node = DrivenNode()
    _tenant(node)
    for name in ("acme.b", "acme.a", "acmeb", "orders"):
        create(node, name)
    join(node, "acme.readers", topics=("acme.a",))
    join(node, "readers", topics=("orders",))

    assert node.ask(ListTenantTopics(tenant="acme"), TenantNames).names == ("acme.a", "acme.b")
    assert node.ask(ListTenantTopics(tenant="default"), TenantNames).names == ("acmeb", "orders")
    assert node.ask(ListTenantGroups(tenant="acme"), TenantNames).names == ("acme.readers",)
    assert node.ask(ListTenantGroups(tenant="default"), TenantNames).names == ("readers",)


def test_a_changed_tenant_and_its_quotas_are_described() -> None:
    node = DrivenNode()
    _tenant(node)
    altered = node.ask(
        AlterTenant(id="acme", changes=TenantChanges(description="d")), TenantDescription
    )
    assert altered.description == "d"
    quotas = node.ask(AlterQuotas(tenant="acme", changes=QuotaChanges(max_topics=7)), Quotas)
    assert quotas.max_topics == 7
    assert node.ask(DescribeTenant(id="acme"), TenantDescription).quotas == quotas


# Deletion


def _with_property() -> DrivenNode:
    node = DrivenNode()
    _tenant(node)
    node.ask(new_key(1, tenant="acme"), KeyDescription)
    node.ask(new_key(2), KeyDescription)
    create(node, "acme.orders", partitions=3)
    create(node, "acme.other")
    create(node, "orders")
    join(node, "acme.readers", topics=("acme.orders",))
    join(node, "readers", topics=("orders",))
    publish(node, "a", topic="acme.orders")
    _commit_under(node, "billing", "run-1", Caller(key_id(1)))
    _prepare(node, "mailing", Caller(key_id(1)))
    _register(node, "acme.base")
    _register(node, "acme.orders-value", SchemaReference(name="b", subject="acme.base", version=1))
    _register(node, "orders-value")
    return node


def _register(node: DrivenNode, subject: str, *references: SchemaReference) -> None:
    text = SchemaText(type=SchemaType.AVRO, text='"string"', references=references)
    node.ask(RegisterSchema(subject=subject, schema=text), SchemaDescription)


def _prepare(node: DrivenNode, name: str, caller: Caller) -> tuple[ProducerGranted, str]:
    """A transaction with a message, which waits for a decision."""
    granted = node.ask(InitProducer(transactional_id=name), ProducerGranted, caller)
    owner = Owner(transactional_id=name, producer_id=granted.producer_id, epoch=granted.epoch)
    node.ask(BeginTransaction(owner=owner), TransactionBegan, caller)
    stamp = ProducerStamp(producer_id=granted.producer_id, epoch=granted.epoch)
    batch = build([Message(value=b"x")])
    node.ask(Publish(topic="acme.orders", batch=batch, producer=stamp), Published, caller)
    prepared = node.ask(PrepareTransaction(owner=owner), TransactionPrepared, caller)
    return granted, prepared.transaction_id


def _commit_under(
    node: DrivenNode, name: str, key: str, caller: Caller
) -> tuple[ProducerGranted, bool]:
    """Who committed a transaction under a key, and whether that was done before."""
    granted, transaction = _prepare(node, name, caller)
    commit = CommitGroup(key=key, transaction_ids=(transaction,))
    return granted, node.ask(commit, GroupCommitted, caller).is_repeat


def _is_gone(node: DrivenNode) -> bool:
    """Whether nothing of the tenant is left, and everything of others is."""
    assert node.ask(ListTenants(), TenantList).tenants[-1].id == "default"
    assert node.ask(ListTopics(), TopicList).topics == ("orders",)
    assert node.ask(ListTenantGroups(tenant="default"), TenantNames).names == ("readers",)
    assert [key.id for key in node.ask(ListKeys(), KeyList).keys] == [key_id(2)]
    assert node.ask(ListSubjects(), SubjectList).subjects == ("orders-value",)
    assert node.ask(ListTransactions(), TransactionList).total == 0
    statistics = node.ask(DescribeTransactions(), TransactionStatistics)
    assert (statistics.active, statistics.active_producers) == (0, 0)
    return True


def test_a_tenant_with_topics_is_deleted_by_force_only() -> None:
    node = _with_property()
    assert _refusal(node, DeleteTenant(id="acme")).code is Code.TENANT_NOT_EMPTY
    request = node.begin(DeleteTenant(id="acme", is_forced=True))
    node.advance(SECOND)

    node.reply(request, Done)
    assert _is_gone(node)


def test_a_deleted_tenant_can_be_created_again_and_has_nothing() -> None:
    node = _with_property()
    node.begin(DeleteTenant(id="acme", is_forced=True))
    node.advance(SECOND)
    _tenant(node)

    assert node.ask(ListTenantTopics(tenant="acme"), TenantNames).names == ()
    assert node.ask(CreateTopic(name="acme.orders"), TopicDescription).total_messages == 0


@pytest.mark.parametrize("is_restarted", [False, True])
def test_whoever_gets_the_id_of_a_deleted_tenant_gets_none_of_its_producers_and_commits(
    *, is_restarted: bool
) -> None:
    node = _with_property()
    node.begin(DeleteTenant(id="acme", is_forced=True))
    node.advance(SECOND)
    if is_restarted:
        node.restart()
    _tenant(node)
    node.ask(new_key(3, tenant="acme"), KeyDescription)
    create(node, "acme.orders")

    # Otherwise its first run would be taken for one of the tenant before, and dropped.
    granted, is_repeat = _commit_under(node, "billing", "run-1", Caller(key_id(3)))
    assert not is_repeat
    assert granted.producer_id > 2
    if is_restarted:
        node.restart()
    again, is_repeat = _commit_under(node, "billing", "run-1", Caller(key_id(3)))
    assert is_repeat
    assert again == ProducerGranted(producer_id=granted.producer_id, epoch=granted.epoch + 1)
    statistics = node.ask(DescribeTransactions(), TransactionStatistics, Caller(key_id(3)))
    assert statistics.committed + statistics.aborted <= 2


def test_while_a_tenant_is_deleted_nothing_gets_its_prefix() -> None:
    node = _with_property()
    node.slow_down(LogId("acme.orders", 0))
    request = node.begin(DeleteTenant(id="acme", is_forced=True))
    node.advance(SECOND)
    assert not node.is_answered(request)

    assert _refusal(node, CreateTopic(name="acme.new")).code is Code.TENANT_INACTIVE
    again = node.begin(DeleteTenant(id="acme"))
    node.speed_up()
    node.advance(SECOND)
    node.reply(request, Done)
    node.reply(again, Done)


def test_a_deletion_that_a_crash_interrupts_anywhere_is_continued() -> None:
    pieces = 0
    while True:
        node = _with_property()
        node.crash_before = cut_off(pieces)
        try:
            node.begin(DeleteTenant(id="acme", is_forced=True))
            node.advance(SECOND)
        except Crashed:
            pass
        else:
            break
        node.restart()
        node.advance(2 * SECOND)
        if any(each.id == "acme" for each in node.ask(ListTenants(), TenantList).tenants):
            # The crash came before anything was durable.
            assert node.ask(DescribeTenant(id="acme"), TenantDescription).status == "active"
            assert "acme.orders" in node.ask(ListTopics(), TopicList).topics
        else:
            assert _is_gone(node)
        pieces += 1
    assert pieces > 5


# Usage


def test_usage_counts_what_was_committed_and_what_there_is() -> None:
    node = DrivenNode()
    _tenant(node)
    create(node, "acme.orders", partitions=2)
    publish(node, "a", "b", "c", topic="acme.orders")
    read(node, LogId("acme.orders", 0))
    read(node, LogId("acme.orders", 1))

    usage = node.ask(DescribeUsage(tenant="acme"), TenantUsage)
    assert (usage.total_messages_published, usage.total_messages_consumed) == (3, 3)
    assert usage.total_bytes_published == usage.total_bytes_consumed > 0
    assert (usage.topic_count, usage.partition_count) == (1, 2)
    assert usage.storage_bytes > 0
    stats = node.ask(DescribeTenantStatistics(tenant="acme"), TenantStatistics)
    assert stats.topic_usage_percent == 1.0
    assert stats.partition_usage_percent == 0.4
    default = node.ask(DescribeUsage(tenant="default"), TenantUsage)
    assert default.total_messages_published == default.topic_count == 0


def test_usage_survives_a_crash_but_for_half_a_minute() -> None:
    node = DrivenNode()
    _tenant(node)
    create(node, "acme.orders")
    publish(node, "a", "b", topic="acme.orders")
    node.advance(40 * SECOND)
    publish(node, "c", topic="acme.orders")
    node.restart()

    usage = node.ask(DescribeUsage(tenant="acme"), TenantUsage)
    assert usage.total_messages_published == 2


def _statements_of_usage(node: DrivenNode) -> list[list[str]]:
    """The tenants of each statement in the journal."""
    changes = [
        change
        for record in read(node, TOPICS)
        for change in msgspec.json.decode(record.value or b"[]")
    ]
    usage = [each for each in changes if each.get("type") == "usage"]
    return [[totals["tenant"] for totals in each["totals"]] for each in usage]


def test_totals_of_busy_tenants_are_journaled_twice_a_minute() -> None:
    node = DrivenNode()
    _tenant(node)
    create(node, "acme.orders")
    for _ in range(300):
        publish(node, "a", topic="acme.orders")
        node.advance(SECOND)

    assert 9 <= len(_statements_of_usage(node)) <= 10


def test_the_totals_of_all_tenants_are_journaled_however_many_are_busy() -> None:
    node = DrivenNode()
    tenants = [f"t{number:03}" for number in range(USAGE_ENTRIES_MAX + 20)]
    for tenant in tenants:
        _tenant(node, tenant, max_messages_per_second=0)
        create(node, f"{tenant}.orders")
    for _ in range(40):
        for tenant in tenants:
            publish(node, "a", topic=f"{tenant}.orders")
        node.advance(SECOND)
    node.restart()

    for tenant in tenants:
        usage = node.ask(DescribeUsage(tenant=tenant), TenantUsage)
        assert 40 - 31 <= usage.total_messages_published <= 40, tenant


def test_a_clean_stop_loses_no_usage() -> None:
    node = DrivenNode()
    _tenant(node)
    create(node, "acme.orders")
    publish(node, "a", topic="acme.orders")
    node.node.keys.record_use(key_id(1), node.now.wall)
    node.stop()
    node.restart()

    assert node.ask(DescribeUsage(tenant="acme"), TenantUsage).total_messages_published == 1


def test_totals_that_were_reset_stay_reset() -> None:
    node = DrivenNode()
    _tenant(node)
    create(node, "acme.orders")
    publish(node, "a", topic="acme.orders")
    assert node.ask(ResetUsage(tenant="acme"), TenantUsage).total_messages_published == 0
    node.restart()

    assert node.ask(DescribeUsage(tenant="acme"), TenantUsage).total_messages_published == 0


def test_a_quiet_node_writes_no_usage() -> None:
    node = _filled()
    node.advance(120 * SECOND)
    # Any piece of work would raise.
    node.crash_before = cut_off(0)
    node.advance(120 * SECOND)
