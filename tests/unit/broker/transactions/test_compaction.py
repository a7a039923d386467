"""Compaction of what transactions and numbered producers wrote."""

import pytest

from goqueue.model import SECOND, Cleanup, Code, Refused
from goqueue.model.requests import TopicConfig
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import abort, begin, commit, init, write
from tests.unit.broker.users import create, publish, read_values

BIG = "x" * 30_000


def compacted_store() -> DrivenNode:
    node = DrivenNode()
    create(node, config=TopicConfig(segment_bytes=64 * 1024, cleanup_policy=Cleanup.COMPACT))
    return node


def fill(node: DrivenNode, key: str = "other") -> None:
    """Enough that what came before is compacted."""
    for _ in range(6):
        publish(node, f"{key}={BIG}")
    node.advance(120 * SECOND)


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_an_aborted_value_never_replaces_the_one_before(without_snapshots: bool) -> None:
    node = compacted_store()
    owner = init(node)
    publish(node, "k=good")
    begin(node, owner)
    write(node, owner, "k=bad")
    abort(node, owner)
    fill(node)
    node.restart(without_snapshots=without_snapshots)
    fill(node)

    assert "good" in read_values(node)
    assert "bad" not in read_values(node)


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_committed_value_replaces_the_one_before(without_snapshots: bool) -> None:
    node = compacted_store()
    owner = init(node)
    publish(node, "k=old")
    begin(node, owner)
    write(node, owner, "k=new", "l=kept")
    commit(node, owner)
    fill(node)
    node.restart(without_snapshots=without_snapshots)

    assert [each for each in read_values(node) if each != BIG] == ["new", "kept"]


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_producer_is_known_by_batches_whose_records_were_compacted_away(
    without_snapshots: bool,
) -> None:
    node = compacted_store()
    owner = init(node)
    begin(node, owner)
    first = write(node, owner, "k=1", targets=[0], sequence=0)
    commit(node, owner)
    publish(node, "k=2")
    fill(node)
    assert "1" not in read_values(node)
    node.restart(without_snapshots=without_snapshots)
    begin(node, owner)

    with pytest.raises(Refused) as refused:
        write(node, owner, "k=1", targets=[0], sequence=0)
    assert refused.value.code is Code.SEQUENCE_OUT_OF_ORDER
    assert refused.value.facts["expected"] == 1
    assert first.placed[0].first == 0
    assert write(node, owner, "k=3", targets=[0], sequence=1).placed[0].count == 1


def test_what_an_open_transaction_wrote_is_not_compacted() -> None:
    node = compacted_store()
    owner = init(node, timeout_ns=900 * SECOND)
    publish(node, "k=old")
    begin(node, owner)
    write(node, owner, "k=new")
    for _ in range(8):
        publish(node, f"k={BIG}")
        node.advance(20 * SECOND)
        write(node, owner, "l=more")
    commit(node, owner)

    assert read_values(node)[:2] == ["old", "new"]
