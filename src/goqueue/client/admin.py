"""Administration: topics, groups, dead letters, delayed messages, transactions, the node.

One class for each, and one method for each route. Settings of a topic are keyword arguments that a
TypedDict declares; Python itself would take any name there, so names are checked when called.
"""

import datetime as dt
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

import msgspec

from goqueue.client.admin_replies import (
    DelayedMessage,
    DelayedPage,
    DelayStats,
    GroupDescription,
    GroupLag,
    GroupOffsets,
    GroupSummary,
    Health,
    NodeStats,
    Partition,
    PartitionStart,
    PriorityStats,
    Readiness,
    ReliabilityStats,
    ResetOffsets,
    Topic,
    TransactionDescription,
    TransactionPage,
    TransactionStats,
    Version,
)
from goqueue.client.errors import TopicExists, TopicNotFound
from goqueue.client.http import Request, Transport, get, post, target
from goqueue.client.tasks import Tasks
from goqueue.client.topic_settings import NewTopicSettings, TopicSettings

if TYPE_CHECKING:
    from goqueue.client.dead_letter import DeadLetter

__all__ = [
    "DeadLetters",
    "DelayedMessages",
    "Groups",
    "NewTopicSettings",
    "Node",
    "TopicSettings",
    "Topics",
    "Transactions",
    "check_keywords",
]


