"""The audit log: a record for each change, once, before the answer, also over crashes."""

import errno

import msgspec
import pytest

from goqueue.broker import AuditConfig, JournalLimits
from goqueue.model import (
    ROOT_KEY,
    SECOND,
    Caller,
    Code,
    KeyId,
    LogId,
    LogSettings,
    Message,
    Observed,
    Offset,
    Refused,
)
from goqueue.model.requests import (
    AclDescription,
    AclEffect,
    AclSpec,
    AlterQuotas,
    AlterTopic,
    BackupDescription,
    BeginTransaction,
    CheckHealth,
    Command,
    CreateAcl,
    CreateBackup,
    CreateTenant,
    CreateTopic,
    DeleteBackup,
    DeleteGroup,
    DeleteRecords,
    DeleteTopic,
    DescribeTopic,
    Done,
    EndTransaction,
    InitProducer,
    KeyDescription,
    KeyList,
    ListKeys,
    ListTopics,
    NodeHealth,
    Operation,
    Owner,
    PositionsReset,
    ProducerGranted,
    Publish,
    Published,
    QuotaChanges,
    Quotas,
    Read,
    Records,
    RecordsDeleted,
    ResetOffsets,
    ResourceType,
    RevokeKey,
    Role,
    Strategy,
    TenantDescription,
    TopicChanges,
    TopicDescription,
    TopicList,
    TransactionBegan,
    TransactionEnded,
)
from goqueue.records import build
from goqueue.security import AuditRecord, FieldChange
from tests.unit.broker.driven_node import Crashed, DrivenNode, cut_off
from tests.unit.broker.test_caller_access import House
from tests.unit.broker.users import create, join, publish, read
from tests.unit.security.secrets import key_id, new_key, new_secret, verifiers_of

AUDIT = LogId("__audit", 0)
TOPICS = LogId("__topics", 0)
GROUPS = LogId("__groups", 0)
_FILE = "__audit/0/00000000000000000000.log"


def _records(node: DrivenNode) -> list[AuditRecord]:
    return [msgspec.json.decode(each.value or b"", type=AuditRecord) for each in read(node, AUDIT)]


def _actions(node: DrivenNode) -> list[str]:
    return [f"{each.action} {each.resource}" for each in _records(node)]


def test_every_change_has_its_record_with_who_and_what() -> None:
    node = DrivenNode()
    create(node, "orders")
    node.ask(new_key(1), KeyDescription)

    first, second = _records(node)
    assert (first.action, first.resource, first.outcome) == (
        "topic.create",
        "topic:orders",
        "done",
    )
    assert (first.key, first.tenant, first.roles) == ("local", "default", ("admin",))
    assert first.node == "node-1"
    assert first.time.startswith("2023-11-14T")
    assert second.number == first.number + 1


def test_each_kind_of_change_is_recorded_under_its_name() -> None:
    node = DrivenNode()
    create(node)
    join(node)
    publish(node, "a", "b")
    acl = AclSpec(
        principal="*",
        resource_type=ResourceType.TOPIC,
        resource_name="*",
        operation=Operation.ALL,
        effect=AclEffect.DENY,
    )
    changes = TopicChanges({"max_deliveries": 9})
    reset = ResetOffsets(group="shop", topic="orders", strategy=Strategy.LATEST)
    asked: list[tuple[Command, type]] = [
        (AlterTopic(name="orders", changes=changes), TopicDescription),
        (new_key(1), KeyDescription),
        (new_secret(1, "x"), KeyDescription),
        (RevokeKey(id=key_id(1)), KeyDescription),
        (CreateAcl(id="acl_1", acl=acl), AclDescription),
        (CreateTenant(id="acme", name="x"), TenantDescription),
        (AlterQuotas(tenant="acme", changes=QuotaChanges(max_topics=1)), Quotas),
        (reset, PositionsReset),
        (DeleteRecords(topic="orders"), RecordsDeleted),
        (DeleteGroup(group="shop"), Done),
        (DeleteTopic(name="orders"), Done),
    ]
    for command, expected in asked:
        node.ask(command, expected)

    assert _actions(node) == [
        "topic.create topic:orders",
        "topic.alter topic:orders",
        f"key.create key:{key_id(1)}",
        f"key.rotate key:{key_id(1)}",
        f"key.revoke key:{key_id(1)}",
        "acl.create acl:acl_1",
        "tenant.create tenant:acme",
        "quota.alter tenant:acme",
        "group.reset group:shop",
        "topic.purge topic:orders",
        "group.delete group:shop",
        "topic.delete topic:orders",
    ]


