"""Partitions as the cluster sees them: from the image who keeps them, from their leaders the rest.

A partition without a leader, or whose leader did not answer, is described with a code instead of
its offsets. A topic has totals only if all of its leaders answered.
"""

from collections.abc import Callable

import msgspec

from goqueue.broker.cluster.forward_parts import Outcome, Part
from goqueue.broker.cluster.routes import Routes
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.cluster import TopicStated
from goqueue.model import Code, LogId, Now, Offset, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    Command,
    DescribePartitions,
    PartitionDescription,
    PartitionList,
    TopicDescription,
)

__all__ = ["DescriptionGather", "PartitionReports"]

Handler = Callable[[RequestId, Command, Now], None]


class PartitionReports:
    """Describes partitions that this broker leads, and gathers what others say of theirs."""

    def __init__(self, state: NodeState, routes: Routes) -> None:
        self._state = state
        self._routes = routes

    def gather(self, stated: TopicStated, *, is_topic: bool) -> "DescriptionGather":
        """What the image says of a topic; the leaders fill in the rest."""
        partitions = [self._described(stated.name, number) for number in range(stated.partitions)]
        topic = self._state.catalog.get(stated.name)
        config = stated.config
        if topic is not None:
            letters = self._state.dead_letters_of(topic)
            config = msgspec.structs.replace(config, dead_letter_topic=letters)
        stated = msgspec.structs.replace(stated, config=config)
        return DescriptionGather(stated, partitions, is_topic=is_topic)

    def _described(self, topic: str, number: int) -> PartitionDescription:
        found = self._routes.partition(LogId(topic, number))
        if found is None:
            return _undescribed(number, Code.LEADER_UNAVAILABLE)
        live = self._routes.live
        return msgspec.structs.replace(
            _undescribed(number, Code.LEADER_UNAVAILABLE if found.leader is None else None),
            leader=found.leader or "",
            replicas=found.copies,
            isr=tuple(broker for broker in found.isr if live(broker)),
            version=found.version,
        )

    def around(self, here: Handler) -> Handler:
        """A handler that describes the partitions that a command names, if this broker leads them.

        All partitions, which only a log of this broker's own is asked for, are left to `here`.
        """

        def handle(request: RequestId, command: Command, now: Now) -> None:
            assert isinstance(command, DescribePartitions)
            if command.only is None:
                here(request, command, now)
                return
            topic = self._state.catalog.find(command.topic)
            for number in command.only:
                self._led(LogId(topic.name, number))
            steps = self._describe(request, command.topic, command.only)
            self._state.stepwise.begin(request, steps, now)

        return handle

    def _led(self, log: LogId) -> Partition:
        """A partition that this broker leads and has opened."""
        leader = self._routes.leader(log)
        if leader != self._routes.me:
            address = "" if leader is None else self._routes.address(leader)
            raise Refused(Code.NOT_LEADER, leader=leader or "", leader_address=address)
        partition = self._state.partitions.get(log)
        if partition is None:
            raise Refused(Code.LEADER_UNAVAILABLE, topic=log.topic, partition=log.partition)
        return partition

    def _describe(self, request: RequestId, topic: str, numbers: tuple[int, ...]) -> Steps:
        described = []
        for number in numbers:
            partition = self._led(LogId(topic, number))
            log = partition.log
            stable = log.watermarks.stable
            hidden = self._state.hidden_within(partition.log_id, log.start, stable)
            described.append(
                msgspec.structs.replace(
                    self._described(topic, number),
                    earliest_offset=log.start,
                    end_offset=log.end,
                    high_watermark=log.high_watermark,
                    size_bytes=log.size,
                    messages=stable - log.start - hidden,
                )
            )
            yield 1
        self._state.outbox.answer(request, PartitionList(topic=topic, partitions=tuple(described)))


class DescriptionGather:
    """The partitions of a topic, filled in by their leaders."""

    def __init__(
        self, topic: TopicStated, partitions: list[PartitionDescription], *, is_topic: bool
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._is_topic = is_topic

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, PartitionList):
            for each in outcome.partitions:
                if 0 <= each.partition < len(self._partitions):
                    self._partitions[each.partition] = each
        elif isinstance(outcome, Refused):
            if self._is_topic:
                return outcome
            assert isinstance(part.command, DescribePartitions)
            for number in part.command.only or ():
                known = self._partitions[number]
                self._partitions[number] = msgspec.structs.replace(known, error=outcome.code)
        return None if part.request.parts else self.result()

    def result(self) -> PartitionList | TopicDescription:
        """The description as far as it is known."""
        partitions = self._partitions
        if not self._is_topic:
            return PartitionList(topic=self._topic.name, partitions=tuple(partitions))
        return TopicDescription(
            name=self._topic.name,
            config=self._topic.config,
            created_at=Timestamp(self._topic.created_at),
            total_messages=sum(each.messages for each in partitions),
            total_size_bytes=sum(each.size_bytes for each in partitions),
            offsets=tuple(
                (each.earliest_offset, Offset(each.high_watermark - 1)) for each in partitions
            ),
        )


def _undescribed(number: int, error: Code | None) -> PartitionDescription:
    return PartitionDescription(
        partition=number,
        leader="",
        replicas=(),
        isr=(),
        version=0,
        earliest_offset=Offset(0),
        end_offset=Offset(0),
        high_watermark=Offset(0),
        size_bytes=0,
        error=error,
    )
