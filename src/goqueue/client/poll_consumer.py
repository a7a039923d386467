"""A member of a group that leases messages only when its program asks for some.

The queue consumer leases ahead, renews and settles in the background. This one does none of it: a
poll is one request, and so is an acknowledgement of many messages. For tools that must lease
exactly what they use. Polls keep the session alive, so they have to come more often than it ends.

Owns the membership, and joins again when the broker has lost it.
"""

from collections.abc import Sequence

import msgspec

from goqueue.client.errors import GoQueueError
from goqueue.client.http import Transport, post
from goqueue.client.membership import Membership, Subscription, is_replaced
from goqueue.client.pages import PageMessage, decode_page, with_payloads
from goqueue.client.values import duration

__all__ = ["PollConsumer", "Result"]

_PAUSE_S = 0.05
_LOST = frozenset({"group_not_found", "member_not_found"})


class Result(msgspec.Struct, frozen=True):
    """What became of one acknowledgement of many."""

    success: bool
    error: str = ""
    code: str = ""


class _Results(msgspec.Struct, frozen=True):
    results: list[Result]


_RESULTS = msgspec.json.Decoder(_Results)


class PollConsumer:
    """`async with q.poll_consumer("orders", group="shop") as consumer: ...`."""

    def __init__(self, transport: Transport, subscription: Subscription) -> None:
        self._transport = transport
        self._subscription = subscription
        self._membership = Membership(transport, subscription)
        self._beat_at = 0.0
        self._is_closed = False

    async def __aenter__(self) -> "PollConsumer":
        await self._membership.join()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def poll(self, *, limit: int = 100, wait_s: float = 1.0) -> list[PageMessage]:
        """Lease at most `limit` messages, 1000 at most; none if none came within `wait_s`."""
        membership = self._membership
        if membership.member_id is None:
            await membership.join()
        clock = self._transport.clock
        polled_at = clock.time()
        if membership.is_cooperative and polled_at >= self._beat_at:
            await self._follow()
        try:
            messages = await self._poll(limit, wait_s)
        except GoQueueError as error:
            if error.code not in _LOST or is_replaced(error):
                raise
            membership.member_id = None
            await clock.pause(_PAUSE_S)
            return await self.poll(limit=limit, wait_s=wait_s)
        if not messages and clock.time() - polled_at < min(_PAUSE_S, wait_s / 2):
            # A broker that is stopping answers at once: do not ask it in a tight loop.
            await clock.pause(_PAUSE_S)
        return messages

    async def ack(self, messages: Sequence[PageMessage]) -> list[Result]:
        """Acknowledge messages, at most 1000; what became of each."""
        fields: dict[str, object] = {"receipt_handles": [each.receipt_handle for each in messages]}
        request = post("messages", "ack", "batch", fields=fields, is_repeatable=True)
        results = (await self._transport.read(request, _RESULTS)).results
        if len(results) != len(messages):
            words = "not as many answers as acknowledgements"
            raise GoQueueError("response_invalid", words, is_outcome_unknown=True)
        return results

    async def leave(self) -> None:
        """Leave the group; what was leased and not settled is free at once.

        Raises what keeps the broker from being told: then the session ends by itself.
        """
        self._is_closed = True
        await self._membership.depart()

    async def close(self) -> None:
        """Leave the group, if that has not been done; a broker that is away is not waited for."""
        self._is_closed = True
        await self._membership.leave()

    async def _poll(self, limit: int, wait_s: float) -> list[PageMessage]:
        subscription = self._subscription
        visibility_s = subscription.visibility_s
        fields: dict[str, object] = {
            "member_id": self._membership.member_id,
            "timeout": duration(wait_s),
            "max_messages": limit,
            "visibility_timeout": None if visibility_s is None else duration(visibility_s),
            "isolation": subscription.isolation.value,
        }
        # Repeated although it leases: what the lost answer leased comes again with its lease's end.
        request = post(
            "groups", subscription.group, "poll", fields=fields, is_repeatable=True, wait_s=wait_s
        )
        page = decode_page((await self._transport.ask(request)).body)
        if page.rebalance_required:
            await self._follow()
        # Leased for nothing if the registry is away: they come again when their leases end.
        return await with_payloads(page.messages, subscription.payloads)

    async def _follow(self) -> None:
        """Learn how the group is balanced, and give up what moves: nothing is leased ahead."""
        membership, clock = self._membership, self._transport.clock
        await membership.beat()
        if membership.to_revoke:
            await membership.revoke(membership.to_revoke)
        self._beat_at = clock.time() + self._subscription.heartbeat_s
