"""What callers of three tenants may do on one node, and what they learn of each other: nothing."""

from typing import get_args

import msgspec
import pytest

from goqueue.model import ANONYMOUS, LOCAL, SECOND, Caller, Code, KeyId, LogId, Offset, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    AclDescription,
    AclEffect,
    AclSpec,
    AddPartition,
    AlterTopic,
    AwaitReply,
    BeginTransaction,
    CheckHealth,
    Command,
    CommitGroup,
    CreateAcl,
    CreateSchedule,
    CreateTenant,
    CreateTopic,
    DelayStatistics,
    DeleteSchedule,
    DeleteTopic,
    DescribeDelays,
    DescribeGroup,
    DescribeLag,
    DescribeNode,
    DescribeOffsets,
    DescribePriorities,
    DescribeReliability,
    DescribeSchedule,
    DescribeTracing,
    DescribeTransaction,
    DescribeTransactions,
    Done,
    EndTransaction,
    FindTrace,
    GroupCommitted,
    GroupDescription,
    GroupList,
    HeartbeatProducer,
    InitProducer,
    Join,
    Joined,
    KeyDescription,
    Lag,
    Leased,
    ListGroups,
    ListSchedules,
    ListTopics,
    ListTransactions,
    Nack,
    NodeDescription,
    NodeHealth,
    Offsets,
    Operation,
    Owner,
    Poll,
    PrepareTransaction,
    PriorityStatistics,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    Read,
    Receive,
    Records,
    Redrive,
    Redriven,
    Reject,
    Reliability,
    ResourceType,
    Returned,
    RevokeKey,
    Role,
    RunSchedule,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleList,
    ScheduleSpec,
    SearchTraces,
    SetTenantStatus,
    TenantDescription,
    TenantStatus,
    TopicChanges,
    TopicConfig,
    TopicDescription,
    TopicList,
    TraceDetail,
    TraceList,
    TracingStatistics,
    TransactionBegan,
    TransactionDescription,
    TransactionList,
    TransactionPrepared,
    TransactionStatistics,
    Watch,
    lease_of,
)
from goqueue.records import build
from goqueue.security import RULES, Scope
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import deliveries, messages, polling
from tests.unit.security.callers import command_about
from tests.unit.security.secrets import key_id, new_key

TENANTS = ("default", "acme", "globex")


class House:
    """A node with three tenants, each with a topic, a group with a lease, and keys."""

    def __init__(self, *, acl_enabled: bool = False) -> None:
        self.node = DrivenNode(acl_enabled=acl_enabled)
        self._next_key = 1
        for tenant in TENANTS[1:]:
            self.node.ask(CreateTenant(id=tenant, name=tenant), TenantDescription)
        for tenant in TENANTS:
            self.node.ask(CreateTopic(name=name(tenant, "orders"), partitions=1), TopicDescription)
            self.publish(tenant, f"of {tenant}")

    def key(
        self, role: Role, *, tenant: str = "default", expires_in_ns: int | None = None
    ) -> Caller:
        number = self._next_key
        self._next_key += 1
        command = new_key(number, tenant=tenant, role=role)
        command = msgspec.structs.replace(command, expires_in_ns=expires_in_ns)
        self.node.ask(command, KeyDescription)
        return Caller(key_id(number))

    def publish(self, tenant: str, *values: str, caller: Caller = LOCAL) -> Published:
        command = Publish(topic=name(tenant, "orders"), batch=build(messages(*values)))
        return self.node.ask(command, Published, caller)

    def join(self, tenant: str, caller: Caller = LOCAL) -> Joined:
        command = Join(
            group=name(tenant, "readers"),
            client_id="c1",
            topics=(name(tenant, "orders"),),
            token="c100",  # noqa: S106 - the part of a member's name
        )
        return self.node.ask(command, Joined, caller)

    def lease(self, tenant: str) -> str:
        """A receipt of a message of the tenant."""
        self.join(tenant)
        leased = self.node.ask(polling(name(tenant, "readers")), Leased)
        return deliveries(leased)[0].receipt

    def allow(self, acl_id: str, principal: str, glob: str, effect: AclEffect) -> None:
        acl = AclSpec(
            principal=principal,
            resource_type=ResourceType.TOPIC,
            resource_name=glob,
            operation=Operation.ALL,
            effect=effect,
        )
        self.node.ask(CreateAcl(id=acl_id, acl=acl), AclDescription)


