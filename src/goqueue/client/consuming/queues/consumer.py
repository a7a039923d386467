"""A member of a group that leases messages and settles each.

Polls ahead, but never further than its prefetch: leases run while messages wait here. Owns the
member and the acknowledgements. Leaving gives back at once what was leased and not settled.
"""

import asyncio
import logging
from collections import deque

import msgspec

from goqueue.client.consuming.membership import Membership
from goqueue.client.consuming.queues.polling import Polled, read_messages
from goqueue.client.consuming.queues.settling import Settling
from goqueue.client.consuming.subscription import Subscription
from goqueue.client.errors import Closed, GoQueueError
from goqueue.client.message import Message
from goqueue.client.once import Once
from goqueue.client.tasks import Tasks
from goqueue.client.transport import Request, Transport, is_worth_retrying, target
from goqueue.client.values import duration

__all__ = ["QueueConsumer"]

_log = logging.getLogger("goqueue.client")

_POLLED = msgspec.json.Decoder(Polled)
_PAUSE_S = 0.05
_POLL_MAX = 1000


class QueueConsumer:
    """`async for message in consumer`; joins with the first message asked for.

    Several tasks may take messages from one consumer.
    """

    def __init__(self, transport: Transport, tasks: Tasks, subscription: Subscription) -> None:
        self._transport = transport
        self._tasks = tasks
        self._subscription = subscription
        self._membership = Membership(transport, subscription)
        self._settling = Settling(transport, subscription.group)
        self._ready: deque[Message] = deque()
        self._failure: GoQueueError | None = None
        self._has_more = asyncio.Event()
        self._has_room = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []
        self._beginning = Once(self._begin)
        self._is_closed = False

    async def __aenter__(self) -> "QueueConsumer":
        await self._beginning.run()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> "QueueConsumer":
        return self

    async def __anext__(self) -> Message:
        if not self._ready:
            await self._wait_for_more()
        message = self._ready.popleft()
        self._has_room.set()
        return message

    async def take(self, count_max: int = 1000) -> list[Message]:
        """At least one message, and what else is at hand; empty when closed."""
        try:
            if not self._ready:
                await self._wait_for_more()
        except StopAsyncIteration:
            return []
        count = min(count_max, len(self._ready))
        taken = [self._ready.popleft() for _ in range(count)]
        self._has_room.set()
        return taken

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def close(self) -> None:
        """Stop polling, wait for the acknowledgements under way, leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        self._ready.clear()
        self._has_more.set()
        if self._background:
            settling, *others = self._background
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._settling.drain()
            settling.cancel()
        await self._membership.leave()

    async def _wait_for_more(self) -> None:
        await self._beginning.run()
        while not self._ready:
            if self._is_closed:
                raise StopAsyncIteration
            if self._failure is not None:
                raise self._failure
            self._has_more.clear()
            await self._has_more.wait()

    async def _begin(self) -> None:
        if self._is_closed:
            return
        await self._membership.join()
        if self.is_closed:
            # Closed meanwhile, when there was no member yet that could have left.
            await self._membership.leave()
            return
        start = self._tasks.start
        self._background = [
            start(self._settling.run()),
            start(self._keep_alive()),
            start(self._keep_polling()),
        ]

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._subscription.heartbeat_s)
            member_id = self._membership.member_id
            try:
                await self._membership.beat()
            except GoQueueError as error:
                _log.warning("heartbeat of group %s: %s", self._subscription.group, error)
            self._forget_leases_of(member_id)

    def _forget_leases_of(self, member_id: str | None) -> None:
        """With a member go its leases: what waits here belongs to others by now."""
        if self._membership.member_id != member_id:
            self._ready.clear()
            self._has_room.set()

    async def _keep_polling(self) -> None:
        try:
            await self._poll_ahead()
        finally:
            # Whoever waits is told, also when the whole connection breaks down.
            self._failure = self._failure or Closed("polling has ended")
            self._has_more.set()

    async def _poll_ahead(self) -> None:
        while True:
            room = min(self._subscription.prefetch, _POLL_MAX) - len(self._ready)
            if room <= 0:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            member_id = self._membership.member_id
            try:
                if member_id is None:
                    # Lost before, and to join again did not work then.
                    await self._membership.join_again(None)
                self._ready.extend(await self._poll(room))
            except GoQueueError as error:
                if not await self._is_mended(error, member_id):
                    return
            if self._ready:
                self._has_more.set()

    async def _poll(self, room: int) -> list[Message]:
        subscription = self._subscription
        visibility_s = subscription.visibility_s
        request = Request(
            method="GET",
            target=target(
                "groups",
                subscription.group,
                "poll",
                member_id=self._membership.member_id,
                timeout=duration(subscription.wait_s),
                max_messages=room,
                visibility_timeout=None if visibility_s is None else duration(visibility_s),
            ),
            is_repeatable=True,
            wait_s=subscription.wait_s,
        )
        clock = asyncio.get_running_loop().time
        asked_at = clock()
        polled = await self._transport.read(request, _POLLED)
        if not polled.messages and clock() - asked_at < _PAUSE_S:
            # A broker that is stopping answers at once: do not ask it in a tight loop.
            await asyncio.sleep(_PAUSE_S)
        return read_messages(polled, self._settling)

    async def _is_mended(self, error: GoQueueError, member_id: str | None) -> bool:
        """Whether polling can go on after this error."""
        if error.code in {"group_not_found", "member_not_found"}:
            try:
                await self._membership.join_again(member_id)
                self._forget_leases_of(member_id)
                return True
            except GoQueueError as refused:
                error = refused
        if not is_worth_retrying(error, is_repeatable=True):
            self._failure = error
            return False
        _log.warning("polling for group %s: %s; trying again", self._subscription.group, error)
        await asyncio.sleep(_PAUSE_S)
        return True
