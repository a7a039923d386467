"""Nodes with a topic that is ready to be consumed, and what their dead letters say."""

from goqueue.model import SECOND, LogId
from goqueue.model.requests import (
    TopicConfig,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    LETTERS,
    create,
    join,
    publish,
    read,
)

__all__ = ["headers", "joined_shop", "stocked_shop"]


def headers(node: DrivenNode, log: LogId = LETTERS, offset: int = 0) -> dict[str, str]:
    return {name: value.decode() for name, value in read(node, log, offset)[0].headers}


def joined_shop(partitions: int = 1, config: TopicConfig | None = None) -> DrivenNode:
    node = DrivenNode()
    create(node, partitions=partitions, config=config)
    join(node, session_ns=600 * SECOND)
    return node


def stocked_shop(partitions: int = 1, *wanted: str) -> DrivenNode:
    """A topic with these messages in its first partition."""
    node = DrivenNode()
    create(node, partitions=partitions)
    for value in wanted:
        publish(node, value, targets=[0])
        node.advance(SECOND)
    return node
