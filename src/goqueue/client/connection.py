"""A connection to a server: the one object that programs hold.

Owns the transport, the background tasks, and every producer and consumer made from it; closing it
closes them, producers last, so that what a consumer's work published is not lost.

Imports producers, consumers and transactions when they are first used: a program that only
administers, such as a command of the command line, starts in a fraction of the time.
"""

import contextlib
import datetime as dt
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

from goqueue.client.admin import DeadLetters, DelayedMessages, Groups, Node, Topics, Transactions
from goqueue.client.admin_replies import (
    Health,
    NodeStats,
    PriorityStats,
    Readiness,
    ReliabilityStats,
    Version,
)
from goqueue.client.backups import Backups
from goqueue.client.call_timeout import wait_for_acknowledgement
from goqueue.client.cluster import Cluster
from goqueue.client.http import Settings, Transport
from goqueue.client.option_checks import check_count, check_name, check_seconds, check_topics
from goqueue.client.schedules import Schedules
from goqueue.client.schemas import Schemas
from goqueue.client.security import Acls, ApiKeys, Caller, Tenants, whoami
from goqueue.client.tasks import Closable, Tasks
from goqueue.client.traces import Traces
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
    check_choice,
    due_of,
    group_mode,
    group_protocol,
    isolation_of,
    lease_seconds,
)
from goqueue.model import LogId
from goqueue.model.requests import Acks

if TYPE_CHECKING:
    from goqueue.client.batch import ProducerConfig, Sent
    from goqueue.client.membership import OnPartitions
    from goqueue.client.message import Message
    from goqueue.client.message_drafts import MessageDraft, PublishResult
    from goqueue.client.pages import DamageSkipped, MessagePage, PageReader
    from goqueue.client.payloads import PayloadReader
    from goqueue.client.poll_consumer import PollConsumer
    from goqueue.client.producer import Producer
    from goqueue.client.queue_consumer import QueueConsumer
    from goqueue.client.queue_receiver import QueueReceiver
    from goqueue.client.replay import Replay
    from goqueue.client.request_reply import Reply
    from goqueue.client.serializers import Serializer
    from goqueue.client.stored_records import StoredRecords
    from goqueue.client.stream_consumer import OffsetSource, Start, StreamConsumer
    from goqueue.client.transaction import Transaction, TransactionFactory
    from goqueue.client.transactional_producer import Coordinator

__all__ = ["Connection"]


