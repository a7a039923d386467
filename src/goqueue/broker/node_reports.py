"""What a node says of itself: all of it, or only how it is.

Both are answered while the node is starting or stopping, too.
"""

import msgspec

from goqueue.broker.state import NodeState
from goqueue.broker.topics import Topics
from goqueue.broker.turns import Steps
from goqueue.model import SECOND, Instant, Now, RequestId
from goqueue.model.requests import (
    AuthorizeScrape,
    CheckHealth,
    DescribeNode,
    Done,
    NodeDescription,
    NodeHealth,
)
from goqueue.security import NameFilter

__all__ = ["NodeReports"]


# Totals of more partitions than this are remembered for a second: probes may be many.
_SUMMED_MAX = 1000
_REFRESH_NS = SECOND


class _Totals(msgspec.Struct, frozen=True):
    """How many topics there are, and the size of their logs."""

    topics: int
    size: int
    until: Instant


class NodeReports:
    """Answers `DescribeNode` and `CheckHealth`."""

    def __init__(self, state: NodeState, topics: Topics) -> None:
        self._state = state
        self._topics = topics
        # Of all topics.
        self._totals: _Totals | None = None

    def describe(self, request: RequestId, command: DescribeNode, now: Now) -> None:
        access = self._state.access
        sees = access.visible_topics()
        if access.is_probe:
            steps = self._summed(request, None, self._health(sees), now)
        elif command.is_summary:
            steps = self._summed(request, sees, self._health(sees), now)
        else:
            steps = self._described(request, sees)
        self._state.stepwise.begin(request, steps, now)

    def _summed(self, request: RequestId, sees: NameFilter, health: NodeHealth, now: Now) -> Steps:
        """Answer with totals of the topics that are seen, without the topics."""
        state = self._state
        totals = self._totals if sees is None else None
        if totals is None or now.instant >= totals.until:
            count, size = yield from self._topics.sum_sizes(sees)
            totals = _Totals(count, size, Instant(now.instant + _REFRESH_NS))
            if sees is None:
                # Few are summed as fast as they are remembered, and are never out of date.
                self._totals = totals if len(state.partitions) > _SUMMED_MAX else None
        reply = NodeDescription(
            node_id=state.node_id,
            not_ready=state.unready,
            failed_logs=health.failed_logs,
            topics=(),
            topic_count=totals.topics,
            total_size_bytes=totals.size,
            health=health,
        )
        state.outbox.answer(request, reply)

    def _described(self, request: RequestId, sees: NameFilter) -> Steps:
        state = self._state
        described = yield from self._topics.describe_all(sees)
        health = self._health(sees)
        flows = state.counts.flows()
        reply = NodeDescription(
            node_id=state.node_id,
            not_ready=state.unready,
            failed_logs=health.failed_logs,
            topics=described,
            topic_count=len(described),
            total_size_bytes=sum(each.total_size_bytes for each in described),
            flows=flows if sees is None else {name: flows[name] for name in filter(sees, flows)},
            health=health,
        )
        state.outbox.answer(request, reply)

    def authorize_scrape(self, request: RequestId, _: AuthorizeScrape, __: Now) -> None:
        """The rule of the command has decided."""
        self._state.outbox.answer(request, Done())

    def check_health(self, request: RequestId, _: CheckHealth, __: Now) -> None:
        self._state.outbox.answer(request, self._health(self._state.access.visible_topics()))

    def _health(self, sees: NameFilter) -> NodeHealth:
        storage = self._state.storage
        has_problems = bool(storage.failed or storage.full or storage.damaged_ranges)
        if sees is None or not has_problems:
            return NodeHealth(
                node_id=self._state.node_id,
                not_ready=self._state.unready,
                failed_logs=tuple(storage.failed),
                full_logs=storage.full,
                damaged=storage.damaged(),
                damaged_ranges=storage.damaged_ranges,
                has_problems=has_problems,
            )
        damaged = storage.damaged_by_topic()
        return NodeHealth(
            node_id=self._state.node_id,
            not_ready=self._state.unready,
            failed_logs=tuple(log for log in storage.failed if sees(log.topic)),
            full_logs=tuple(log for log in storage.full if sees(log.topic)),
            damaged=tuple(each for each in storage.damaged() if sees(each.log.topic)),
            damaged_ranges=sum(damaged[name] for name in filter(sees, damaged)),
            has_problems=has_problems,
        )
