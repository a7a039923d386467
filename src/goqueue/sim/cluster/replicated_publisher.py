"""A client that publishes to one partition of a cluster, and remembers what it was promised.

It asks the broker that leads as far as it knows, follows refusals, and retries. With a producer id
a retry is the same batch with the same number: it must be stored once. Without one a message of
unknown outcome is given up, and may be stored or not.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

from goqueue.model import (
    DELIVER_HEADER,
    Code,
    Message,
    Offset,
    Refused,
    RequestId,
)
from goqueue.model.requests import (
    Acks,
    InitProducer,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
)
from goqueue.records import build
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.oracle import Violation

__all__ = ["ReplicatedPublisher"]

_PATIENCE_STEPS = 80
# After these nothing of the batch was stored.
_NOTHING_DONE = frozenset(
    {
        Code.NOT_LEADER,
        Code.LEADER_UNAVAILABLE,
        Code.NOT_ENOUGH_REPLICAS,
        Code.BROKER_UNAVAILABLE,
        Code.TOPIC_NOT_FOUND,
        Code.PARTITION_NOT_FOUND,
        Code.LOG_BUSY,
        Code.PRODUCER_NOT_FOUND,
        Code.STORAGE_FULL,
        Code.NOT_CONTROLLER,
    }
)


class ReplicatedPublisher:
    """Publishes one message after the other."""

    def __init__(
        self,
        name: str,
        topic: str,
        partition: int,
        *,
        is_idempotent: bool,
        random: Random,
        machines: Callable[[], list[BrokerMachine]],
        may_lose: bool = False,
        delay_ns: Callable[[], int] | None = None,
    ) -> None:
        """With `delay_ns` its messages are delayed, as the clock of the broker it asks shows."""
        self.name = name
        self.topic = topic
        self.partition = partition
        self.is_idempotent = is_idempotent
        self._random = random
        self._machines = machines
        self._producer: ProducerGranted | None = None
        self._asked: tuple[BrokerMachine, RequestId] | None = None
        self._steps = 0
        self._count = 0
        self._value = b""
        self._delay_ns = delay_ns
        self._due = 0
        # What was promised: the offset of each message.
        self.acked: dict[bytes, Offset] = {}
        # Everything that was ever sent.
        self.sent: dict[bytes, None] = {}
        self.is_stopped = False
        # Whether a promise may be lost, in which unclean epoch that was, and how many could be.
        self.may_lose = may_lose
        self._unclean_epoch = 0
        self._lost_below = 0

    def permit_losses(self, epoch: int) -> None:
        """An unclean election may have lost what was promised before it."""
        if epoch > self._unclean_epoch:
            self._unclean_epoch = epoch
            # One answer may be on its way.
            self._lost_below = len(self.acked) + 1

    def promised(self) -> Iterator[tuple[bytes, Offset]]:
        """What must be kept."""
        return islice(self.acked.items(), self._lost_below, None)

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
        elif not self.is_stopped:
            self._ask()

    def _ask(self) -> None:
        machines = [each for each in self._machines() if each.node.is_serving]
        if not machines:
            return
        machine = self._choose(machines)
        self._steps = 0
        if self.is_idempotent and self._producer is None:
            self._asked = (machine, machine.ask(InitProducer()))
            return
        if not self._value:
            self._value = f"{self.name}-{self._count}".encode()
            self.sent[self._value] = None
            if self._delay_ns is not None:
                self._due = machine.process.now().wall + self._delay_ns()
        stamp = None
        if self._producer is not None:
            stamp = ProducerStamp(
                producer_id=self._producer.producer_id,
                epoch=self._producer.epoch,
                sequence=self._count,
            )
        command = Publish(
            topic=self.topic,
            batch=build([self._message()]),
            dues=[self._due] if self._due else None,
            targets=[self.partition],
            acks=Acks.ALL,
            producer=stamp,
        )
        self._asked = (machine, machine.ask(command))

    def _message(self) -> Message:
        if not self._due:
            return Message(value=self._value)
        headers = ((DELIVER_HEADER, b"%d" % self._due),)
        return Message(value=self._value, headers=headers, is_delayed=True)

    def _choose(self, machines: list[BrokerMachine]) -> BrokerMachine:
        """Who leads as far as some broker knows; sometimes anybody."""
        asked = self._random.choice(machines)
        if self._random.random() < 0.1 or asked.node.cluster is None:
            return asked
        image = asked.node.cluster.replicas.image
        topic = image.topic(self.topic)
        state = None if topic is None else image.partition(topic.number, self.partition)
        leader = None if state is None else state.leader
        return next((each for each in machines if each.process.name == leader), asked)

    def _learn(self, reply: object) -> None:
        match reply:
            case ProducerGranted():
                self._producer = reply
            case Published(placed=placed):
                (result,) = placed
                if result.refused is None:
                    self._confirm(result.first)
                else:
                    self._refused(result.refused)
            case Refused():
                self._refused(reply.code)
            case _:
                self._refused(Code.REPLICATION_FAILED)

    def _confirm(self, offset: Offset) -> None:
        self.acked[self._value] = offset
        self._next()

    def _refused(self, code: Code) -> None:
        if self.is_idempotent or code in _NOTHING_DONE:
            if code is Code.SEQUENCE_OUT_OF_ORDER and self.may_lose:
                # What was before it is lost: it begins anew.
                self._producer = None
                self._next()
                return
            if code in {Code.SEQUENCE_OUT_OF_ORDER, Code.PRODUCER_FENCED}:
                reason = f"{self.name}: {code} at {self._count}, {len(self.acked)} acked"
                raise Violation("a producer's retry is recognised", reason)
            # The same again.
            return
        self._next()

    def _next(self) -> None:
        self._count += 1
        self._value = b""
