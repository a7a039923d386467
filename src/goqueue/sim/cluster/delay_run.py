"""One simulated life of a cluster with delayed messages, whose leaders fail at the worst moments.

Clients publish messages that are due moments or weeks later, cancel some and look others up. When
all is healed every message that waits is listed; then the clocks are set to weeks later, and every
one of them must fire. What must hold besides is what `FailoverRun` says.
"""

from random import Random

import msgspec

from goqueue.model import HOUR, MILLISECOND, SECOND, Offset, Record
from goqueue.model.requests import DelayedList, ListDelayed, TopicConfig
from goqueue.sim.cluster.delay_clients import DelayCanceller, DelayPlace
from goqueue.sim.cluster.delay_truth import DelayTruth, is_delivery
from goqueue.sim.cluster.failover_run import FailoverRun
from goqueue.sim.cluster.quorum_run import Create
from goqueue.sim.cluster.replicated_publisher import ReplicatedPublisher
from goqueue.sim.cluster.replication_run import ReplicationSwarm
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

__all__ = ["DelayRun"]

_TOPIC = "orders"
_PARTITIONS = 2
_MINUTE = 60 * SECOND
_DAY = 24 * HOUR
# Mostly soon, also beyond the reach of the timers.
_DELAYS_NS = (
    *(50 * MILLISECOND, 200 * MILLISECOND, 400 * MILLISECOND, SECOND, 2 * SECOND, 3 * SECOND),
    *(HOUR, 10 * _DAY),
)
_DEPOSED_NS = (4 * SECOND, 7 * SECOND, 9 * SECOND)
_BETWEEN_NS = (100 * MILLISECOND, SECOND, 3 * SECOND)
_LATER_NS = 30 * _DAY
_FIRED_NS = 8 * SECOND
_LISTED_MAX = 5_000


class DelayRun(FailoverRun):
    """The run of one seed."""

    def __init__(
        self,
        seed: int,
        trace: Trace,
        steps: int = 30,
        *,
        create: Create | None = None,
        deposes: bool = True,
    ) -> None:
        """With `deposes` leaders are kept from the others, too, and live on."""
        chance = Random(seed * 29 + 13)  # noqa: S311 - chance that can be repeated is the point
        replicas = chance.choice((2, 3, 3, 3))
        copies = ReplicationSwarm(
            replicas=replicas,
            minimum=chance.randint(1, replicas - 1),
            fills=chance.random() < 0.2,
            deletes=False,
            small_segments=chance.random() < 0.3,
            majorities=chance.random() < 0.2,
        )
        super().__init__(
            seed,
            trace,
            steps,
            create=create,
            copies=copies,
            strikes_max=chance.choice((0, 2, 6)) if deposes else 12,
        )
        self._delay = chance
        self._deposes = deposes
        self._align_clocks()
        self.delayers = [
            ReplicatedPublisher(
                f"later-{partition}",
                _TOPIC,
                partition,
                is_idempotent=True,
                random=chance,
                machines=lambda: self.machines,
                delay_ns=lambda: chance.choice(_DELAYS_NS),
            )
            for partition in range(_PARTITIONS)
        ]
        # Few others: what is between two deliveries is seldom of interest.
        self.publishers = [*self.publishers[:1], *self.delayers]
        self.canceller = DelayCanceller(_TOPIC, self.delayers, chance, lambda: self.machines)
        self.fired_total = 0
        # Until then a leader is kept from the others.
        self._deposing_until = 0
        # What was listed at last, and when.
        self._listed: dict[DelayPlace, int] = {}
        self._listed_at = 0

    def _align_clocks(self) -> None:
        """Let all brokers have nearly the same time: else most messages fire hours later."""
        shown = [process.clock.wall(0) for process in self.processes]
        for process, wall in zip(self.processes, shown, strict=True):
            skew = self._delay.choice((0, 0, 300 * MILLISECOND, 3 * SECOND))
            process.clock.jump(max(shown) - wall + skew)

    def _disturb(self) -> None:
        """Depose a leader that lives, one at a time; or let something else fail."""
        if not self._deposes:
            super()._disturb()
            return
        if self.time.now_ns < self._deposing_until:
            return
        random = self._delay
        leaders = [
            each for each in self.machines if self._leads(each, random.randrange(_PARTITIONS))
        ]
        gone = sum(not each.is_running or each.is_paused for each in self.processes)
        if not leaders or gone or random.random() < 0.4:
            super()._disturb()
            return
        process, away_ns = random.choice(leaders).process, random.choice(_DEPOSED_NS)
        self._deposing_until = self.time.now_ns + away_ns + random.choice(_BETWEEN_NS)
        if random.random() < 0.3:
            process.pause()
            self._resume_later(process, away_ns)
            return
        is_deaf = random.random() < 0.7
        for other in self.processes:
            if other is not process:
                self.network.cut(process.address, other.address)
                if is_deaf:
                    self.network.cut(other.address, process.address)
        self.time.after(away_ns, self.network.heal)

    def _topic_config(self) -> TopicConfig:
        config = super()._topic_config()
        return msgspec.structs.replace(config, retention_hours=-1)

    def begin_publishing(self) -> None:
        super().begin_publishing()
        self.canceller.step()

    def _stop_publishers(self) -> None:
        super()._stop_publishers()
        self.canceller.is_stopped = True

    def end_publishing(self) -> None:
        super().end_publishing()
        self._list_all()
        for process in self.processes:
            process.clock.jump(_LATER_NS)
        self.advance(_FIRED_NS)

    def _list_all(self) -> None:
        """Ask some broker for all messages that wait."""
        machine = self._delay.choice(self.machines)
        self._listed_at = machine.process.now().wall
        request = machine.ask(ListDelayed(topic=_TOPIC, limit=_LISTED_MAX))
        self.advance(2 * SECOND)
        reply = machine.replies.pop(request, None)
        if not isinstance(reply, DelayedList):
            raise Violation("liveness", f"a list of delayed messages: {reply}")
        dues = [each.due for each in reply.messages]
        if dues != sorted(dues) or reply.total != len(dues):
            raise Violation("lists are in order", f"{len(dues)} of {reply.total}")
        self._listed = {(each.log.partition, each.offset): each.due for each in reply.messages}

    def _is_message(self, record: Record) -> bool:
        return super()._is_message(record) and not is_delivery(record)

    def _check_content(self, number: int, data: bytes, start: Offset) -> None:
        super()._check_content(number, data, start)
        truth = DelayTruth(number, data)
        truth.check_told(self.canceller.cancelled, self.canceller.delivered)
        if truth.waiting:
            raise Violation("no delay is lost", f"partition {number}: {truth.waiting}")
        self.fired_total += truth.delivered_count
        self._check_listed(number, truth)

    def _check_listed(self, number: int, truth: DelayTruth) -> None:
        """What fired weeks later was listed, and nothing that had ended long before."""
        listed = {place for place in self._listed if place[0] == number}
        later = {place for place, at in truth.fired_at.items() if at > self._listed_at + _DAY}
        before = {place for place, at in truth.fired_at.items() if at < self._listed_at - _MINUTE}
        if later - listed or listed & (before | truth.cancelled.keys()):
            raise Violation("lists are true", f"partition {number}: {listed}, not {later}")
