"""The connection for threads."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from goqueue.client.admin_replies import (
    Health,
    NodeStats,
    PriorityStats,
    Readiness,
    ReliabilityStats,
    Version,
)
from goqueue.client.batch import ProducerConfig, Sent
from goqueue.client.connection import Connection
from goqueue.client.membership import OnPartitions
from goqueue.client.producer import Due
from goqueue.client.stream_consumer import Start
from goqueue.client.sync.admin import (
    SyncDeadLetters,
    SyncDelayedMessages,
    SyncGroups,
    SyncTopics,
    SyncTraces,
    SyncTransactions,
)
from goqueue.client.sync.consumer import SyncQueueConsumer, SyncReplay, SyncStreamConsumer
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.sync.producer import SyncProducer
from goqueue.client.sync.transaction import SyncTransaction
from goqueue.client.values import Headers, Value
from goqueue.model import Priority
from goqueue.model.requests import Isolation

__all__ = ["SyncConnection"]

_NORMAL = int(Priority.NORMAL)

T = TypeVar("T")


class SyncConnection:
    """`with goqueue.connect_sync() as q: ...`; see `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = LoopThread(connection.close)
        self._loop.call(self._enter())
        self.topics = SyncTopics(self._loop, connection.topics)
        self.groups = SyncGroups(self._loop, connection.groups)
        self.dead_letters = SyncDeadLetters(self._loop, connection.dead_letters)
        self.delayed = SyncDelayedMessages(self._loop, connection.delayed)
        self.transactions = SyncTransactions(self._loop, connection.transactions)
        self.traces = SyncTraces(self._loop, connection.traces)

    def __enter__(self) -> "SyncConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the consumers, drain the producers, hang up, end the thread."""
        self._loop.stop()

    def publish(
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | str = _NORMAL,
        due: Due | None = None,
    ) -> Sent:
        """Publish one message and wait until it is durable."""
        publishing = self._connection.publish(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            priority=priority,
            due=due,
        )
        return self._loop.call(publishing)

    def producer(self, gathering: ProducerConfig | None = None) -> SyncProducer:
        """A producer of its own: `with q.producer() as producer: ...`."""
        return SyncProducer(self._loop, self._made(lambda: self._connection.producer(gathering)))

    def transaction(
        self,
        transactional_id: str,
        *,
        consumer: SyncStreamConsumer | None = None,
        timeout_s: float = 60.0,
    ) -> SyncTransaction:
        """A transaction, to be entered; see `Connection.transaction`."""
        reading = None if consumer is None else consumer.reading()
        transaction = self._made(
            lambda: self._connection.transaction(
                transactional_id, consumer=reading, timeout_s=timeout_s
            )
        )
        return SyncTransaction(self._loop, transaction)

    def take_over(self, transactional_id: str, *, timeout_s: float = 60.0) -> None:
        """Hold a transactional id from now on; see `Connection.take_over`."""
        self._loop.call(self._connection.take_over(transactional_id, timeout_s=timeout_s))

    def commit_group(self, key: str, transaction_ids: Sequence[str]) -> bool:
        """Commit transactions that were prepared; see `Connection.commit_group`."""
        return self._loop.call(self._connection.commit_group(key, transaction_ids))

    def consume(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        mode: str | None = None,
        start: str = "earliest",
        prefetch: int = 100,
        visibility_s: float | None = None,
        max_handling_s: float = 3600.0,
    ) -> SyncQueueConsumer:
        """Lease messages as a member of a group, to be settled one by one: `message.ack()`."""
        consumer = self._made(
            lambda: self._connection.consume(
                topics,
                group=group,
                mode=mode,
                start=start,
                prefetch=prefetch,
                visibility_s=visibility_s,
                max_handling_s=max_handling_s,
            )
        )
        return SyncQueueConsumer(self._loop, consumer)

    def subscribe(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        start: str = "earliest",
        commit_interval_s: float | None = 5.0,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        isolation: str = Isolation.READ_COMMITTED,
    ) -> SyncStreamConsumer:
        """Read partitions as a member of a group, in offset order; see `Connection.subscribe`.

        The callbacks run on the thread of the loop, and must not wait.
        """
        consumer = self._made(
            lambda: self._connection.subscribe(
                topics,
                group=group,
                start=start,
                commit_interval_s=commit_interval_s,
                on_assigned=on_assigned,
                on_revoked=on_revoked,
                isolation=isolation,
            )
        )
        return SyncStreamConsumer(self._loop, consumer)

    def stream(
        self,
        topic: str,
        *,
        partition: int | None = None,
        from_: Start = "earliest",
        isolation: str = Isolation.READ_COMMITTED,
    ) -> SyncReplay:
        """Read a topic, or one partition, without a group, and go on as messages come."""
        replay = self._made(
            lambda: self._connection.stream(
                topic, partition=partition, from_=from_, isolation=isolation
            )
        )
        return SyncReplay(self._loop, replay)

    def health(self) -> Health:
        return self._loop.call(self._connection.health())

    def readiness(self) -> Readiness:
        return self._loop.call(self._connection.readiness())

    def version(self) -> Version:
        return self._loop.call(self._connection.version())

    def stats(self) -> NodeStats:
        return self._loop.call(self._connection.stats())

    def priorities(self) -> PriorityStats:
        return self._loop.call(self._connection.priorities())

    def reliability(self) -> ReliabilityStats:
        return self._loop.call(self._connection.reliability())

    async def _enter(self) -> None:
        await self._connection.__aenter__()

    def _made(self, make: Callable[[], T]) -> T:
        """Made on the loop: the connection belongs to it, and several threads may come at once."""

        async def made() -> T:
            return make()

        return self._loop.call(made())
