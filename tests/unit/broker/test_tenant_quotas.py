"""Quotas where they bite: publish, read, poll, topics, groups, sizes, delays, retention."""

import msgspec
import pytest

from goqueue.model import HOUR, SECOND, Code, Message, Refused
from goqueue.model.requests import (
    SCHEDULE_MESSAGE_BYTES_MAX,
    SCHEDULES_BYTES_MAX,
    AlterQuotas,
    AlterTopic,
    CreateSchedule,
    CreateTenant,
    CreateTopic,
    DeleteSchedule,
    DescribeSchedule,
    DescribeTenantStatistics,
    DescribeTopic,
    DescribeUsage,
    Done,
    Join,
    Joined,
    Leased,
    Poll,
    Publish,
    Published,
    QuotaChanges,
    Quotas,
    Read,
    Receive,
    Records,
    Redrive,
    Redriven,
    RunSchedule,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleRan,
    ScheduleSpec,
    TenantDescription,
    TenantStatistics,
    TenantUsage,
    TopicChanges,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, join, letters, poll, publish, reject

_OFF = dict.fromkeys(Quotas.__struct_fields__, 0)


def _node(**quotas: int) -> DrivenNode:
    """A node with a tenant that has no quotas but these, and one topic of it."""
    node = DrivenNode()
    command = CreateTenant(id="acme", name="x", quotas=QuotaChanges(**{**_OFF, **quotas}))
    node.ask(command, TenantDescription)
    return node


def _shop(**quotas: int) -> DrivenNode:
    node = _node(**quotas)
    create(node, "acme.orders")
    return node


def _alter(node: DrivenNode, tenant: str = "acme", **quotas: int) -> None:
    node.ask(AlterQuotas(tenant=tenant, changes=QuotaChanges(**quotas)), Quotas)


def _refusal(node: DrivenNode, command: object) -> Refused:
    with pytest.raises(Refused) as refused:
        node.ask(command, Published)  # type: ignore[arg-type]  # any command
    return refused.value


def _publish(*wanted: str, topic: str = "acme.orders") -> Publish:
    return Publish(topic=topic, batch=build([Message(value=each.encode()) for each in wanted]))


def _violations(node: DrivenNode) -> int:
    command = DescribeTenantStatistics(tenant="acme")
    return node.ask(command, TenantStatistics).quota_violations_total


def _joining(group: str, member_id: str | None = None) -> Join:
    token = f"of {group}"
    return Join(
        group=group, topics=("acme.orders",), client_id="c", token=token, member_id=member_id
    )


# Publishing


def test_a_publish_in_debt_is_refused_and_nothing_of_it_is_done() -> None:
    node = _shop(max_messages_per_second=10)
    node.ask(_publish(*"x" * 25), Published)
    refused = _refusal(node, _publish("late"))

    assert refused.code is Code.RATE_LIMITED
    assert refused.facts.get("quota") == "max_messages_per_second"
    assert refused.facts.get("retry_after_ms") == 1500
    assert node.ask(DescribeTopic(name="acme.orders"), TopicDescription).total_messages == 25
    assert _violations(node) == 1
    node.advance(1500 * SECOND // 1000)
    node.ask(_publish("in time"), Published)


@pytest.mark.parametrize("hours", [-24 * 365, 24 * 365])
def test_a_wall_clock_that_is_set_changes_no_rate(hours: int) -> None:
    node = _shop(max_messages_per_second=10)
    node.ask(_publish(*"x" * 25), Published)
    node.wall_shift_ns += hours * 3600 * SECOND
    assert _refusal(node, _publish("late")).facts.get("retry_after_ms") == 1500
    node.advance(1500 * SECOND // 1000)
    node.ask(_publish("in time"), Published)


def test_a_rate_in_bytes_is_kept_like_one_in_messages() -> None:
    node = _shop(max_bytes_per_second=1000)
    node.ask(_publish("x" * 5000), Published)

    refused = _refusal(node, _publish("y"))
    assert refused.facts.get("quota") == "max_bytes_per_second"
    assert 4000 <= refused.facts.get("retry_after_ms", 0) <= 4200


def test_over_a_minute_a_greedy_publisher_gets_its_rate() -> None:
    node = _shop(max_messages_per_second=100)
    node.ask(_publish(*"x" * 100), Published)
    began, done = node.now_ns, 0
    while node.now_ns - began < 10 * SECOND:
        try:
            node.ask(_publish(*"x" * 7), Published)
            done += 7
        except Refused as refused:
            node.advance(refused.facts.get("retry_after_ms", 0) * SECOND // 1000)
    assert abs(done - 1000) <= 20


def test_other_tenants_do_not_pay_for_a_debt() -> None:
    node = _shop(max_messages_per_second=1)
    create(node, "orders")
    node.ask(_publish(*"x" * 50), Published)

    assert _refusal(node, _publish("y")).code is Code.RATE_LIMITED
    node.ask(_publish("z", topic="orders"), Published)


def test_default_is_limited_when_it_has_quotas() -> None:
    node = DrivenNode()
    create(node, "orders")
    node.ask(_publish(*"x" * 50, topic="orders"), Published)
    _alter(node, "default", max_messages_per_second=1)
    node.ask(_publish(*"x" * 50, topic="orders"), Published)

    assert _refusal(node, _publish("y", topic="orders")).code is Code.RATE_LIMITED
    _alter(node, "default", max_messages_per_second=0)
    node.ask(_publish("y", topic="orders"), Published)


def test_a_message_above_the_tenants_size_is_refused_by_itself() -> None:
    node = _shop(max_message_size_bytes=10)
    published = node.ask(_publish("small", "x" * 11), Published)

    assert [target >= 0 for target in published.targets] == [True, False]


def test_a_delay_beyond_the_tenants_quota_is_refused() -> None:
    node = _shop(max_delay_hours=1)
    due = node.now.wall + HOUR + 1
    batch = build([Message(value=b"x")])
    refused = _refusal(node, Publish(topic="acme.orders", batch=batch, dues=[due]))

    assert refused.code is Code.DELAY_TOO_LONG


def test_storage_is_refused_above_its_quota_until_something_is_deleted() -> None:
    node = _shop(max_storage_bytes=4000)
    node.ask(_publish("x" * 3000), Published)
    refused = _refusal(node, _publish("y" * 3000))

    assert refused.code is Code.QUOTA_EXCEEDED
    assert refused.facts.get("quota") == "max_storage_bytes"
    assert refused.facts.get("limit") == 4000
    assert 3000 < refused.facts.get("used", 0) < 4000
    node.ask(_publish("z"), Published)


# Reading


def test_a_read_in_debt_is_refused_and_its_bytes_are_charged_afterwards() -> None:
    node = _shop(max_consume_messages_per_second=5)
    publish(node, *"x" * 20, topic="acme.orders")
    command = Read(topic="acme.orders", partition=0, bytes_max=1 << 20)
    node.ask(command, Records)

    refused = _refusal(node, command)
    assert refused.code is Code.RATE_LIMITED
    assert refused.facts.get("retry_after_ms") == 3000
    node.advance(3 * SECOND)
    node.ask(command, Records)


def test_a_poll_gets_no_more_than_the_quota_and_a_waiting_one_is_woken_in_time() -> None:
    node = _shop(max_consume_messages_per_second=5)
    publish(node, *"abcdefghijkl", topic="acme.orders")
    member = join(node, "acme.readers", topics=("acme.orders",))
    wanted = Poll(
        group="acme.readers",
        member_id=member.member_id,
        messages_max=100,
        wait_ns=30 * SECOND,
        bytes_max=1 << 20,
    )
    first = node.ask(wanted, Leased)
    assert sum(map(len, first.partitions)) == 5

    second = node.begin(wanted)
    assert sum(map(len, node.reply(second, Leased).partitions)) == 1
    third = node.begin(wanted)
    assert not node.is_answered(third)
    node.advance(SECOND // 5 - 1)
    assert not node.is_answered(third)
    node.advance(1)
    assert sum(map(len, node.reply(third, Leased).partitions)) >= 1


def test_a_poll_that_does_not_wait_gets_nothing_while_its_tenant_is_in_debt() -> None:
    node = _shop(max_consume_bytes_per_second=10)
    publish(node, "x" * 100, "y" * 100, topic="acme.orders")
    member = join(node, "acme.readers", topics=("acme.orders",))
    command = Poll(group="acme.readers", member_id=member.member_id, messages_max=1, wait_ns=0)
    assert sum(map(len, node.ask(command, Leased).partitions)) == 1

    assert node.ask(command, Leased).partitions == ()
    node.advance(60 * SECOND)


# Counts


def test_topics_are_counted() -> None:
    node = _node(max_topics=2)
    create(node, "acme.a")
    create(node, "acme.b")
    refused = _refusal(node, CreateTopic(name="acme.c"))

    assert refused.facts == {"quota": "max_topics", "limit": 2, "used": 2}
    create(node, "other")


def test_partitions_are_counted_for_a_topic_and_for_all() -> None:
    node = _node(max_partitions_per_topic=4, max_total_partitions=6)
    assert _refusal(node, CreateTopic(name="acme.a", partitions=5)).facts.get("quota") == (
        "max_partitions_per_topic"
    )
    create(node, "acme.a", partitions=4)
    refused = _refusal(node, CreateTopic(name="acme.b", partitions=3))
    assert refused.facts == {"quota": "max_total_partitions", "limit": 6, "used": 4}
    create(node, "acme.b", partitions=2)


@pytest.mark.parametrize("hours", [25, -1])
def test_a_retention_above_the_quota_is_refused_on_create_and_on_alter(hours: int) -> None:
    node = _node(max_retention_hours=24)
    config = TopicConfig(retention_hours=hours)
    assert _refusal(node, CreateTopic(name="acme.a", config=config)).code is Code.QUOTA_EXCEEDED
    create(node, "acme.a", config=TopicConfig(retention_hours=24))
    changes = TopicChanges({"retention_hours": hours})
    assert _refusal(node, AlterTopic(name="acme.a", changes=changes)).code is Code.QUOTA_EXCEEDED


def test_what_was_above_a_quota_before_can_still_be_changed_otherwise() -> None:
    node = _shop()
    _alter(node, max_retention_hours=24)
    changes = TopicChanges({"max_deliveries": 5})

    node.ask(AlterTopic(name="acme.orders", changes=changes), TopicDescription)


def test_groups_and_their_members_are_counted() -> None:
    node = _shop(max_consumer_groups=1, max_consumers_per_group=2)
    first = join(node, "acme.readers", topics=("acme.orders",))
    join(node, "acme.readers", "c2", topics=("acme.orders",))
    third = _joining("acme.readers")
    assert _refusal(node, third).facts == {
        "quota": "max_consumers_per_group",
        "limit": 2,
        "used": 2,
    }
    other = _joining("acme.others")
    assert _refusal(node, other).facts.get("quota") == "max_consumer_groups"
    receive = Receive(group="acme.received", topics=("acme.orders",), messages_max=1)
    assert _refusal(node, receive).facts.get("quota") == "max_consumer_groups"
    # Who is a member already may join again.
    again = _joining("acme.readers", first.member_id)
    assert node.ask(again, Joined).member_id == first.member_id


def test_dead_letters_are_appended_above_every_quota_and_kept_as_the_tenant_keeps_all() -> None:
    node = _node()
    create(node, "acme.orders", config=TopicConfig(retention_hours=24, max_deliveries=1))
    publish(node, "a", topic="acme.orders")
    join(node, "acme.readers", topics=("acme.orders",))
    (delivery,) = poll(node, "acme.readers")
    _alter(node, max_storage_bytes=1, max_topics=1, max_retention_hours=24)
    reject(node, delivery)
    node.advance(SECOND)

    assert letters(node, "acme.orders.dlq") == ["a"]
    described = node.ask(DescribeTopic(name="acme.orders.dlq"), TopicDescription)
    assert described.config.retention_hours == 24


def test_quotas_are_in_force_after_a_restart() -> None:
    node = _shop(max_topics=1)
    node.restart()

    assert _refusal(node, CreateTopic(name="acme.b")).code is Code.QUOTA_EXCEEDED


# What is published without a publish


def _scheduled(value: bytes = b"x" * 100) -> CreateSchedule:
    spec = ScheduleSpec(
        name="acme.report",
        topic="acme.orders",
        message=ScheduledMessage(value=value),
        every_ns=SECOND,
    )
    return CreateSchedule(spec=spec)


def test_a_run_of_a_schedule_is_a_publish_that_is_checked_and_charged() -> None:
    node = _shop(max_messages_per_second=1)
    node.ask(_scheduled(), ScheduleDescription)
    run = RunSchedule(name="acme.report")
    for _ in range(2):
        node.ask(run, ScheduleRan)
    refused = _refusal(node, run)
    assert refused.code is Code.RATE_LIMITED
    assert _refusal(node, _publish("a")).code is Code.RATE_LIMITED
    assert node.ask(DescribeUsage(tenant="acme"), TenantUsage).total_messages_published == 2


def test_a_schedule_stores_nothing_above_the_quota_of_its_tenant() -> None:
    node = _shop(max_storage_bytes=1000)
    node.ask(_scheduled(), ScheduleDescription)
    node.advance(60 * SECOND)
    held = node.ask(DescribeUsage(tenant="acme"), TenantUsage).storage_bytes
    assert 500 < held < 1500
    described = node.ask(DescribeSchedule(name="acme.report"), ScheduleDescription)
    assert described.problem == "its message was refused: quota_exceeded"
    _alter(node, max_storage_bytes=0)
    node.advance(60 * SECOND)
    assert node.ask(DescribeUsage(tenant="acme"), TenantUsage).storage_bytes > held


def test_the_message_of_a_schedule_is_as_large_as_the_quota_allows() -> None:
    node = _shop(max_message_size_bytes=99)
    refused = _refusal(node, _scheduled())
    assert refused.code is Code.MESSAGE_TOO_LARGE
    assert refused.facts["limit"] == 99


def test_a_redrive_is_a_publish_that_is_checked_and_charged() -> None:
    node = _shop()
    publish(node, "x" * 100, topic="acme.orders")
    join(node, group="acme.shop", topics=["acme.orders"])
    reject(node, poll(node, group="acme.shop")[0])
    _alter(node, max_storage_bytes=100)
    node.advance(SECOND)
    assert _refusal(node, Redrive(topic="acme.orders")).code is Code.QUOTA_EXCEEDED
    _alter(node, max_storage_bytes=0, max_bytes_per_second=10)
    assert node.ask(Redrive(topic="acme.orders"), Redriven).moved == 1
    assert _refusal(node, _publish("a")).code is Code.RATE_LIMITED


def test_a_tenant_leaves_schedules_to_others() -> None:
    node = _shop()
    message = ScheduledMessage(value=b"x" * SCHEDULE_MESSAGE_BYTES_MAX)
    spec = ScheduleSpec(name="acme.0", topic="acme.orders", message=message, every_ns=HOUR)
    share = SCHEDULES_BYTES_MAX // 10 // SCHEDULE_MESSAGE_BYTES_MAX
    for number in range(share):
        each = msgspec.structs.replace(spec, name=f"acme.{number}")
        node.ask(CreateSchedule(spec=each), ScheduleDescription)
    more = CreateSchedule(spec=msgspec.structs.replace(spec, name="acme.more"))
    assert _refusal(node, more).code is Code.QUOTA_EXCEEDED
    node.ask(CreateSchedule(spec=spec, may_replace=True), ScheduleDescription)
    create(node, "orders")
    others = msgspec.structs.replace(spec, name="more", topic="orders")
    node.ask(CreateSchedule(spec=others), ScheduleDescription)
    node.ask(DeleteSchedule(name="acme.0"), Done)
    node.ask(more, ScheduleDescription)