def test_a_record_says_what_a_field_was_and_what_it_is() -> None:
    node = DrivenNode()
    create(node)
    node.ask(
        AlterTopic(name="orders", changes=TopicChanges({"max_deliveries": 9})), TopicDescription
    )

    (change,) = _records(node)[-1].changes
    assert (change.field, change.old, change.new) == ("max_deliveries", "3", "9")


def test_no_record_has_a_verifier() -> None:
    node = DrivenNode()
    command = new_key(1)
    node.ask(command, KeyDescription)
    node.ask(new_secret(1, "another", SECOND), KeyDescription)

    created, rotated = _records(node)
    assert {each.field: each.new for each in created.changes}["verifiers"] == "***"
    assert {each.field: each.new for each in rotated.changes}["previous"] == "***"
    stored = b"".join(each.value or b"" for each in read(node, AUDIT))
    assert msgspec.json.encode(command.verifiers.digest) not in stored


def test_messages_reads_and_refused_commands_have_no_record() -> None:
    node = DrivenNode()
    create(node)
    count = len(_records(node))
    publish(node, "a")
    read(node)
    node.ask(DescribeTopic(name="orders"), TopicDescription)
    for command in (CreateTopic(name="orders"), RevokeKey(id=key_id(7))):
        with pytest.raises(Refused):
            node.ask(command, Done)
    dry_run = ResetOffsets(
        group="shop", topic="orders", strategy=Strategy.EARLIEST, is_dry_run=True
    )
    join(node)
    node.ask(dry_run, PositionsReset)

    assert len(_records(node)) == count


def test_a_name_of_a_user_cannot_forge_a_line() -> None:
    node = DrivenNode()
    with pytest.raises(Refused):
        node.ask(CreateTopic(name="a\nb"), Done)
    assert _records(node) == []


@pytest.mark.parametrize("log", [TOPICS, AUDIT])
def test_the_answer_waits_for_the_change_and_for_its_record(log: LogId) -> None:
    node = DrivenNode()
    create(node)
    node.slow_down(log)
    request = node.begin(AlterTopic(name="orders", changes=TopicChanges({"max_deliveries": 9})))
    assert not node.is_answered(request)
    node.speed_up()
    assert node.is_answered(request)


def test_nothing_but_recorded_commands_waits_for_the_audit_log() -> None:
    node = DrivenNode()
    create(node)
    node.slow_down(AUDIT)
    waiting = node.begin(new_key(1))
    publish(node, "a")
    join(node)

    assert not node.is_answered(waiting)


def test_a_record_of_one_journal_does_not_overtake_that_of_the_other() -> None:
    node = DrivenNode()
    create(node)
    join(node)
    node.slow_down(TOPICS)
    first = node.begin(new_key(1))
    second = node.begin(DeleteGroup(group="shop"))
    assert not node.is_answered(second)
    node.speed_up()

    assert node.is_answered(first)
    assert node.is_answered(second)
    numbers = [each.number for each in _records(node)]
    assert numbers == sorted(set(numbers))


def _live(node: DrivenNode, confirmed: list[str]) -> None:
    """A life with changes in both journals; what was answered is in `confirmed`."""
    for number in (1, 2):
        node.ask(new_key(number), KeyDescription)
        confirmed.append(f"key.create key:{key_id(number)}")
        create(node, f"topic-{number}")
        confirmed.append(f"topic.create topic:topic-{number}")
        join(node, f"group-{number}", topics=(f"topic-{number}",))
        node.ask(DeleteGroup(group=f"group-{number}"), Done)
        confirmed.append(f"group.delete group:group-{number}")


def test_a_crash_at_any_point_leaves_no_change_without_its_record_and_none_twice() -> None:
    pieces = 0
    while True:
        node = DrivenNode()
        confirmed: list[str] = []
        node.crash_before = cut_off(pieces)
        try:
            _live(node, confirmed)
        except Crashed:
            node.restart()
        else:
            break
        written = _actions(node)
        assert written[: len(confirmed)] == confirmed
        assert len(set(written)) == len(written)
        keys = [f"key.create key:{key.id}" for key in node.ask(ListKeys(), KeyList).keys]
        assert keys == [each for each in written if each.startswith("key.")]
        # A second crash, and another start, write nothing again.
        node.restart()
        assert _actions(node) == written
        pieces += 1
    assert pieces > 10


def test_a_start_after_the_audit_log_lost_its_end_appends_what_is_missing() -> None:
    node = DrivenNode()
    create(node)
    node.slow_down(AUDIT)
    node.begin(new_key(1))
    node.begin(new_key(2))
    node.restart()

    assert _actions(node)[-2:] == [f"key.create key:{key_id(n)}" for n in (1, 2)]


