"""The end of a run, without faults: checks that every promise was kept."""

from typing import Protocol

import msgspec

from goqueue.model import LOCAL, SECOND, LogId, Now, Offset, Record, Refused, Timestamp
from goqueue.model.requests import (
    DelayedDescription,
    DescribeLag,
    DescribeNode,
    GroupList,
    Lag,
    ListGroups,
    ListTransactions,
    NodeDescription,
    Read,
    RebalanceState,
    Records,
    Start,
    TransactionList,
)
from goqueue.records import decode, last_offset, walk
from goqueue.security import AuditRecord
from goqueue.sim.clients.publishers import LogReader, is_aborted
from goqueue.sim.clients.schedulers import TICKS_TOPIC
from goqueue.sim.clients.tenants import is_box
from goqueue.sim.history import Died, judge
from goqueue.sim.node.crowd import Crowd
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.dead_letters import Death
from goqueue.sim.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.truth.ledger import TopicTruth, is_hidden, log_name

__all__ = ["RunEnd"]

_SESSION_NS = 60 * SECOND
_ROUNDS_MAX = 120
# As long as a session and then a revocation may last.
_REBALANCE_ROUNDS = 50
# A worker copies a few messages of one partition at a time.
_COPIES_MAX = 1200
_PAUSE_NS = 2 * SECOND
_WAIT_NS_MAX = 60 * SECOND
_TRANSACTION_NS = 60 * SECOND


class _Run(Protocol):
    """The part of a run that its end uses."""

    def serve(self) -> None: ...
    def pass_time(self, elapsed: int) -> None: ...
    def crash(self, *, is_power_lost: bool) -> None: ...
    def lose_snapshots(self) -> None: ...


class _Holdings(msgspec.Struct, frozen=True):
    """The log start of a partition, its records, and which of them are messages."""

    start: int
    records: list[Record]
    messages: list[Record]


