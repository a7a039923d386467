"""Clients that read committed logs from their start, and workers that copy exactly once.

Two groups are moved by the copying workers alone: one leases messages, one reads a stream from its
committed offset. Each message is copied to another topic in the transaction that settles it.

Invariant to check: in the end each message has exactly one committed copy.
"""

from goqueue.model import SECOND, LogId, Offset, Record, Refused
from goqueue.model.requests import DescribeOffsets, Mode, Offsets, Read, Records, Reply, Start
from goqueue.sim.clients.holders import Holder
from goqueue.sim.clients.members import Members
from goqueue.sim.clients.progressors import Progressors
from goqueue.sim.clients.publishers import LogReader, Publishers, is_aborted
from goqueue.sim.clients.transactors import Transactors
from goqueue.sim.history import Copied, Drained, Stood
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.deliveries import Delivery
from goqueue.sim.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.truth.ledger import MessageTruth, TopicTruth, is_hidden, log_name
from goqueue.sim.truth.transactions import TransactionTruth

__all__ = ["COPIES", "Copiers", "Followers", "copied_groups"]

_FOLLOWERS = 2


class Followers:
    """Readers that each follow every log from their own position."""

    def __init__(self, world: World, publishers: Publishers) -> None:
        self._world = world
        self._random = world.random
        self._publishers = publishers
        # By reader, number of the topic, and partition.
        self._places: dict[tuple[int, int, int], int] = {}
        self._busy: dict[tuple[int, int, int], None] = {}

    def step(self) -> None:
        """Let one reader continue."""
        topic = self._publishers.choose_topic(with_dead_letters=True)
        if topic is None:
            return
        random = self._random
        key = (random.randrange(_FOLLOWERS), topic.number, random.randrange(topic.partitions))
        wait_ns = random.choice([0, 0, SECOND])
        bytes_max = random.choice([1, 300, 1 << 20])
        if key not in self._busy:
            self._read(key, topic, wait_ns, bytes_max)

    def _read(
        self, key: tuple[int, int, int], topic: TopicTruth, wait_ns: int, bytes_max: int
    ) -> None:
        offset = Offset(self._places.get(key, 0))
        reading = LogReader(reader=f"follower-{key[0]}")
        self._busy[key] = None

        def done(reply: Reply | Refused | None) -> None:
            del self._busy[key]
            if isinstance(reply, Records):
                records = self._publishers.check_records(topic, reply, reading)
                self._places[key] = records[-1].offset + 1 if records else reply.upto

        command = Read(
            topic=topic.name,
            partition=key[2],
            offset=offset,
            bytes_max=bytes_max,
            wait_ns=wait_ns,
        )
        self._world.ask(command, done, wait_ns)


COPIES = "copies"
_QUEUE = "copied-queue"
_STREAM = "copied-stream"
_LONG_NS = 600_000_000_000
# To ask where a group stands, to read, to copy, and to be answered.
_STEPS = 4


def copied_groups(mode: Mode) -> list[GroupTruth]:
    """The groups whose positions only copying workers may change."""
    queue = GroupTruth(_QUEUE, mode, Start.EARLIEST)
    stream = GroupTruth(_STREAM, Mode.PARTITIONED, Start.EARLIEST)
    queue.is_copied = stream.is_copied = stream.is_stream = True
    return [queue, stream]


class _Chain:
    """A part of a stream that is being copied: for which member, from which offset."""

    def __init__(
        self, group: GroupTruth, member: MemberTruth, topic: TopicTruth, log: LogId
    ) -> None:
        self.group = group
        self.member = member
        self.topic = topic
        self.log = log
        self.generation = member.generation


