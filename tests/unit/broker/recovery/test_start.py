"""How a node comes to serve, and what it refuses until then."""

import pytest

from goqueue.broker import GROUPS_LOG, TOPICS_LOG, Node
from goqueue.model import (
    LOCAL,
    SECOND,
    Answer,
    Asked,
    Code,
    Instant,
    LogId,
    Now,
    Refused,
    RequestId,
    Timestamp,
)
from goqueue.model.requests import DescribeNode, ListTopics, NodeDescription, TopicList
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import create, join, poll, publish, read_values
from tests.unit.storage.memory_files import MemoryFiles

NOW = Now(Instant(0), Timestamp(EPOCH_NS))


def ask(node: Node, command: DescribeNode | ListTopics) -> object:
    """The answer of a bare node, which has seen none of its effects carried out."""
    effects = node.handle(Asked(request=RequestId(1), command=command, caller=LOCAL), NOW)
    (answer,) = [effect for effect in effects if isinstance(effect, Answer)]
    return answer.reply


def test_a_node_that_starts_describes_itself_and_refuses_all_else() -> None:
    node = Node("node-1", bytes(32))
    node.start()

    described = ask(node, DescribeNode())
    assert isinstance(described, NodeDescription)
    assert described.not_ready == "starting"
    refused = ask(node, ListTopics())
    assert isinstance(refused, Refused)
    assert refused.code is Code.BROKER_UNAVAILABLE


def test_a_node_told_to_stop_while_it_starts_never_serves() -> None:
    stopped = Node("node-1", bytes(32))
    stopped.start()
    stopped.stop(NOW)

    described = ask(stopped, DescribeNode())
    assert isinstance(described, NodeDescription)
    assert described.not_ready == "stopping"


def test_a_node_without_anything_serves_at_once() -> None:
    node = DrivenNode()

    assert node.ask(ListTopics(), TopicList).topics == ()
    assert node.ask(DescribeNode(), NodeDescription).not_ready is None
    assert node.halts == []


def test_a_node_starts_again_as_often_as_one_likes() -> None:
    node = DrivenNode()
    create(node)
    for number in range(5):
        publish(node, str(number))
        node.restart()

    assert read_values(node) == ["0", "1", "2", "3", "4"]


def test_logs_that_no_topic_claims_are_moved_out_of_the_way_and_not_deleted() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a")
    content = node.files.copy()
    stray = {
        path.replace("/orders/", "/stray/"): data
        for path, data in content.items()
        if "/orders/" in path
    }
    assert stray
    node = DrivenNode(MemoryFiles({**content, **stray}))

    assert node.ask(ListTopics(), TopicList).topics == ("orders",)
    create(node, "stray")
    assert read_values(node, LogId("stray", 0)) == []
    kept = [data for path, data in node.files.copy().items() if "stray" in path and data]
    assert set(stray.values()) & set(kept)


@pytest.mark.parametrize("journal", [TOPICS_LOG, GROUPS_LOG])
def test_a_damaged_journal_halts_the_node(journal: LogId) -> None:
    node = DrivenNode()
    create(node)
    join(node)
    publish(node, "a")
    poll(node)
    content = node.files.copy()
    path = next(path for path in content if f"{journal.topic}/0/" in path and path.endswith(".log"))
    # What a stop promised is durable: damage there is no torn tail.
    node.stop()
    content = node.files.copy()
    spoiled = bytearray(content[path])
    spoiled[60] ^= 0xFF
    content = {name: data for name, data in content.items() if "snapshot" not in name}
    twin = DrivenNode(MemoryFiles({**content, path: bytes(spoiled)}))

    assert twin.halts


def test_many_partitions_are_all_there_after_a_start() -> None:
    node = DrivenNode()
    create(node, partitions=50)
    join(node, session_ns=600 * SECOND)
    publish(node, *["x"] * 100)
    node.restart()

    assert len(poll(node)) == 100
