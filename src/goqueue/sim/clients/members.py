"""Members of groups: they join, heartbeat, poll, commit, drain, leave, and reset positions."""

from typing import Protocol

from goqueue.model import SECOND, Code, Instant, Record, Refused
from goqueue.model.requests import (
    Assignor,
    Beat,
    DeleteGroup,
    Done,
    Drain,
    Heartbeat,
    Join,
    Joined,
    Leased,
    Leave,
    Mode,
    PartitionLeases,
    Poll,
    Reply,
    Start,
)
from goqueue.records import decompress
from goqueue.sim.clients.publishers import messages_in, records_in
from goqueue.sim.history import Delivered
from goqueue.sim.node.world import Asker, World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.dead_letters import Origin
from goqueue.sim.truth.deliveries import Delivery, Handed
from goqueue.sim.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.truth.ledger import TopicTruth, is_copy, log_name

__all__ = ["Members"]

_SESSIONS_NS = (3 * SECOND, 10 * SECOND, 30 * SECOND)
_OUT = frozenset({Code.MEMBER_NOT_FOUND, Code.GROUP_NOT_FOUND})


class _Cooperators(Protocol):
    """What members of cooperative groups do instead."""

    def beat_any(self, group: GroupTruth, member: MemberTruth) -> None: ...

    def replaced(self, group: GroupTruth, older: MemberTruth) -> None: ...


