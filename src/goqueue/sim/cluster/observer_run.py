"""One simulated life of five brokers whose groups read topics that not every broker keeps.

Like `GroupRun`, with one to three copies of each partition: whoever coordinates groups observes the
partitions of which its broker is no replica. Coordinators and leaders are killed, so observers
begin cold, follow other leaders, and go.
"""

from random import Random

import msgspec

from goqueue.model import LogId, Offset
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.group_run import GroupRun
from goqueue.sim.cluster.quorum_run import Create, QuorumSwarm
from goqueue.sim.cluster.replication_run import ReplicationSwarm
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

__all__ = ["ObserverRun"]


class ObserverRun(GroupRun):
    """The run of one seed."""

    def __init__(
        self, seed: int, trace: Trace, steps: int = 24, *, create: Create | None = None
    ) -> None:
        chance = Random(seed * 29 + 5)  # noqa: S311 - chance that can be repeated is the point
        replicas = chance.choice((1, 1, 2, 3))
        copies = ReplicationSwarm(
            replicas=replicas,
            minimum=min(2, replicas),
            fills=chance.random() < 0.3,
            # What is deleted need not be delivered, and the judge of a group cannot tell.
            deletes=False,
            small_segments=chance.random() < 0.3,
            disk_errors=chance.random() < 0.2,
            majorities=chance.random() < 0.2,
        )
        swarm = msgspec.structs.replace(QuorumSwarm.draw(chance), wipes=False, brokers=5)
        super().__init__(seed, trace, steps, create=create, copies=copies, swarm=swarm)
        # How many copies that were only observed were compared with their leaders in the end.
        self.observed_total = 0

    def check_end(self) -> None:
        super().check_end()
        for machine in self.machines:
            member = machine.node.cluster
            assert member is not None
            for hosted in member.replicas.hosted.observed:
                self._compare(machine, hosted.log_id)
        if len({each for each in map(_coordinates, self.machines) if each}) > 1:
            raise Violation("one broker coordinates", "several do")

    def _compare(self, machine: BrokerMachine, log: LogId) -> None:
        """An observer has what its leader has committed; nobody else keeps such a copy."""
        assert machine.node.coordinators is not None
        if machine.node.coordinators.current is None:
            raise Violation("only the coordinator observes", f"{machine.process.name} {log}")
        leader = self._leader_of(log)
        if leader is not None:
            own, led = self._content(machine, log), self._content(leader, log)
            if own != led:
                sizes = f"{len(own)} bytes, not {len(led)}"
                raise Violation("an observer has what is committed", f"{log}: {sizes}")
            self.observed_total += 1

    def _leader_of(self, log: LogId) -> BrokerMachine | None:
        for machine in self.machines:
            member = machine.node.cluster
            hosted = None if member is None else member.replicas.hosted.find(log)
            if hosted is not None and hosted.leader is not None and hosted.leader.is_serving:
                return machine
        return None

    def _content(self, machine: BrokerMachine, log: LogId) -> bytes:
        assert machine.node.cluster is not None
        hosted = machine.node.cluster.replicas.hosted.find(log)
        assert hosted is not None
        if hosted.partition is None:
            return b""
        kept = hosted.partition.log
        data, offset = bytearray(), kept.start
        while offset < kept.high_watermark:
            wanted = kept.read(Offset(offset), 1 << 20)
            assert wanted is not None
            data += machine.storage.read(wanted)
            offset = wanted.below
        return bytes(data)


def _coordinates(machine: BrokerMachine) -> str | None:
    coordinators = machine.node.coordinators
    is_coordinator = coordinators is not None and coordinators.current is not None
    return machine.process.name if is_coordinator else None