def test_numbers_rise_over_restarts() -> None:
    node = DrivenNode()
    for number in range(3):
        node.ask(new_key(number), KeyDescription)
        node.restart()
    node.ask(new_key(3), KeyDescription)

    assert [each.number for each in _records(node)] == [1, 2, 3, 4]


def test_a_journal_that_is_stated_again_repeats_no_record() -> None:
    node = DrivenNode(limits=JournalLimits(snapshot_bytes=2048, restate_bytes=8192))
    for number in range(30):
        node.ask(new_key(number), KeyDescription)
        node.advance(SECOND)
    node.restart()

    assert len(_records(node)) == 30


def test_a_full_disk_delays_the_answer_and_loses_nothing() -> None:
    node = DrivenNode()
    create(node)
    node.files.faults.broken[("write", _FILE)] = errno.ENOSPC
    request = node.begin(new_key(1))
    assert not node.is_answered(request)
    node.files.faults.broken.clear()
    node.advance(3 * SECOND)

    assert node.is_answered(request)
    assert _actions(node)[-1] == f"key.create key:{key_id(1)}"


def test_an_audit_log_that_fails_refuses_changes_and_lets_traffic_pass() -> None:
    node = DrivenNode()
    create(node)
    node.files.faults.broken[("sync", _FILE)] = errno.EIO
    request = node.begin(new_key(1))
    with pytest.raises(Refused) as refused:
        node.reply(request, KeyDescription)
    assert refused.value.code is Code.STORAGE_FAILED
    with pytest.raises(Refused) as refused:
        node.ask(new_key(2), KeyDescription)
    assert refused.value.code is Code.STORAGE_FAILED

    batch = build([Message(value=b"x")])
    node.ask(Publish(topic="orders", batch=batch), Published)
    assert node.halts == []
    node.restart()
    assert _actions(node)[-1] == f"key.create key:{key_id(1)}"


def test_a_caller_is_named_with_its_address_and_request() -> None:
    node = DrivenNode()
    node.ask(new_key(1), KeyDescription)
    caller = Caller(key_id(1), gateway="http", address="10.0.0.1", request_id="r-1")
    node.ask(CreateTopic(name="orders"), TopicDescription, caller)

    record = _records(node)[-1]
    assert (record.key, record.key_name, record.tenant) == (key_id(1), "key 1", "default")
    assert (record.address, record.gateway, record.request_id) == ("10.0.0.1", "http", "r-1")


def test_a_directory_of_an_earlier_version_gets_an_audit_log() -> None:
    node = DrivenNode()
    create(node)
    content = {path: data for path, data in node.files.copy().items() if "/__audit/" not in path}
    assert len(content) < len(node.files.copy())
    older = DrivenNode(type(node.files)(content))

    assert older.ask(DescribeTopic(name="orders"), TopicDescription).name == "orders"
    older.ask(new_key(1), KeyDescription)
    assert _actions(older)[-1] == f"key.create key:{key_id(1)}"
    assert older.node.keys.get(KeyId("nobody")) is None


def test_the_first_use_of_a_key_from_an_address_is_recorded_and_the_root_key_each_minute() -> None:
    node = DrivenNode()
    node.ask(new_key(1), KeyDescription)
    node.node.keys.accept_root(verifiers_of("root"))
    here = Caller(key_id(1), gateway="http", address="10.0.0.1")
    there = Caller(key_id(1), gateway="http", address="10.0.0.2")
    for caller in (here, here, there, here):
        node.ask(ListKeys(), KeyList, caller)
    uses = [each.address for each in _records(node) if each.action == "key.use"]
    assert uses == ["10.0.0.1", "10.0.0.2"]

    root = Caller(ROOT_KEY, gateway="http", address="10.0.0.3")
    for wait in (0, 10, 60):
        node.advance(wait * SECOND)
        node.ask(ListKeys(), KeyList, root)
    assert [each.key for each in _records(node)].count("root") == 2


def test_a_probe_without_a_key_is_no_use_of_a_key() -> None:
    node = DrivenNode()
    node.ask(CheckHealth(), NodeHealth, Caller(KeyId("anonymous"), "http", "10.0.0.1"))
    assert not [each for each in _records(node) if each.action == "key.use"]


def test_backups_are_recorded_with_who_asked_for_them() -> None:
    node = DrivenNode()
    node.ask(new_key(1), KeyDescription)
    caller = Caller(key_id(1), gateway="http", address="10.0.0.1")
    backup = node.ask(CreateBackup(), BackupDescription, caller).summary.id
    node.ask(DeleteBackup(backup=backup), Done, caller)

    recorded = [each for each in _records(node) if each.action.startswith("backup.")]
    assert [(each.action, each.resource, each.key) for each in recorded] == [
        ("backup.create", "backup", key_id(1)),
        ("backup.delete", f"backup:{backup}", key_id(1)),
    ]


