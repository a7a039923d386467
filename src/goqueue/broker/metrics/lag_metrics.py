"""Where groups stand: how far they are behind, what they committed, what they hold.

One pass over all places gives the three: it makes the samples of the lag while those are read, and
keeps the numbers of the other two for the families that follow. Labels are not kept: hundreds of
thousands of them would have to be made, and given back, in one go.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from goqueue.broker.metrics.builders import gauge
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState, lag_between
from goqueue.groups import Group
from goqueue.metrics import Family, Sample
from goqueue.model import LogId, Offset

__all__ = ["place_families"]

_PAIR = ("topic", "consumer_group")
_PLACE = ("topic", "partition", "consumer_group")


def place_families(state: NodeState, *, by_partition: bool) -> Iterator[Family]:
    labels = _PLACE if by_partition else _PAIR
    places = _Places(state, by_partition=by_partition)
    yield gauge(
        "goqueue_consumer_lag",
        "Messages the group has not consumed yet.",
        labels,
        places.lags(),
    )
    yield gauge(
        "goqueue_consumer_committed_offset",
        "Next offset of a group; summed over partitions unless partitions are a label.",
        labels,
        places.committed(),
    )
    yield gauge(
        "goqueue_broker_messages_in_flight",
        "Messages leased and not settled yet.",
        _PAIR,
        places.in_flight,
    )


class _Log:
    """A log as all groups find it, with its labels but for the name of the group."""

    __slots__ = ("end", "labels", "log", "messages", "start")

    def __init__(self, partition: Partition, hidden: int) -> None:
        self.log = partition.log_id
        self.start = partition.log.start
        self.end = partition.log.watermarks.stable
        self.messages = self.end - self.start - hidden
        topic, number = self.log.topic, self.log.partition
        self.labels = f'topic="{topic}",partition="{number}",consumer_group="'


class _Topic:
    """The logs of a topic, and what a group finds there that has no place in any of them.

    So a group is looked at only where it has a place, however many partitions the topic has.
    """

    __slots__ = ("logs", "messages", "starts")

    def __init__(self) -> None:
        self.logs: dict[LogId, _Log] = {}
        self.messages = 0
        self.starts = 0

    def add(self, log: _Log) -> None:
        self.logs[log.log] = log
        self.messages += log.messages
        self.starts += log.start


class _Place(NamedTuple):
    """How a group stands in one partition."""

    behind: int
    floor: int
    in_flight: int


class _Stand(msgspec.Struct, frozen=True):
    """Where a group stands in a topic: its next offsets, by partition or as their sum."""

    topic: str
    group: str
    logs: tuple[_Log, ...]
    floors: list[int]


class _Places:
    """All places of all groups."""

    def __init__(self, state: NodeState, *, by_partition: bool) -> None:
        self._state = state
        self._by_partition = by_partition
        self._stands: list[_Stand] = []
        self.in_flight: list[Sample] = []

    def lags(self) -> Iterator[Sample | None]:
        topics: dict[str, _Topic] = {}
        for partition in list(self._state.partitions):
            if self._state.partitions.get(partition.log_id) is partition:
                log = partition.log
                hidden = self._state.hidden_within(
                    partition.log_id, log.start, log.watermarks.stable
                )
                topic = topics.setdefault(partition.log_id.topic, _Topic())
                topic.add(_Log(partition, hidden))
            yield None
        for group in list(self._state.groups):
            places: dict[str, list[LogId]] = {}
            for place in self._state.group_partitions.of_group(group.number):
                places.setdefault(place.log.topic, []).append(place.log)
            for name in self._state.topics_of(group):
                found = topics.get(name)
                if found is not None and self._by_partition:
                    yield from self._each_lag(group, name, found)
                elif found is not None:
                    yield from self._whole_lag(group, name, found, places.get(name, []))

    def committed(self) -> Iterator[Sample]:
        """What the pass over the lags has found."""
        for stand in self._stands:
            if self._by_partition:
                for log, floor in zip(stand.logs, stand.floors, strict=True):
                    yield f'{log.labels}{stand.group}"', floor
            else:
                yield _pair(stand.topic, stand.group), sum(stand.floors)

    def _whole_lag(
        self, group: Group, name: str, topic: _Topic, places: list[LogId]
    ) -> Iterator[Sample | None]:
        """One sample: what everybody finds there, corrected where the group has a place."""
        lag, committed, held = topic.messages, topic.starts, 0
        for place in places:
            log = topic.logs.get(place)
            if log is not None:
                found = self._place(group, log)
                lag += found.behind - log.messages
                committed += found.floor - log.start
                held += found.in_flight
            yield None
        self._stands.append(_Stand(name, group.name, (), [committed]))
        self.in_flight.append((_pair(name, group.name), held))
        yield _pair(name, group.name), lag

    def _each_lag(self, group: Group, name: str, topic: _Topic) -> Iterator[Sample | None]:
        """A sample for each partition."""
        held = 0
        floors: list[int] = []
        for log in topic.logs.values():
            found = self._place(group, log)
            held += found.in_flight
            floors.append(found.floor)
            yield f'{log.labels}{group.name}"', found.behind
        self._stands.append(_Stand(name, group.name, tuple(topic.logs.values()), floors))
        self.in_flight.append((_pair(name, group.name), held))

    def _place(self, group: Group, log: _Log) -> _Place:
        place = self._state.group_partitions.get(group.number, log.log)
        queue = None if place is None else place.queue
        floor = log.start if place is None else max(place.position.floor, log.start)
        behind = lag_between(log.start, log.end, place)
        if queue is None and behind and self._state.partitions.get(log.log) is not None:
            # A queue knows by itself which records are no messages.
            hidden = self._state.hidden_within(log.log, Offset(floor), log.end)
            behind = max(0, behind - hidden)
        return _Place(behind, floor, 0 if queue is None else queue.in_flight)


def _pair(topic: str, group: str) -> str:
    return f'topic="{topic}",consumer_group="{group}"'
