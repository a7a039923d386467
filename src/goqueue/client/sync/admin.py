"""Administration for threads; see `goqueue.client.admin`."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Unpack

from goqueue.client.admin import (
    DeadLetters,
    DelayedMessages,
    Groups,
    Topics,
    TopicSettings,
    Transactions,
)
from goqueue.client.admin_replies import (
    DelayedMessage,
    DelayStats,
    GroupDescription,
    GroupLag,
    GroupOffsets,
    GroupSummary,
    Partition,
    ResetOffsets,
    Topic,
    TransactionDescription,
    TransactionStats,
)
from goqueue.client.message import Message
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.traces import Trace, TraceCriteria, TraceList, Traces, TraceStats

__all__ = [
    "SyncDeadLetters",
    "SyncDelayedMessages",
    "SyncGroups",
    "SyncTopics",
    "SyncTraces",
    "SyncTransactions",
]


class SyncTopics:
    """`q.topics`."""

    def __init__(self, loop: LoopThread, topics: Topics) -> None:
        self._loop = loop
        self._topics = topics

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        **settings: Unpack[TopicSettings],
    ) -> Topic:
        creating = self._topics.create(
            name, partitions=partitions, replication_factor=replication_factor, **settings
        )
        return self._loop.call(creating)

    def list(self) -> tuple[str, ...]:
        return self._loop.call(self._topics.list())

    def describe(self, name: str) -> Topic:
        return self._loop.call(self._topics.describe(name))

    def alter(self, name: str, **settings: Unpack[TopicSettings]) -> Topic:
        return self._loop.call(self._topics.alter(name, **settings))

    def delete(self, name: str) -> None:
        self._loop.call(self._topics.delete(name))

    def partitions(self, name: str) -> tuple[Partition, ...]:
        return self._loop.call(self._topics.partitions(name))


class SyncGroups:
    """`q.groups`."""

    def __init__(self, loop: LoopThread, groups: Groups) -> None:
        self._loop = loop
        self._groups = groups

    def list(self) -> tuple[GroupSummary, ...]:
        return self._loop.call(self._groups.list())

    def describe(self, group: str) -> GroupDescription:
        return self._loop.call(self._groups.describe(group))

    def delete(self, group: str) -> None:
        self._loop.call(self._groups.delete(group))

    def lag(self, group: str) -> GroupLag:
        return self._loop.call(self._groups.lag(group))

    def offsets(self, group: str, *, topic: str | None = None) -> GroupOffsets:
        return self._loop.call(self._groups.offsets(group, topic=topic))

    def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        self._loop.call(self._groups.commit(group, offsets))

    def reset(
        self,
        group: str,
        topic: str,
        to: str | int | dt.datetime,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> ResetOffsets:
        resetting = self._groups.reset(group, topic, to, partition=partition, dry_run=dry_run)
        return self._loop.call(resetting)


class SyncDeadLetters:
    """`q.dead_letters`."""

    def __init__(self, loop: LoopThread, dead_letters: DeadLetters) -> None:
        self._loop = loop
        self._dead_letters = dead_letters

    def list(self, topic: str, *, limit: int = 100) -> tuple[Message, ...]:
        return self._loop.call(self._dead_letters.list(topic, limit=limit))

    def redrive(
        self,
        topic: str,
        *,
        limit: int | None = None,
        to_topic: str | None = None,
        reason: str | None = None,
        letters: Mapping[int, Sequence[int]] | None = None,
    ) -> int:
        redriving = self._dead_letters.redrive(
            topic, limit=limit, to_topic=to_topic, reason=reason, letters=letters
        )
        return self._loop.call(redriving)


class SyncDelayedMessages:
    """`q.delayed`."""

    def __init__(self, loop: LoopThread, delayed: DelayedMessages) -> None:
        self._loop = loop
        self._delayed = delayed

    def list(self, topic: str, *, limit: int = 100, skip: int = 0) -> tuple[DelayedMessage, ...]:
        return self._loop.call(self._delayed.list(topic, limit=limit, skip=skip))

    def get(self, topic: str, offset: int, *, partition: int | None = None) -> DelayedMessage:
        return self._loop.call(self._delayed.get(topic, offset, partition=partition))

    def cancel(self, topic: str, partition: int, offset: int) -> None:
        self._loop.call(self._delayed.cancel(topic, partition, offset))

    def stats(self) -> DelayStats:
        return self._loop.call(self._delayed.stats())


class SyncTransactions:
    """`q.transactions`."""

    def __init__(self, loop: LoopThread, transactions: Transactions) -> None:
        self._loop = loop
        self._transactions = transactions

    def list(self, *, limit: int = 100, skip: int = 0) -> tuple[TransactionDescription, ...]:
        return self._loop.call(self._transactions.list(limit=limit, skip=skip))

    def describe(self, transaction_id: str) -> TransactionDescription:
        return self._loop.call(self._transactions.describe(transaction_id))

    def abort(self, transaction_id: str) -> TransactionDescription:
        return self._loop.call(self._transactions.abort(transaction_id))

    def stats(self) -> TransactionStats:
        return self._loop.call(self._transactions.stats())


class SyncTraces:
    """`q.traces`."""

    def __init__(self, loop: LoopThread, traces: Traces) -> None:
        self._loop = loop
        self._traces = traces

    def list(self, *, limit: int = 100) -> TraceList:
        return self._loop.call(self._traces.list(limit=limit))

    def search(self, *, limit: int = 100, **wanted: Unpack[TraceCriteria]) -> TraceList:
        return self._loop.call(self._traces.search(limit=limit, **wanted))

    def get(self, trace_id: str) -> Trace:
        return self._loop.call(self._traces.get(trace_id))

    def stats(self) -> TraceStats:
        return self._loop.call(self._traces.stats())
