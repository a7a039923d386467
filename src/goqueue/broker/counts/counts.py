"""The counts of a node: by topic, by group, and by both.

Callers name topics and groups that exist; when one goes, its counts go. So there is never more than
what exists, whatever callers from outside make up. What concerns a topic or a group that does not
exist is counted under no name.
"""

from goqueue.broker.counts.kinds import GroupCounts, PairCounts, TopicCounts
from goqueue.metrics import Histogram
from goqueue.model.requests import TopicFlow

__all__ = ["Counts"]


class Counts:
    """Numbers by the names that they belong to."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicCounts] = {}
        self._groups: dict[str, GroupCounts] = {}
        # By group, then by topic. Reading without a group is done by the one without a name.
        self._pairs: dict[str, dict[str, PairCounts]] = {}
        self.transactions_started = 0
        self.transaction_latency = Histogram()

    def topic(self, name: str) -> TopicCounts:
        counts = self._topics.get(name)
        if counts is None:
            counts = self._topics[name] = TopicCounts()
        return counts

    def group(self, name: str) -> GroupCounts:
        counts = self._groups.get(name)
        if counts is None:
            counts = self._groups[name] = GroupCounts()
        return counts

    def pair(self, topic: str, group: str) -> PairCounts:
        pairs = self._pairs.get(group)
        if pairs is None:
            pairs = self._pairs[group] = {}
        counts = pairs.get(topic)
        if counts is None:
            counts = pairs[topic] = PairCounts()
        return counts

    def topics(self) -> list[tuple[str, TopicCounts]]:
        """What is counted now, by topic; a copy that later changes leave alone."""
        return list(self._topics.items())

    def groups(self) -> list[tuple[str, GroupCounts]]:
        return list(self._groups.items())

    def pairs(self) -> list[tuple[tuple[str, str], PairCounts]]:
        """By topic and group; a copy that later changes leave alone."""
        return [
            ((topic, group), counts)
            for group, pairs in self._pairs.items()
            for topic, counts in pairs.items()
        ]

    def flows(self) -> dict[str, TopicFlow]:
        """By topic, what came and what went to all groups and to readers without one."""
        consumed: dict[str, int] = {}
        for pairs in self._pairs.values():
            for topic, counts in pairs.items():
                consumed[topic] = consumed.get(topic, 0) + counts.consumed
        names = dict.fromkeys([*self._topics, *consumed])
        published = {name: counts.published for name, counts in self._topics.items()}
        return {name: TopicFlow(published.get(name, 0), consumed.get(name, 0)) for name in names}

    def forget_topic(self, name: str) -> None:
        self._topics.pop(name, None)
        for pairs in self._pairs.values():
            pairs.pop(name, None)

    def forget_group(self, name: str) -> None:
        self._groups.pop(name, None)
        self._pairs.pop(name, None)
