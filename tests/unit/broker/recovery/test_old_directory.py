"""A data directory that the release before replication wrote: it opens, and everything is there.

`directory_before_seams.json` has the files of a node as a crash and as a clean stop left them:
topics (one deleted), a tenant and an ACL, a queue with acked, given back and leased messages, a
group that was deleted, a numbered batch, a prepared and an open transaction, a delayed message.
"""

import base64
import zlib
from pathlib import Path

import msgspec
import pytest

from goqueue.model import SECOND, Code, LogId
from goqueue.model.requests import (
    Ack,
    Acked,
    AclList,
    DescribeOffsets,
    GroupList,
    ListAcls,
    ListGroups,
    ListTenants,
    ListTopics,
    Offsets,
    Owner,
    TenantList,
    TopicList,
    lease_of,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import commit_group, shown_records, transactions, write
from tests.unit.broker.users import ORDERS, ack, join, poll, read_values, values
from tests.unit.storage.memory_files import MemoryFiles

_FILE = Path(__file__).parent / "directory_before_seams.json"
COPIES = LogId("copies", 0)


class _Facts(msgspec.Struct):
    transaction: str
    producer: tuple[int, int]
    receipt: str


class _Directory(msgspec.Struct):
    facts: _Facts
    crashed: dict[str, str]
    stopped: dict[str, str]


OLD = msgspec.json.decode(_FILE.read_bytes(), type=_Directory)


@pytest.fixture(params=["crashed", "stopped"])
def node(request: pytest.FixtureRequest) -> DrivenNode:
    packed: dict[str, str] = getattr(OLD, request.param)
    content = {path: zlib.decompress(base64.b85decode(text)) for path, text in packed.items()}
    return DrivenNode(MemoryFiles(content), now_ns=SECOND)


def test_topics_tenants_acls_and_groups_are_known_and_what_was_deleted_is_not(
    node: DrivenNode,
) -> None:
    assert sorted(node.ask(ListTopics(), TopicList).topics) == ["copies", "orders"]
    assert [each.id for each in node.ask(ListTenants(), TenantList).tenants] == ["acme", "default"]
    assert [each.id for each in node.ask(ListAcls(), AclList).acls] == ["a1"]
    groups = [each.group for each in node.ask(ListGroups(), GroupList).groups]
    assert sorted(groups) == ["shop", "stream"]


def test_positions_and_delivery_counts_go_on_where_they_were(node: DrivenNode) -> None:
    offsets = node.ask(DescribeOffsets(group="stream"), Offsets)
    assert offsets.offsets[ORDERS] == 6
    join(node)
    found = poll(node)
    assert values(found) == ["d", "e", "f", "g", "h", "n0", "n1"]
    assert [each.attempt for each in found[:5]] == [2, 2, 1, 1, 1]
    settled = ack(node, *found)
    assert all(each.code is None for each in settled)


def test_a_receipt_of_the_earlier_run_is_stale_and_not_invalid(node: DrivenNode) -> None:
    join(node)
    assert lease_of(OLD.facts.receipt).offsets == ((4, 5),)
    command = Ack(leases=(lease_of(OLD.facts.receipt),))
    assert node.ask(command, Acked).settlements[0].code is Code.RECEIPT_STALE


def test_a_prepared_transaction_commits_and_an_open_one_does_not(node: DrivenNode) -> None:
    assert OLD.facts.transaction in transactions(node)
    assert not commit_group(node, "batch-1", OLD.facts.transaction)
    assert [each.value for each in shown_records(node, COPIES)] == [b"held"]
    join(node)
    assert "b" not in values(poll(node)), "its ack was part of the transaction"


def test_a_numbered_batch_is_known_again_and_a_delayed_message_comes_when_due(
    node: DrivenNode,
) -> None:
    producer_id, epoch = OLD.facts.producer
    owner = Owner(producer_id=producer_id, epoch=epoch, transactional_id="")
    again = write(node, owner, "n0", "n1", targets=[1, 1], sequence=0)
    assert again.placed[0].is_duplicate
    node.advance(10 * SECOND)
    assert read_values(node, LogId("orders", 1))[-1] == "later"