def name(tenant: str, word: str) -> str:
    return word if tenant == "default" else f"{tenant}.{word}"


def code_of(node: DrivenNode, command: object, caller: Caller) -> Code:
    with pytest.raises(Refused) as refused:
        node.ask(command, Done, caller)  # type: ignore[arg-type]  # any command
    return refused.value.code


# The table: every command of a key of one tenant about names of another


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("kind", get_args(Command))
def test_a_foreign_name_is_answered_like_an_absent_one(kind: type, role: Role) -> None:
    house = House()
    caller = house.key(role, tenant="acme")
    house.lease("globex")
    answers = []
    for other in ("globex.orders", "globex.nothing"):
        request = house.node.begin(command_about(kind, other), caller)
        try:
            reply: object = house.node.reply(request, object)  # type: ignore[type-var]  # any reply
        except Refused as refused:
            reply = (refused.code, dict(refused.facts))
        # Each that is granted has an id of its own.
        answers.append("granted" if kind is InitProducer else repr(reply).replace(other, "NAME"))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", get_args(Command))
def test_no_command_of_a_key_is_carried_out_unchecked(kind: type) -> None:
    """The node would stop: every handler of a deferred rule asks, whatever it is asked for."""
    for role in Role:
        for tenant in ("default", "acme"):
            house = House()
            caller = house.key(role, tenant=tenant)
            for each in (name(tenant, "orders"), name(tenant, "readers"), "__topics", "x y"):
                house.node.begin(command_about(kind, each), caller)


@pytest.mark.parametrize("kind", get_args(Command))
def test_without_a_key_nobody_learns_a_name(kind: type) -> None:
    house = House()
    request = house.node.begin(command_about(kind, "acme.orders"), ANONYMOUS)
    if RULES[kind].scope is not Scope.PROBE:
        with pytest.raises(Refused) as refused:
            house.node.reply(request, Done)
        assert refused.value.code is Code.UNAUTHENTICATED
    else:
        assert "orders" not in repr(house.node.reply(request, object))  # type: ignore[type-var]  # any reply


def test_what_a_tenant_is_shown_never_names_another() -> None:
    house = House()
    for tenant in TENANTS:
        house.lease(tenant)
        granted = house.node.ask(
            InitProducer(transactional_id="job"),
            ProducerGranted,
            house.key(Role.PRODUCER, tenant=tenant),
        )
        owner = Owner(producer_id=granted.producer_id, epoch=granted.epoch, transactional_id="job")
        house.node.ask(
            BeginTransaction(owner=owner), TransactionBegan, house.key(Role.PRODUCER, tenant=tenant)
        )
    caller = house.key(Role.READONLY, tenant="acme")
    node = house.node
    shown = [
        node.ask(ListTopics(), TopicList, caller),
        node.ask(ListGroups(), GroupList, caller),
        node.ask(ListSchedules(), ScheduleList, caller),
        node.ask(ListTransactions(), TransactionList, caller),
        node.ask(DescribeTransactions(), TransactionStatistics, caller),
        node.ask(DescribeNode(), NodeDescription, caller),
        node.ask(CheckHealth(), NodeHealth, caller),
        node.ask(DescribeReliability(), Reliability, caller),
        node.ask(DescribePriorities(), PriorityStatistics, caller),
        node.ask(DescribeDelays(), DelayStatistics, caller),
        node.ask(SearchTraces(), TraceList, caller),
        node.ask(DescribeTracing(), TracingStatistics, caller),
        node.ask(DescribeGroup(group="acme.readers"), GroupDescription, caller),
    ]
    text = repr(shown).replace("acme.orders", "").replace("acme.readers", "")
    assert "orders" not in text
    assert "readers" not in text
    assert "globex" not in text
    assert shown[0] == TopicList(topics=("acme.orders",))
    listed = node.ask(ListTransactions(), TransactionList, caller)
    assert [each.transactional_id for each in listed.transactions] == ["job"]
    assert listed.total == 1
    statistics = node.ask(DescribeTransactions(), TransactionStatistics, caller)
    assert (statistics.active, statistics.active_producers) == (1, 1)
    priorities = node.ask(DescribePriorities(), PriorityStatistics, caller)
    assert sum(priorities.published) == 1
    traces = node.ask(SearchTraces(), TraceList, caller)
    assert {each.topic for each in traces.traces} == {"acme.orders"}
    assert traces.total < node.ask(SearchTraces(), TraceList, LOCAL).total


