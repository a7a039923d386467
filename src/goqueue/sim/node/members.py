"""Those who belong to groups: they join, stay, poll, commit, leave, and put positions elsewhere."""

from goqueue.model import SECOND, Code, Instant, LogId, Offset, Refused, Timestamp
from goqueue.model.requests import (
    Assignor,
    Beat,
    CommitOffsets,
    DeleteGroup,
    DescribeGroup,
    DescribeLag,
    DescribeOffsets,
    Done,
    GroupDescription,
    Heartbeat,
    Join,
    Joined,
    Lag,
    Leased,
    Leave,
    Mode,
    Offsets,
    Parcel,
    Poll,
    PositionsReset,
    Reply,
    ResetOffsets,
    Start,
    Strategy,
)
from goqueue.sim.node.clients import records_in
from goqueue.sim.node.truth import (
    Delivery,
    GroupTruth,
    Handed,
    MemberTruth,
    Origin,
    QueueTruth,
    TopicTruth,
)
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation

__all__ = ["Members"]

_SESSIONS_NS = (3 * SECOND, 10 * SECOND, 30 * SECOND)
_OUT = frozenset({Code.MEMBER_NOT_FOUND, Code.GROUP_NOT_FOUND})


class Members:
    """The members of every group."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._tokens = 0

    # Choosing

    def _group(self) -> GroupTruth | None:
        found = [group for group in self._world.groups.values() if not group.is_leaving]
        return self._random.choice(found) if found else None

    def _member(self) -> tuple[GroupTruth, MemberTruth] | None:
        group = self._group()
        if group is None or not group.members:
            return None
        return group, self._random.choice(list(group.members.values()))

    def _topics(self) -> list[TopicTruth]:
        topics = self._world.ledger.topics.values()
        return [each for each in topics if not each.is_leaving and not each.holds_letters]

    # Joining

    def join_any(self) -> None:
        group, topics = self._group(), self._topics()
        if group is None or not topics or len(group.members) >= 3:
            return
        random = self._random
        chosen = random.sample(topics, random.randint(1, len(topics)))
        member = None
        if group.members and random.random() < 0.2:
            member = random.choice(list(group.members.values()))
        mode: Mode | None = group.mode
        if self._world.swarm.mode_changes and random.random() < 0.3:
            mode = random.choice(list(Mode))
        self.join(group, tuple(topic.name for topic in chosen), member=member, mode=mode)

    def join(
        self,
        group: GroupTruth,
        topics: tuple[str, ...],
        *,
        member: MemberTruth | None = None,
        mode: Mode | None = None,
        session_ns: int | None = None,
    ) -> None:
        world, at_least = self._world, group.generation
        session_ns = session_ns or self._random.choice(_SESSIONS_NS)
        is_first = not group.is_known and mode is not None and self._random.random() < 0.3
        assignor = self._random.choice(list(Assignor)) if is_first else None
        self._tokens += 1
        command = Join(
            group=group.name,
            client_id="client",
            topics=topics,
            token=f"{self._tokens:x}",
            mode=mode,
            assignor=assignor,
            session_ns=session_ns,
            start=group.start,
            member_id=None if member is None else member.member_id,
        )
        asked_at = world.now.instant
        if member is not None:
            member.spoke_at = asked_at
            member.session_ns = max(member.session_ns, session_ns)
            member.is_unsure = True

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Joined):
                self._joined(group, reply, command, asked_at)
                group.told_generation(reply.generation, at_least)
                group.told_share(reply.member_id, reply.generation, reply.assigned)

        for name in topics:
            group.topics[name] = None
        world.ask(command, done)

    def _joined(self, group: GroupTruth, reply: Joined, command: Join, asked_at: Instant) -> None:
        group.is_known = True
        if reply.mode is not group.mode:
            group.mode = reply.mode
            group.begin_reset()
            group.end_reset()
        member = group.members.get(reply.member_id)
        if member is None and command.member_id is not None:
            # It left in the meantime.
            return
        if member is None:
            member = MemberTruth(reply.member_id, command.session_ns, command.topics)
            member.spoke_at = asked_at
            group.members[reply.member_id] = member
        member.topics, member.session_ns = command.topics, command.session_ns
        member.generation, member.assigned = reply.generation, reply.assigned
        member.heard_at = max(member.heard_at, asked_at)
        member.is_unsure = False

    # Staying

    def heartbeat(self) -> None:
        found = self._member()
        if found is None:
            return
        group, member = found
        at_least, asked_at = group.generation, self._speak(member)
        command = Heartbeat(
            group=group.name, member_id=member.member_id, generation=member.generation
        )

        def done(reply: Reply | Refused | None) -> None:
            self._heard(group, member, reply, asked_at)
            if isinstance(reply, Beat):
                group.told_generation(reply.generation, at_least)
                group.told_share(member.member_id, reply.generation, reply.assigned)
                if reply.generation >= member.generation:
                    member.generation, member.assigned = reply.generation, reply.assigned

        self._world.ask(command, done)

    def _speak(self, member: MemberTruth) -> Instant:
        member.spoke_at = self._world.now.instant
        return member.spoke_at

    def _heard(
        self,
        group: GroupTruth,
        member: MemberTruth,
        reply: Reply | Refused | None,
        asked_at: Instant,
    ) -> None:
        """A member said something: it is a member still, or was told that it is not."""
        if isinstance(reply, Refused) and reply.code in _OUT:
            if asked_at < member.sure_until and not group.is_leaving and not group.is_gone:
                raise Violation("member-taken-out-early", f"{group.name} {member.member_id}")
            group.retire(member)
        elif reply is not None and not isinstance(reply, Refused):
            member.heard_at = max(member.heard_at, asked_at)

    def leave(self) -> None:
        found = self._member()
        if found is None:
            return
        group, member = found
        member.is_unsure = True
        self._speak(member)
        group.retire(member)

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Done):
                member.has_left = True
            elif isinstance(reply, Refused) and reply.code not in _OUT:
                group.members[member.member_id] = member

        self._world.ask(Leave(group=group.name, member_id=member.member_id), done)

    # Polling

    def poll_any(self) -> None:
        found = self._member()
        if found is not None:
            wait_ns = self._random.choice([0, 0, SECOND, 3 * SECOND])
            self.poll(*found, wait_ns, self._random.choice([1, 2, 5, 100]))

    def poll(self, group: GroupTruth, member: MemberTruth, wait_ns: int, count: int) -> None:
        world, random = self._world, self._random
        visibility_ns = random.choice([None, None, SECOND, 4 * SECOND])
        command = Poll(
            group=group.name,
            member_id=member.member_id,
            generation=member.generation if random.random() < 0.3 else None,
            wait_ns=wait_ns,
            messages_max=count,
            visibility_ns=visibility_ns,
            bytes_max=1 << 22 if count == 1000 else random.choice([1, 300, 1 << 20]),
        )
        asked_at, epoch, life = self._speak(member), group.epoch, world.life
        topics = dict(world.ledger.topics)
        member.polls += 1

        def done(reply: Reply | Refused | None) -> None:
            member.polls -= 1
            self._speak(member)
            self._heard(group, member, reply, asked_at)
            if not isinstance(reply, Leased):
                group.lost.count += 1
                return
            is_clear = epoch is not None and epoch == group.epoch and life == world.life
            group.lost.count += not is_clear
            for parcel in reply.parcels:
                topic = topics.get(parcel.log.topic)
                if topic is None or world.ledger.topics.get(parcel.log.topic) is not topic:
                    group.lost.count += 1
                    continue
                handed = self._handed(topic, parcel)
                if is_clear:
                    for each in handed:
                        self._deliver(group, member, each, asked_at, visibility_ns)

        world.ask(command, done, wait_ns)

    def _handed(self, topic: TopicTruth, parcel: Parcel) -> list[Handed]:
        """The messages of a parcel, each checked against what was published."""
        records = {record.offset: record for record in records_in(parcel.data)}
        found: list[Handed] = []
        columns = zip(parcel.offsets, parcel.attempts, parcel.receipts, strict=True)
        for offset, attempt, receipt in columns:
            record = records.get(offset)
            if record is None:
                raise Violation("leased-without-bytes", f"{parcel.log}:{offset}")
            message = self._world.ledger.check_record(topic, parcel.log.partition, record)
            handed = Handed(
                topic=topic,
                partition=parcel.log.partition,
                offset=offset,
                attempt=attempt,
                receipt=receipt,
                serial=message.serial,
                key=message.key,
            )
            found.append(handed)
        return found

    def _deliver(
        self,
        group: GroupTruth,
        member: MemberTruth,
        handed: Handed,
        asked_at: Instant,
        visibility_ns: int | None,
    ) -> None:
        world, topic = self._world, handed.topic
        delivery = Delivery(handed, member.member_id, world.life)
        shortest = visibility_ns or min(topic.visibilities_ns)
        longest = visibility_ns or max(topic.visibilities_ns)
        delivery.sure_until = Instant(asked_at + shortest)
        delivery.over_at = Instant(world.now.instant + longest)
        queue = group.queue(topic, handed.partition)
        if handed.offset < queue.maybe_floor:
            # A commit that is on its way may have ended the lease already.
            delivery.sure_until = Instant(0)
        before = queue.latest.get(handed.offset)
        holder = None if before is None else group.members.get(before.member_id)
        sure_live = Instant(0) if holder is None else holder.sure_until
        queue.deliver(delivery, world.now.instant, sure_live)
        if group.mode is Mode.KEY_ORDERED and group.start is Start.EARLIEST and handed.key:
            earlier = world.ledger.before(topic, handed.partition, handed.offset, handed.key)
            queue.check_order(delivery, earlier)
        member.deliveries.append(delivery)

    # Positions

    def commit(self) -> None:
        found = self._member()
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
        is_stale = generation < group.generation
        is_out = member.is_surely_out(world.now.instant)
        asked_at = self._speak(member)
        queue.commit_asked(offset)
        for delivery in queue.latest.values():
            if delivery.handed.offset < offset:
                delivery.sure_until = Instant(0)

        def done(reply: Reply | Refused | None) -> None:
            self._heard(group, member, reply, asked_at)
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
        group = self._group()
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
        group, topics = self._group(), self._topics()
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
            world.letters.may_die_again(Origin(topic.name, queue.partition, group.name))

        def done(reply: Reply | Refused | None) -> None:
            group.end_reset()
            if isinstance(reply, PositionsReset):
                for each in reply.positions:
                    group.queue(topic, each.log.partition).put_at(each.offset)

        world.ask(command, done)

    def delete_group(self) -> None:
        group = self._group()
        if group is None or not group.is_known:
            return
        world = self._world
        group.is_leaving = True
        world.groups_in_doubt[group.name] = group

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Done):
                self.group_gone(group)
            elif reply is not None:
                group.is_leaving = False
                del world.groups_in_doubt[group.name]

        world.ask(DeleteGroup(group=group.name), done)

    def group_gone(self, group: GroupTruth) -> None:
        """A group was deleted; whoever joins it now forms another."""
        group.is_gone = True
        for queue in group.queues:
            origin = Origin(queue.topic.name, queue.partition, group.name)
            self._world.letters.may_die_again(origin)
        del self._world.groups_in_doubt[group.name]
        self._world.groups[group.name] = GroupTruth(group.name, group.mode, Start.EARLIEST)
