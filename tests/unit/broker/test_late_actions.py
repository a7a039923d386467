"""Commands that act in a later turn than that of their admission: they are checked again."""

from collections.abc import Callable

import pytest

from goqueue.model import SECOND, Caller, Code, LogId, Refused, RequestId
from goqueue.model.requests import (
    AlterSchedule,
    BeginTransaction,
    Command,
    CreateSchedule,
    DeleteSchedule,
    DescribeSchedule,
    DescribeTransaction,
    Done,
    EndTransaction,
    InitProducer,
    Leased,
    Owner,
    PauseSchedule,
    PrepareTransaction,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    Receive,
    Redrive,
    Redriven,
    Reject,
    Returned,
    RevokeKey,
    Role,
    ScheduleChanges,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleSpec,
    ScheduleState,
    SetTenantStatus,
    TenantDescription,
    TenantStatus,
    TransactionBegan,
    TransactionDescription,
    TransactionEnded,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.test_caller_access import House
from tests.unit.broker.users import deliveries, messages, read

ORDERS = LogId("acme.orders", 0)
GROUPS = LogId("__groups", 0)


def set_status(house: House, status: TenantStatus) -> None:
    command = SetTenantStatus(id="acme", status=status, reason="overdue")
    house.node.ask(command, TenantDescription)


def refusal(node: DrivenNode, request: RequestId) -> Code:
    with pytest.raises(Refused) as refused:
        node.reply(request, Done)
    return refused.value.code


# What ends the right of a key, and what its waiting command is answered then.


def revoke(house: House, caller: Caller) -> Code:
    house.node.begin(RevokeKey(id=caller.key))
    return Code.UNAUTHENTICATED


def disable(house: House, _: Caller) -> Code:
    house.node.begin(SetTenantStatus(id="acme", status=TenantStatus.DISABLED))
    return Code.TENANT_INACTIVE


End = Callable[[House, Caller], Code]
ENDS: list[End] = [revoke, disable]


# Transactions


def owned(house: House, caller: Caller, name: str = "billing") -> Owner:
    granted = house.node.ask(InitProducer(transactional_id=name), ProducerGranted, caller)
    return Owner(producer_id=granted.producer_id, epoch=granted.epoch, transactional_id=name)


def writing(owner: Owner, value: str) -> Publish:
    stamp = ProducerStamp(producer_id=owner.producer_id, epoch=owner.epoch)
    return Publish(topic="acme.orders", batch=build(messages(value)), targets=[0], producer=stamp)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", ["commit", "prepare"])
def test_a_transaction_that_waits_for_its_messages_is_not_ended_for_a_key_without_the_right(
    end: End, kind: str
) -> None:
    house = House()
    caller = house.key(Role.PRODUCER, tenant="acme")
    owner = owned(house, caller)
    node = house.node
    begun = node.ask(BeginTransaction(owner=owner), TransactionBegan, caller)
    node.ask(writing(owner, "first"), Published, caller)
    node.slow_down(ORDERS)
    node.begin(writing(owner, "second"), caller)
    command = EndTransaction(owner=owner, is_commit=True)
    waiting = node.begin(PrepareTransaction(owner=owner) if kind == "prepare" else command, caller)
    assert not node.is_answered(waiting)

    code = end(house, caller)
    node.speed_up()

    assert refusal(node, waiting) is code
    described = node.ask(
        DescribeTransaction(transaction_id=begun.transaction_id), TransactionDescription
    )
    assert described.state == "ongoing"
    assert [record.value for record in read(node, ORDERS)] == [b"of acme"]
    # It is still somebody's to end.
    node.ask(EndTransaction(owner=owner, is_commit=False), TransactionEnded)


@pytest.mark.parametrize("end", ENDS)
def test_a_transaction_does_not_begin_after_a_wait_for_a_key_without_the_right(end: End) -> None:
    house = House()
    caller = house.key(Role.PRODUCER, tenant="acme")
    node = house.node
    init = InitProducer(transactional_id="billing", timeout_ns=SECOND)
    granted = node.ask(init, ProducerGranted, caller)
    owner = Owner(producer_id=granted.producer_id, epoch=granted.epoch, transactional_id="billing")
    node.ask(BeginTransaction(owner=owner), TransactionBegan, caller)
    node.ask(writing(owner, "first"), Published, caller)
    node.slow_down(ORDERS)
    node.advance(2 * SECOND)
    waiting = node.begin(BeginTransaction(owner=owner), caller)
    assert not node.is_answered(waiting)

    code = end(house, caller)
    node.speed_up()

    assert refusal(node, waiting) is code


# Redrives


def with_dead_letters(house: House, *values: str) -> None:
    house.publish("acme", *values)
    receive = Receive(group="acme.readers", topics=("acme.orders",), messages_max=100)
    for each in deliveries(house.node.ask(receive, Leased)):
        house.node.ask(Reject(receipt=each.receipt), Returned)


@pytest.mark.parametrize("end", ENDS)
def test_a_redrive_moves_nothing_after_its_caller_has_lost_the_right(end: End) -> None:
    house = House()
    caller = house.key(Role.CONSUMER, tenant="acme")
    with_dead_letters(house, "a", "b")
    before = len(read(house.node, ORDERS))
    house.node.reads_are_late = True
    waiting = house.node.begin(Redrive(topic="acme.orders"), caller)
    assert not house.node.is_answered(waiting)

    code = end(house, caller)
    house.node.finish_reads()

    assert refusal(house.node, waiting) is code
    assert len(read(house.node, ORDERS)) == before
    set_status(house, TenantStatus.ACTIVE)
    # What was chosen is free: another redrive gets it.
    assert house.node.ask(Redrive(topic="acme.orders"), Redriven).moved == 3


# Schedules


def spec(every_ns: int = SECOND, value: bytes = b"tick") -> ScheduleSpec:
    message = ScheduledMessage(value=value, partition=0)
    return ScheduleSpec(
        name="acme.nightly", topic="acme.orders", message=message, every_ns=every_ns
    )


def ticks(node: DrivenNode) -> int:
    return sum(record.value == b"tick" for record in read(node, ORDERS))


@pytest.mark.parametrize("status", [TenantStatus.SUSPENDED, TenantStatus.DISABLED])
def test_the_schedules_of_a_tenant_that_may_not_publish_send_nothing(status: TenantStatus) -> None:
    house = House()
    node = house.node
    caller = house.key(Role.PRODUCER, tenant="acme")
    node.ask(CreateSchedule(spec=spec()), ScheduleDescription, caller)
    node.advance(3 * SECOND)
    assert ticks(node) == 3

    set_status(house, status)
    node.advance(60 * SECOND)

    assert ticks(node) == 3
    described = node.ask(DescribeSchedule(name="acme.nightly"), ScheduleDescription)
    assert described.problem is not None
    assert "tenant_inactive" in described.problem


def test_the_schedules_of_a_tenant_go_on_when_it_is_active_again() -> None:
    house = House()
    node = house.node
    node.ask(CreateSchedule(spec=spec()), ScheduleDescription)
    set_status(house, TenantStatus.SUSPENDED)
    node.advance(10 * SECOND)
    assert ticks(node) == 0

    set_status(house, TenantStatus.ACTIVE)
    node.advance(30 * SECOND)

    assert ticks(node) > 0
    described = node.ask(DescribeSchedule(name="acme.nightly"), ScheduleDescription)
    assert described.problem is None


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "command",
    [
        AlterSchedule(name="acme.nightly", changes=ScheduleChanges(every_ns=3600 * SECOND)),
        PauseSchedule(name="acme.nightly"),
        DeleteSchedule(name="acme.nightly"),
        CreateSchedule(spec=spec(3600 * SECOND), may_replace=True),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_schedule_whose_tick_is_on_its_way_is_not_changed_for_a_key_without_the_right(
    command: Command, end: End
) -> None:
    house = House()
    node = house.node
    caller = house.key(Role.PRODUCER, tenant="acme")
    node.ask(CreateSchedule(spec=spec()), ScheduleDescription, caller)
    node.slow_down(ORDERS)
    node.advance(SECOND)
    waiting = node.begin(command, caller)
    assert not node.is_answered(waiting)

    code = end(house, caller)
    node.speed_up()

    assert refusal(node, waiting) is code
    described = node.ask(DescribeSchedule(name="acme.nightly"), ScheduleDescription)
    assert described.spec.every_ns == SECOND
    assert described.state is not ScheduleState.PAUSED
