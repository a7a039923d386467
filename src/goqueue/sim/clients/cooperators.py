"""Members of cooperative groups: they hear what to give up, give it up or not, and are replaced."""

from goqueue.model import SECOND, Code, Instant, LogId, Refused
from goqueue.model.requests import (
    CooperativeBeat,
    CooperativeHeartbeat,
    Mode,
    Reply,
    RevokePartitions,
)
from goqueue.sim.clients.members import Members
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.groups import GroupTruth, MemberTruth

__all__ = ["Cooperators"]

_WAITS_NS = (0, 0, SECOND, 5 * SECOND)


class Cooperators:
    """What members of cooperative groups do beside what all members do."""

    def __init__(self, world: World, members: Members) -> None:
        self._world = world
        self._random = world.random
        self._members = members
        members.cooperators = self

    @property
    def groups(self) -> list[GroupTruth]:
        return [group for group in self._world.groups.values() if group.is_cooperative]

    def revoke_any(self) -> None:
        """One member gives up all that it has to, or a part."""
        found = [
            (group, member)
            for group in self.groups
            if not group.is_leaving
            for member in group.members.values()
            if member.to_revoke
        ]
        if found:
            group, member = self._random.choice(found)
            logs = member.to_revoke
            if self._random.random() < 0.3:
                logs = logs[: self._random.randint(1, len(logs))]
            self.revoke(group, member, logs)

    def replace_any(self) -> None:
        """A static member starts again while the older process still runs."""
        held = [
            (group, instance, member)
            for group in self.groups
            if not group.is_leaving
            for instance, member_id in group.instances.items()
            if (member := group.members.get(member_id)) is not None
        ]
        if held:
            group, instance, member = self._random.choice(held)
            self._members.join(group, member.topics, instance=instance)

    def beat_all(self) -> None:
        """Everybody says that it is there, and gives up nothing."""
        for group in self.groups:
            for member in list(group.members.values()):
                self.beat(group, member, 0)

    # Heartbeats

    def beat_any(self, group: GroupTruth, member: MemberTruth) -> None:
        self.beat(group, member, self._random.choice(_WAITS_NS))

    def beat(self, group: GroupTruth, member: MemberTruth, wait_ns: int) -> None:
        at_least, asked_at = group.generation, self._members.speak(member)
        command = CooperativeHeartbeat(
            group=group.name,
            member_id=member.member_id,
            generation=member.generation,
            wait_ns=wait_ns,
        )
        # As long as it waits, its member is heard of.
        member.polls += 1

        def done(reply: Reply | Refused | None) -> None:
            member.polls -= 1
            self._members.speak(member)
            self._members.heard(group, member, reply, asked_at)
            if isinstance(reply, CooperativeBeat) and not group.is_gone:
                group.told_generation(reply.generation, at_least)
                group.told_share(member.member_id, reply.generation, reply.assigned)
                self._judge(group, member, reply, asked_at)

        self._world.ask(command, done, wait_ns)

    def _judge(
        self, group: GroupTruth, member: MemberTruth, beat: CooperativeBeat, asked_at: Instant
    ) -> None:
        if beat.generation < member.generation or asked_at < member.told_at:
            return
        member.told_at = self._world.now.instant
        member.generation, member.assigned = beat.generation, beat.assigned
        member.to_revoke = beat.to_revoke
        if group.mode is not Mode.PARTITIONED:
            return
        topics = self._numbers(beat.assigned)
        for log, topic in topics.items():
            self._check_unowned(group, member, log, topic, beat.generation)
        kept = frozenset(beat.assigned) - frozenset(beat.to_revoke)
        if group.members.get(member.member_id) is member:
            group.ownership.told(member.member_id, topics, kept, beat.generation, asked_at)

    def _check_unowned(
        self, group: GroupTruth, member: MemberTruth, log: LogId, topic: int, generation: int
    ) -> None:
        """Nobody else may own what a member is told to own."""
        now = self._world.now.instant
        for claim in group.ownership.claimants(member.member_id, log, topic, generation):
            other = group.members.get(claim.member_id)
            if other is None or other.sure_until <= now:
                continue
            if group.ownership.is_kept(claim, now):
                words = f"{group.name} {log}: {claim} and {member.member_id} in {generation}"
                raise Violation("assigned-while-owned", words)

    def _numbers(self, logs: tuple[LogId, ...]) -> dict[LogId, int]:
        """The partitions of topics that are certainly there, and the numbers of those."""
        world = self._world
        return {
            log: topic.number
            for log in logs
            if (topic := world.ledger.topics.get(log.topic)) is not None
            and not topic.is_leaving
            and log.topic not in world.topics_in_doubt
        }

    # Giving up

    def revoke(self, group: GroupTruth, member: MemberTruth, logs: tuple[LogId, ...]) -> None:
        asked_at = self._members.speak(member)
        command = RevokePartitions(
            group=group.name,
            member_id=member.member_id,
            generation=member.generation,
            logs=logs,
        )
        group.ownership.give_up(member.member_id, logs, asked_at)
        member.to_revoke = tuple(log for log in member.to_revoke if log not in logs)

        def done(reply: Reply | Refused | None) -> None:
            self._members.heard(group, member, reply, asked_at)

        self._world.ask(command, done)

    # Being replaced

    def replaced(self, group: GroupTruth, older: MemberTruth) -> None:
        """A newer process has the place of this member: it must not be one any more."""
        command = CooperativeHeartbeat(
            group=group.name, member_id=older.member_id, generation=older.generation
        )

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, CooperativeBeat):
                raise Violation("replaced-member-lives", f"{group.name} {older.member_id}")

        def ask() -> None:
            self._world.ask(command, done)

        self._world.later(ask)

    # Commits and polls

    def check_refusal(
        self, group: GroupTruth, member: MemberTruth, log: LogId, code: Code, asked_at: int
    ) -> None:
        """A commit was refused: not because of a rebalance that left its partition alone."""
        if code not in (Code.GENERATION_STALE, Code.PARTITION_NOT_ASSIGNED):
            return
        now, topic = self._world.now.instant, self._numbers((log,)).get(log)
        is_sure = member.sure_until > now and group.members.get(member.member_id) is member
        if topic is None or not is_sure or group.is_leaving or asked_at < member.told_at:
            return
        if group.ownership.must_keep(member.member_id, log, topic, now):
            raise Violation("unmoved-partition-refused", f"{group.name} {log} {code}")
