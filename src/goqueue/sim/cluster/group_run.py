"""One simulated life of a cluster whose clients read queues and streams as groups.

Like `ReplicationRun`, with consumers beside the publishers. The coordinator is killed, cut off,
paused and told to stop as any broker is. After everything healed the consumers ack all that they
get, until nothing is left; then the dead letters are read, and the judge of each group looks at all
that was promised.
"""

from random import Random

import msgspec

from goqueue.broker import ClusterConfig, Node
from goqueue.model import DEAD_LETTER_PREFIX, MILLISECOND, SECOND, LogId, Offset, RequestId
from goqueue.model.requests import DescribeLag, Lag, Read, Records
from goqueue.records import Flag, decode, walk
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.group_consumer import GroupConsumer
from goqueue.sim.cluster.group_truth import GroupTruth
from goqueue.sim.cluster.quorum_run import Create, QuorumSwarm
from goqueue.sim.cluster.replication_run import ReplicationRun, ReplicationSwarm
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

__all__ = ["GroupRun"]

_TOPIC = "orders"
_DEAD_LETTERS = "orders.dlq"
_PARTITIONS = 2
_STEP_NS = 25 * MILLISECOND
_DRAIN_STEPS = 60
_READ_BYTES = 1 << 20


class GroupRun(ReplicationRun):
    """The run of one seed."""

    def __init__(
        self,
        seed: int,
        trace: Trace,
        steps: int = 24,
        *,
        create: Create | None = None,
        copies: ReplicationSwarm | None = None,
        swarm: QuorumSwarm | None = None,
    ) -> None:
        chance = Random(seed * 19 + 7)  # noqa: S311 - chance that can be repeated is the point
        copies = copies or ReplicationSwarm(
            replicas=3,
            minimum=2,
            fills=chance.random() < 0.3,
            deletes=False,
            small_segments=chance.random() < 0.3,
            disk_errors=chance.random() < 0.2,
            majorities=chance.random() < 0.3,
        )
        if swarm is None:
            swarm = msgspec.structs.replace(QuorumSwarm.draw(chance), wipes=False, brokers=3)
        super().__init__(seed, trace, steps, create=create or _create, copies=copies, swarm=swarm)
        self._groups_chance = chance
        self.truths = {name: GroupTruth(name) for name in ("workers", "readers")}
        self.consumers = [
            GroupConsumer(
                f"{name}-{number}",
                _TOPIC,
                self.truths[name],
                chance,
                lambda: self.machines,
                now=lambda: self.time.now_ns,
                commits=name == "readers",
            )
            for name, count in (("workers", 3), ("readers", 2))
            for number in range(count)
        ]

    def begin_publishing(self) -> None:
        super().begin_publishing()
        if self._groups_chance.random() < 0.7:
            self._consume()

    def _consume(self) -> None:
        for consumer in self.consumers:
            consumer.step()

    # The end

    def end_publishing(self) -> None:
        super().end_publishing()
        for consumer in self.consumers:
            consumer.is_draining = True
        for _ in range(_DRAIN_STEPS):
            self.advance(SECOND)
            if self._lag() == 0:
                break
        else:
            raise Violation("liveness", f"the workers are behind by {self._lag()}")
        for consumer in self.consumers:
            consumer.is_stopped = True
        self.advance(3 * SECOND)

    def _lag(self) -> int | None:
        """How far the workers are behind; None if nobody can say it now."""
        reply = self._ask(self.machines[0], DescribeLag(group="workers"))
        if not isinstance(reply, Lag) or len(reply.partitions) < _PARTITIONS:
            return None
        return sum(each.lag for each in reply.partitions)

    def _ask(self, machine: BrokerMachine, command: DescribeLag | Read) -> object:
        request: RequestId = machine.ask(command)
        for _ in range(100):
            if request in machine.replies:
                return machine.replies.pop(request)
            self.advance(50 * MILLISECOND)
        return None

    def check_end(self) -> None:
        super().check_end()
        promised = {
            (publisher.partition, int(offset)): value
            for publisher in self.publishers
            for value, offset in publisher.acked.items()
        }
        dead_letters = self._dead_letters()
        self.truths["workers"].check_end(promised, dead_letters)
        for consumer in self.consumers:
            for place, value in consumer.values.items():
                if promised.get(place, value) != value:
                    raise Violation("the message is the one at its offset", f"{place}: {value!r}")

    def _dead_letters(self) -> dict[tuple[int, int], int]:
        """How often each message is among the dead letters, as readers see them."""
        found: dict[tuple[int, int], int] = {}
        for machine in self.machines[:1]:
            member = machine.node.cluster
            assert member is not None
            if member.replicas.image.topic(_DEAD_LETTERS) is None:
                return found
            for number in range(_PARTITIONS):
                for record in self._read_all(machine, LogId(_DEAD_LETTERS, number)):
                    place = int(record["partition"]), int(record["offset"])
                    found[place] = found.get(place, 0) + 1
        return found

    def _read_all(self, machine: BrokerMachine, log: LogId) -> list[dict[str, str]]:
        origins: list[dict[str, str]] = []
        offset = 0
        while True:
            read = Read(
                topic=log.topic,
                partition=log.partition,
                offset=Offset(offset),
                bytes_max=_READ_BYTES,
            )
            reply = self._ask(machine, read)
            if not isinstance(reply, Records):
                raise Violation("liveness", f"{log} cannot be read: {reply}")
            if not reply.data and reply.upto <= offset:
                if reply.stable != reply.high_watermark:
                    raise Violation("no transaction stays open", f"{log} {reply}")
                return origins
            hidden = reply.aborted
            for piece in reply.data:
                columns = walk(piece)
                for position, flags in zip(columns.positions, columns.flags, strict=True):
                    record = decode(piece, position)
                    is_aborted = any(first <= record.offset < end for first, end in hidden)
                    if not flags & Flag.CONTROL and not is_aborted:
                        origins.append(_origin(record.headers))
            offset = max(offset + 1, reply.upto)


def _create(name: str, config: ClusterConfig) -> Node:
    """A node that traces all messages, so leases carry numbers of traces, with its own secret."""
    return Node(name, name.encode(), cluster=config, sampling=1.0)


def _origin(headers: tuple[tuple[str, bytes], ...]) -> dict[str, str]:
    size = len(DEAD_LETTER_PREFIX)
    return {
        name[size:]: value.decode()
        for name, value in headers
        if name.startswith(DEAD_LETTER_PREFIX)
    }
