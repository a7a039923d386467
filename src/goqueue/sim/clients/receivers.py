"""Clients that receive for a group without joining it, as functions and scripts do, or only watch.

All receivers of a group are one holder of leases for the judge: one without a session, so that only
the end of a lease, a reset or a crash takes from it what it has.
"""

from goqueue.model import SECOND, Offset, Refused
from goqueue.model.requests import Mode, Receive, Reply, Watch, Watched
from goqueue.sim.clients.members import Members
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.groups import GroupTruth, MemberTruth

__all__ = ["Receivers"]


class Receivers:
    """Receives for any group that allows it, and sometimes for one that does not."""

    def __init__(self, world: World, members: Members) -> None:
        self._world = world
        self._random = world.random
        self._members = members
        self._receives = 0

    def receive_any(self) -> None:
        group = self._members.choose_group(is_free=True)
        topics = self._members.topics()
        if group is None or not topics or not self._is_mode_known(group):
            return
        random = self._random
        wait_ns = random.choice([0, 0, SECOND, 3 * SECOND])
        topic = random.choice(topics).name
        self._receives += 1
        names = [topic]
        if self._receives % 4 == 0:
            # Every fourth is for another topic as well, if there is one.
            names += [each.name for each in topics if each.name != topic][:1]
        visibility_ns = random.choice([None, None, SECOND, 4 * SECOND, 90 * SECOND])
        command = Receive(
            group=group.name,
            topics=tuple(names),
            wait_ns=wait_ns,
            messages_max=random.choice([1, 1, 2, 10]),
            visibility_ns=visibility_ns,
            bytes_max=random.choice([1, 300, 1 << 20]),
        )
        owner = self._owner(group)
        for name in names:
            group.topics[name] = None
        judge = self._members.judge_leases(group, group.receiver, visibility_ns)
        group.receives += 1

        def done(reply: Reply | Refused | None) -> None:
            group.receives -= 1
            if owner is not None and owner.sure_until > self._world.now.instant:
                self._check_refused(group, reply)
            if reply is not None and not isinstance(reply, Refused):
                group.is_known = True
            judge(reply)
            present = self._world.groups[group.name]
            if present is not group:
                # The group was deleted meanwhile: what was leased was leased for another.
                for name in names:
                    present.receive_late(name)
            elif group.is_leaving:
                group.received_late.extend(names)

        self._world.ask(command, done, wait_ns)

    def watch_any(self) -> None:
        """Wait for news in some partitions of a topic."""
        topics = self._members.topics()
        if not topics:
            return
        random = self._random
        topic = random.choice(topics)
        numbers = random.sample(range(topic.partitions), random.randint(1, topic.partitions))
        offsets = {number: Offset(random.choice([0, 3, 10, 1000])) for number in numbers}
        wait_ns = random.choice([SECOND, 3 * SECOND])

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Watched) and not set(reply.partitions) <= set(offsets):
                raise Violation("news-of-others", f"{topic.name}: {reply.partitions} of {offsets}")
            if isinstance(reply, Refused) and not topic.is_leaving and not topic.is_gone:
                raise Violation("watch-refused", f"{topic.name}: {reply}")

        self._world.ask(Watch(topic=topic.name, offsets=offsets, wait_ns=wait_ns), done, wait_ns)

    def _is_mode_known(self, group: GroupTruth) -> bool:
        """Whether the node and the judge agree about who may lease what in a group.

        A receive creates a shared group where there is none, as after days without any use.
        """
        world = self._world
        if group.mode is Mode.SHARED:
            return True
        return group.is_known and not world.swarm.mode_changes and not world.swarm.has_ages

    def _owner(self, group: GroupTruth) -> MemberTruth | None:
        """A member that certainly owns the partitions of a group now."""
        if group.mode is not Mode.PARTITIONED:
            return None
        now = self._world.now.instant
        return next((each for each in group.members.values() if each.sure_until > now), None)

    def _check_refused(self, group: GroupTruth, reply: Reply | Refused | None) -> None:
        if reply is None or group.is_leaving or group.is_gone:
            return
        if not isinstance(reply, Refused):
            raise Violation("received-from-owned-partitions", group.name)