class Copiers:
    """Workers that copy the messages of two groups in transactions."""

    def __init__(
        self,
        world: World,
        publishers: Publishers,
        members: Members,
        transactors: Transactors,
        progressors: Progressors,
    ) -> None:
        self._world = world
        self._random = world.random
        self._publishers = publishers
        self._members = members
        self._transactors = transactors
        self._progressors = progressors
        self._readings = 0
        # Logs in which the group is about to be moved, and by how many transactions.
        self._moving: dict[LogId, int] = {}

    @property
    def _target(self) -> TopicTruth | None:
        return self._world.ledger.topics.get(COPIES)

    def create(self) -> None:
        """Create the topic for the copies."""
        self._publishers.create_kept(COPIES)

    def stir(self) -> None:
        """Let members join, leave or heartbeat, and workers of the queue group poll."""
        random = self._random
        group = self._world.groups[random.choice([_QUEUE, _STREAM])]
        members = list(group.members.values())
        chance = random.random()
        busy = [each for each in members if each.is_busy]
        if len(members) < 1 + (chance < 0.3) + group.is_stream:
            names = [each.name for each in self._members.topics() if not each.is_kept]
            if names:
                self._members.join(group, tuple(names), mode=group.mode)
        elif chance < 0.35 or (busy and chance < 0.6):
            # Above all one in whose name a transaction is under way.
            self._members.leave_as(group, random.choice(busy or members))
        elif group.is_stream:
            for member in members:
                self._members.beat(group, member)
        else:
            self._members.poll(group, random.choice(members), 0, random.choice([1, 3]))

    # Queues

    def copy_queue(self, holder: Holder, current: TransactionTruth) -> None:
        """Copy some leased messages and ack them in the same transaction."""
        group = self._world.groups[_QUEUE]
        found = [
            each
            for member in group.members.values()
            for each in member.deliveries[-20:]
            if not each.is_used and not each.handed.topic.is_gone
        ]
        if found and self._target is not None and current is holder.current:
            count = min(len(found), self._random.randint(1, 3))
            self._copy_deliveries(holder, group, self._random.sample(found, count))

    def _copy_deliveries(
        self, holder: Holder, group: GroupTruth, deliveries: list[Delivery]
    ) -> None:
        sources = [
            f"{log_name(each.handed.topic, each.handed.partition)}"
            f":{each.handed.offset}={each.handed.serial}"
            for each in deliveries
        ]
        if self._random.random() < 0.5:
            self._progressors.add(holder, group, deliveries)
            self._send(holder, group, sources)
        else:
            self._send(holder, group, sources)
            self._progressors.add(holder, group, deliveries)

    def _send(self, holder: Holder, group: GroupTruth, sources: list[str]) -> None:
        """Publish the copies in the transaction."""
        target, current = self._target, holder.current
        assert target is not None
        assert current is not None
        current.is_strict = True
        messages: list[MessageTruth] = []
        for source in sources:
            message = self._world.ledger.publishing(b"", b"", target)
            messages.append(message)
            copied = Copied(group=group.name, source=source, value=message.serial)
            self._world.history.note(copied)
        sends = holder.sends_to(target, self._random.randrange(target.partitions))
        is_numbered = sends.missing is None and sends.is_usable and self._random.random() < 0.5
        if is_numbered:
            sends.send(messages, holder.speak().judge, current)
        else:
            self._transactors.send(holder, target, messages)

    # Streams

    def copy_stream(self, holder: Holder, current: TransactionTruth) -> None:
        """Copy the next messages of a partition that is assigned to a member."""
        group = self._world.groups[_STREAM]
        idle = [each for each in group.members.values() if each.assigned and not each.is_busy]
        if not idle or self._target is None or current is not holder.current:
            return
        # Where a transaction is under way another owner is about to find out.
        found = [(each, log) for each in idle for log in each.assigned]
        held = [each for each in found if each[1] in self._moving]
        member, log = self._random.choice(held or found)
        self._follow(holder, group, member, log)

    def _follow(self, holder: Holder, group: GroupTruth, member: MemberTruth, log: LogId) -> None:
        """Ask for the group's committed offset and continue there."""
        topic = self._world.ledger.topics.get(log.topic)
        if topic is None or topic.is_leaving:
            return
        chain = _Chain(group, member, topic, log)
        member.is_busy = True
        current = holder.current

        def done(reply: Reply | Refused | None) -> None:
            is_open = current is not None and holder.takes_more(current)
            offset = reply.offsets.get(log, 0) if isinstance(reply, Offsets) else None
            if offset is None or topic.is_gone or topic.is_leaving or not is_open:
                member.is_busy = False
                return
            if not topic.retires:
                stood = Stood(group=group.name, log=log_name(topic, log.partition), floor=offset)
                self._world.history.note(stood)
            self._world.later(lambda: self._read(holder, chain, offset))

        self._world.ask(DescribeOffsets(group=group.name, topic=topic.name, is_stable=True), done)

    def _read(self, holder: Holder, chain: _Chain, offset: int) -> None:
        if chain.topic.is_gone:
            chain.member.is_busy = False
            return
        current = holder.current
        self._readings += 1
        reading = LogReader(reader=f"copier-{self._readings}")

        def done(reply: Reply | Refused | None) -> None:
            is_open = current is not None and holder.takes_more(current)
            is_there = not chain.topic.is_gone and not chain.topic.is_leaving
            if isinstance(reply, Records) and is_open and is_there:
                records = self._publishers.check_records(chain.topic, reply, reading)
                sources = _sources(self._world, chain, records, reply)
                self._world.later(lambda: self._copy_records(holder, chain, records, sources))
            else:
                chain.member.is_busy = False

        command = Read(
            topic=chain.log.topic,
            partition=chain.log.partition,
            offset=Offset(offset),
            bytes_max=self._random.choice([1, 300, 1 << 20]),
        )
        self._world.ask(command, done)

    def _copy_records(
        self, holder: Holder, chain: _Chain, records: list[Record], sources: list[str]
    ) -> None:
        current = holder.current
        is_open = current is not None and holder.takes_more(current)
        is_current = chain.generation == chain.member.generation and is_open
        is_there = not chain.topic.is_gone and not chain.topic.is_leaving
        if not records or not is_current or not is_there or self._target is None:
            chain.member.is_busy = False
            return
        assert current is not None
        holder.busy.append((chain.group, chain.member))
        self._moving[chain.log] = self._moving.get(chain.log, 0) + 1
        current.when_ended(lambda _: self._released(chain))
        current.is_strict = True
        if sources:
            self._send(holder, chain.group, sources)
        owner = (chain.group, chain.member)
        goal = (chain.log, records[-1].offset + 1)
        self._progressors.move(holder, owner, chain.topic, goal)

    def _released(self, chain: _Chain) -> None:
        chain.member.is_busy = False
        self._moving[chain.log] -= 1
        if not self._moving[chain.log]:
            del self._moving[chain.log]

    # The end

    def finish(self, group: GroupTruth, member: MemberTruth, holder: Holder) -> bool:
        """Copy everything available to a member; False if there is nothing."""
        self._members.beat(group, member)
        self._settle()
        if not group.is_stream:
            before = len(member.deliveries)
            self._members.poll(group, member, 0, 1000)
            self._settle()
            got = member.deliveries[before:]
            if got:
                self._begin(holder)
                self._copy_deliveries(holder, group, got)
                self._commit(holder)
            return bool(got)
        member.is_busy = False
        return any(self._finish_log(group, member, log, holder) for log in member.assigned)

    def _finish_log(
        self, group: GroupTruth, member: MemberTruth, log: LogId, holder: Holder
    ) -> bool:
        current = self._begin(holder)
        self._follow(holder, group, member, log)
        self._settle()
        self._commit(holder)
        return current.is_strict

    def drained(self, group: GroupTruth) -> None:
        """Check that a group has nothing left: every message is copied or a dead letter."""
        if not self._world.dead_letters.is_strict:
            return
        for topic in self._world.ledger.topics.values():
            if topic.name in group.topics and not topic.retires:
                for partition in range(topic.partitions):
                    drained = Drained(group=group.name, log=log_name(topic, partition))
                    self._world.history.note(drained)

    def holder(self) -> Holder:
        """The transactional producer that writes the last copies."""
        found: list[Holder] = []
        self._transactors.init("last", _LONG_NS, found.append)
        self._settle()
        if not found:
            raise Violation("cannot-init", "nobody answers")
        return found[0]

    def _begin(self, holder: Holder) -> TransactionTruth:
        self._transactors.begin(holder)
        self._settle()
        if holder.current is None:
            raise Violation("cannot-begin", holder.process)
        return holder.current

    def _commit(self, holder: Holder) -> None:
        self._settle()
        current = holder.current
        assert current is not None
        is_commit = holder.knows_whole(current)
        self._transactors.end(holder, current, is_commit=is_commit)
        self._settle()
        if current.outcome is None:
            raise Violation("cannot-end", f"{holder.process} {current.number}")

    def _settle(self) -> None:
        for _ in range(_STEPS):
            self._world.process.settle(self._world.now)
            self._world.catch_up()


def _sources(world: World, chain: _Chain, records: list[Record], reply: Records) -> list[str]:
    """The position and identity of each message among some records."""
    name = log_name(chain.topic, chain.log.partition)
    return [
        f"{name}:{each.offset}={world.ledger.message_of(each).serial}"
        for each in records
        if not is_hidden(each) and not is_aborted(each, reply)
    ]
