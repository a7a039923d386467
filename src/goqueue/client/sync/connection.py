"""The connection for threads."""

import datetime as dt
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

from goqueue.client.admin_replies import (
    Health,
    NodeStats,
    PriorityStats,
    Readiness,
    ReliabilityStats,
    Version,
)
from goqueue.client.connection import Connection
from goqueue.client.queue_consumer import QueueConsumer
from goqueue.client.security import Caller
from goqueue.client.sync.admin import (
    SyncBackups,
    SyncDeadLetters,
    SyncDelayedMessages,
    SyncGroups,
    SyncSchedules,
    SyncSchemas,
    SyncTopics,
    SyncTraces,
    SyncTransactions,
)
from goqueue.client.sync.cluster import SyncCluster
from goqueue.client.sync.consumer import SyncQueueConsumer, SyncReplay, SyncStreamConsumer
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.sync.message import SyncMessage
from goqueue.client.sync.producer import SyncProducer
from goqueue.client.sync.security import SyncAcls, SyncApiKeys, SyncTenants
from goqueue.client.sync.transaction import SyncTransaction
from goqueue.client.values import (
    NORMAL_PRIORITY,
    Delay,
    DeliverAt,
    Due,
    GroupMode,
    GroupProtocolName,
    Headers,
    IsolationLevel,
    PriorityName,
    StartPosition,
    Value,
)
from goqueue.model.requests import Acks

if TYPE_CHECKING:
    from goqueue.client.batch import ProducerConfig, Sent
    from goqueue.client.membership import OnPartitions
    from goqueue.client.message_drafts import MessageDraft, PublishResult
    from goqueue.client.pages import MessagePage
    from goqueue.client.request_reply import Reply
    from goqueue.client.serializers import Serializer
    from goqueue.client.stream_consumer import Start, StreamConsumer

__all__ = ["SyncConnection"]