class Connection:
    """`async with goqueue.connect() as q: ...`; for one event loop and any number of its tasks.

    `topics`, `groups`, `dead_letters`, `delayed`, `schedules`, `schemas`, `transactions`, `traces`,
    `backups`, `cluster`, `keys`, `acls` and `tenants` administer. `records` and `coordinator` are
    the low level: for programs that handle records, or transactions of several processes.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = Transport(settings)
        self._tasks = Tasks()
        self._node = Node(self._transport)
        self._publisher: Producer | None = None
        self._transacting: TransactionFactory | None = None
        self._producers: list[Producer] = []
        self._consumers: list[Closable] = []
        self._receivers: dict[str, QueueReceiver] = {}
        self.topics = Topics(self._transport)
        self.groups = Groups(self._transport)
        self.dead_letters = DeadLetters(self._transport, self._tasks)
        self.delayed = DelayedMessages(self._transport)
        self.transactions = Transactions(self._transport)
        self.schedules = Schedules(self._transport)
        self.schemas = Schemas(self._transport)
        self.traces = Traces(self._transport)
        self.backups = Backups(self._transport)
        self.cluster = Cluster(self._transport)
        self.keys = ApiKeys(self._transport)
        self.acls = Acls(self._transport)
        self.tenants = Tenants(self._transport)

    async def __aenter__(self) -> "Connection":
        await self._tasks.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the consumers, drain the producers, hang up; what went wrong is raised after all.

        Of several failures the last one, with the others as its context.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self._tasks.close)
            stack.callback(self._transport.close)
            # The last one pushed is called first, and each is called whatever the others raise.
            if self._transacting is not None:
                stack.push_async_callback(self._transacting.close)
            for producer in self._producers:
                stack.push_async_callback(producer.close)
            for consumer in self._consumers:
                stack.push_async_callback(consumer.close)

    # Publishing

    async def publish(  # noqa: PLR0913 - one for each property of a message
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

        Messages published by several tasks at the same time travel together. For many messages
        from one task use a `producer`.
        """
        if self._publisher is None:
            from goqueue.client.batch import ProducerConfig

            self._publisher = self.producer(ProducerConfig(linger_s=0.0))
        sending = self._publisher.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            priority=priority,
            due=due_of(delay, deliver_at, due),
        )
        return await wait_for_acknowledgement(sending)

    async def request(
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | str = NORMAL_PRIORITY,
        timeout: Delay = 30.0,  # noqa: ASYNC109 - the server waits, not this program
    ) -> "Reply":
        """Publish a message, and wait for the reply of its handler: `message.reply(...)`.

        The message is durable, the reply is not. Raises `NoReply` if none comes within `timeout`
        (seconds, a timedelta, or text such as "500ms"; 60 seconds at most); the message may still
        be handled then. Never sent twice: if the connection broke, see `is_outcome_unknown`.
        """
        from goqueue.client.request_reply import ask_for_reply, request_draft, request_seconds

        timeout_s = request_seconds(timeout)
        draft = request_draft(value, key, headers, partition, priority)
        return await ask_for_reply(self._transport, topic, draft, timeout_s)

    async def publish_drafts(
        self, topic: str, drafts: "Sequence[MessageDraft | bytes]", *, acks: str = Acks.ALL
    ) -> "list[PublishResult]":
        """Publish up to 1000 messages by one request; a result for each, also if it was refused.

        The request is not repeated. Drafts may be encoded before, by `encode_draft`.
        """
        from goqueue.client.message_drafts import publish_drafts

        return await publish_drafts(self._transport, topic, drafts, acks)

    def producer(
        self,
        gathering: "ProducerConfig | None" = None,
        *,
        serializer: "Serializer[object] | None" = None,
    ) -> "Producer":
        """A producer of its own: `async with q.producer() as producer: ...`.

        With a `serializer` its values are what that takes, and travel in registry framing.
        """
        from goqueue.client.batch import ProducerConfig, Registration
        from goqueue.client.producer import Producer

        gathering = gathering or ProducerConfig()
        registry = Registration(self._transport) if gathering.is_numbered else None
        encoder = None if serializer is None else self.schemas.bind(serializer)
        producer = Producer(self._transport, self._tasks, gathering, registry, encoder)
        self._producers = [*(kept for kept in self._producers if not kept.is_closed), producer]
        return producer

    def transaction(
        self,
        transactional_id: str,
        *,
        consumer: "OffsetSource | None" = None,
        timeout_s: float = 60.0,
    ) -> "Transaction":
        """A transaction, to be entered: `async with q.transaction("billing-1") as tx: ...`.

        Commits on leaving, aborts on an exception. The id names the worker over its restarts:
        the last to use it fences the others. With a `consumer` made by `subscribe` its positions
        are committed along, and what it handed out comes again after an abort. A transaction that
        is open for `timeout_s`, 900 at most, is aborted by the broker.
        """
        return self._transactions().transaction(transactional_id, consumer, timeout_s)

    async def take_over(self, transactional_id: str, *, timeout_s: float = 60.0) -> None:
        """Hold a transactional id from now on; `transaction` does it when it is first entered.

        For a worker that starts again: what its last life left undecided ends now, and the
        messages and positions that it held are free.
        """
        await self._transactions().take_over(transactional_id, timeout_s)

    async def commit_group(self, key: str, transaction_ids: Sequence[str]) -> bool:
        """Commit transactions that were prepared, all of them by one decision under a key.

        False if the key was committed before, be it by an attempt of this very call whose answer
        was lost: those given are aborted, unless it was they.
        """
        return await self._transactions().commit_group(key, transaction_ids)

    # Consuming

    @overload
    def consume(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        auto_commit: Literal[True],
        serializer: "Serializer[object] | None" = None,
    ) -> "StreamConsumer": ...

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
    ) -> "QueueConsumer": ...

    def consume(  # noqa: PLR0913  # options that a program may leave out
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
    ) -> "QueueConsumer | StreamConsumer":
        """Lease messages as a member of a group, to be settled one by one: `await message.ack()`.

        `mode` is partitioned, shared or key_ordered. A lease lasts for `visibility_s`, or as the
        topic says, and is renewed while its message waits or is in hand, for `max_handling_s` at
        most. How many messages are leased ahead depends on how long they take; `prefetch` is the
        upper bound, by default 100, or 1000 of those that are handled within 0.1 s together. With
        `auto_commit` nothing is leased: see `subscribe`, also for `protocol` and `instance_id`.
        A `serializer` reads the values: `message.payload`.
        """
        from goqueue.client.membership import Subscription
        from goqueue.client.queue_consumer import QueueConsumer

        if auto_commit:
            return self.subscribe(
                topics,
                group=group,
                start=start,
                protocol=protocol,
                instance_id=instance_id,
                serializer=serializer,
            )
        subscription = Subscription(
            group=check_name("group", group),
            topics=check_topics(topics),
            client_id=self._settings.client_id,
            mode=group_mode(mode),
            start=check_choice("start", start, StartPosition),
            prefetch=None if prefetch is None else check_count("prefetch", prefetch, 0),
            visibility_s=lease_seconds(visibility_s),
            max_handling_s=check_seconds("max_handling_s", max_handling_s),
            protocol=group_protocol(protocol),
            instance_id=instance_id,
            payloads=self._payloads(serializer),
        )
        consumer = QueueConsumer(self._transport, self._tasks, subscription)
        self._keep(consumer)
        return consumer

    async def receive(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        max: int = 1,  # noqa: A002 - as in the API
        wait: float = 0.0,
        visibility_s: float | None = None,
        serializer: "Serializer[object] | None" = None,
    ) -> "list[Message]":
        """Lease at most `max` messages for a group without joining it, by one request.

        For functions and scripts that are started for a few messages: waits for at most `wait`
        seconds, leases nothing ahead and renews nothing. The group is created if need be; one whose
        members own its partitions is refused with `group_mismatch`. A worker that stays uses
        `consume`, which also describes `serializer`.
        """
        check_count("max", max, 1)
        check_seconds("wait", wait)
        visibility_s = lease_seconds(visibility_s)
        receiver = self._receivers.get(group)
        if receiver is None:
            from goqueue.client.queue_receiver import QueueReceiver

            receiver = QueueReceiver(self._transport, self._tasks, group)
            self._receivers[group] = receiver
            self._keep(receiver)
        payloads = self._payloads(serializer)
        return await receiver.receive(
            check_topics(topics), max, wait_s=wait, visibility_s=visibility_s, payloads=payloads
        )

    def poll_consumer(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        mode: GroupMode | None = None,
        start: StartPosition = "earliest",
        visibility_s: float | None = None,
        isolation: IsolationLevel = "read_committed",
        serializer: "Serializer[object] | None" = None,
    ) -> "PollConsumer":
        """A member of a group that leases messages only when it is asked for some.

        Nothing is leased ahead, renewed or settled in the background: `await consumer.poll()`,
        `await consumer.ack(messages)`. For tools; a worker uses `consume`, also for `serializer`.
        """
        from goqueue.client.membership import Subscription
        from goqueue.client.poll_consumer import PollConsumer

        subscription = Subscription(
            group=check_name("group", group),
            topics=check_topics(topics),
            client_id=self._settings.client_id,
            mode=group_mode(mode),
            start=check_choice("start", start, StartPosition),
            visibility_s=visibility_s,
            isolation=isolation_of(isolation),
            payloads=self._payloads(serializer),
        )
        consumer = PollConsumer(self._transport, subscription)
        self._keep(consumer)
        return consumer

    def subscribe(  # noqa: PLR0913  # options that a program may leave out
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
    ) -> "StreamConsumer":
        """Read partitions as a member of a group, in offset order, and commit how far we came.

        A message is finished when the next one is asked for; what is finished is committed every
        `commit_interval_s`. None leaves commits to `await consumer.commit()`. The callbacks are
        told which partitions come and go; they run on the event loop and must not wait.
        `isolation` as for `stream`, `serializer` as for `consume`.

        A rebalance interrupts only partitions that move, unless `protocol` is "eager" or members
        of the group are. With an `instance_id` the member is static: the next process with that id
        takes its place without a rebalance, and closing does not leave the group.
        """
        from goqueue.client.membership import Subscription
        from goqueue.client.stream_consumer import StreamConsumer

        subscription = Subscription(
            group=check_name("group", group),
            topics=check_topics(topics),
            client_id=self._settings.client_id,
            mode="partitioned",
            start=check_choice("start", start, StartPosition),
            commit_interval_s=commit_interval_s,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            isolation=isolation_of(isolation),
            protocol=group_protocol(protocol),
            instance_id=instance_id,
            payloads=self._payloads(serializer),
        )
        consumer = StreamConsumer(self._transport, self._tasks, subscription)
        self._keep(consumer)
        return consumer

    def stream(
        self,
        topic: str,
        *,
        partition: int | None = None,
        from_: "Start" = "earliest",
        isolation: IsolationLevel = "read_committed",
        serializer: "Serializer[object] | None" = None,
    ) -> "Replay":
        """Read a topic, or one partition, without a group, and continue with new messages.

        From "earliest", "latest", an offset, or a time (a datetime with a zone, or RFC 3339). With
        "read_uncommitted" messages of open and aborted transactions are shown, too. `serializer` as
        for `consume`.
        """
        from goqueue.client.replay import Replay, checked_start

        replay = Replay(
            self._transport,
            self._tasks,
            topic,
            partition=partition,
            start=checked_start(from_),
            isolation=isolation_of(isolation),
            payloads=self._payloads(serializer),
        )
        self._keep(replay)
        return replay

    async def page(
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
        from goqueue.client.pages import fetch_page

        log, payloads = LogId(topic, partition), self._payloads(serializer)
        return await fetch_page(
            self._transport, log, offset=offset, limit=limit, isolation=isolation, payloads=payloads
        )

    async def pages(
        self,
        topic: str,
        *,
        partition: int | None = None,
        from_: "Start" = "earliest",
        isolation: IsolationLevel | None = None,
        serializer: "Serializer[object] | None" = None,
        on_damage: "Callable[[DamageSkipped], None] | None" = None,
    ) -> "list[PageReader]":
        """A reader for each partition, or for one, that reads a page when it is asked to.

        Begins and reads values as `stream` does. Each reader knows where its partition ends now, so
        that a program can stop there, and keeps the JSON of messages as the server sent it. Records
        that are damaged on the broker's disk are reported to `on_damage`, else to the log.
        """
        from goqueue.client.pages import open_readers

        return await open_readers(
            self._transport,
            topic,
            partition=partition,
            start=from_,
            isolation=isolation,
            on_damage=on_damage,
            payloads=self._payloads(serializer),
        )

    async def offset_at(self, topic: str, partition: int, time: dt.datetime) -> int | None:
        """The offset of the first message at or after a time; None if there is none yet."""
        from goqueue.client.pages import first_at

        page = await first_at(self._transport, LogId(topic, partition), time)
        return page.messages[0].message.offset if page.messages else None

    # The node

    async def health(self) -> Health:
        """Whether the node works, since when, and how many topics and groups it has."""
        return await self._node.health()

    async def readiness(self) -> Readiness:
        """Whether the node takes requests, with each check; one that does not answers, too."""
        return await self._node.readiness()

    async def version(self) -> Version:
        """The version and the build of the node."""
        return await self._node.version()

    async def whoami(self) -> Caller:
        """Which key this connection proves, with its roles and its tenant."""
        return await whoami(self._transport)

    async def stats(self) -> NodeStats:
        """Counts of topics, partitions, groups and messages."""
        return await self._node.stats()

    async def metrics(self) -> str:
        """The metrics of the node in the text format of Prometheus."""
        return await self._node.metrics()

    async def priorities(self) -> PriorityStats:
        """How the lanes of each group fare."""
        return await self._node.priorities()

    async def reliability(self) -> ReliabilityStats:
        """How messages were settled, and how many dead letters are kept."""
        return await self._node.reliability()

    @cached_property
    def records(self) -> "StoredRecords":
        """Stored records, fetched and published as bytes."""
        from goqueue.client.stored_records import StoredRecords

        return StoredRecords(self._transport)

    @cached_property
    def coordinator(self) -> "Coordinator":
        """The steps of a transaction, for several processes that take part in one."""
        from goqueue.client.transactional_producer import Coordinator

        return Coordinator(self._transport, lambda: None)

    def _transactions(self) -> "TransactionFactory":
        if self._transacting is None:
            from goqueue.client.transaction import TransactionFactory

            self._transacting = TransactionFactory(self._transport, self._tasks)
        return self._transacting

    def _keep(self, consumer: Closable) -> None:
        """To be closed with the connection; those that were closed before are let go."""
        self._consumers = [*(kept for kept in self._consumers if not kept.is_closed), consumer]

    def _payloads(self, serializer: "Serializer[object] | None") -> "PayloadReader | None":
        from goqueue.client.payloads import PayloadReader

        return None if serializer is None else PayloadReader(self.schemas, serializer)
