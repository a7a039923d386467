"""Clients that send very large requests, and operators that move the positions of groups.

A large request is judged like many small ones. Its size is the point: one turn of the node must not
carry out all of it.
"""

from collections.abc import Callable

from goqueue.model import SECOND, Instant, LogId, Offset, Refused, Timestamp
from goqueue.model.requests import (
    CommitOffsets,
    DescribeGroup,
    DescribeLag,
    DescribeOffsets,
    GroupDescription,
    Lag,
    Offsets,
    PositionsReset,
    Reply,
    ResetOffsets,
    Strategy,
)
from goqueue.sim.clients.cooperators import Cooperators
from goqueue.sim.clients.members import Members
from goqueue.sim.clients.publishers import Publishers
from goqueue.sim.clients.settlers import Settlers
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.dead_letters import Origin
from goqueue.sim.truth.deliveries import Delivery, QueueTruth
from goqueue.sim.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.truth.ledger import TopicTruth

__all__ = ["Masses", "Movers"]

_MANY = 150


class Masses:
    """Publishes, leases and acks by the hundred."""

    def __init__(
        self, world: World, publishers: Publishers, members: Members, settlers: Settlers
    ) -> None:
        self._world = world
        self._random = world.random
        self._publishers = publishers
        self._members = members
        self._settlers = settlers

    def actions(self) -> list[Callable[[], None]]:
        """The actions to choose from; one that is named twice is twice as likely."""
        actions: list[Callable[[], None]] = [self._publish] * 3 + [self._lease] * 8
        return [*actions, self._ack, self._give_back, self._bury]

    def _publish(self) -> None:
        topic = self._publishers.choose_topic()
        if topic is not None:
            self._publishers.publish_many(topic, self._random.randint(1, _MANY))

    def _lease(self) -> None:
        found = self._members.choose()
        if found is not None and not found[0].is_stream:
            self._members.poll(*found, 0, 1000)

    def _ack(self) -> None:
        group, held = self._held()
        if group is not None and not group.is_copied:
            self._settlers.ack(group, held)

    def _give_back(self) -> None:
        """Nack them with the same delay, or release them."""
        group, held = self._held()
        delay_ns = self._random.choice([None, 0, SECOND // 2, 2 * SECOND])
        for delivery in held if group is not None else []:
            assert group is not None
            self._settlers.give_back(group, delivery, delay_ns)

    def _bury(self) -> None:
        group, held = self._held()
        for delivery in held if group is not None else []:
            assert group is not None
            self._settlers.bury(group, delivery)

    def _held(self) -> tuple[GroupTruth | None, list[Delivery]]:
        """Many messages that one group has leased."""
        groups = [group for group in self._world.groups.values() if not group.is_leaving]
        held: dict[GroupTruth, list[Delivery]] = {}
        for group in groups:
            for member in group.members.values():
                for each in member.deliveries[-_MANY:]:
                    if not each.is_used and not each.handed.topic.is_gone:
                        held.setdefault(group, []).append(each)
        if not held:
            return None, []
        group = self._random.choice(list(held))
        return group, held[group][:_MANY]


class Movers:
    """Operators that commit, reset and describe positions."""

    def __init__(
        self, world: World, members: Members, cooperators: Cooperators | None = None
    ) -> None:
        self._world = world
        self._random = world.random
        self._members = members
        self._cooperators = cooperators

    def commit(self) -> None:
        found = self._members.choose(is_free=True)
        if found is None:
            return
        group, member = found
        if group.name != "streams" and not self._world.swarm.commits_in_queues:
            return
        if self._random.random() < 0.2 and group.past:
            member = self._random.choice(group.past)
        if not member.assigned:
            return
        log = self._random.choice(member.assigned)
        topic = self._world.ledger.topics.get(log.topic)
        if topic is None or topic.is_leaving:
            return
        known = [place.offset for place in topic.places if place.partition == log.partition]
        offset = Offset(self._random.randint(0, max(known, default=0) + 1))
        self._commit(group, member, topic, log, offset)

    def _commit(
        self, group: GroupTruth, member: MemberTruth, topic: TopicTruth, log: LogId, offset: Offset
    ) -> None:
        world = self._world
        queue = group.queue(topic, log.partition)
        epoch, told, generation = group.epoch, queue.told, member.generation
        if group.is_cooperative:
            is_stale = group.ownership.foreign(member.member_id, log, generation)
        else:
            is_stale = generation < group.generation
        is_out = world.is_surely_out(member)
        asked_at = self._members.speak(member)
        queue.commit_asked(offset)
        for delivery in queue.latest.values():
            if delivery.handed.offset < offset:
                delivery.sure_until = Instant(0)

        def done(reply: Reply | Refused | None) -> None:
            self._members.heard(group, member, reply, asked_at)
            if isinstance(reply, Refused) and self._cooperators is not None:
                self._cooperators.check_refusal(group, member, log, reply.code, asked_at)
            if not isinstance(reply, Offsets):
                return
            if is_out or is_stale:
                raise Violation("outsider-committed", f"{group.name} {member.member_id} {log}")
            if epoch is not None and epoch == group.epoch and not topic.is_gone:
                queue.committed(offset)
                queue.told_committed(reply.offsets[log], max(told, offset))

        command = CommitOffsets(
            group=group.name,
            offsets={log: offset},
            member_id=member.member_id,
            generation=generation,
        )
        world.ask(command, done)

    def describe(self) -> None:
        group = self._members.choose_group()
        if group is None:
            return
        epoch, at_least = group.epoch, group.generation
        told = {queue: queue.told for queue in group.queues}
        commands = (
            DescribeOffsets(group=group.name),
            DescribeLag(group=group.name),
            DescribeGroup(group=group.name),
        )

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, GroupDescription):
                group.told_generation(reply.generation, at_least)
                for each in reply.members:
                    group.told_share(each.member_id, reply.generation, each.assigned)
            elif epoch is not None and epoch == group.epoch:
                if isinstance(reply, Offsets):
                    self._compare(told, reply.offsets)
                elif isinstance(reply, Lag):
                    self._compare(told, {each.log: each.committed for each in reply.partitions})

        self._world.ask(self._random.choice(commands), done)

    def _compare(self, told: dict[QueueTruth, int], offsets: dict[LogId, Offset]) -> None:
        for queue, at_least in told.items():
            offset = offsets.get(LogId(queue.topic.name, queue.partition))
            is_there = not queue.topic.is_leaving and not queue.topic.is_gone
            if offset is not None and is_there:
                queue.told_committed(offset, at_least)

    def reset(self) -> None:
        group, topics = self._members.choose_group(is_free=True), self._members.topics()
        if group is None or not group.is_known or not topics:
            return
        random, world = self._random, self._world
        topic = random.choice(topics)
        partition = random.choice([None, random.randrange(topic.partitions)])
        strategies = [Strategy.EARLIEST, Strategy.LATEST, Strategy.OFFSET]
        strategy = random.choice(
            [*strategies, Strategy.TIMESTAMP] if world.swarm.times else strategies
        )
        command = ResetOffsets(
            group=group.name,
            topic=topic.name,
            strategy=strategy,
            partition=partition,
            timestamp=Timestamp(world.now.wall - random.randrange(60) * SECOND),
            offset=Offset(random.randrange(4)),
            is_dry_run=random.random() < 0.1,
        )
        if command.is_dry_run:
            world.ask(command, lambda _: None)
            return
        numbers = range(topic.partitions) if partition is None else [partition]
        queues = [group.queue(topic, number) for number in numbers]
        group.begin_reset()
        for queue in queues:
            queue.loosen()
            world.dead_letters.may_die_again(Origin(topic.name, queue.partition, group.name))

        def done(reply: Reply | Refused | None) -> None:
            group.end_reset()
            # The last to be answered is the last that took effect; others may still be lost.
            if isinstance(reply, PositionsReset) and group.epoch is not None:
                for each in reply.positions:
                    group.queue(topic, each.log.partition).put_at(each.offset)

        world.ask(command, done)