def check_keywords(call: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise a TypeError for the first name that is not known, with the one that was meant."""
    for name in given:
        if name not in known:
            words = f"{call}() got an unexpected keyword argument {name!r}"
            likely = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"{words}; did you mean {likely[0]!r}?" if likely else words)


_HEALTH = msgspec.json.Decoder(Health)
_VERSIONS = msgspec.json.Decoder(Version)
_STATS = msgspec.json.Decoder(NodeStats)
_PRIORITIES = msgspec.json.Decoder(PriorityStats)
_READINESS = msgspec.json.Decoder(Readiness)
_RELIABILITY = msgspec.json.Decoder(ReliabilityStats)
# A node that is not ready says so with this status, and why in the body.
_NOT_READY = frozenset({503})


class Node:
    """What `q.health()`, `q.version()`, `q.stats()` and their like ask."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def health(self) -> Health:
        """Whether the node works."""
        return await self._transport.read(get("health"), _HEALTH)

    async def readiness(self) -> Readiness:
        """Whether the node takes requests, with each check."""
        request = msgspec.structs.replace(get("readyz", verbose="true"), answers=_NOT_READY)
        return await self._transport.read(request, _READINESS)

    async def version(self) -> Version:
        """The version and the build of the node."""
        return await self._transport.read(get("version"), _VERSIONS)

    async def stats(self) -> NodeStats:
        """Counts of topics, partitions, groups and messages."""
        return await self._transport.read(get("stats"), _STATS)

    async def metrics(self) -> str:
        """The metrics of the node in the text format of Prometheus."""
        return (await self._transport.ask(get("metrics"))).body.decode()

    async def priorities(self) -> PriorityStats:
        """How the lanes of each group fare."""
        return await self._transport.read(get("priority", "stats"), _PRIORITIES)

    async def reliability(self) -> ReliabilityStats:
        """How messages were settled."""
        return await self._transport.read(get("reliability", "stats"), _RELIABILITY)


_CHANGEABLE = tuple(TopicSettings.__annotations__)
_AT_CREATION = ("partitions", *NewTopicSettings.__annotations__)


class _Names(msgspec.Struct, frozen=True):
    topics: tuple[str, ...]


class _Partitions(msgspec.Struct, frozen=True):
    partitions: tuple[Partition, ...]


class _Trimmed(msgspec.Struct, frozen=True):
    partitions: tuple[PartitionStart, ...]


_TOPICS = msgspec.json.Decoder(Topic)
_NAMES = msgspec.json.Decoder(_Names)
_PARTITIONS = msgspec.json.Decoder(_Partitions)
_TRIMMED = msgspec.json.Decoder(_Trimmed)


class Topics:
    """`q.topics`. Settings are named as in `TopicSettings`: `visibility_timeout="1m"`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        exist_ok: bool = False,
        **settings: Unpack[NewTopicSettings],
    ) -> Topic:
        """Create a topic; `TopicExists` if there is one of this name.

        With `exist_ok` a topic that is there is returned as it is, unless it has another number of
        partitions than the one given. Its settings are not changed: `alter` does that.
        """
        check_keywords("create", settings, _AT_CREATION)
        fields: dict[str, object] = {"name": name, "num_partitions": partitions, **settings}
        request = post("topics", fields=fields, is_repeatable=exist_ok)
        try:
            return await self._transport.read(request, _TOPICS)
        except TopicExists as error:
            if not exist_ok:
                raise
            found = await self.describe(name)
            if partitions not in {None, found.partitions}:
                words = f"{name} exists, with {found.partitions} partitions instead of {partitions}"
                raise TopicExists(
                    error.code,
                    words,
                    status=error.status,
                    details={"partitions": found.partitions},
                ) from error
            return found

    async def list(self) -> tuple[str, ...]:
        """Names, sorted."""
        return (await self._transport.read(get("topics"), _NAMES)).topics

    async def describe(self, name: str) -> Topic:
        """Settings, partitions and sizes of a topic; `TopicNotFound` if there is none."""
        return await self._transport.read(get("topics", name), _TOPICS)

    async def alter(self, name: str, **settings: Unpack[TopicSettings]) -> Topic:
        """Change settings; what is not named stays as it is."""
        check_keywords("alter", settings, _CHANGEABLE)
        request = Request(
            method="PATCH",
            target=target("topics", name),
            body=msgspec.json.encode(settings),
            is_repeatable=True,
        )
        return await self._transport.read(request, _TOPICS)

    async def delete(self, name: str) -> None:
        """Remove a topic, its messages and every group's place in it."""
        await self._transport.ask(Request(method="DELETE", target=target("topics", name)))

    async def trim(self, name: str, offsets: Mapping[int, int]) -> tuple[PartitionStart, ...]:
        """Delete all messages before an offset, by partition; returns where they begin now.

        Messages that no group has read are deleted as well. What a pending delayed message or an
        open transaction needs is kept, and `kept_by` says so. Survives a crash once it returns.
        """
        by_partition = {str(partition): offset for partition, offset in offsets.items()}
        fields: dict[str, object] = {"offsets": by_partition}
        request = post("topics", name, "trim", fields=fields, is_repeatable=True)
        return (await self._transport.read(request, _TRIMMED)).partitions

    async def purge(self, name: str) -> tuple[PartitionStart, ...]:
        """Delete all messages that a topic holds now; as `trim` to the end of each partition."""
        request = Request(method="DELETE", target=target("topics", name, "messages"))
        return (await self._transport.read(request, _TRIMMED)).partitions

    async def partitions(self, name: str) -> tuple[Partition, ...]:
        """The partitions of a topic, each with its offsets and its size."""
        request = get("topics", name, "partitions")
        return (await self._transport.read(request, _PARTITIONS)).partitions


class _Groups(msgspec.Struct, frozen=True):
    group_details: tuple[GroupSummary, ...]


_GROUPS = msgspec.json.Decoder(_Groups)
_DESCRIPTIONS = msgspec.json.Decoder(GroupDescription)
_LAGS = msgspec.json.Decoder(GroupLag)
_OFFSETS = msgspec.json.Decoder(GroupOffsets)
_RESETS = msgspec.json.Decoder(ResetOffsets)


class Groups:
    """`q.groups`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> tuple[GroupSummary, ...]:
        """Every group, sorted by name."""
        return (await self._transport.read(get("groups"), _GROUPS)).group_details

    async def describe(self, group: str) -> GroupDescription:
        """Members of a group, and what is assigned to each; `NotFound` if there is none."""
        return await self._transport.read(get("groups", group), _DESCRIPTIONS)

    async def delete(self, group: str) -> None:
        """Remove a group with its members, positions and leases."""
        await self._transport.ask(Request(method="DELETE", target=target("groups", group)))

    async def lag(self, group: str) -> GroupLag:
        """How many messages a group has not settled yet, in all and by partition."""
        return await self._transport.read(get("groups", group, "lag"), _LAGS)

    async def offsets(self, group: str, *, topic: str | None = None) -> GroupOffsets:
        """The next offset of the group wherever it has a position."""
        return await self._transport.read(get("groups", group, "offsets", topic=topic), _OFFSETS)

    async def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Move positions forward, by topic and partition, for a group without members.

        For a program that keeps its positions elsewhere and wants them seen. A lower offset leaves
        the position as it is; a group that nobody knows is made.
        """
        by_topic = {
            topic: {str(partition): offset for partition, offset in each.items()}
            for topic, each in offsets.items()
        }
        fields: dict[str, object] = {"offsets": by_topic}
        request = post("groups", group, "offsets", fields=fields, is_repeatable=True)
        await self._transport.ask(request)

    async def reset(
        self,
        group: str,
        topic: str,
        to: str | int | dt.datetime,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> ResetOffsets:
        """Move positions to "earliest", "latest", an offset or a time; also back.

        A time is a datetime with a zone, or text (RFC 3339) with up to nanoseconds.
        """
        fields: dict[str, object] = {"topic": topic, "partition": partition, "dry_run": dry_run}
        if isinstance(to, str) and not to[:1].isdigit():
            fields["strategy"] = to
        elif isinstance(to, int):
            fields |= {"strategy": "offset", "offset": to}
        else:
            fields |= {"strategy": "timestamp", "timestamp": to}
        request = post("groups", group, "offsets", "reset", fields=fields)
        return await self._transport.read(request, _RESETS)


class _Moved(msgspec.Struct, frozen=True):
    moved: int


_MOVED = msgspec.json.Decoder(_Moved)


class DeadLetters:
    """`q.dead_letters`; the topic named is the one that the letters came from."""

    def __init__(self, transport: Transport, tasks: Tasks) -> None:
        self._transport = transport
        self._tasks = tasks

    async def list(self, topic: str, *, limit: int = 100) -> "tuple[DeadLetter, ...]":
        """The oldest dead letters of a topic, redriven ones included.

        What somebody published to the dead-letter topic by hand is left out, and so are those of
        other topics with the same dead-letter topic.
        """
        # Only this needs the fetcher and what decodes records.
        from goqueue.client.dead_letter import DeadLetter, is_dead_letter
        from goqueue.client.replay import Replay

        described = await self._transport.read(get("topics", topic), _TOPICS)
        name = described.config.dead_letter_topic
        try:
            letters = await self._transport.read(get("topics", name), _TOPICS)
        except TopicNotFound:
            return ()
        left = letters.total_messages
        found: list[DeadLetter] = []
        async with Replay(self._transport, self._tasks, name) as replay:
            while left and len(found) < limit:
                taken = await replay.take(min(left, limit))
                left -= len(taken)
                read = (DeadLetter.read(each) for each in taken if is_dead_letter(each))
                found += (letter for letter in read if letter.origin.topic == topic)
        return tuple(sorted(found, key=lambda letter: letter.message.timestamp)[:limit])

    async def redrive(
        self,
        topic: str,
        *,
        limit: int | None = None,
        to_topic: str | None = None,
        reason: str | None = None,
        letters: Mapping[int, Sequence[int]] | None = None,
    ) -> int:
        """Redrive dead letters, oldest first, at most `limit` (1000); returns how many.

        Call it again until it returns 0. `letters` selects dead letters: offsets of the dead-letter
        topic by partition.
        """
        named = None if letters is None else {str(each): list(letters[each]) for each in letters}
        fields: dict[str, object] = {
            "max": limit,
            "to_topic": to_topic,
            "filter": {"reason": reason, "letters": named},
        }
        request = post("topics", topic, "dlq", "redrive", fields=fields)
        return (await self._transport.read(request, _MOVED)).moved


_PAGES = msgspec.json.Decoder(DelayedPage)
_MESSAGES = msgspec.json.Decoder(DelayedMessage)
_DELAY_STATS = msgspec.json.Decoder(DelayStats)


class DelayedMessages:
    """`q.delayed`; a message is named by the place that its publishing answered."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, topic: str, *, limit: int = 100, skip: int = 0
    ) -> tuple[DelayedMessage, ...]:
        """Those that wait, by the time they are due; at most 1000 at once."""
        return (await self.page(topic, limit=limit, skip=skip)).messages

    async def page(self, topic: str, *, limit: int = 100, skip: int = 0) -> DelayedPage:
        """The same with their total, for a program that shows them page by page."""
        request = get("topics", topic, "delayed", limit=limit, skip=skip)
        return await self._transport.read(request, _PAGES)

    async def get(self, topic: str, offset: int, *, partition: int | None = None) -> DelayedMessage:
        """One message, also when it was delivered or cancelled; `NotFound` if there is none."""
        request = get("topics", topic, "delayed", offset, partition=partition)
        return await self._transport.read(request, _MESSAGES)

    async def cancel(self, topic: str, partition: int, offset: int) -> None:
        """Never deliver it; may be repeated. `AlreadyDelivered` if this comes too late."""
        place = target("topics", topic, "delayed", partition, offset)
        await self._transport.ask(Request(method="DELETE", target=place, is_repeatable=True))

    async def stats(self) -> DelayStats:
        """Counts over all topics of the node."""
        return await self._transport.read(get("delay", "stats"), _DELAY_STATS)


_TRANSACTION_PAGES = msgspec.json.Decoder(TransactionPage)
_TRANSACTIONS = msgspec.json.Decoder(TransactionDescription)
_TRANSACTION_STATS = msgspec.json.Decoder(TransactionStats)


class Transactions:
    """`q.transactions`; to work in one of your own see `q.transaction`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, *, limit: int = 100, skip: int = 0) -> tuple[TransactionDescription, ...]:
        """A page of those that have not ended, the oldest first; a page has at most 1,000."""
        return (await self.page(limit=limit, skip=skip)).transactions

    async def page(self, *, limit: int = 100, skip: int = 0) -> TransactionPage:
        """The same with their total, for a program that shows them page by page."""
        request = get("transactions", limit=limit, skip=skip)
        return await self._transport.read(request, _TRANSACTION_PAGES)

    async def describe(self, transaction_id: str) -> TransactionDescription:
        """One that is open, or the last of its producer; `TransactionNotFound` otherwise."""
        return await self._transport.read(get("transactions", transaction_id), _TRANSACTIONS)

    async def abort(self, transaction_id: str) -> TransactionDescription:
        """Abort a transaction that hangs, also one of another producer.

        Returns the transaction as it was before. Its producer learns of it with its next request,
        and may begin another.
        """
        found = await self.describe(transaction_id)
        fields: dict[str, object] = {
            "producer_id": found.producer_id,
            "epoch": found.epoch,
            "transactional_id": found.transactional_id,
            # Its producer may have ended it and begun another meanwhile.
            "transaction_id": transaction_id,
        }
        await self._transport.ask(post("transactions", "abort", fields=fields, is_repeatable=True))
        return found

    async def stats(self) -> TransactionStats:
        """Counts over all transactions of the node."""
        return await self._transport.read(get("transactions", "stats"), _TRANSACTION_STATS)