def test_a_trace_id_that_two_tenants_use_shows_each_its_own_spans() -> None:
    house = House()
    parent = ("traceparent", b"00-" + b"ab" * 16 + b"-" + b"cd" * 8 + b"-01")
    for tenant in ("acme", "globex"):
        command = Publish(topic=name(tenant, "orders"), batch=build(messages("x")), trace=(parent,))
        house.node.ask(command, Published)
    caller = house.key(Role.CONSUMER, tenant="acme")
    detail = house.node.ask(FindTrace(b"\xab" * 16), TraceDetail, caller)
    assert {event.topic for event in detail.events} == {"acme.orders"}
    stranger = house.key(Role.CONSUMER)
    assert code_of(house.node, FindTrace(b"\xab" * 16), stranger) is Code.TRACE_NOT_FOUND


def test_a_group_shows_only_topics_that_the_caller_sees() -> None:
    house = House()
    join = Join(group="mixed", client_id="c", topics=("orders", "acme.orders"), token="c00")  # noqa: S106 - a name, no secret
    house.node.ask(join, Joined)
    caller = house.key(Role.CONSUMER)
    described = house.node.ask(DescribeGroup(group="mixed"), GroupDescription, caller)
    assert described.topics == ("orders",)
    assert [each.topic for member in described.members for each in member.assigned] == ["orders"]
    lag = house.node.ask(DescribeLag(group="mixed"), Lag, caller)
    assert "acme" not in repr(lag)
    assert "acme" in repr(house.node.ask(DescribeLag(group="mixed"), Lag))
    offsets = DescribeOffsets(group="mixed", topic="acme.orders")
    assert house.node.ask(offsets, Offsets, caller).offsets == {}


# Receipts


def test_a_receipt_of_another_tenant_is_none() -> None:
    house = House()
    receipt = house.lease("globex")
    caller = house.key(Role.ADMIN, tenant="acme")
    assert code_of(house.node, Nack(receipt=receipt), caller) is Code.RECEIPT_INVALID
    ack = Ack(leases=(lease_of(receipt),))
    acked = house.node.ask(ack, Acked, caller)
    assert acked.settlements[0].refused[0].code is Code.RECEIPT_INVALID
    mine = house.node.ask(ack, Acked, house.key(Role.CONSUMER, tenant="globex"))
    assert mine.settlements[0].count == 1


def test_a_receipt_of_the_own_tenant_needs_the_right_to_read() -> None:
    house = House(acl_enabled=True)
    receipt = house.lease("acme")
    caller = house.key(Role.CONSUMER, tenant="acme")
    assert code_of(house.node, Nack(receipt=receipt), caller) is Code.PERMISSION_DENIED


# Producers and transactions


def test_transactional_ids_are_separate_by_tenant() -> None:
    house = House()
    init = InitProducer(transactional_id="job")
    granted = {}
    for tenant in TENANTS:
        caller = house.key(Role.PRODUCER, tenant=tenant)
        granted[tenant] = house.node.ask(init, ProducerGranted, caller)
    assert len({each.producer_id for each in granted.values()}) == 3
    assert all(each.epoch == 0 for each in granted.values())
    house.node.restart()
    again = house.node.ask(init, ProducerGranted, house.key(Role.PRODUCER, tenant="acme"))
    assert again.producer_id == granted["acme"].producer_id
    assert again.epoch == 1


