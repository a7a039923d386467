"""One simulated life of a cluster with replicated partitions: clients publish while brokers fail.

Chaos, then everything heals; ten seconds later every partition has a leader and a full ISR, and all
copies are committed to their ends. At the end every copy is read from its files: what was promised
is there, at its offset, on every replica; what a producer with an id sent is there once.

With `flush=interval` a loss of power may take what was acknowledged, but only with an election that
is recorded as unclean, and nothing that was acknowledged after it.
"""

from random import Random

import msgspec

from goqueue.broker import HostedLog
from goqueue.cluster import PartitionId
from goqueue.log import Log
from goqueue.model import MILLISECOND, SECOND, Flush, LogId, Offset, Record, Refused
from goqueue.model.requests import CreateTopic, DeleteRecords, TopicConfig
from goqueue.records import Flag, decode, scan
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.processes import ClusterProcess
from goqueue.sim.cluster.quorum_run import Create, QuorumRun, QuorumSwarm
from goqueue.sim.cluster.replicated_publisher import ReplicatedPublisher
from goqueue.sim.cluster.replication_checks import ReplicationChecks
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace
from goqueue.storage import log_directory

__all__ = ["ReplicationRun", "ReplicationSwarm"]

_STEP_NS = 25 * MILLISECOND
_TOPIC = "orders"
_PARTITIONS = 2
_HEALED_NS = 10 * SECOND
# Long: a loss of power takes much.
_FLUSH_MS = 5_000


class ReplicationSwarm(msgspec.Struct, frozen=True, kw_only=True):
    """How partitions are copied, and which faults of disks a run has."""

    replicas: int
    minimum: int
    fills: bool
    deletes: bool
    small_segments: bool
    # Whether a copy of a partition vanishes while its broker does not run.
    loses_logs: bool = False
    # Whether records are acknowledged before they are synced (`flush=interval`).
    flushes_late: bool = False
    # Whether writes and syncs of one disk fail, and whether a majority loses power at once.
    disk_errors: bool = False
    majorities: bool = False

    @classmethod
    def draw(cls, random: Random, brokers: int) -> "ReplicationSwarm":
        replicas = random.choice([each for each in (1, 2, 3, 3, 3) if each <= brokers])
        return cls(
            replicas=replicas,
            minimum=random.randint(1, max(1, replicas - 1)),
            fills=random.random() < 0.3,
            deletes=random.random() < 0.3,
            small_segments=random.random() < 0.3,
        )


