"""Backups of a node with tenants: a restore gives nothing of one tenant to another."""

from collections.abc import Callable

import pytest

from goqueue.model import SECOND, LogId
from goqueue.model.requests import (
    BackupProgress,
    CreateBackup,
    CreateSchedule,
    CreateTenant,
    DeleteTenant,
    Done,
    ListTopics,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleSpec,
    TenantDescription,
    TopicList,
)
from tests.unit.broker.backup_words import back_up, fresh_node, restore
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, join, publish, read_values


def _tenant(node: DrivenNode) -> None:
    node.ask(CreateTenant(id="acme", name="acme"), TenantDescription)


def _topics(node: DrivenNode) -> tuple[str, ...]:
    return node.ask(ListTopics(), TopicList).topics


def _assert_fails(node: DrivenNode, backup: str, reason: str) -> None:
    failed = restore(node, backup)
    assert failed.state is BackupProgress.FAILED
    assert failed.error is not None
    assert reason in failed.error
    assert _topics(node) == ()


def _add_topic(node: DrivenNode) -> None:
    create(node, "acme.orders")
    publish(node, "secret", topic="acme.orders")


def _add_group(node: DrivenNode) -> None:
    create(node, "orders")
    join(node, group="acme.shop", topics=["orders"])


def _add_schedule(node: DrivenNode) -> None:
    create(node, "acme.orders")
    message = ScheduledMessage(value=b"x")
    spec = ScheduleSpec(name="acme.tick", topic="acme.orders", message=message, every_ns=SECOND)
    node.ask(CreateSchedule(spec=spec), ScheduleDescription)


def test_what_a_tenant_had_does_not_pass_to_default_where_there_is_no_such_tenant() -> None:
    node = DrivenNode()
    _tenant(node)
    _add_topic(node)
    backup = back_up(node, CreateBackup(has_config=False)).summary.id
    other = fresh_node(node)
    reason = "acme.orders belonged to the tenant acme, and would belong to default"
    _assert_fails(other, backup, reason)
    _tenant(other)
    assert restore(other, backup).topics_restored == 1
    assert read_values(other, LogId("acme.orders", 0)) == ["secret"]


def test_what_a_deleted_tenant_had_does_not_come_back_as_that_of_default() -> None:
    node = DrivenNode()
    _tenant(node)
    _add_topic(node)
    backup = back_up(node, CreateBackup(has_config=False)).summary.id
    deletion = node.begin(DeleteTenant(id="acme", is_forced=True))
    node.advance(SECOND)
    node.reply(deletion, Done)
    _assert_fails(node, backup, "acme.orders belonged to the tenant acme")


@pytest.mark.parametrize("add", [_add_topic, _add_group, _add_schedule])
def test_what_default_had_does_not_pass_to_a_tenant_that_was_made_since(
    add: Callable[[DrivenNode], None],
) -> None:
    node = DrivenNode()
    add(node)
    backup = back_up(node).summary.id
    other = fresh_node(node)
    _tenant(other)
    _assert_fails(other, backup, "belonged to the tenant default, and would belong to acme")