def test_a_producer_of_another_tenant_does_not_exist() -> None:
    house = House()
    theirs = house.key(Role.PRODUCER, tenant="globex")
    granted = house.node.ask(InitProducer(transactional_id="job"), ProducerGranted, theirs)
    owner = Owner(producer_id=granted.producer_id, epoch=0, transactional_id="job")
    began = house.node.ask(BeginTransaction(owner=owner), TransactionBegan, theirs)
    caller = house.key(Role.ADMIN, tenant="acme")
    stamp = ProducerStamp(producer_id=granted.producer_id, epoch=0)
    batch = build(messages("x"))
    for command in (
        HeartbeatProducer(producer_id=granted.producer_id, epoch=0),
        BeginTransaction(owner=owner),
        PrepareTransaction(owner=owner),
        AddPartition(owner=owner, log=LogId("acme.orders", 0)),
        EndTransaction(owner=owner, is_commit=False),
        Publish(topic="acme.orders", batch=batch, producer=stamp),
    ):
        assert code_of(house.node, command, caller) is Code.PRODUCER_NOT_FOUND
    described = DescribeTransaction(transaction_id=began.transaction_id)
    assert code_of(house.node, described, caller) is Code.TRANSACTION_NOT_FOUND
    house.node.ask(PrepareTransaction(owner=owner), TransactionPrepared, theirs)
    group = CommitGroup(key="day", transaction_ids=(began.transaction_id,))
    assert code_of(house.node, group, caller) is Code.TRANSACTION_NOT_FOUND
    assert not house.node.ask(group, GroupCommitted, theirs).is_repeat
    # The key of a group commit is each tenant's own.
    empty = CommitGroup(key="day", transaction_ids=())
    assert not house.node.ask(empty, GroupCommitted, caller).is_repeat
    assert house.node.ask(empty, GroupCommitted, theirs).is_repeat


def test_an_admin_of_default_may_abort_for_everybody() -> None:
    house = House()
    theirs = house.key(Role.PRODUCER, tenant="globex")
    granted = house.node.ask(InitProducer(transactional_id="job"), ProducerGranted, theirs)
    owner = Owner(producer_id=granted.producer_id, epoch=0, transactional_id="job")
    began = house.node.ask(BeginTransaction(owner=owner), TransactionBegan, theirs)
    house.node.ask(EndTransaction(owner=owner, is_commit=False), object, house.key(Role.ADMIN))  # type: ignore[type-var]  # any reply
    described = DescribeTransaction(transaction_id=began.transaction_id)
    assert "abort" in house.node.ask(described, TransactionDescription, theirs).state


# Schedules


def test_schedules_belong_to_the_tenant_of_their_name() -> None:
    house = House()
    theirs, mine = house.key(Role.PRODUCER, tenant="globex"), house.key(Role.ADMIN, tenant="acme")
    spec = ScheduleSpec(
        name="globex.nightly",
        topic="globex.orders",
        message=ScheduledMessage(value=b""),
        every_ns=60 * SECOND,
    )
    house.node.ask(CreateSchedule(spec=spec), ScheduleDescription, theirs)
    for command in (
        DescribeSchedule(name="globex.nightly"),
        RunSchedule(name="globex.nightly"),
        DeleteSchedule(name="globex.nightly"),
    ):
        assert code_of(house.node, command, mine) is Code.SCHEDULE_NOT_FOUND
    assert code_of(house.node, CreateSchedule(spec=spec), mine) is Code.PERMISSION_DENIED
    foreign = msgspec.structs.replace(spec, name="acme.nightly")
    assert code_of(house.node, CreateSchedule(spec=foreign), mine) is Code.TOPIC_NOT_FOUND
    assert house.node.ask(ListSchedules(), ScheduleList, mine).total == 0
    assert house.node.ask(ListSchedules(), ScheduleList, theirs).total == 1


# Dead letters


def test_dead_letters_stay_within_their_tenant() -> None:
    house = House()
    chosen = TopicConfig(dead_letter_topic="globex.bin")
    mine = house.key(Role.ADMIN, tenant="acme")
    create = CreateTopic(name="acme.new", partitions=1, config=chosen)
    assert code_of(house.node, create, mine) is Code.TOPIC_NOT_FOUND
    assert code_of(house.node, create, LOCAL) is Code.PERMISSION_DENIED
    alter = AlterTopic(
        name="acme.orders", changes=TopicChanges({"dead_letter_topic": "globex.bin"})
    )
    assert code_of(house.node, alter, mine) is Code.TOPIC_NOT_FOUND
    assert code_of(house.node, alter, LOCAL) is Code.PERMISSION_DENIED