def test_denials_are_recorded_once_and_counted() -> None:
    node = DrivenNode()
    node.ask(new_key(1, role=Role.CONSUMER), KeyDescription)
    caller = Caller(key_id(1), gateway="http", address="10.0.0.1")
    for _ in range(5):
        with pytest.raises(Refused):
            node.ask(CreateTopic(name="orders"), TopicDescription, caller)
    node.advance(12 * SECOND)

    denied = [each for each in _records(node) if each.outcome == "denied"]
    assert [each.count for each in denied] == [1, 4]
    assert {each.code for each in denied} == {"permission_denied"}
    assert {each.resource for each in denied} == {"topic:orders"}
    assert denied[0].key_name == "key 1"


def test_a_key_cannot_push_the_records_of_others_out_of_the_audit_log() -> None:
    node = DrivenNode()
    for number in (1, 2):
        node.ask(new_key(number, role=Role.CONSUMER), KeyDescription)
    before = len(_records(node))
    for number in range(600):
        caller = Caller(key_id(1), gateway="http", address=f"2001:db8::{number:x}")
        node.ask(ListTopics(), TopicList, caller)
        with pytest.raises(Refused):
            node.ask(CreateTopic(name=f"orders{number}"), TopicDescription, caller)
        node.advance(SECOND // 10)
    quiet = Caller(key_id(2), gateway="http", address="10.0.0.2")
    with pytest.raises(Refused):
        node.ask(CreateTopic(name="orders"), TopicDescription, quiet)
    node.advance(12 * SECOND)

    records = _records(node)[before:]
    uses = [each for each in records if each.action == "key.use"]
    denied = [each for each in records if each.outcome == "denied"]
    # Fifty at once and twelve in a minute.
    assert 60 <= len(uses) <= 50 + 12
    assert len(denied) <= 50 + 2 * 12 + 1
    assert sum(each.count for each in denied) == 601
    assert [each.resource for each in denied if each.key == key_id(2)] == ["topic:orders"]
    assert {each.address for each in denied if each.resource == "*"} == {"*"}


def test_a_start_is_recorded_with_what_the_shell_says_of_it() -> None:
    facts = (FieldChange("auth.enabled", new="true"), FieldChange("api.root_key", new="***"))
    node = DrivenNode(audit=AuditConfig(start_facts=facts))
    node.restart()

    starts = [each for each in _records(node) if each.action == "node.start"]
    assert [each.resource for each in starts] == ["node:node-1"] * 2
    assert starts[0].changes == facts


def test_what_the_shell_did_is_recorded_once_the_node_serves() -> None:
    node = DrivenNode()
    facts = {"cause": "signal", "sha256": "ab\ncd"}
    node.take(Observed(action="tls.reload", resource="listener:http", facts=facts))
    (record,) = [each for each in _records(node) if each.action == "tls.reload"]
    assert (record.key, record.resource) == ("local", "listener:http")
    changed = {each.field: each.new for each in record.changes}
    assert changed == {"cause": "signal", "sha256": "ab\\ncd"}


def test_an_admin_who_aborts_for_another_tenant_is_recorded() -> None:
    house = House()
    theirs = house.key(Role.PRODUCER, tenant="globex")
    granted = house.node.ask(InitProducer(transactional_id="job"), ProducerGranted, theirs)
    owner = Owner(producer_id=granted.producer_id, epoch=0, transactional_id="job")
    abort = EndTransaction(owner=owner, is_commit=False)
    house.node.ask(BeginTransaction(owner=owner), TransactionBegan, theirs)
    house.node.ask(abort, TransactionEnded, theirs)
    began = house.node.ask(BeginTransaction(owner=owner), TransactionBegan, theirs)
    house.node.ask(abort, TransactionEnded, house.key(Role.ADMIN))
    (record,) = [each for each in _records(house.node) if each.action == "transaction.abort"]
    assert record.resource == f"transaction:{began.transaction_id}"
    assert (record.roles, record.changes) == (("admin",), (FieldChange("tenant", new="globex"),))


def test_old_records_are_removed_also_while_tenants_are_busy() -> None:
    kept = LogSettings(segment_bytes=2_000, retention_ns=60 * SECOND, may_use_reserve=True)
    node = DrivenNode(audit=AuditConfig(log=kept))
    create(node, "orders")
    for number in range(20):
        create(node, f"topic-{number}")
    for _ in range(180):
        publish(node, "a", topic="orders")
        node.advance(SECOND)

    found = node.ask(Read(topic="__audit", partition=0, offset=Offset(40)), Records)
    assert found.start > 0
