"""What a node says of itself: all of it, or only how it is.

Both are answered while the node is starting or stopping, too.
"""

from goqueue.broker.state import NodeState
from goqueue.broker.topics import Topics
from goqueue.broker.turns import Steps
from goqueue.model import Now, RequestId
from goqueue.model.requests import CheckHealth, DescribeNode, NodeDescription, NodeHealth

__all__ = ["NodeReports"]


class NodeReports:
    """Answers `DescribeNode` and `CheckHealth`."""

    def __init__(self, state: NodeState, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    def describe(self, request: RequestId, _: DescribeNode, now: Now) -> None:
        self._state.stepwise.begin(request, self._described(request), now)

    def _described(self, request: RequestId) -> Steps:
        state = self._state
        topics = yield from self._topics.describe_all()
        reply = NodeDescription(
            node_id=state.node_id,
            not_ready=state.not_ready,
            failed_logs=tuple(state.storage.failed),
            topics=topics,
            flows=state.counts.flows(),
            health=self._health(),
        )
        state.outbox.answer(request, reply)

    def check_health(self, request: RequestId, _: CheckHealth, __: Now) -> None:
        self._state.outbox.answer(request, self._health())

    def _health(self) -> NodeHealth:
        storage = self._state.storage
        return NodeHealth(
            node_id=self._state.node_id,
            not_ready=self._state.not_ready,
            failed_logs=tuple(storage.failed),
            full_logs=storage.full,
            damaged=storage.damaged(),
            damaged_ranges=storage.damaged_ranges,
        )