def test_dead_letters_that_were_chosen_before_a_tenant_was_made_do_not_go_there() -> None:
    house = House()
    config = TopicConfig(dead_letter_topic="initech.bin")
    house.node.ask(CreateTopic(name="bills", partitions=1, config=config), TopicDescription)
    house.node.ask(CreateTenant(id="initech", name="initech"), TenantDescription)
    batch = build(messages("x"))
    house.node.ask(Publish(topic="bills", batch=batch), Published)
    leased = house.node.ask(Receive(group="g", topics=("bills",)), Leased)
    returned = house.node.ask(Reject(receipt=deliveries(leased)[0].receipt), Returned)
    assert returned.dead_letter_topic == "bills.dlq"
    names = house.node.ask(ListTopics(), TopicList).topics
    assert "initech.bin" not in names
    # They are put back from where they are.
    assert house.node.ask(Redrive(topic="bills"), Redriven).moved == 1


def test_a_redrive_reads_dead_letters_and_writes_to_its_target() -> None:
    house = House()
    caller = house.key(Role.CONSUMER, tenant="acme")
    assert house.node.ask(Redrive(topic="acme.orders"), Redriven, caller).moved == 0
    for command in (
        Redrive(topic="globex.orders"),
        Redrive(topic="acme.orders", to_topic="globex.orders"),
        Redrive(topic="globex.orders", to_topic="acme.orders"),
    ):
        assert code_of(house.node, command, caller) is Code.TOPIC_NOT_FOUND
    across = Redrive(topic="acme.orders", to_topic="globex.orders")
    assert code_of(house.node, across, LOCAL) is Code.PERMISSION_DENIED


# Waits


def waiting_commands(tenant: str) -> list[Command]:
    topic, group = name(tenant, "orders"), name(tenant, "readers")
    return [
        Read(topic=topic, partition=0, offset=Offset(1), wait_ns=30 * SECOND),
        Watch(topic=topic, offsets={0: Offset(1)}, wait_ns=30 * SECOND),
        polling(group, wait_ns=30 * SECOND),
        Receive(group=f"{group}2", topics=(name(tenant, "empty"),), wait_ns=30 * SECOND),
    ]


@pytest.fixture
def house() -> House:
    house = House()
    house.node.ask(CreateTopic(name="acme.empty", partitions=1), TopicDescription)
    house.lease("acme")
    return house


@pytest.mark.parametrize("number", range(4))
def test_what_waits_ends_in_the_turn_in_which_its_key_is_revoked(house: House, number: int) -> None:
    caller, other = house.key(Role.CONSUMER, tenant="acme"), house.key(Role.CONSUMER, tenant="acme")
    command = waiting_commands("acme")[number]
    waiting, others = house.node.begin(command, caller), house.node.begin(command, other)
    assert not house.node.is_answered(waiting)
    house.node.ask(RevokeKey(id=caller.key), KeyDescription)
    with pytest.raises(Refused) as refused:
        house.node.reply(waiting, Done)
    assert refused.value.code is Code.UNAUTHENTICATED
    assert not house.node.is_answered(others)


@pytest.mark.parametrize("number", range(4))
def test_what_waits_ends_when_its_tenant_is_disabled(house: House, number: int) -> None:
    waiting = house.node.begin(
        waiting_commands("acme")[number], house.key(Role.CONSUMER, tenant="acme")
    )
    disable = SetTenantStatus(id="acme", status=TenantStatus.DISABLED)
    house.node.ask(disable, TenantDescription)
    with pytest.raises(Refused) as refused:
        house.node.reply(waiting, Done)
    assert refused.value.code is Code.TENANT_INACTIVE


@pytest.mark.parametrize("number", range(4))
def test_nothing_waits_longer_than_its_key_is_valid(house: House, number: int) -> None:
    caller = house.key(Role.CONSUMER, tenant="acme", expires_in_ns=5 * SECOND)
    waiting = house.node.begin(waiting_commands("acme")[number], caller)
    house.node.advance(5 * SECOND - 1)
    assert not house.node.is_answered(waiting)
    house.node.advance(1)
    with pytest.raises(Refused) as refused:
        house.node.reply(waiting, Done)
    assert refused.value.code is Code.UNAUTHENTICATED


def test_a_request_for_a_reply_ends_with_its_key(house: House) -> None:
    caller = house.key(Role.PRODUCER, tenant="acme")
    waiting = house.node.begin(AwaitReply(reply_to="id", wait_ns=30 * SECOND), caller)
    house.node.ask(RevokeKey(id=caller.key), KeyDescription)
    with pytest.raises(Refused) as refused:
        house.node.reply(waiting, Done)
    assert refused.value.code is Code.UNAUTHENTICATED


