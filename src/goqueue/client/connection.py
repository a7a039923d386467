"""A connection to a server: the one object that programs hold.

Owns the transport, the background tasks, and every producer and consumer made from it; closing it
closes them, producers last, so that what a consumer's work published is not lost.

Imports producers, consumers and transactions when they are first used: a program that only
administers, such as a command of the command line, starts in a fraction of the time.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, overload

from goqueue.client.admin import DeadLetters, DelayedMessages, Groups, Node, Topics, Transactions
from goqueue.client.admin_replies import (
    Health,
    NodeStats,
    PriorityStats,
    Readiness,
    ReliabilityStats,
    Version,
)
from goqueue.client.call_timeout import remaining_s
from goqueue.client.errors import TimedOut
from goqueue.client.http import Settings, Transport
from goqueue.client.schedules import Schedules
from goqueue.client.tasks import Tasks
from goqueue.client.traces import Traces
from goqueue.client.values import (
    NORMAL_PRIORITY,
    Delay,
    DeliverAt,
    Due,
    GroupMode,
    Headers,
    IsolationLevel,
    PriorityName,
    StartPosition,
    Value,
    check_choice,
    due_of,
    moment_of,
)
from goqueue.model import LogId
from goqueue.model.requests import Isolation

if TYPE_CHECKING:
    from goqueue.client.batch import ProducerConfig, Sent
    from goqueue.client.membership import OnPartitions
    from goqueue.client.message import Message
    from goqueue.client.message_drafts import MessageDraft, PublishResult
    from goqueue.client.pages import DamageSkipped, MessagePage, PageReader
    from goqueue.client.poll_consumer import PollConsumer
    from goqueue.client.producer import Producer
    from goqueue.client.queue_consumer import QueueConsumer
    from goqueue.client.queue_receiver import QueueReceiver
    from goqueue.client.replay import Replay
    from goqueue.client.request_reply import Reply
    from goqueue.client.stored_records import StoredRecords
    from goqueue.client.stream_consumer import OffsetSource, Start, StreamConsumer
    from goqueue.client.transaction import Transaction, TransactionFactory
    from goqueue.client.transactional_producer import Coordinator

__all__ = ["Connection"]


class _Consumer(Protocol):
    """What was made from a connection, and is closed with it."""

    @property
    def is_closed(self) -> bool: ...

    async def close(self) -> None: ...


class Connection:
    """`async with goqueue.connect() as q: ...`; for one event loop and any number of its tasks.

    `topics`, `groups`, `dead_letters`, `delayed`, `schedules`, `transactions` and `traces`
    administer.
    `records` and `coordinator` are the low level, for programs that encode records, decode them, or
    coordinate transactions over several processes by themselves.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = Transport(settings)
        self._tasks = Tasks()
        self._node = Node(self._transport)
        self._publisher: Producer | None = None
        self._transacting: TransactionFactory | None = None
        self._producers: list[Producer] = []
        self._consumers: list[_Consumer] = []
        self._receivers: dict[str, QueueReceiver] = {}
        self.topics = Topics(self._transport)
        self.groups = Groups(self._transport)
        self.dead_letters = DeadLetters(self._transport, self._tasks)
        self.delayed = DelayedMessages(self._transport)
        self.transactions = Transactions(self._transport)
        self.schedules = Schedules(self._transport)
        self.traces = Traces(self._transport)

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
        left_s = remaining_s()
        if left_s is None:
            return await (await sending)
        try:
            async with asyncio.timeout(left_s):
                return await (await sending)
        except TimedOut:
            raise
        except TimeoutError:
            words = f"the message was not acknowledged within {left_s:.3g} s; it may still be"
            raise TimedOut(words, was_sent=True) from None

    async def request(
        self,
        topic: str,
        value: Value,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        priority: int | str = NORMAL_PRIORITY,
        timeout: float = 30.0,  # noqa: ASYNC109 - the server waits, not this program
    ) -> "Reply":
        """Publish a message, and wait for the reply of whoever handles it: `message.reply(...)`.

        The message is durable, the reply is not. Raises `NoReply` if none comes within `timeout`
        seconds, 60 at most; the message may still be handled then. Never sent twice: where the
        connection broke, `is_outcome_unknown` says that the message may be there.
        """
        from goqueue.client.message_drafts import MessageDraft
        from goqueue.client.request_reply import ask_for_reply, text_headers
        from goqueue.client.values import encode_key, encode_value, priority_number

        draft = MessageDraft(
            value=encode_value(value),
            key=encode_key(key),
            headers=text_headers(headers),
            partition=partition,
            priority=priority_number(priority),
        )
        return await ask_for_reply(self._transport, topic, draft, timeout)

    async def publish_drafts(
        self, topic: str, drafts: "Sequence[MessageDraft | bytes]"
    ) -> "list[PublishResult]":
        """Publish up to 1000 messages by one request; a result for each, also if it was refused.

        The request is not repeated. Drafts may be encoded before, by `encode_draft`. For many
        messages use a `producer`.
        """
        from goqueue.client.message_drafts import publish_drafts

        return await publish_drafts(self._transport, topic, drafts)

    def producer(self, gathering: "ProducerConfig | None" = None) -> "Producer":
        """A producer of its own: `async with q.producer() as producer: ...`."""
        from goqueue.client.batch import ProducerConfig, Registration
        from goqueue.client.producer import Producer

        gathering = gathering or ProducerConfig()
        registry = Registration(self._transport) if gathering.idempotent else None
        producer = Producer(self._transport, self._tasks, gathering, registry)
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
        self, topics: str | Sequence[str], *, group: str, auto_commit: Literal[True]
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
    ) -> "QueueConsumer": ...

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
    ) -> "QueueConsumer | StreamConsumer":
        """Lease messages as a member of a group, to be settled one by one: `await message.ack()`.

        `mode` is partitioned, shared or key_ordered. A lease lasts for `visibility_s`, or as the
        topic says, and is renewed while its message waits or is in hand, for `max_handling_s` at
        most. How many messages are leased ahead depends on how long they take; `prefetch` is the
        upper bound, by default 100, or 1000 of those that are handled within 0.1 s together. With
        `auto_commit` nothing is leased: the partitions are read as streams, see `subscribe`.
        """
        from goqueue.client.membership import Subscription
        from goqueue.client.queue_consumer import QueueConsumer

        if auto_commit:
            return self.subscribe(topics, group=group, start=start)
        subscription = Subscription(
            group=group,
            topics=_names(topics),
            client_id=self._settings.client_id,
            mode=_mode(mode),
            start=check_choice("start", start, StartPosition),
            prefetch=prefetch,
            visibility_s=visibility_s,
            max_handling_s=max_handling_s,
        )
        consumer = QueueConsumer(self._transport, self._tasks, subscription)
        self._keep(consumer)
        return consumer

    async def receive(
        self,
        topic: str,
        *,
        group: str,
        max: int = 1,  # noqa: A002 - as in the API
        wait: float = 0.0,
        visibility_s: float | None = None,
    ) -> "list[Message]":
        """Lease at most `max` messages for a group without joining it, by one request.

        For functions and scripts that are started for a few messages: waits for at most `wait`
        seconds, leases nothing ahead and renews nothing. The group is created if need be; one that
        is partitioned, as stream readers are, is refused with `group_mismatch`. A worker that
        stays uses `consume`.
        """
        receiver = self._receivers.get(group)
        if receiver is None:
            from goqueue.client.queue_receiver import QueueReceiver

            receiver = QueueReceiver(self._transport, self._tasks, group)
            self._receivers[group] = receiver
            self._keep(receiver)
        return await receiver.receive(topic, limit=max, wait_s=wait, visibility_s=visibility_s)

    def poll_consumer(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        mode: GroupMode | None = None,
        start: StartPosition = "earliest",
        visibility_s: float | None = None,
        isolation: IsolationLevel = "read_committed",
    ) -> "PollConsumer":
        """A member of a group that leases messages only when it is asked for some.

        Nothing is leased ahead, renewed or settled in the background: `await consumer.poll()`,
        `await consumer.ack(messages)`. For tools; a worker uses `consume`.
        """
        from goqueue.client.membership import Subscription
        from goqueue.client.poll_consumer import PollConsumer

        subscription = Subscription(
            group=group,
            topics=_names(topics),
            client_id=self._settings.client_id,
            mode=_mode(mode),
            start=check_choice("start", start, StartPosition),
            visibility_s=visibility_s,
            isolation=_isolation(isolation),
        )
        consumer = PollConsumer(self._transport, subscription)
        self._keep(consumer)
        return consumer

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
    ) -> "StreamConsumer":
        """Read partitions as a member of a group, in offset order, and commit how far we came.

        A message is finished when the next one is asked for; what is finished is committed every
        `commit_interval_s`. None leaves commits to `await consumer.commit()`. The callbacks are
        told which partitions come and go; they run on the event loop and must not wait.
        `isolation` as for `stream`.
        """
        from goqueue.client.membership import Subscription
        from goqueue.client.stream_consumer import StreamConsumer

        subscription = Subscription(
            group=group,
            topics=_names(topics),
            client_id=self._settings.client_id,
            mode="partitioned",
            start=check_choice("start", start, StartPosition),
            commit_interval_s=commit_interval_s,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            isolation=_isolation(isolation),
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
    ) -> "Replay":
        """Read a topic, or one partition, without a group, and continue with new messages.

        From "earliest", "latest", an offset, or a time (a datetime with a zone, or RFC 3339). With
        "read_uncommitted" messages of open and aborted transactions are shown, too.
        """
        from goqueue.client.replay import Replay

        replay = Replay(
            self._transport,
            self._tasks,
            topic,
            partition=partition,
            start=_start(from_),
            isolation=_isolation(isolation),
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
    ) -> "MessagePage":
        """One page of a partition, at most 1000 messages, each with its JSON as the server sent it.

        For many pages see `pages`, for many messages `stream`.
        """
        from goqueue.client.pages import fetch_page

        log = LogId(topic, partition)
        return await fetch_page(
            self._transport, log, offset=offset, limit=limit, isolation=isolation
        )

    async def pages(
        self,
        topic: str,
        *,
        partition: int | None = None,
        from_: "Start" = "earliest",
        isolation: IsolationLevel | None = None,
        on_damage: "Callable[[DamageSkipped], None] | None" = None,
    ) -> "list[PageReader]":
        """A reader for each partition, or for one, that reads a page when it is asked to.

        Begins as `stream` does; a time may also be text (RFC 3339). Each reader knows where its
        partition ends now, so that a program can stop there, and keeps the JSON of messages as the
        server sent it. Records that are damaged on the broker's disk are reported to `on_damage`,
        else to the log.
        """
        from goqueue.client.pages import open_readers

        return await open_readers(
            self._transport,
            topic,
            partition=partition,
            start=from_,
            isolation=isolation,
            on_damage=on_damage,
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

    # The low level

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

    def _keep(self, consumer: _Consumer) -> None:
        """To be closed with the connection; those that were closed before are let go."""
        self._consumers = [*(kept for kept in self._consumers if not kept.is_closed), consumer]


def _mode(mode: GroupMode | None) -> GroupMode | None:
    return None if mode is None else check_choice("mode", mode, GroupMode)


def _isolation(level: IsolationLevel) -> Isolation:
    return Isolation(check_choice("isolation", level, IsolationLevel))


def _start(given: "Start") -> "Start":
    """Where to begin, checked: text is a name or a time."""
    if isinstance(given, str) and not given[:1].isdigit():
        return check_choice("from_", given, StartPosition)
    if isinstance(given, int):
        return given
    return moment_of("from_", given)


def _names(topics: str | Sequence[str]) -> tuple[str, ...]:
    return (topics,) if isinstance(topics, str) else tuple(topics)
