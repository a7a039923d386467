"""The judge of groups: generations, assignments, positions, and who is still a member."""

from goqueue.model import Instant, LogId
from goqueue.model.requests import GroupProtocol, Mode, Start
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.deliveries import Delivery, LostPolls, QueueTruth
from goqueue.sim.truth.ledger import TopicTruth
from goqueue.sim.truth.ownership import OwnershipTruth

__all__ = ["GroupTruth", "MemberTruth"]

_FOREVER_NS = 1 << 62


class MemberTruth:
    """One member, as it knows itself."""

    def __init__(self, member_id: str, session_ns: int, topics: tuple[str, ...]) -> None:
        self.member_id = member_id
        self.session_ns = session_ns
        self.topics = topics
        self.generation = 0
        self.assigned: tuple[LogId, ...] = ()
        # In a cooperative group: what it has to give up, and when it was told that last.
        self.to_revoke: tuple[LogId, ...] = ()
        self.told_at = Instant(0)
        # When the node last heard of it, at least and at most.
        self.heard_at = Instant(0)
        self.spoke_at = Instant(0)
        self.polls = 0
        # How often it asked to join again.
        self.joins = 0
        self.has_left = False
        self.is_unsure = False
        # A newer process has its place, or may have.
        self.is_replaced = False
        # Somebody copies for it, and it is not known how that ended.
        self.is_busy = False
        self.deliveries: list[Delivery] = []

    @property
    def sure_until(self) -> Instant:
        """Until when the session certainly lasts."""
        unsure = self.has_left or self.is_unsure or self.is_replaced
        return Instant(0) if unsure else Instant(self.heard_at + self.session_ns)

    def is_surely_out(self, now: Instant) -> bool:
        """Whether the session is certainly over, once the node has been woken for it."""
        if self.is_replaced:
            # A newer process holds its leases, for as long as that lives.
            return False
        # As long as a poll waits its member is heard of.
        is_silent = not self.polls and self.spoke_at + self.session_ns < now
        return self.has_left or is_silent


class GroupTruth:
    """One group, from its creation to its deletion."""

    def __init__(self, name: str, mode: Mode, start: Start) -> None:
        self.name = name
        self.mode = mode
        self.start = start
        self.protocol = GroupProtocol.EAGER
        self.ownership = OwnershipTruth()
        # Static members by their instance.
        self.instances: dict[str, str] = {}
        self.is_known = False
        self.is_leaving = False
        self.is_gone = False
        # Polls that were answered while it was deleted.
        self.late_leases = 0
        # Only transactions settle for it, each together with copies; a stream is read, not polled.
        self.is_copied = False
        self.is_stream = False
        self.members: dict[str, MemberTruth] = {}
        self.past: list[MemberTruth] = []
        # Stands for all who receive without joining: they are never taken for silent.
        self.receiver = MemberTruth("receiver", _FOREVER_NS, ())
        # Receives that are not answered; each may create the group again, after its deletion.
        self.receives = 0
        # Joins that were asked for, and those of them that are not answered.
        self.joins = 0
        self.joins_pending = 0
        # Topics of those that were answered while the group was being deleted.
        self.received_late: list[str] = []
        self.topics: dict[str, None] = {}
        self.lost = LostPolls()
        self.generation = 0
        self._owners: dict[tuple[int, LogId], str] = {}
        self._shares: dict[tuple[int, str], tuple[LogId, ...]] = {}
        self._queues: dict[tuple[int, int], QueueTruth] = {}
        self._epoch = 0
        self._resets_pending = 0

    @property
    def is_cooperative(self) -> bool:
        return self.protocol is GroupProtocol.COOPERATIVE

    # Resets

    @property
    def epoch(self) -> int | None:
        """Counts resets: requests of different epochs are not compared. None during a reset."""
        return None if self._resets_pending else self._epoch

    @property
    def may_be_another(self) -> bool:
        """Whether the node may have another group of this name by now."""
        return self.is_leaving or self.is_gone

    def begin_reset(self) -> None:
        self._resets_pending += 1
        self._epoch += 1

    def end_reset(self) -> None:
        self._resets_pending -= 1
        self._epoch += 1

    def queue(self, topic: TopicTruth, partition: int) -> QueueTruth:
        key = (topic.number, partition)
        if key not in self._queues:
            self._queues[key] = QueueTruth(topic, partition, self.lost)
        return self._queues[key]

    @property
    def queues(self) -> list[QueueTruth]:
        return list(self._queues.values())

    def excuse(self, now: Instant) -> None:
        """The node was paused: sessions and leases that ended meanwhile may last longer."""
        for member in (*self.members.values(), *self.past):
            member.spoke_at = max(member.spoke_at, now)
        for queue in self.queues:
            queue.excuse(now)

    def receive_late(self, topic: str) -> None:
        """A receive that was meant for the group before this one may have leased from this one."""
        self.topics[topic] = None
        self.lost.count += 1

    # What members are told

    def told_generation(self, generation: int, at_least: int) -> None:
        """A generation was returned; `at_least` was known when the request was sent."""
        if generation < at_least:
            raise Violation("generation-fell", f"{self.name}: {generation} after {at_least}")
        self.generation = max(self.generation, generation)

    def told_share(self, member_id: str, generation: int, logs: tuple[LogId, ...]) -> None:
        """Check the assignment of a member in a generation.

        In a cooperative group it may shrink within a generation.
        """
        who = self.ownership.identity(member_id)
        known = (
            logs if self.is_cooperative else self._shares.setdefault((generation, member_id), logs)
        )
        if known != logs:
            raise Violation(
                "share-changed-within-generation",
                f"{self.name} {member_id} in {generation}: {known} then {logs}",
            )
        if self.mode is not Mode.PARTITIONED:
            return
        for log in logs:
            owner = self._owners.setdefault((generation, log), who)
            if owner != who:
                raise Violation(
                    "two-owners", f"{self.name} {log} in {generation}: {owner} and {member_id}"
                )

    def end_received(self) -> None:
        """What was received without joining may be over."""
        for delivery in self.receiver.deliveries:
            delivery.sure_until = Instant(0)

    def join_asked(self) -> None:
        """A member joins; from the first on, members own the partitions of some groups."""
        self.joins += 1
        self.joins_pending += 1
        self.end_received_if_owned()

    def end_received_if_owned(self) -> None:
        """Leases of those who received while there was no member may be over."""
        if self.mode is Mode.PARTITIONED:
            self.end_received()

    def holder(self, member_id: str) -> MemberTruth | None:
        """Who holds leases by this name: a member that was not retired, or the receivers."""
        if member_id == self.receiver.member_id:
            return self.receiver
        return self.members.get(member_id)

    def retire(self, member: MemberTruth) -> None:
        """Stop acting for this member."""
        if self.members.pop(member.member_id, None) is not None:
            self.past.append(member)
            self.ownership.end(member.member_id)
