"""A client that cancels and looks up delayed messages of a cluster, and keeps what it was told."""

from collections.abc import Callable
from random import Random

from goqueue.model import Code, Offset, Refused, RequestId
from goqueue.model.requests import (
    CancelDelayed,
    DelayedDescription,
    DelayState,
    Done,
    FindDelayed,
)
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.replicated_publisher import ReplicatedPublisher
from goqueue.sim.oracle import Violation

__all__ = ["DelayCanceller", "DelayPlace"]

# The partition of a delayed message, and its first offset.
DelayPlace = tuple[int, Offset]

_PATIENCE_STEPS = 120
_RECENT = 6


class DelayCanceller:
    """Asks about one message after the other, mostly to cancel it."""

    def __init__(
        self,
        topic: str,
        publishers: list[ReplicatedPublisher],
        random: Random,
        machines: Callable[[], list[BrokerMachine]],
    ) -> None:
        self._topic = topic
        self._publishers = publishers
        self._random = random
        self._machines = machines
        self._asked: tuple[BrokerMachine, RequestId] | None = None
        self._place: DelayPlace = (0, Offset(0))
        self._steps = 0
        # What it was promised will never be delivered, and what it was told was, and where.
        self.cancelled: dict[DelayPlace, None] = {}
        self.delivered: dict[DelayPlace, Offset] = {}
        self.is_stopped = False

    def step(self) -> None:
        """Look at the answer, or ask."""
        if self._asked is not None:
            machine, request = self._asked
            reply = machine.replies.pop(request, None)
            self._steps += 1
            if reply is None and not machine.is_over and self._steps < _PATIENCE_STEPS:
                return
            self._asked = None
            self._learn(reply)
        elif not self.is_stopped and self._random.random() < 0.3:
            self._ask()

    def _ask(self) -> None:
        machines = [each for each in self._machines() if each.node.is_serving]
        publisher = self._random.choice(self._publishers)
        known = list(publisher.acked.values())[-_RECENT:]
        if not machines or not known:
            return
        machine, offset = self._random.choice(machines), self._random.choice(known)
        number = publisher.partition
        self._place, self._steps = (number, offset), 0
        command: CancelDelayed | FindDelayed
        if self._random.random() < 0.6:
            command = CancelDelayed(topic=self._topic, partition=number, offset=offset)
        else:
            only = number if self._random.random() < 0.7 else None
            command = FindDelayed(topic=self._topic, partition=only, offset=offset)
        self._asked = (machine, machine.ask(command))

    def _learn(self, reply: object) -> None:
        match reply:
            case Done():
                self.cancelled[self._place] = None
            case DelayedDescription():
                self._learn_state(reply)
            case Refused(code=Code.ALREADY_DELIVERED):
                offset = reply.facts.get("delivered_offset")
                if offset is None:
                    raise Violation("delivered nowhere", str(self._place))
                self._deliver(self._place, Offset(offset))
            case Refused(code=Code.MESSAGE_NOT_FOUND):
                raise Violation("acknowledged is found", str(self._place))
            case _:
                # Whether it is cancelled is not known.
                return

    def _learn_state(self, found: DelayedDescription) -> None:
        place = (found.log.partition, found.offset)
        match found.state:
            case DelayState.CANCELLED:
                self.cancelled[place] = None
            case DelayState.DELIVERED:
                if found.delivered_offset is None:
                    raise Violation("delivered nowhere", str(place))
                self._deliver(place, found.delivered_offset)
            case DelayState.EXPIRED:
                raise Violation("no message is given up", str(place))
            case DelayState.PENDING:
                return

    def _deliver(self, place: DelayPlace, offset: Offset) -> None:
        known = self.delivered.setdefault(place, offset)
        if known != offset:
            raise Violation("a delay fires once", f"{place} at {known} and {offset}")