class RunEnd:
    """Stops faults, drains all groups, and reads everything that is left."""

    def __init__(self, world: World, crowd: Crowd, run: _Run) -> None:
        self._world = world
        self._crowd = crowd
        self._publishers = crowd.publishers
        self._members = crowd.members
        self._settlers = crowd.settlers
        self._delayers = crowd.delayers
        self._run = run
        self._reading = LogReader(reader="final-0", is_final=True)
        self._readings = 0

    def prove(self) -> None:
        self._heal()
        self._answer_everybody()
        self._end_transactions()
        self._learn_dead_letters()
        self._check_rebalances()
        self._let_all_be_due()
        self._check_schedules()
        self._check_schemas()
        # Those first whose copies others get.
        for group in sorted(self._world.groups.values(), key=lambda each: not each.is_copied):
            self._drain(group)
        self._answer_everybody()
        self._learn_dead_letters()
        contents = self._read_all()
        self._note_deaths(contents)
        self._world.dead_letters.check()
        self._check_groups(contents)
        self._restart(is_power_lost=True)
        self._deliver_due()
        self._check_schedules()
        self._read_all()
        self._check_audit()
        judge(self._world.history.events)

    def _check_audit(self) -> None:
        """Every change of keys, ACLs and tenants has its record, after whatever happened."""
        if self._crowd.tenants is not None:
            records: list[AuditRecord] = []
            for data in self._read_audit():
                for position in walk(data).positions:
                    value = decode(data, position).value
                    records.append(msgspec.json.decode(value or b"", type=AuditRecord))
            self._crowd.tenants.audit.check(records)

    def _read_audit(self) -> list[memoryview]:
        """All of the audit log."""
        world = self._world
        found: list[memoryview] = []
        offset = Offset(0)
        while True:
            answers: list[object] = []
            read = Read(topic="__audit", partition=0, offset=offset)
            world.ask(read, answers.append, caller=LOCAL)
            world.process.settle(world.now)
            [reply] = answers
            assert isinstance(reply, Records), f"{reply}"
            if not reply.data:
                return found
            found += map(memoryview, reply.data)
            offset = Offset(last_offset(reply.data[-1]) + 1)

    def _restart(self, *, is_power_lost: bool, keeps_snapshots: bool = False) -> None:
        self._run.crash(is_power_lost=is_power_lost)
        self._world.faults.calm()
        if not keeps_snapshots:
            self._run.lose_snapshots()
        self._run.serve()

    def _describe(self) -> NodeDescription:
        reply = self._world.ask_now(DescribeNode())
        assert isinstance(reply, NodeDescription)
        return reply

    # Healing

    def _heal(self) -> None:
        self._run.serve()
        self._rest(3)
        world = self._world
        is_in_doubt = bool(world.topics_in_doubt or world.groups_in_doubt)
        has_failed = world.process.halted is not None or bool(self._describe().failed_logs)
        if world.swarm.delays and not has_failed and not is_in_doubt:
            # Before a restart, which mends what was forgotten in memory.
            self._deliver_due()
        if has_failed or is_in_doubt or world.random.random() < 0.6:
            self._restart(is_power_lost=True)
        failed = self._describe().failed_logs
        if failed:
            raise Violation("does-not-heal", f"{failed}")
        self._check_owners()

    def _check_owners(self) -> None:
        """Check that every subscribed partition has an owner, also after a crash."""
        reply = self._world.ask_now(ListGroups())
        assert isinstance(reply, GroupList)
        topics = self._world.ledger.topics
        for group in reply.groups:
            if not group.members:
                # It names what the last of them subscribed to.
                continue
            if group.rebalance_state is RebalanceState.PENDING_REVOKE:
                # What was given up belongs to nobody.
                continue
            owned = {log for member in group.members for log in member.assigned}
            wanted = {
                LogId(name, number)
                for name in group.topics
                if name in topics
                for number in range(topics[name].partitions)
            }
            if owned != wanted:
                missing = sorted(wanted - owned)
                raise Violation("partition-without-owner", f"{group.group}: {missing}")

    def _check_rebalances(self) -> None:
        """Check that groups come to rest: whatever their members do not give up is taken away."""
        cooperators = self._crowd.cooperators
        if cooperators is None:
            return
        for _ in range(_REBALANCE_ROUNDS):
            cooperators.beat_all()
            self._world.catch_up()
            self._world.process.settle(self._world.now)
            self._run.pass_time(2 * SECOND)
        cooperators.beat_all()
        self._world.process.settle(self._world.now)
        reply = self._world.ask_now(ListGroups())
        assert isinstance(reply, GroupList)
        for group in reply.groups:
            if group.rebalance_state is not RebalanceState.NONE:
                words = f"{group.group}: {group.rebalance_state}"
                raise Violation("group-does-not-come-to-rest", words)
        self._check_owners()

    def _rest(self, rounds: int) -> None:
        for _ in range(rounds):
            self._world.process.settle(self._world.now)
            self._run.pass_time(_PAUSE_NS)
        self._world.process.settle(self._world.now)

    def _answer_everybody(self) -> None:
        for _ in range(_ROUNDS_MAX):
            self._rest(1)
            if not len(self._world.callers):
                return
        raise Violation("never-answered", f"{self._world.callers.all[0].command}")

    def _learn_dead_letters(self) -> None:
        for topic in self._describe().topics:
            is_known = topic.name in (*self._world.ledger.topics, TICKS_TOPIC)
            if not is_known and not is_box(topic.name):
                self._publishers.learn_topic(topic)

    # Delays

    def _let_all_be_due(self) -> None:
        """Let all delayed messages become due: by waiting, a clock jump or a downtime."""
        world, random = self._world, self._world.random
        if not world.swarm.delays:
            return
        self._delayers.list_all()
        dues = [each.delay.due for each in world.ledger.delayed if each.delay is not None]
        ahead = max(dues, default=0) + SECOND - world.now.wall
        if 0 < ahead < _WAIT_NS_MAX:
            self._run.pass_time(ahead)
        elif ahead > 0:
            world.now = Now(world.now.instant, Timestamp(world.now.wall + ahead))
            if random.random() < 0.5:
                self._restart(is_power_lost=random.random() < 0.5, keeps_snapshots=True)
        self._deliver_due()

    def _deliver_due(self) -> None:
        """Check that due messages are delivered, and none twice."""
        world = self._world
        overdue: list[DelayedDescription] = []
        for _ in range(_ROUNDS_MAX):
            self._rest(1)
            if not world.swarm.delays or world.process.halted is not None:
                return
            overdue = [each for each in self._delayers.list_all() if each.due <= world.now.wall]
            if not overdue:
                return
        raise Violation("delayed-message-stuck", f"{overdue}")

    # Schedules

    def _check_schedules(self) -> None:
        """What is due comes, once, and nothing else does."""
        if self._world.swarm.schedules:
            schedulers = self._crowd.schedulers
            schedulers.wait_for_due(lambda: self._rest(1), _ROUNDS_MAX)
            schedulers.check_all()

    # Schemas

    def _check_schemas(self) -> None:
        if self._world.swarm.schemas:
            self._crowd.registrars.check_all()

    # Transactions

    def _end_transactions(self) -> None:
        """Fence every holder of a transactional id, so that no transaction stays open."""
        transactors = self._crowd.transactors
        for name in self._crowd.holders.identities:
            transactors.init(name, _TRANSACTION_NS, lambda _: None)
        self._answer_everybody()
        reply = None
        for _ in range(_ROUNDS_MAX):
            # Where logs are flushed at intervals the markers take their time to be durable.
            reply = self._world.ask_now(ListTransactions())
            if isinstance(reply, TransactionList) and not reply.transactions:
                return
            self._rest(1)
        raise Violation("transaction-hangs", f"{reply}")

    def _drain_copied(self, group: GroupTruth, topics: tuple[str, ...]) -> None:
        """Copy everything that is left for a group, with a new worker."""
        member = self._join(group, topics)
        copiers = self._crowd.copiers
        copiers.create()
        self._rest(1)
        holder = copiers.holder()
        for _ in range(_COPIES_MAX):
            if copiers.finish(group, member, holder):
                continue
            if self._is_drained(group):
                copiers.drained(group)
                return
            self._rest(1)
        raise Violation("group-does-not-drain", f"{group.name}: {self._lag(group)}")

    def _note_deaths(self, contents: dict[TopicTruth, dict[int, list[Record]]]) -> None:
        """Record dead letters: they need no copy."""
        world = self._world
        for group in [each for each in world.groups.values() if each.is_copied]:
            for topic, partitions in contents.items():
                for partition, records in partitions.items():
                    for record in records:
                        serial = world.ledger.message_of(record).serial
                        at = record.offset
                        death = Death(topic.name, partition, at, group.name, serial)
                        if world.dead_letters.is_dead(death):
                            source = f"{log_name(topic, partition)}:{at}={serial}"
                            world.history.note(Died(group=group.name, source=source))

    # Draining

    def _drain(self, group: GroupTruth) -> None:
        """Ack everything that is left for a group, with a new member."""
        topics = tuple(name for name in sorted(group.topics) if name in self._world.ledger.topics)
        if not topics:
            return
        if group.is_copied:
            self._drain_copied(group, topics)
            return
        member = self._join(group, topics)
        for _ in range(_ROUNDS_MAX):
            before = len(member.deliveries)
            self._members.poll(group, member, 0, 1000)
            self._world.process.settle(self._world.now)
            got = member.deliveries[before:]
            if got:
                self._settlers.ack(group, got)
                self._world.process.settle(self._world.now)
            elif self._is_drained(group):
                return
            else:
                self._rest(1)
        raise Violation("group-does-not-drain", f"{group.name}: {self._lag(group)}")

    def _join(self, group: GroupTruth, topics: tuple[str, ...]) -> MemberTruth:
        known = dict(group.members)
        self._members.join(group, topics, session_ns=_SESSION_NS)
        self._world.process.settle(self._world.now)
        new = [member for id_, member in group.members.items() if id_ not in known]
        if not new:
            raise Violation("cannot-join", group.name)
        return new[0]

    def _lag(self, group: GroupTruth) -> Lag:
        reply = self._world.ask_now(DescribeLag(group=group.name))
        assert isinstance(reply, Lag)
        return reply

    def _is_drained(self, group: GroupTruth) -> bool:
        wanted = {name for name in group.topics if name in self._world.ledger.topics}
        return not any(
            each.lag or each.in_flight
            for each in self._lag(group).partitions
            if each.log.topic in wanted
        )

    # Reading

    def _read_all(self) -> dict[TopicTruth, dict[int, list[Record]]]:
        self._readings += 1
        self._reading = LogReader(reader=f"final-{self._readings}", is_final=True)
        contents: dict[TopicTruth, dict[int, list[Record]]] = {}
        for topic in list(self._world.ledger.topics.values()):
            of_topic = contents[topic] = {}
            starts: list[int] = []
            for partition in range(topic.partitions):
                held = self._read(topic, partition)
                starts.append(held.start)
                # Where the recovery point is lost, so is the start of the log.
                if held.start < topic.trimmed.get(partition, 0) and not self._world.swarm.point_rot:
                    words = f"{topic.name} {partition} starts at {held.start}"
                    raise Violation("deleted-came-back", words)
                self._world.ledger.check_partition(topic, partition, held.records, held.start)
                of_topic[partition] = held.messages
            self._world.ledger.check_delays(topic, starts)
        self._delayers.find_all()
        self._world.process.settle(self._world.now)
        return contents

    def _read(self, topic: TopicTruth, partition: int) -> _Holdings:
        found: list[Record] = []
        messages: list[Record] = []
        while True:
            offset = Offset(found[-1].offset + 1 if found else 0)
            command = Read(topic=topic.name, partition=partition, offset=offset)
            reply = self._world.ask_now(command)
            if isinstance(reply, Refused) or not isinstance(reply, Records):
                raise Violation("cannot-read", f"{command}: {reply}")
            records = self._publishers.check_records(topic, reply, self._reading)
            if not records:
                if reply.high_watermark > reply.offset:
                    raise Violation("reader-stuck", f"{reply.log} at {offset}")
                return _Holdings(reply.start, found, messages)
            found.extend(records)
            messages.extend(
                each for each in records if not is_hidden(each) and not is_aborted(each, reply)
            )

    def _check_groups(self, contents: dict[TopicTruth, dict[int, list[Record]]]) -> None:
        """Check that each message of a group is settled or a dead letter."""
        for group in self._world.groups.values():
            for topic, partitions in contents.items():
                if topic.name in group.topics and group.start is Start.EARLIEST:
                    for partition, records in partitions.items():
                        self._check_queue(group, topic, partition, records)

    def _check_queue(
        self, group: GroupTruth, topic: TopicTruth, partition: int, records: list[Record]
    ) -> None:
        queue = group.queue(topic, partition)
        if queue.required_from is None:
            return
        for record in records:
            serial = int((record.value or b"0").partition(b":")[0])
            death = Death(topic.name, partition, record.offset, group.name, serial)
            is_done = queue.may_be_settled(record.offset) or self._world.dead_letters.is_dead(death)
            if record.offset >= queue.required_from and not is_done:
                raise Violation("message-vanished", f"{group.name}: {death}")