def test_a_read_that_waits_is_not_served_after_an_acl_denies_it() -> None:
    house = House(acl_enabled=True)
    caller = house.key(Role.CONSUMER, tenant="acme")
    house.allow("acl_1", caller.key, "acme.*", AclEffect.ALLOW)
    read = Read(topic="acme.orders", partition=0, offset=Offset(1), wait_ns=30 * SECOND)
    waiting = house.node.begin(read, caller)
    assert not house.node.is_answered(waiting)
    house.allow("acl_2", "role:consumer", "acme.orders", AclEffect.DENY)
    with pytest.raises(Refused) as refused:
        house.node.reply(waiting, Records)
    assert refused.value.code is Code.PERMISSION_DENIED


def test_a_poll_leases_only_from_topics_that_it_may_read_by_then() -> None:
    house = House(acl_enabled=True)
    caller = house.key(Role.CONSUMER, tenant="acme")
    house.node.ask(CreateTopic(name="acme.bills", partitions=1), TopicDescription)
    group = AclSpec(
        principal="*",
        resource_type=ResourceType.GROUP,
        resource_name="*",
        operation=Operation.ALL,
        effect=AclEffect.ALLOW,
    )
    house.node.ask(CreateAcl(id="acl_0", acl=group), AclDescription)
    house.allow("acl_1", caller.key, "acme.*", AclEffect.ALLOW)
    topics = ("acme.orders", "acme.bills")
    join = Join(group="acme.readers", client_id="c1", topics=topics, token="c100")  # noqa: S106 - a name, no secret
    house.node.ask(join, Joined, caller)
    house.node.ask(polling("acme.readers"), Leased, caller)
    waiting = house.node.begin(polling("acme.readers", wait_ns=30 * SECOND), caller)
    house.allow("acl_2", caller.key, "acme.orders", AclEffect.DENY)
    house.publish("acme", "not for you")
    assert not house.node.is_answered(waiting)
    house.node.ask(Publish(topic="acme.bills", batch=build(messages("a bill"))), Published)
    leased = house.node.reply(waiting, Leased)
    assert [each.log.topic for each in leased.partitions] == ["acme.bills"]


def test_a_publish_that_waits_for_an_announcement_is_checked_again(house: House) -> None:
    caller = house.key(Role.PRODUCER, tenant="acme")
    granted = house.node.ask(InitProducer(), ProducerGranted, caller)
    stamp = ProducerStamp(producer_id=granted.producer_id, epoch=0, sequence=0)
    house.node.slow_down(LogId("__topics", 0))
    publish = Publish(topic="acme.orders", batch=build(messages("x")), targets=[0], producer=stamp)
    waiting = house.node.begin(publish, caller)
    revoking = house.node.begin(RevokeKey(id=caller.key))
    assert not house.node.is_answered(waiting)
    house.node.speed_up()
    house.node.reply(revoking, KeyDescription)
    with pytest.raises(Refused) as refused:
        house.node.reply(waiting, Published)
    assert refused.value.code is Code.UNAUTHENTICATED


def test_a_deleted_topic_and_a_key_that_is_revoked_later_end_a_read_once(house: House) -> None:
    caller = house.key(Role.CONSUMER, tenant="acme")
    waiting = house.node.begin(waiting_commands("acme")[0], caller)
    house.node.ask(DeleteTopic(name="acme.orders"), Done)
    with pytest.raises(Refused) as refused:
        house.node.reply(waiting, Records)
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    house.node.ask(RevokeKey(id=caller.key), KeyDescription)


def test_the_use_of_a_key_is_remembered(house: House) -> None:
    caller = house.key(Role.CONSUMER, tenant="acme")
    house.node.ask(ListTopics(), TopicList, caller)
    key = house.node.node.keys.get(KeyId(caller.key))
    assert key is not None
    assert house.node.node.keys.describe(key).last_used_at is not None


def test_a_wrong_key_is_refused_before_anything_is_done(house: House) -> None:
    publish = Publish(topic="acme.orders", batch=build(messages("x")))
    unknown = Caller(KeyId("key_ffffffffffffffff"))
    assert code_of(house.node, publish, unknown) is Code.UNAUTHENTICATED
    poll = Poll(group="acme.readers", member_id="c1-c100")
    assert code_of(house.node, poll, house.key(Role.PRODUCER, tenant="acme")) is (
        Code.PERMISSION_DENIED
    )
