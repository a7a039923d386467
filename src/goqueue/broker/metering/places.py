"""Where groups stand: how far they are behind, what they committed, what they hold.

One pass over all places gives the three: it makes the samples of the lag while those are read, and
keeps the numbers of the other two for the families that follow. Labels are not kept: hundreds of
thousands of them would have to be made, and given back, in one go.
"""

from collections.abc import Iterator

import msgspec

from goqueue.broker.metering.shapes import gauge
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState, lag_between
from goqueue.groups import Group
from goqueue.metrics import Family, Sample

__all__ = ["place_families"]

_PAIR = ("topic", "consumer_group")
_PLACE = ("topic", "partition", "consumer_group")


def place_families(state: NodeState, *, by_partition: bool) -> Iterator[Family]:
    labels = _PLACE if by_partition else _PAIR
    places = _Places(state, by_partition=by_partition)
    yield gauge(
        "goqueue_consumer_lag",
        "Messages that a group has still before it.",
        labels,
        places.lags(),
    )
    yield gauge(
        "goqueue_consumer_committed_offset",
        "The next offset of a group; the sum over partitions where those are not shown.",
        labels,
        places.committed(),
    )
    yield gauge(
        "goqueue_broker_messages_in_flight",
        "Messages handed out and not settled.",
        _PAIR,
        places.in_flight,
    )


class _Log:
    """A log as all groups find it, with its labels but for the name of the group."""

    __slots__ = ("end", "labels", "log", "start")

    def __init__(self, partition: Partition) -> None:
        self.log = partition.log_id
        self.start = partition.log.start
        self.end = partition.log.watermarks.stable
        topic, number = self.log.topic, self.log.partition
        self.labels = f'topic="{topic}",partition="{number}",consumer_group="'


class _Stand(msgspec.Struct, frozen=True):
    """Where a group stands in a topic: its next offset in each of these logs."""

    topic: str
    group: str
    logs: list[_Log]
    floors: list[int]


class _Places:
    """All places of all groups."""

    def __init__(self, state: NodeState, *, by_partition: bool) -> None:
        self._state = state
        self._by_partition = by_partition
        self._stands: list[_Stand] = []
        self.in_flight: list[Sample] = []

    def lags(self) -> Iterator[Sample]:
        logs: dict[str, list[_Log]] = {}
        for partition in self._state.partitions:
            logs.setdefault(partition.log_id.topic, []).append(_Log(partition))
        for group in list(self._state.groups):
            for topic in self._state.topics_of(group):
                yield from self._lags_of(group, topic, logs.get(topic, []))

    def committed(self) -> Iterator[Sample]:
        """What the pass over the lags has found."""
        for stand in self._stands:
            if self._by_partition:
                for log, floor in zip(stand.logs, stand.floors, strict=True):
                    yield f'{log.labels}{stand.group}"', floor
            else:
                yield _pair(stand.topic, stand.group), sum(stand.floors)

    def _lags_of(self, group: Group, topic: str, logs: list[_Log]) -> Iterator[Sample]:
        if not logs:
            return
        positions = self._state.positions.get(group.number, {})
        queues = self._state.queues.get(group.number, {})
        lag = held = 0
        floors: list[int] = []
        for each in logs:
            position, queue = positions.get(each.log), queues.get(each.log)
            behind = lag_between(each.start, each.end, position, queue)
            floor = each.start if position is None else max(position.floor, each.start)
            if queue is not None:
                held += queue.in_flight
            elif behind:
                # A queue knows by itself which records are no messages.
                behind = max(0, behind - self._state.hidden_within(each.log, floor, each.end))
            lag += behind
            floors.append(floor)
            if self._by_partition:
                yield f'{each.labels}{group.name}"', behind
        self._stands.append(_Stand(topic, group.name, logs, floors))
        self.in_flight.append((_pair(topic, group.name), held))
        if not self._by_partition:
            yield _pair(topic, group.name), lag


def _pair(topic: str, group: str) -> str:
    return f'topic="{topic}",consumer_group="{group}"'