class SyncConnection:
    """`with goqueue.connect_sync() as q: ...`; for any number of threads, see `Connection`."""

    def __init__(self, connection: Connection, loop: LoopThread | None = None) -> None:
        """With a `loop`, the connection is open there, and is closed by whoever opened it."""
        self._connection = connection
        self._loop = loop or LoopThread(connection.close)
        if loop is None:
            self._loop.call(connection.__aenter__())

    def __enter__(self) -> "SyncConnection":
        return self

    def close(self) -> None:
        """Close the consumers, drain the producers, hang up, end the thread."""
        self._loop.stop()

    def receive(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        max: int = 1,
        wait: float = 0.0,
        visibility_s: float | None = None,
        serializer: "Serializer[object] | None" = None,
    ) -> list[SyncMessage]:
        """Lease at most `max` messages for a group without joining it; see `Connection.receive`."""
        received = self._loop.call(
            self._connection.receive(
                topics,
                group=group,
                max=max,
                wait=wait,
                visibility_s=visibility_s,
                serializer=serializer,
            )
        )
        return [SyncMessage(self._loop, message) for message in received]

    # Generated from Connection by `make sync-client`.

    @cached_property
    def topics(self) -> SyncTopics:
        return SyncTopics(self._loop, self._connection.topics)

    @cached_property
    def groups(self) -> SyncGroups:
        return SyncGroups(self._loop, self._connection.groups)

    @cached_property
    def dead_letters(self) -> SyncDeadLetters:
        return SyncDeadLetters(self._loop, self._connection.dead_letters)

    @cached_property
    def delayed(self) -> SyncDelayedMessages:
        return SyncDelayedMessages(self._loop, self._connection.delayed)

    @cached_property
    def transactions(self) -> SyncTransactions:
        return SyncTransactions(self._loop, self._connection.transactions)

    @cached_property
    def schedules(self) -> SyncSchedules:
        return SyncSchedules(self._loop, self._connection.schedules)

    @cached_property
    def schemas(self) -> SyncSchemas:
        return SyncSchemas(self._loop, self._connection.schemas)

    @cached_property
    def traces(self) -> SyncTraces:
        return SyncTraces(self._loop, self._connection.traces)

    @cached_property
    def backups(self) -> SyncBackups:
        return SyncBackups(self._loop, self._connection.backups)

    @cached_property
    def cluster(self) -> SyncCluster:
        return SyncCluster(self._loop, self._connection.cluster)

    @cached_property
    def keys(self) -> SyncApiKeys:
        return SyncApiKeys(self._loop, self._connection.keys)

    @cached_property
    def acls(self) -> SyncAcls:
        return SyncAcls(self._loop, self._connection.acls)

    @cached_property
    def tenants(self) -> SyncTenants:
        return SyncTenants(self._loop, self._connection.tenants)

    def __exit__(self, *_: object) -> None:
        self.close()

    def publish(
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | PriorityName = NORMAL_PRIORITY,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
        due: Due | None = None,
    ) -> "Sent":
        """Publish one message and wait until it is durable.

        A value is bytes, text, or anything that JSON can encode; None is a tombstone. With a
        `delay` (seconds, a timedelta, or text such as "10m"), or `deliver_at` a time (a datetime
        with a zone, or RFC 3339), the message is delivered later, and named by the place that is
        answered until then. `due` is the former name of both.

        Messages published by several threads at the same time travel together. For many messages
        from one thread use a `producer`.
        """
        return self._loop.call(
            self._connection.publish(
                topic,
                value,
                key=key,
                headers=headers,
                partition=partition,
                priority=priority,
                delay=delay,
                deliver_at=deliver_at,
                due=due,
            )
        )

    def request(
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | str = NORMAL_PRIORITY,
        timeout: Delay = 30.0,
    ) -> "Reply":
        """Publish a message, and wait for the reply of its handler: `message.reply(...)`.

        The message is durable, the reply is not. Raises `NoReply` if none comes within `timeout`
        (seconds, a timedelta, or text such as "500ms"; 60 seconds at most); the message may still
        be handled then. Never sent twice: if the connection broke, see `is_outcome_unknown`.
        """
        return self._loop.call(
            self._connection.request(
                topic,
                value,
                key=key,
                headers=headers,
                partition=partition,
                priority=priority,
                timeout=timeout,
            )
        )

    def publish_drafts(
        self, topic: str, drafts: "Sequence[MessageDraft | bytes]", *, acks: str = Acks.ALL
    ) -> "list[PublishResult]":
        """Publish up to 1000 messages by one request; a result for each, also if it was refused.

        The request is not repeated. Drafts may be encoded before, by `encode_draft`.
        """
        return self._loop.call(self._connection.publish_drafts(topic, drafts, acks=acks))

    def producer(
        self,
        gathering: "ProducerConfig | None" = None,
        *,
        serializer: "Serializer[object] | None" = None,
    ) -> SyncProducer:
        """A producer of its own: `with q.producer() as producer: ...`.

        With a `serializer` its values are what that takes, and travel in registry framing.
        """
        return SyncProducer(
            self._loop,
            self._loop.apply(lambda: self._connection.producer(gathering, serializer=serializer)),
        )

    def transaction(
        self,
        transactional_id: str,
        *,
        consumer: SyncStreamConsumer | None = None,
        timeout_s: float = 60.0,
    ) -> SyncTransaction:
        """A transaction, to be entered: `with q.transaction("billing-1") as tx: ...`.

        Commits on leaving, aborts on an exception. The id names the worker over its restarts:
        the last to use it fences the others. With a `consumer` made by `subscribe` its positions
        are committed along, and what it handed out comes again after an abort. A transaction that
        is open for `timeout_s`, 900 at most, is aborted by the broker.
        """
        return SyncTransaction(
            self._loop,
            self._loop.apply(
                lambda: self._connection.transaction(
                    transactional_id,
                    consumer=None if consumer is None else consumer.reading(),
                    timeout_s=timeout_s,
                )
            ),
        )

    def take_over(self, transactional_id: str, *, timeout_s: float = 60.0) -> None:
        """Hold a transactional id from now on; `transaction` does it when it is first entered.

        For a worker that starts again: what its last life left undecided ends now, and the
        messages and positions that it held are free.
        """
        self._loop.call(self._connection.take_over(transactional_id, timeout_s=timeout_s))

    def commit_group(self, key: str, transaction_ids: Sequence[str]) -> bool:
        """Commit transactions that were prepared, all of them by one decision under a key.

        False if the key was committed before, be it by an attempt of this very call whose answer
        was lost: those given are aborted, unless it was they.
        """
        return self._loop.call(self._connection.commit_group(key, transaction_ids))

    @overload
    def consume(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        auto_commit: Literal[True],
        serializer: "Serializer[object] | None" = None,
    ) -> SyncStreamConsumer: ...

    @overload
    def consume(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        auto_commit: Literal[False] = False,
        mode: GroupMode | None = None,
        start: StartPosition = "earliest",
        prefetch: int | None = None,
        visibility_s: float | None = None,
        max_handling_s: float = 3600.0,
        protocol: GroupProtocolName | None = None,
        instance_id: str | None = None,
        serializer: "Serializer[object] | None" = None,
    ) -> SyncQueueConsumer: ...

    def consume(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        auto_commit: bool = False,
        mode: GroupMode | None = None,
        start: StartPosition = "earliest",
        prefetch: int | None = None,
        visibility_s: float | None = None,
        max_handling_s: float = 3600.0,
        protocol: GroupProtocolName | None = None,
        instance_id: str | None = None,
        serializer: "Serializer[object] | None" = None,
    ) -> SyncQueueConsumer | SyncStreamConsumer:
        """Lease messages as a member of a group, to be settled one by one: `message.ack()`.

        `mode` is partitioned, shared or key_ordered. A lease lasts for `visibility_s`, or as the
        topic says, and is renewed while its message waits or is in hand, for `max_handling_s` at
        most. How many messages are leased ahead depends on how long they take; `prefetch` is the
        upper bound, by default 100, or 1000 of those that are handled within 0.1 s together. With
        `auto_commit` nothing is leased: see `subscribe`, also for `protocol` and `instance_id`.
        A `serializer` reads the values: `message.payload`.
        """
        consume: Callable[..., QueueConsumer | StreamConsumer] = self._connection.consume
        made = self._loop.apply(
            lambda: consume(
                topics,
                group=group,
                auto_commit=auto_commit,
                mode=mode,
                start=start,
                prefetch=prefetch,
                visibility_s=visibility_s,
                max_handling_s=max_handling_s,
                protocol=protocol,
                instance_id=instance_id,
                serializer=serializer,
            )
        )
        if isinstance(made, QueueConsumer):
            return SyncQueueConsumer(self._loop, made)
        return SyncStreamConsumer(self._loop, made)

    def subscribe(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        start: StartPosition = "earliest",
        commit_interval_s: float | None = 5.0,
        on_assigned: "OnPartitions | None" = None,
        on_revoked: "OnPartitions | None" = None,
        isolation: IsolationLevel = "read_committed",
        protocol: GroupProtocolName | None = None,
        instance_id: str | None = None,
        serializer: "Serializer[object] | None" = None,
    ) -> SyncStreamConsumer:
        """Read partitions as a member of a group, in offset order, and commit how far we came.

        A message is finished when the next one is asked for; what is finished is committed every
        `commit_interval_s`. None leaves commits to `consumer.commit()`. The callbacks are
        told which partitions come and go; they run on the event loop and must not wait.
        `isolation` as for `stream`, `serializer` as for `consume`.

        A rebalance interrupts only partitions that move, unless `protocol` is "eager" or members
        of the group are. With an `instance_id` the member is static: the next process with that id
        takes its place without a rebalance, and closing does not leave the group.
        """
        return SyncStreamConsumer(
            self._loop,
            self._loop.apply(
                lambda: self._connection.subscribe(
                    topics,
                    group=group,
                    start=start,
                    commit_interval_s=commit_interval_s,
                    on_assigned=on_assigned,
                    on_revoked=on_revoked,
                    isolation=isolation,
                    protocol=protocol,
                    instance_id=instance_id,
                    serializer=serializer,
                )
            ),
        )

    def stream(
        self,
        topic: str,
        *,
        partition: int | None = None,
        from_: "Start" = "earliest",
        isolation: IsolationLevel = "read_committed",
        serializer: "Serializer[object] | None" = None,
    ) -> SyncReplay:
        """Read a topic, or one partition, without a group, and continue with new messages.

        From "earliest", "latest", an offset, or a time (a datetime with a zone, or RFC 3339). With
        "read_uncommitted" messages of open and aborted transactions are shown, too. `serializer` as
        for `consume`.
        """
        return SyncReplay(
            self._loop,
            self._loop.apply(
                lambda: self._connection.stream(
                    topic,
                    partition=partition,
                    from_=from_,
                    isolation=isolation,
                    serializer=serializer,
                )
            ),
        )

    def page(
        self,
        topic: str,
        partition: int,
        *,
        offset: int,
        limit: int = 100,
        isolation: IsolationLevel | None = None,
        serializer: "Serializer[object] | None" = None,
    ) -> "MessagePage":
        """One page of a partition, at most 1000 messages, each with its JSON as the server sent it.

        For many pages see `pages`, for many messages `stream`, for `serializer` `consume`.
        """
        return self._loop.call(
            self._connection.page(
                topic,
                partition,
                offset=offset,
                limit=limit,
                isolation=isolation,
                serializer=serializer,
            )
        )

    def offset_at(self, topic: str, partition: int, time: dt.datetime) -> int | None:
        """The offset of the first message at or after a time; None if there is none yet."""
        return self._loop.call(self._connection.offset_at(topic, partition, time))

    def health(self) -> Health:
        """Whether the node works, since when, and how many topics and groups it has."""
        return self._loop.call(self._connection.health())

    def readiness(self) -> Readiness:
        """Whether the node takes requests, with each check; one that does not answers, too."""
        return self._loop.call(self._connection.readiness())

    def version(self) -> Version:
        """The version and the build of the node."""
        return self._loop.call(self._connection.version())

    def whoami(self) -> Caller:
        """Which key this connection proves, with its roles and its tenant."""
        return self._loop.call(self._connection.whoami())

    def stats(self) -> NodeStats:
        """Counts of topics, partitions, groups and messages."""
        return self._loop.call(self._connection.stats())

    def metrics(self) -> str:
        """The metrics of the node in the text format of Prometheus."""
        return self._loop.call(self._connection.metrics())

    def priorities(self) -> PriorityStats:
        """How the lanes of each group fare."""
        return self._loop.call(self._connection.priorities())

    def reliability(self) -> ReliabilityStats:
        """How messages were settled, and how many dead letters are kept."""
        return self._loop.call(self._connection.reliability())
