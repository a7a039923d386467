"""Idempotent producers without transactions: they number what they send, and send it again."""

from goqueue.model import Code, Refused
from goqueue.model.requests import (
    HeartbeatProducer,
    InitProducer,
    ProducerGranted,
    ProducerStamp,
    Reply,
)
from goqueue.sim.clients.holders import Holders, SequencedSends
from goqueue.sim.clients.publishers import Publishers
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.ledger import MessageTruth

__all__ = ["Retriers"]

_PRODUCERS_MAX = 3
_IN_FLIGHT_MAX = 4
_GIVE_UP = frozenset({Code.SEQUENCE_OUT_OF_ORDER, Code.PRODUCER_NOT_FOUND})


class _Producer:
    """One producer and what it sent, by topic and partition."""

    def __init__(self, stamp: ProducerStamp) -> None:
        self.stamp = stamp
        self.process = f"{stamp.producer_id}/{stamp.epoch}"
        self.by_partition: list[SequencedSends] = []


class Retriers:
    """Idempotent producers that retry."""

    def __init__(self, world: World, publishers: Publishers, holders: Holders) -> None:
        self._world = world
        self._random = world.random
        self._publishers = publishers
        self._holders = holders
        self._producers: list[_Producer] = []

    def step(self) -> None:
        """Let one producer act."""
        random = self._random
        if len(self._producers) < _PRODUCERS_MAX and random.random() < 0.2:
            self._init()
            return
        if not self._producers:
            return
        producer = random.choice(self._producers)
        sends = self._choose(producer)
        chance = random.random()
        if chance < 0.04:
            self._producers.remove(producer)
        elif chance < 0.08:
            self._heartbeat(producer)
        elif sends is not None and chance < 0.14:
            sends.send_with_gap(self._messages(sends))
        elif sends is not None and chance < 0.4 and sends.batches:
            self._repeat(producer, sends)
        elif sends is not None:
            self._send(producer, sends)

    def _init(self) -> None:
        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, ProducerGranted):
                self._holders.note_producer(reply.producer_id, "")
                if reply.epoch:
                    raise Violation("new-producer-is-old", f"{reply}")
                stamp = ProducerStamp(producer_id=reply.producer_id, epoch=reply.epoch)
                self._producers.append(_Producer(stamp))

        self._world.ask(InitProducer(), done)

    def _heartbeat(self, producer: _Producer) -> None:
        stamp = producer.stamp

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Refused) and reply.code is not Code.BROKER_UNAVAILABLE:
                raise Violation("producer-forgotten", f"{stamp}: {reply}")

        self._world.ask(HeartbeatProducer(producer_id=stamp.producer_id, epoch=stamp.epoch), done)

    def _choose(self, producer: _Producer) -> SequencedSends | None:
        """A partition that the producer has sent to, or another one."""
        random = self._random
        usable = [sends for sends in producer.by_partition if sends.is_usable]
        if usable and random.random() < 0.8:
            return random.choice(usable)
        topic = self._publishers.choose_topic()
        if topic is None:
            return None
        partition = random.randrange(topic.partitions)
        for sends in producer.by_partition:
            if sends.topic is topic and sends.partition == partition:
                return sends if sends.is_usable else None
        sends = SequencedSends(self._world, producer.process, producer.stamp, topic, partition)
        producer.by_partition.append(sends)
        return sends

    def _messages(self, sends: SequencedSends) -> list[MessageTruth]:
        return [
            self._publishers.message(sends.topic) for _ in range(self._random.choice([1, 1, 2, 3]))
        ]

    def _send(self, producer: _Producer, sends: SequencedSends) -> None:
        missing = sends.missing
        if missing is not None:
            sends.send_again(missing, lambda reply: self._answered(producer, sends, reply))
        elif sends.pending < _IN_FLIGHT_MAX:
            messages = self._messages(sends)
            sends.send(messages, lambda reply: self._answered(producer, sends, reply), None)

    def _repeat(self, producer: _Producer, sends: SequencedSends) -> None:
        """Send an earlier batch again: mostly a recent one, sometimes an old one."""
        random = self._random
        recent = sends.batches[-5:] if random.random() < 0.8 else sends.batches
        batch = random.choice(recent)
        if batch.is_taken or batch.pending:
            sends.send_again(batch, lambda _: None)
        else:
            self._send(producer, sends)

    def _answered(
        self, producer: _Producer, sends: SequencedSends, reply: Reply | Refused | None
    ) -> None:
        """Record the answer; a producer that lost its order starts again."""
        if not isinstance(reply, Refused) or reply.code not in _GIVE_UP:
            return
        is_behind = any(not batch.is_taken for batch in sends.batches[:-1])
        if not is_behind and producer in self._producers:
            sends.is_broken = True
