"""Consumes a topic as a stream: a member of a group that reads its partitions and commits offsets.

- Start: at the committed offset, the earliest, the latest, or a time.
- Positions (pure): the next offset to read in each partition, and the offset last committed.
- The consumer owns the fetchers of its assigned partitions. It commits finished messages only: one
  is finished when the next is requested, or when `commit` is called. A transaction may commit the
  positions instead.

After a rebalance the broker refuses commits for partitions that were lost; their new owner reads
again what was not committed: at least once, never less.

Invariant: a position never moves back while the partition is assigned.
"""

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from goqueue.client.errors import Closed, GoQueueError, NotFound, refusal
from goqueue.client.fetcher import Feed, Reader
from goqueue.client.http import Request, Transport, get, post
from goqueue.client.membership import Membership, Subscription, is_replaced
from goqueue.client.message import Message
from goqueue.client.pages import first_at
from goqueue.client.tasks import AsyncOnce, Tasks
from goqueue.model import LogId

__all__ = [
    "OffsetSource",
    "Positions",
    "Progress",
    "Start",
    "StreamConsumer",
    "committed_offsets",
    "find_start",
    "partition_count",
]

Start = str | int | dt.datetime

# How long the broker holds an answer for a decision.
_DECISION_S_MAX = 30.0


class _Ends(msgspec.Struct, frozen=True):
    earliest: int
    latest: int


class _Topic(msgspec.Struct, frozen=True):
    partitions: int
    partition_offsets: dict[str, _Ends]


class _Offsets(msgspec.Struct, frozen=True):
    offsets: dict[str, dict[str, int]]


_TOPICS = msgspec.json.Decoder(_Topic)
_OFFSETS = msgspec.json.Decoder(_Offsets)


async def partition_count(transport: Transport, topic: str) -> int:
    return (await transport.read(get("topics", topic), _TOPICS)).partitions


async def committed_offsets(transport: Transport, group: str) -> dict[LogId, int]:
    """The next offset of a group wherever it has one.

    The broker holds the answer while a transaction of the group is undecided.
    """
    stable = get("groups", group, "offsets", stable="true")
    request = msgspec.structs.replace(stable, wait_s=_DECISION_S_MAX)
    answer = await transport.read(request, _OFFSETS)
    return {
        LogId(topic, int(partition)): offset
        for topic, offsets in answer.offsets.items()
        for partition, offset in offsets.items()
    }


async def find_start(transport: Transport, log: LogId, start: Start) -> int:
    """The offset that `start` means in this partition: earliest, latest, an offset, or a time."""
    if isinstance(start, int):
        return start
    if isinstance(start, dt.datetime):
        page = await first_at(transport, log, start)
        return page.messages[0].message.offset if page.messages else page.next_offset
    described = await transport.read(get("topics", log.topic), _TOPICS)
    ends = described.partition_offsets.get(str(log.partition))
    if ends is None:
        raise NotFound("partition_not_found", f"there is no partition {log}")
    if start not in {"earliest", "latest"}:
        raise ValueError(f"{start!r} is neither earliest, latest, an offset nor a time")
    return ends.earliest if start == "earliest" else ends.latest + 1