class ReplicationRun(QuorumRun):
    """The run of one seed."""

    checks: ReplicationChecks

    def __init__(
        self,
        seed: int,
        trace: Trace,
        steps: int = 30,
        *,
        create: Create | None = None,
        swarm: QuorumSwarm | None = None,
        copies: ReplicationSwarm | None = None,
        checks: ReplicationChecks | None = None,
    ) -> None:
        chance = Random(seed * 7 + 3)  # noqa: S311 - chance that can be repeated is the point
        drawn = QuorumSwarm.draw(chance)
        # A wiped disk takes its copies with it, and nothing brings them back yet.
        drawn = msgspec.structs.replace(drawn, wipes=False, brokers=max(3, drawn.brokers))
        super().__init__(
            seed,
            trace,
            steps,
            create=create,
            checks=checks or ReplicationChecks(),
            swarm=swarm or drawn,
        )
        self._chance = chance
        # Its own chance: what a seed means otherwise stays as it is remembered.
        self._decay = Random(seed * 13 + 5)  # noqa: S311 - as above
        self._trouble = Random(seed * 17 + 11)  # noqa: S311 - as above
        if copies is None:
            copies = ReplicationSwarm.draw(chance, self.swarm.brokers)
            loses = self._decay.random() < 0.4
            copies = msgspec.structs.replace(
                copies,
                loses_logs=loses,
                flushes_late=self._trouble.random() < 0.3,
                disk_errors=self._trouble.random() < 0.3,
                majorities=self._trouble.random() < 0.3,
            )
        self.copies = copies
        self.checks.may_lose = copies.flushes_late
        self.checks.deletes = copies.deletes
        if copies.disk_errors:
            self.checks.failing = self._trouble.choice(self.processes).name
        trace.note("copies", self.copies)
        self._filled: str | None = None
        # Who lost the copy of a partition: one broker in a run, so that the others have it.
        self._decayed: dict[int, str] = {}
        self.lost_total = 0
        self.publishers = [
            ReplicatedPublisher(
                f"{'twice' if is_idempotent else 'once'}-{partition}",
                _TOPIC,
                partition,
                is_idempotent=is_idempotent,
                random=chance,
                machines=lambda: self.machines,
                may_lose=copies.flushes_late,
            )
            for partition in range(_PARTITIONS)
            for is_idempotent in (False, True)
        ]

    # The run

    def live(self) -> None:
        """The whole run; raises Violation."""
        self.begin()
        self.create_topic()
        self.begin_publishing()
        for _ in range(self._steps):
            self._disturb()
            self._disturb_disk()
            self._disturb_hard()
            if self.copies.deletes and self._chance.random() < 0.1:
                self._delete_some()
            self.advance(self._chance.choice((1, 20, 300, 1000, 2500)) * MILLISECOND)
        self.heal()
        self.advance(_HEALED_NS)
        self.end_publishing()
        self.check_end()
        self._trace.note("end", (self.time.events_total, self.acked_total))

    @property
    def acked_total(self) -> int:
        return sum(len(each.acked) for each in self.publishers)

    def heal(self) -> None:
        for disk in self.disks.values():
            disk.faults.calm()
        for process in self.processes:
            # A log that failed takes nothing more before its broker begins anew.
            if process.name == self.checks.failing and process.is_running:
                self.kill(process, loses_power=False)
        super().heal()

    def create_topic(self) -> None:
        """Ask until the topic exists."""
        config = self._topic_config()
        for _ in range(60):
            self.advance(500 * MILLISECOND)
            for machine in self.machines:
                member = machine.node.cluster
                if member is None or member.metadata is None or not machine.node.is_serving:
                    continue
                if member.metadata.image.topic(_TOPIC) is not None:
                    return
                if member.metadata.is_controller:
                    machine.ask(CreateTopic(name=_TOPIC, partitions=_PARTITIONS, config=config))
        raise Violation("liveness", "the topic was not created")

    def _topic_config(self) -> TopicConfig:
        return TopicConfig(
            replication_factor=self.copies.replicas,
            min_insync_replicas=self.copies.minimum,
            segment_bytes=1 << 20 if self.copies.small_segments else 1 << 26,
            flush_policy=Flush.INTERVAL if self.copies.flushes_late else Flush.COMMIT,
            flush_interval_ms=_FLUSH_MS,
        )

    def end_publishing(self) -> None:
        """Let what was published arrive everywhere, and nothing more."""
        self._stop_publishers()
        self.advance(_HEALED_NS // 2)

    def _stop_publishers(self) -> None:
        for publisher in self.publishers:
            publisher.is_stopped = True

    def begin_publishing(self) -> None:
        """Let every publisher take a step, now and every while."""
        self._permit_losses()
        for publisher in self.publishers:
            publisher.step()
        self.time.after(_STEP_NS, self.begin_publishing)

    def _permit_losses(self) -> None:
        """What was acknowledged before an unclean election may be lost by it."""
        for where, epoch in self.checks.unclean.items():
            for publisher in self.publishers:
                if publisher.partition == where.partition:
                    publisher.permit_losses(epoch)

    def _delete_some(self) -> None:
        """Delete the older half of a partition, at its leader."""
        number = self._chance.randrange(_PARTITIONS)
        for machine in self.machines:
            member = machine.node.cluster
            if member is None or not machine.node.is_serving or not self._leads(machine, number):
                continue
            log = LogId(_TOPIC, number)
            hosted = member.replicas.hosted.find(log)
            assert hosted is not None
            assert hosted.partition is not None
            kept = hosted.partition.log
            before = Offset((kept.start + kept.high_watermark) // 2)
            machine.ask(DeleteRecords(topic=_TOPIC, before={number: before}))
            return

    def _disturb_disk(self) -> None:
        """Let a disk fill up, or free it."""
        if not self.copies.fills:
            return
        if self._filled is not None:
            if self._chance.random() < 0.5:
                self.disks[self._filled].faults.free()
                self._filled = None
        elif self._chance.random() < 0.2:
            self._filled = self._chance.choice(self.processes).name
            self.disks[self._filled].faults.fill(self._chance.randrange(2000))

    def _disturb_hard(self) -> None:
        """Let a disk fail, or take the power of a majority at once."""
        random, failing = self._trouble, self.checks.failing
        if failing is not None and random.random() < 0.1:
            faults = self.disks[failing].faults
            random.choice((faults.arm_write_error, faults.arm_sync_error))()
        if self.copies.majorities and random.random() < 0.05:
            for process in random.sample(self.processes, len(self.processes) // 2 + 1):
                if process.is_running:
                    self.kill(process, loses_power=True)

    def kill(self, process: ClusterProcess, *, loses_power: bool) -> None:
        # A disk that is full stays full; a start may need to write all the same.
        self.disks[process.name].faults.calm()
        if self._filled == process.name:
            self._filled = None
        super().kill(process, loses_power=loses_power)

    # Lost copies

    def _begin_life(self, process: ClusterProcess) -> BrokerMachine:
        machine = super()._begin_life(process)
        if self.copies.loses_logs and self._decay.random() < 0.5:
            number = self._decay.randrange(_PARTITIONS)
            if self._may_lose(process.name, number):
                self.lose_log(process.name, number)
        return machine

    def lose_log(self, broker: str, number: int) -> None:
        """Remove the files of a copy whose broker does not run."""
        directory = f"{log_directory(LogId(_TOPIC, number))}/"
        files = self.disks[broker].files
        gone = [path for path in files.paths() if path.startswith(directory)]
        for path in gone:
            files.delete(path)
        self.lost_total += bool(gone)
        self.checks.loses_copies = True
        self._trace.note("lost", f"{broker} {number}")

    def _may_lose(self, broker: str, number: int) -> bool:
        """Whether another broker leads, so that it has all that was ever committed.

        Whatever this broker still wanted as a leader can no longer be committed then.
        """
        images = [
            machine.node.cluster.metadata.image
            for machine in self.machines
            if machine.node.cluster is not None and machine.node.cluster.metadata is not None
        ]
        if not images:
            return False
        image = max(images, key=lambda each: each.version)
        topic = image.topic(_TOPIC)
        state = None if topic is None else image.partition(topic.number, number)
        if topic is None or state is None or state.leader in {None, broker}:
            return False
        newest = self.checks.newest(PartitionId(topic.number, number))
        is_old = newest is not None and newest.version > state.version
        if is_old or any(other != broker for other in self._decayed.values()):
            return False
        self._decayed[number] = broker
        return True

    # The end

    def check_end(self) -> None:
        """All copies are whole and equal, and hold what was promised."""
        self.checks.check_healed(self.machines)
        self._compare_logs()
        for partition in range(_PARTITIONS):
            self._check_partition(partition)

    def _check_partition(self, number: int) -> None:
        copies: dict[str, tuple[HostedLog, BrokerMachine]] = {}
        for machine in self.machines:
            assert machine.node.cluster is not None
            for hosted in machine.node.cluster.replicas.hosted:
                is_meant = hosted.log_id == LogId(_TOPIC, number) and not hosted.is_observed
                if is_meant:
                    copies[machine.process.name] = (hosted, machine)
        leaders = [each for _, each in copies.values() if self._leads(each, number)]
        if len(leaders) != 1:
            raise Violation("liveness", f"{len(leaders)} brokers lead partition {number}")
        (machine,) = leaders
        assert machine.node.cluster is not None
        image = machine.node.cluster.replicas.image
        topic = image.topic(_TOPIC)
        assert topic is not None
        state = image.partition(topic.number, number)
        assert state is not None
        if set(state.isr) != set(state.replicas):
            raise Violation("liveness", f"the ISR of {number} is {state.isr}")
        if set(copies) != set(state.replicas):
            raise Violation("hosted", f"{sorted(copies)} keep {number}, not {state.replicas}")
        starts = {name: _log(copy[0]).start for name, copy in copies.items()}
        if len(set(starts.values())) != 1:
            raise Violation("copies begin at the same record", f"partition {number}: {starts}")
        contents = {name: self._read(*copy) for name, copy in copies.items()}
        if len(set(contents.values())) != 1:
            sizes = {name: len(data) for name, data in contents.items()}
            raise Violation("copies are equal", f"partition {number}: {sizes}")
        start = next(iter(starts.values()))
        self._check_content(number, next(iter(contents.values())), start)

    def _leads(self, machine: BrokerMachine, number: int) -> bool:
        member = machine.node.cluster
        assert member is not None
        topic = member.replicas.image.topic(_TOPIC)
        log = LogId(_TOPIC, number)
        if topic is None or member.replicas.hosted.find(log) is None:
            return False
        try:
            member.replicas.check_leads(topic.number, number, log)
        except Refused:
            return False
        return True

    def _read(self, hosted: HostedLog, machine: BrokerMachine) -> bytes:
        assert hosted.partition is not None
        log = hosted.partition.log
        if log.high_watermark != log.end:
            who = machine.process.name
            ends = f"{log.high_watermark} of {log.end}"
            raise Violation("liveness", f"{hosted.log_id} on {who} is committed up to {ends}")
        data, offset = bytearray(), log.start
        while offset < log.end:
            wanted = log.read(Offset(offset), 1 << 20)
            assert wanted is not None
            data += machine.storage.read(wanted)
            offset = wanted.below
        return bytes(data)

    def _check_content(self, number: int, data: bytes, start: Offset) -> None:
        places: dict[bytes, list[int]] = {}
        columns = scan(data).columns
        for position in columns.positions:
            record = decode(data, position)
            if self._is_message(record):
                places.setdefault(record.value or b"", []).append(record.offset)
        for publisher in self.publishers:
            if publisher.partition != number:
                continue
            for value, offset in publisher.promised():
                if offset >= start and offset not in places.get(value, ()):
                    found = places.get(value)
                    raise Violation("acknowledged is kept", f"{value!r} at {offset}: {found}")
            for value in publisher.sent:
                count = len(places.pop(value, ()))
                if count > 1:
                    raise Violation("stored once", f"{value!r} {count} times")
        if places:
            raise Violation("only what was sent", f"{list(places)[:3]}")

    def _is_message(self, record: Record) -> bool:
        """Whether a publisher sent a record."""
        return not record.flags & Flag.CONTROL


def _log(hosted: HostedLog) -> Log:
    assert hosted.partition is not None
    return hosted.partition.log
