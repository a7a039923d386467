"""What crosses from one tenant to another by names that look alike, or a receipt: nothing."""

import pytest

from goqueue.model import SECOND, Caller, Code, LogId, Refused
from goqueue.model.requests import (
    AclDescription,
    AclEffect,
    AclSpec,
    AddOffsets,
    BeginTransaction,
    CreateAcl,
    CreateSchedule,
    CreateTenant,
    CreateTopic,
    DelayStatistics,
    DescribeDelays,
    DescribeNode,
    DescribeSchedule,
    DescribeTopic,
    Done,
    GroupList,
    InitProducer,
    KeyDescription,
    Leased,
    ListGroups,
    ListSchedules,
    ListTopics,
    NodeDescription,
    Operation,
    Owner,
    ProducerGranted,
    Receive,
    Redrive,
    Redriven,
    Reject,
    ResourceType,
    Returned,
    Role,
    RunSchedule,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleList,
    ScheduleRan,
    ScheduleSpec,
    TenantDescription,
    TopicConfig,
    TopicDescription,
    TopicList,
    TransactionBegan,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.test_caller_access import House
from tests.unit.broker.users import create, deliveries, publish, read
from tests.unit.security.secrets import key_id, new_key


def _dead_letter_topic(node: DrivenNode, topic: str) -> str | None:
    """Where a message of a topic goes that is rejected."""
    publish(node, "x", topic=topic)
    leased = node.ask(Receive(group="g", topics=(topic,)), Leased)
    rejected = node.ask(Reject(receipt=deliveries(leased)[0].receipt), Returned)
    return rejected.dead_letter_topic


def test_a_topic_named_as_a_tenant_keeps_its_dead_letters_out_of_that_tenant() -> None:
    node = DrivenNode()
    create(node, "acme")
    node.ask(CreateTenant(id="acme", name="acme"), TenantDescription)
    assert _dead_letter_topic(node, "acme") == "acme-dlq"
    assert node.ask(ListTopics(), TopicList).topics == ("acme", "acme-dlq")
    described = node.ask(DescribeTopic(name="acme"), TopicDescription)
    assert described.config.dead_letter_topic == "acme-dlq"
    assert node.ask(Redrive(topic="acme"), Redriven).moved == 1


def test_a_topic_named_as_a_tenant_needs_a_dead_letter_topic_of_its_own() -> None:
    node = DrivenNode()
    node.ask(CreateTenant(id="acme", name="acme"), TenantDescription)
    with pytest.raises(Refused) as refused:
        node.ask(CreateTopic(name="acme", partitions=1), TopicDescription)
    assert refused.value.code is Code.PERMISSION_DENIED
    create(node, "acme", config=TopicConfig(dead_letter_topic="rejected"))
    assert _dead_letter_topic(node, "acme") == "rejected"


def test_a_schedule_made_before_a_tenant_sends_nothing_into_it() -> None:
    node = DrivenNode()
    create(node, "acme.orders")
    spec = ScheduleSpec(
        name="nightly",
        topic="acme.orders",
        message=ScheduledMessage(value=b"x"),
        every_ns=SECOND,
    )
    node.ask(CreateSchedule(spec=spec), ScheduleDescription)
    adopt = CreateTenant(id="acme", name="acme", adopts=True)
    node.ask(adopt, TenantDescription)
    node.advance(3 * SECOND)
    assert read(node, LogId("acme.orders", 0)) == []
    described = node.ask(DescribeSchedule(name="nightly"), ScheduleDescription)
    assert described.problem == "the topic acme.orders belongs to another tenant"
    with pytest.raises(Refused) as refused:
        node.ask(RunSchedule(name="nightly"), ScheduleRan)
    assert refused.value.code is Code.PERMISSION_DENIED


def test_lists_that_are_filtered_by_rules_are_made_in_bounded_turns() -> None:
    node = DrivenNode(budget_units=100, acl_enabled=True)
    node.ask(new_key(1, role=Role.CONSUMER), KeyDescription)
    for number in range(100):
        acl = AclSpec(
            principal="*",
            resource_type=ResourceType.TOPIC,
            resource_name=f"*{number}*",
            operation=Operation.READ,
            effect=AclEffect.DENY if number % 2 else AclEffect.ALLOW,
        )
        node.ask(CreateAcl(id=f"acl_{number}", acl=acl), AclDescription)
    for number in range(40):
        create(node, f"orders{number}")
    caller = Caller(key_id(1), gateway="http", address="10.0.0.1")
    for command, reply in (
        (ListTopics(), TopicList),
        (DescribeNode(), NodeDescription),
        (ListGroups(), GroupList),
        (ListSchedules(), ScheduleList),
        (DescribeDelays(), DelayStatistics),
    ):
        node.turn_units_max = node.turn_units_sum = 0
        found = node.ask(command, reply, caller)
        assert node.turn_units_max <= 200
        if isinstance(found, TopicList):
            # Each name is compared with a hundred globs.
            assert node.turn_units_sum > 40 * 100 // 4
            assert {int(name[6:]) for name in found.topics} == {0, 2, 4, 6, 8, 20, 22, 24, 26, 28}


def test_a_transaction_answers_a_receipt_of_another_tenant_like_none() -> None:
    house = House()
    of_theirs = house.lease("globex")
    house.lease("acme")
    caller = house.key(Role.ADMIN, tenant="acme")
    granted = house.node.ask(InitProducer(transactional_id="job"), ProducerGranted, caller)
    owner = Owner(producer_id=granted.producer_id, epoch=0, transactional_id="job")
    house.node.ask(BeginTransaction(owner=owner), TransactionBegan, caller)
    answers = []
    for receipt in (of_theirs, "A" * len(of_theirs)):
        add = AddOffsets(owner=owner, group="acme.readers", receipts=(receipt,))
        with pytest.raises(Refused) as refused:
            house.node.ask(add, Done, caller)
        answers.append((refused.value.code, dict(refused.value.facts)))
    assert answers == [(Code.RECEIPT_INVALID, {})] * 2