class Positions:
    """Positions of the partitions that are ours."""

    def __init__(self) -> None:
        self._finished: dict[LogId, int] = {}
        self._committed: dict[LogId, int] = {}
        self._begun: dict[LogId, int] = {}

    def adopt(self, log: LogId, offset: int, *, is_committed: bool) -> None:
        """Begin with a partition at `offset`.

        Where the group has no position yet, the place to begin is one to commit: another member
        that looked for the latest offset would find a later one, and miss what lies between.
        """
        self._finished[log] = offset
        self._committed[log] = offset if is_committed else -1
        self._begun[log] = offset

    def forget(self, log: LogId) -> None:
        """The partition went to another member."""
        self._finished.pop(log, None)
        self._committed.pop(log, None)
        self._begun.pop(log, None)

    def finish(self, log: LogId, next_offset: int) -> None:
        """Everything below `next_offset` was worked on."""
        if log in self._finished and next_offset > self._finished[log]:
            self._finished[log] = next_offset

    def settled(self) -> dict[LogId, int]:
        """Up to where nothing is left to commit: what is committed, or where we began."""
        return {log: max(begun, self._committed[log]) for log, begun in self._begun.items()}

    def unsettled(self) -> dict[LogId, int]:
        """Partitions of which more was worked on than is committed, and where they stood before."""
        return {
            log: offset for log, offset in self.settled().items() if self._finished[log] > offset
        }

    def uncommitted(self) -> dict[LogId, int]:
        """What a commit has to say."""
        return {
            log: offset
            for log, offset in self._finished.items()
            if offset > self._committed.get(log, -1)
        }

    def note_committed(self, offsets: dict[LogId, int]) -> None:
        for log, offset in offsets.items():
            if log in self._committed:
                self._committed[log] = max(self._committed[log], offset)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets that are to be committed, and by whom; each is the next one to read."""

    group: str
    offsets: dict[LogId, int]
    member_id: str | None = None
    generation: int | None = None


class OffsetSource(Protocol):
    """A consumer whose progress holds exactly if a transaction does."""

    def check(self) -> None:
        """Raises if the consumer commits by itself."""

    def progress(self) -> Progress:
        """Everything handed out so far; raises if some of it is not ours any more."""

    def note_committed(self, progress: Progress) -> None:
        """The transaction was committed."""

    def rewind(self) -> None:
        """It was not, or nobody knows: what was handed out since the last commit comes again."""


_log = logging.getLogger("goqueue.client")

# A commit that is refused so is not ours to make any more: ask the group what is.
_OUTDATED = frozenset(
    {"generation_stale", "member_not_found", "partition_not_assigned", "rebalance_in_progress"}
)


# A revocation that nobody heard of is forced after a minute.
_UNASKED_S = 55.0


class StreamConsumer:
    """`async for message in consumer`; joins with the first message asked for."""

    def __init__(self, transport: Transport, tasks: Tasks, subscription: Subscription) -> None:
        self._transport = transport
        self._tasks = tasks
        self._subscription = subscription
        self._membership = Membership(transport, subscription)
        self._positions = Positions()
        self._beginning = AsyncOnce(self._begin)
        self._feed = Feed(self._beginning.run, self._positions.finish)
        self._readers: dict[LogId, tuple[Reader, asyncio.Task[None]]] = {}
        self._background: list[asyncio.Task[None]] = []
        self._committing = asyncio.Lock()
        self._beating = asyncio.Lock()
        self._taking_up = asyncio.Lock()
        # Where partitions that are to be read again stood, unless the broker knows better; and
        # those of them that never went away.
        self._resumed: dict[LogId, int] = {}
        self._rewound: list[LogId] = []
        self._has_lost_work = False
        # The member and the generation whose partitions are read.
        self._known: tuple[str | None, int] = (None, 0)
        self._heard_at = transport.clock.time()
        self._is_closed = False

    async def __aenter__(self) -> "StreamConsumer":
        await self._beginning.run()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> "StreamConsumer":
        return self

    def __anext__(self) -> Awaitable[Message]:
        return self._feed.next()

    async def take(self, count_max: int = 1000) -> list[Message]:
        """At least one message, and what else is at hand; empty when closed.

        They count as finished when more is asked for.
        """
        try:
            return await self._feed.take(count_max)
        except StopAsyncIteration:
            return []

    @property
    def assigned(self) -> tuple[LogId, ...]:
        """The partitions that are ours now."""
        return tuple(self._readers)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    async def commit(self, *, except_last: int = 0) -> None:
        """Commit everything handed out so far, the message in hand included.

        `except_last` leaves out that number of messages handed out last, as after `take`.
        """
        await self._commit(is_done=True, except_last=except_last)

    def check(self) -> None:
        """Refuse to be part of a transaction while commits are automatic."""
        if self._subscription.commit_interval_s is not None:
            words = "commits are automatic: subscribe with commit_interval_s=None"
            raise GoQueueError("request_invalid", words)

    def progress(self, *, except_last: int = 0) -> Progress:
        """What a transaction has to commit: everything handed out, the message in hand included."""
        if self._has_lost_work:
            words = "a partition whose messages were handed out went to another member"
            raise refusal("generation_stale", words)
        self._finish(is_done=True, except_last=except_last)
        return Progress(
            group=self._subscription.group,
            offsets=self._positions.uncommitted(),
            member_id=self._membership.member_id,
            generation=self._membership.generation,
        )

    def note_committed(self, progress: Progress) -> None:
        """A transaction took this progress along, and was committed."""
        self._positions.note_committed(progress.offsets)

    def rewind(self) -> None:
        """Go back to what is committed: what was handed out since then comes again.

        Nothing more is handed out until the broker has said where that is.
        """
        self._has_lost_work = False
        self._finish(is_done=True)
        for log, offset in self._positions.unsettled().items():
            self._resumed[log] = offset
            self._rewound.append(log)
            self._positions.forget(log)
            if log in self._readers:
                self._stop(log)
        if self._beginning.is_done and not self._is_closed:
            with contextlib.suppress(Closed):
                self._tasks.start(self._return())

    async def close(self, *, except_last: int | None = None) -> None:
        """Stop reading, commit what is finished if commits are automatic, leave the group.

        With `except_last` the last messages handed out, that number of them, are not finished.
        """
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._background:
            task.cancel()
        try:
            if self._beginning.is_done and self._subscription.commit_interval_s is not None:
                is_done = except_last is not None
                await self._commit(is_done=is_done, except_last=except_last or 0)
        except GoQueueError as error:
            if error.code not in _OUTDATED:
                raise
        finally:
            for log in list(self._readers):
                self._stop(log)
            self._feed.end()
            await self._membership.leave()

    async def _begin(self) -> None:
        if self._is_closed:
            return
        await self._membership.join()
        if self.is_closed:
            # Closed meanwhile, when there was no member yet that could have left.
            await self._membership.leave()
            return
        self._known = (self._membership.member_id, self._membership.generation)
        # Before the first message: to learn where to begin may take longer than a session lasts.
        if not self._background:
            self._background.append(self._tasks.start(self._keep_alive()))
        await self._take_up()
        interval_s = self._subscription.commit_interval_s
        if interval_s is not None and not self.is_closed:
            self._background.append(self._tasks.start(self._keep_committed(interval_s)))

    async def _keep_alive(self) -> None:
        while True:
            try:
                await self._beat(self._membership.keep_alive)
            except GoQueueError as error:
                _log.warning("heartbeat of group %s: %s", self._subscription.group, error)
                if is_replaced(error):
                    self._feed.fail(error)
                    return
            # Not only after a change: the last attempt may have failed halfway. And not here: the
            # broker may hold the answer for longer than a session lasts.
            if self._unread() and not self._taking_up.locked():
                self._tasks.start(self._resume())

    async def _refresh(self) -> None:
        """A heartbeat, and whatever it brings."""
        await self._beat()
        await self._take_up()

    async def _beat(self, send: Callable[[], Awaitable[None]] | None = None) -> None:
        """Say that we live; what is no longer ours is let go at once.

        `send` may wait for long, so others may hear something meanwhile.
        """
        membership, clock = self._membership, self._transport.clock
        await (send or membership.beat)()
        async with self._beating:
            member_id, generation = self._known
            self._known = (membership.member_id, membership.generation)
            # Whoever was forgotten, or has missed a generation, cannot tell whether others have
            # read on meanwhile. Where every message counts once, it is not taken for granted. A
            # cooperative member is asked before it loses something, unless it was not heard of.
            has_missed = membership.generation > generation + 1
            if membership.is_cooperative:
                has_missed = clock.time() - self._heard_at > _UNASKED_S
            is_strict = self._subscription.commit_interval_s is None
            is_away = membership.member_id != member_id or (has_missed and is_strict)
            self._heard_at = clock.time()
            if membership.to_revoke:
                await self._give_up(membership.to_revoke)
            self._resumed |= self._positions.settled()
            kept = () if is_away else membership.kept
            self._revoke([log for log in self._readers if log not in kept])
            unread = self._unread()
            self._resumed = {log: at for log, at in self._resumed.items() if log in unread}

    async def _give_up(self, logs: Sequence[LogId]) -> None:
        """Commit what is finished of partitions that move, stop to read them, tell the group.

        The message in hand is not finished: the next owner gets it again.
        """
        if self._subscription.commit_interval_s is not None:
            self._finish(is_done=False)
            offsets = self._positions.uncommitted()
            moved = {log: offset for log, offset in offsets.items() if log in logs}
            try:
                await self._send(moved)
            except GoQueueError as error:
                _log.warning("commit of group %s: %s", self._subscription.group, error)
        self._revoke([log for log in self._readers if log in logs])
        await self._membership.revoke(logs)

    def _unread(self) -> list[LogId]:
        """What is ours and is not read yet."""
        return [log for log in self._membership.kept if log not in self._readers]

    async def _resume(self) -> None:
        try:
            await self._take_up()
        except GoQueueError as error:
            # The next heartbeat tries it again.
            _log.warning("reading for group %s: %s", self._subscription.group, error)

    async def _return(self) -> None:
        """After a rewind: what failed may have failed because the group has changed."""
        with contextlib.suppress(GoQueueError):
            await self._beat()
        await self._resume()

    async def _keep_committed(self, interval_s: float) -> None:
        while True:
            await self._transport.clock.sleep(interval_s)
            try:
                await self._commit(is_done=False)
            except GoQueueError as error:
                _log.warning("commit of group %s: %s", self._subscription.group, error)

    async def _take_up(self) -> None:
        """Begin to read what is ours and is not read yet."""
        async with self._taking_up:
            while (new := self._unread()) and not self._is_closed:
                generation = self._membership.generation
                committed = await committed_offsets(self._transport, self._subscription.group)
                starts = {log: await self._start(log, committed) for log in new}
                if self._membership.generation == generation and not self._is_closed:
                    self._adopt(starts, committed)

    async def _start(self, log: LogId, committed: Mapping[LogId, int]) -> int:
        offset = committed.get(log, self._resumed.get(log))
        if offset is not None:
            return offset
        return await find_start(self._transport, log, self._subscription.start)

    def _adopt(self, starts: Mapping[LogId, int], committed: Mapping[LogId, int]) -> None:
        for log, offset in starts.items():
            self._positions.adopt(log, offset, is_committed=log in committed)
            self._read(log, offset)
            self._resumed.pop(log, None)
        came = [log for log in starts if log not in self._rewound]
        self._rewound = [log for log in self._rewound if log not in starts]
        if came and self._subscription.on_assigned is not None:
            self._subscription.on_assigned(came)

    def _revoke(self, logs: Sequence[LogId]) -> None:
        if not logs:
            return
        reached = self._feed.position(is_done=True)
        if reached is not None and reached[0] in logs:
            self._positions.finish(*reached)
        unsettled = self._positions.unsettled()
        for log in logs:
            # Told by the next transaction: it must not hold what another member does again.
            self._has_lost_work = self._has_lost_work or log in unsettled
            self._stop(log)
            self._positions.forget(log)
        if self._subscription.on_revoked is not None:
            self._subscription.on_revoked(logs)

    def _read(self, log: LogId, offset: int) -> None:
        reader = Reader(
            self._transport,
            log,
            offset,
            chunk_bytes=self._subscription.chunk_bytes_for(len(self._membership.assigned)),
            wait_s=self._subscription.wait_s,
            on_reading=self._feed.put,
            isolation=self._subscription.isolation,
            payloads=self._subscription.payloads,
        )
        self._readers[log] = reader, self._tasks.start(reader.run())

    def _stop(self, log: LogId) -> None:
        reader, task = self._readers.pop(log)
        self._feed.drop(reader)
        task.cancel()

    async def _commit(self, *, is_done: bool, except_last: int = 0) -> None:
        async with self._committing:
            self._finish(is_done=is_done, except_last=except_last)
            offsets = self._positions.uncommitted()
            try:
                await self._send(offsets)
            except GoQueueError as error:
                if error.code not in _OUTDATED:
                    raise
                # The group has changed: what is still ours can be committed as it is now.
                await self._refresh()
                kept = self._positions.uncommitted()
                await self._send(kept)
                if any(kept.get(log, -1) < offset for log, offset in offsets.items()):
                    raise

    def _finish(self, *, is_done: bool, except_last: int = 0) -> None:
        reached = self._feed.position(is_done=is_done, except_last=except_last)
        if reached is not None:
            self._positions.finish(*reached)

    async def _send(self, offsets: dict[LogId, int]) -> None:
        if offsets:
            await self._transport.ask(self._commitment(offsets))
            self._positions.note_committed(offsets)

    def _commitment(self, offsets: dict[LogId, int]) -> Request:
        by_topic: dict[str, dict[str, int]] = {}
        for log, offset in offsets.items():
            by_topic.setdefault(log.topic, {})[str(log.partition)] = offset
        fields: dict[str, object] = {
            "member_id": self._membership.member_id,
            "generation": self._membership.generation,
            "offsets": by_topic,
        }
        group = self._subscription.group
        return post("groups", group, "offsets", fields=fields, is_repeatable=True)