class Members:
    """The members of every group."""

    def __init__(self, world: World) -> None:
        self.cooperators: _Cooperators | None = None
        self._world = world
        self._random = world.random
        self._tokens = 0
        self._leaves = 0

    # Choosing

    def choose_group(self, *, is_free: bool = False) -> GroupTruth | None:
        """Choose a group; with `is_free`, none that only transactions move."""
        found = [
            group
            for group in self._world.groups.values()
            if not group.is_leaving and not (is_free and group.is_copied)
        ]
        return self._random.choice(found) if found else None

    def choose(self, *, is_free: bool = False) -> tuple[GroupTruth, MemberTruth] | None:
        group = self.choose_group(is_free=is_free)
        if group is None or not group.members:
            return None
        return group, self._random.choice(list(group.members.values()))

    def topics(self) -> list[TopicTruth]:
        topics = self._world.ledger.topics.values()
        return [each for each in topics if not each.is_leaving and not each.holds_dead_letters]

    # Joining

    def join_any(self) -> None:
        group, topics = self.choose_group(), self.topics()
        if group is None or not topics or len(group.members) >= 3:
            return
        if group.is_copied:
            topics = [topic for topic in topics if not topic.is_kept]
            if not topics:
                return
        random = self._random
        chosen = random.sample(topics, random.randint(1, len(topics)))
        member = None
        if group.members and random.random() < 0.2:
            member = random.choice(list(group.members.values()))
        mode: Mode | None = group.mode
        if self._world.swarm.mode_changes and random.random() < 0.3 and not group.is_copied:
            mode = random.choice(list(Mode))
        instance = None
        if group.is_cooperative and random.random() < 0.4:
            instance = random.choice(("i1", "i2"))
        names = tuple(topic.name for topic in chosen)
        self.join(group, names, member=member, mode=mode, instance=instance)

    def join(
        self,
        group: GroupTruth,
        topics: tuple[str, ...],
        *,
        member: MemberTruth | None = None,
        mode: Mode | None = None,
        session_ns: int | None = None,
        instance: str | None = None,
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
            protocol=group.protocol,
            instance_id=None if member is not None else instance,
        )
        asked_at = world.now.instant
        older = self._replace(group, command)
        # The leases of those who receive without joining end with the mode.
        changes_mode = mode is not None and mode is not group.mode
        if changes_mode:
            group.begin_reset()
            group.end_received()
        # In a group without members also with the first that owns partitions.
        group.join_asked()
        if member is not None:
            member.spoke_at = max(asked_at, self._world.excused_until)
            member.session_ns = max(member.session_ns, session_ns)
            member.is_unsure = True
            member.joins += 1

        def done(reply: Reply | Refused | None) -> None:
            if changes_mode:
                group.end_reset()
            if reply is not None:
                group.joins_pending -= 1
            if isinstance(reply, Joined):
                self._joined(group, reply, command, asked_at)
                if older is not None and self.cooperators is not None and not group.is_gone:
                    group.retire(older)
                    self.cooperators.replaced(group, older)
                group.told_generation(reply.generation, at_least)
                group.told_share(reply.member_id, reply.generation, reply.assigned)

        for name in topics:
            group.topics[name] = None
        world.ask(command, done)

    def _replace(self, group: GroupTruth, command: Join) -> MemberTruth | None:
        """The member whose place a static member takes, if the join is answered."""
        if command.instance_id is None:
            return None
        member_id = f"{command.client_id}-{command.token}"
        older = group.members.get(group.instances.get(command.instance_id, ""))
        group.instances[command.instance_id] = member_id
        group.ownership.name(member_id, command.instance_id)
        if older is not None:
            older.is_replaced = True
            group.ownership.end(older.member_id)
        return older

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
            member.spoke_at = max(asked_at, self._world.excused_until)
            group.members[reply.member_id] = member
        member.topics, member.session_ns = command.topics, command.session_ns
        member.generation, member.assigned = reply.generation, reply.assigned
        member.heard_at = max(member.heard_at, asked_at)
        # Another process may have taken its place before it heard of it.
        instance = command.instance_id
        if instance is not None and group.instances[instance] != member.member_id:
            member.is_replaced = True
        member.is_unsure = False

    # Staying

    def heartbeat(self) -> None:
        found = self.choose()
        if found is None:
            return
        self.beat(*found)

    def beat(self, group: GroupTruth, member: MemberTruth) -> None:
        if group.is_cooperative and self.cooperators is not None:
            self.cooperators.beat_any(group, member)
            return
        at_least, asked_at = group.generation, self.speak(member)
        command = Heartbeat(
            group=group.name, member_id=member.member_id, generation=member.generation
        )

        def done(reply: Reply | Refused | None) -> None:
            self.heard(group, member, reply, asked_at)
            if isinstance(reply, Beat):
                group.told_generation(reply.generation, at_least)
                group.told_share(member.member_id, reply.generation, reply.assigned)
                if reply.generation >= member.generation:
                    member.generation, member.assigned = reply.generation, reply.assigned

        self._world.ask(command, done)

    def speak(self, member: MemberTruth) -> Instant:
        member.spoke_at = self._world.now.instant
        return member.spoke_at

    def heard(
        self,
        group: GroupTruth,
        member: MemberTruth,
        reply: Reply | Refused | None,
        asked_at: Instant,
    ) -> None:
        """A member got an answer: it is still a member, or was told that it is not."""
        if isinstance(reply, Refused) and reply.code in _OUT:
            if asked_at < member.sure_until and not group.is_leaving and not group.is_gone:
                raise Violation("member-taken-out-early", f"{group.name} {member.member_id}")
            group.retire(member)
        elif reply is not None and not isinstance(reply, Refused):
            member.heard_at = max(member.heard_at, asked_at)

    def leave(self) -> None:
        """One member leaves, every other one when it was drained."""
        found = self.choose()
        if found is None:
            return
        self._leaves += 1
        if self._leaves % 2:
            self.leave_as(*found)
        else:
            self.drain(*found)

    def drain(self, group: GroupTruth, member: MemberTruth) -> None:
        """Have nothing more leased to a member: it polls in vain, and leaves."""
        world, asked_at, joins = self._world, self.speak(member), member.joins
        poll = Poll(group=group.name, member_id=member.member_id, wait_ns=SECOND, messages_max=5)
        life = world.life

        def judge(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Leased) and reply.partitions:
                raise Violation("leased-to-a-drained-member", f"{group.name} {member.member_id}")

        def done(reply: Reply | Refused | None) -> None:
            self.heard(group, member, reply, asked_at)
            if isinstance(reply, Done):
                world.later(poll_and_leave)

        def poll_and_leave() -> None:
            if group.members.get(member.member_id) is not member:
                return
            if life == world.life and joins == member.joins:
                self.speak(member)
                world.ask(poll, judge, SECOND)
            self.leave_as(group, member)

        world.ask(Drain(group=group.name, member_id=member.member_id), done)

    def leave_as(self, group: GroupTruth, member: MemberTruth) -> None:
        """One member leaves."""
        member.is_unsure = True
        self.speak(member)
        group.retire(member)

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Done):
                member.has_left = True
            elif isinstance(reply, Refused) and reply.code not in _OUT:
                group.members[member.member_id] = member

        self._world.ask(Leave(group=group.name, member_id=member.member_id), done)

    # Polling

    def poll_any(self) -> None:
        found = self.choose()
        # Workers that copy a stream read it.
        if found is not None and not found[0].is_stream:
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
        asked_at = self.speak(member)
        judge = self.judge_leases(group, member, visibility_ns)
        member.polls += 1

        def done(reply: Reply | Refused | None) -> None:
            member.polls -= 1
            self.speak(member)
            self.heard(group, member, reply, asked_at)
            is_stale = isinstance(reply, Refused) and reply.code is Code.GENERATION_STALE
            if is_stale and group.is_cooperative and not group.is_leaving:
                raise Violation("poll-refused-by-a-rebalance", f"{group.name} {command}")
            judge(reply)

        world.ask(command, done, wait_ns)

    def judge_leases(
        self, group: GroupTruth, member: MemberTruth, visibility_ns: int | None
    ) -> Asker:
        """Judges the answer to a poll that is asked now."""
        world = self._world
        asked_at, epoch, life = world.now.instant, group.epoch, world.life
        topics, joins = dict(world.ledger.topics), group.joins

        def judge(reply: Reply | Refused | None) -> None:
            if not isinstance(reply, Leased):
                group.lost.count += 1
                return
            if group.is_leaving or group.is_gone:
                # A receive that came before the deletion may have created the group anew.
                group.late_leases += 1
                if group.is_gone:
                    world.groups[group.name].lost.count += 1
            is_clear = epoch is not None and epoch == group.epoch and life == world.life
            if member is group.receiver and group.may_be_another:
                # Receives, unlike members, go on with the group that has the name.
                is_clear = False
            group.lost.count += not is_clear
            # What was counted of a topic that is being deleted is not handed out any more.
            group.lost.count += any(topic.is_leaving for topic in topics.values())
            for share in reply.partitions:
                topic = topics.get(share.log.topic)
                if topic is None or world.ledger.topics.get(share.log.topic) is not topic:
                    group.lost.count += 1
                    continue
                handed = self._handed(group, topic, share)
                if is_clear:
                    for each in handed:
                        self._deliver(group, member, each, asked_at, visibility_ns)
            if member is group.receiver and (group.joins_pending or joins != group.joins):
                group.end_received_if_owned()

        return judge

    def _handed(self, group: GroupTruth, topic: TopicTruth, share: PartitionLeases) -> list[Handed]:
        """The messages of one partition, each checked against what was published."""
        records = {record.offset: record for record in _records_of(share)}
        if share.is_gathered and list(records) != share.offsets:
            raise Violation("gathered-out-of-order", f"{share.log}:{share.offsets[0]}")
        found: list[Handed] = []
        for offset, attempt, receipt in share:
            record = records.get(offset)
            if record is None:
                raise Violation("leased-without-bytes", f"{share.log}:{offset}")
            message = self._world.ledger.check_record(topic, share.log.partition, record)
            if message.delay is None and not is_copy(record):
                delivered = Delivered(
                    group=group.name,
                    log=log_name(topic, share.log.partition),
                    offset=offset,
                    value=message.serial,
                )
                self._world.history.note(delivered)
            handed = Handed(
                topic=topic,
                partition=share.log.partition,
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
        if handed.offset < queue.maybe_floor or topic.retires:
            # A commit that is on its way, or retention, may have ended the lease already.
            delivery.sure_until = Instant(0)
        before = queue.latest.get(handed.offset)
        holder = None if before is None else group.holder(before.member_id)
        sure_live = Instant(0) if holder is None else holder.sure_until
        queue.deliver(delivery, world.now.instant, sure_live)
        is_ordered = group.mode is Mode.KEY_ORDERED and not topic.retires
        if is_ordered and group.start is Start.EARLIEST and handed.key:
            earlier = world.ledger.before(topic, handed.partition, handed.offset, handed.key)
            queue.check_order(delivery, earlier)
        member.deliveries.append(delivery)

    # Ending

    def delete_group(self) -> None:
        group = self.choose_group(is_free=True)
        if group is None or not group.is_known:
            return
        if group.receives and group.mode is not Mode.SHARED:
            # One of them may create it again, as a group of another mode.
            return
        world = self._world
        group.is_leaving = True
        world.groups_in_doubt[group.name] = group

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Done):
                self.group_gone(group)
            elif isinstance(reply, Refused) and reply.code is not Code.STORAGE_FAILED:
                # Without its audit record a change is not confirmed, and may have been made.
                group.is_leaving = False
                del world.groups_in_doubt[group.name]

        world.ask(DeleteGroup(group=group.name), done)

    def group_gone(self, group: GroupTruth) -> None:
        """A group was deleted; members that join it now form another."""
        group.is_gone = True
        for queue in group.queues:
            origin = Origin(queue.topic.name, queue.partition, group.name)
            self._world.dead_letters.may_die_again(origin)
        del self._world.groups_in_doubt[group.name]
        successor = GroupTruth(group.name, group.mode, Start.EARLIEST)
        successor.protocol = group.protocol
        successor.lost.count = group.late_leases
        for topic in group.received_late:
            successor.receive_late(topic)
        self._world.groups[group.name] = successor


def _records_of(share: PartitionLeases) -> list[Record]:
    """The records of an answer: of a gathered one exactly as they lie there."""
    if share.is_gathered:
        return [decompress(record) for record in records_in(share.data)]
    return messages_in(share.data)
