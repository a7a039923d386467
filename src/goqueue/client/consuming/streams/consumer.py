"""A member of a group that reads its partitions as streams and commits how far it came.

Owns the readers of the partitions that are assigned to it. Commits only what was finished: a
message is finished when the next one is asked for, or when `commit` is called.

After a rebalance the broker takes no commit for a partition that is no longer ours. What was read
of it since the last commit is read again by its new owner: at least once, never less.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from goqueue.client.consuming.membership import Membership
from goqueue.client.consuming.streams.feed import Feed
from goqueue.client.consuming.streams.places import committed_offsets, find_start
from goqueue.client.consuming.streams.positions import Positions
from goqueue.client.consuming.streams.reader import Reader
from goqueue.client.consuming.subscription import Subscription
from goqueue.client.errors import GoQueueError
from goqueue.client.message import Message
from goqueue.client.once import Once
from goqueue.client.tasks import Tasks
from goqueue.client.transport import Request, Transport, post
from goqueue.model import LogId

__all__ = ["StreamConsumer"]

_log = logging.getLogger("goqueue.client")

# A commit that is refused so is not ours to make any more: ask the group what is.
_OUTDATED = frozenset(
    {"generation_stale", "member_not_found", "partition_not_assigned", "rebalance_in_progress"}
)


class StreamConsumer:
    """`async for message in consumer`; joins with the first message asked for."""

    def __init__(self, transport: Transport, tasks: Tasks, subscription: Subscription) -> None:
        self._transport = transport
        self._tasks = tasks
        self._subscription = subscription
        self._membership = Membership(transport, subscription)
        self._positions = Positions()
        self._beginning = Once(self._begin)
        self._feed = Feed(self._beginning.run, self._positions.finish)
        self._readers: dict[LogId, tuple[Reader, asyncio.Task[None]]] = {}
        self._background: list[asyncio.Task[None]] = []
        self._committing = asyncio.Lock()
        self._refreshing = asyncio.Lock()
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
        return self._is_closed

    async def commit(self, *, except_last: int = 0) -> None:
        """Commit everything handed out so far, the message in hand included.

        `except_last` leaves out so many of those handed out last, as after `take`.
        """
        await self._commit(is_done=True, except_last=except_last)

    async def close(self, *, except_last: int | None = None) -> None:
        """Stop reading, commit what is finished if commits are automatic, leave the group.

        With `except_last` everything handed out is finished but for so many handed out last.
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
        await self._adopt()
        if self.is_closed:
            # Closed meanwhile, perhaps before there was a member that could have left.
            for log in list(self._readers):
                self._stop(log)
            await self._membership.leave()
            return
        self._background.append(self._tasks.start(self._keep_alive()))
        interval_s = self._subscription.commit_interval_s
        if interval_s is not None:
            self._background.append(self._tasks.start(self._keep_committed(interval_s)))

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._subscription.heartbeat_s)
            try:
                await self._refresh()
            except GoQueueError as error:
                _log.warning("heartbeat of group %s: %s", self._subscription.group, error)

    async def _refresh(self) -> None:
        """A heartbeat, and whatever it brings."""
        async with self._refreshing:
            member_id = self._membership.member_id
            await self._membership.beat()
            if self._membership.member_id != member_id:
                # The broker had forgotten us: others may have read on meanwhile.
                self._revoke(list(self._readers))
            # Not only after a change: the last attempt may have failed halfway.
            await self._adopt()

    async def _keep_committed(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self._commit(is_done=False)
            except GoQueueError as error:
                _log.warning("commit of group %s: %s", self._subscription.group, error)

    async def _adopt(self) -> None:
        """Make the readers those of the present assignment."""
        wanted = self._membership.assigned
        self._revoke([log for log in self._readers if log not in wanted])
        new = [log for log in wanted if log not in self._readers]
        if not new or self._is_closed:
            return
        subscription = self._subscription
        committed = await committed_offsets(self._transport, subscription.group)
        for log in new:
            offset = committed.get(log)
            if offset is None:
                offset = await find_start(self._transport, log, subscription.start)
            self._positions.adopt(log, offset, is_committed=log in committed)
            self._read(log, offset)
        if subscription.on_assigned is not None:
            subscription.on_assigned(new)

    def _revoke(self, logs: Sequence[LogId]) -> None:
        if not logs:
            return
        for log in logs:
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
        )
        self._readers[log] = reader, self._tasks.start(reader.run())

    def _stop(self, log: LogId) -> None:
        reader, task = self._readers.pop(log)
        self._feed.drop(reader)
        task.cancel()

    async def _commit(self, *, is_done: bool, except_last: int = 0) -> None:
        async with self._committing:
            reached = self._feed.position(is_done=is_done, except_last=except_last)
            if reached is not None:
                self._positions.finish(*reached)
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
                if len(kept) < len(offsets):
                    raise

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
