"""Transactions in logs that lose their end to a power cut, or a part to damage."""

import pytest

from goqueue.model import SECOND, Code, Flush, LogId
from goqueue.model.requests import (
    EndTransaction,
    Mode,
    Read,
    Records,
    TopicConfig,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import (
    abort,
    add,
    begin,
    commit,
    init,
    readable,
    refused_code,
    shown,
    shown_uncommitted,
    texts,
    write,
)
from tests.unit.broker.users import create, join, poll, publish, values
from tests.unit.storage.memory_files import MemoryFiles

INTERVAL = TopicConfig(flush_policy=Flush.INTERVAL, flush_interval_ms=60_000)


def after_power_loss(node: DrivenNode, before: dict[str, bytes], topic: str) -> DrivenNode:
    """The topic is what it was then, all else is as it is now."""
    now = node.files.copy()
    content = {path: data for path, data in now.items() if f"{topic}/" not in path}
    content |= {path: data for path, data in before.items() if f"{topic}/" in path}
    return DrivenNode(MemoryFiles(content), node.limits, node.now_ns)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_that_a_power_cut_took_is_written_again(is_commit: bool) -> None:
    node = DrivenNode()
    create(node, config=INTERVAL)
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    write(node, owner, "y", topic="others")
    before = node.files.copy()
    (commit if is_commit else abort)(node, owner)
    assert shown(node) == (["x"] if is_commit else [])

    again = after_power_loss(node, before, "orders")

    assert shown(again) == (["x"] if is_commit else [])
    assert shown(again, LogId("others", 0)) == (["y"] if is_commit else [])
    begin(again, owner)
    write(again, owner, "z")
    commit(again, owner)
    assert shown(again)[-1] == "z"


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_that_a_power_cut_took_is_written_again_although_others_ended_since(
    is_commit: bool,
) -> None:
    node = DrivenNode()
    create(node, config=INTERVAL)
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    before = node.files.copy()
    (commit if is_commit else abort)(node, owner)
    for _ in range(3):
        begin(node, owner)
        write(node, owner, "y", topic="others")
        (abort if is_commit else commit)(node, owner)

    again = after_power_loss(node, before, "orders")

    assert shown(again) == (["x"] if is_commit else [])
    assert shown_uncommitted(again) == ["x"]


def test_a_transaction_whose_messages_a_power_cut_took_ends_and_holds_up_nobody() -> None:
    node = DrivenNode()
    create(node, config=INTERVAL)
    owner = init(node)
    begin(node, owner)
    before = node.files.copy()
    write(node, owner, "x")
    commit(node, owner)

    again = after_power_loss(node, before, "orders")
    publish(again, "plain")

    assert shown(again) == ["plain"]
    begin(again, owner)
    write(again, owner, "z")
    commit(again, owner)
    assert shown(again) == ["plain", "z"]


def test_progress_over_messages_that_a_power_cut_took_is_not_taken_for_their_successors() -> None:
    node = DrivenNode()
    create(node, config=INTERVAL)
    publish(node, "a")
    before = node.files.copy()
    publish(node, "lost")
    join(node, mode=Mode.SHARED)
    owner = init(node)
    begin(node, owner)
    leased = poll(node)
    add(node, owner, leased[1])

    again = after_power_loss(node, before, "orders")
    publish(again, "fresh")

    # What it acknowledged never was, so it cannot commit.
    ending = EndTransaction(owner=owner, is_commit=True)
    assert refused_code(again, ending) is Code.TRANSACTION_STATE_INVALID
    join(again, client="c2", mode=Mode.SHARED)
    assert values(poll(again, client="c2")) == ["a", "fresh"]


def test_a_commit_whose_marker_was_damaged_is_not_taken_back() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(segment_bytes=1 << 20))
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    for _ in range(6):
        publish(node, "y" * 200_000)
    commit(node, owner)
    for _ in range(6):
        publish(node, "z" * 200_000)
    node.advance(20 * SECOND)
    assert shown(node)[0] == "x"
    content = {path: data for path, data in node.files.copy().items() if "snapshot" not in path}
    (path,) = [
        path
        for path, data in content.items()
        if "/orders/" in path and path.endswith(".log") and b"gq.transaction" in data
    ]
    assert not path.endswith("/00000000000000000000.log")
    content[path] = content[path].replace(b"gq.transaction", b"gq.transactiom")

    again = DrivenNode(MemoryFiles(content), now_ns=node.now_ns)

    found = again.ask(Read(topic="orders", partition=0), Records)
    assert texts(readable(found))[0] == "x"
