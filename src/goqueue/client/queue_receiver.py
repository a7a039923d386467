"""Receives messages for a group without joining it: one request, for programs that soon end.

Nothing is leased ahead and nothing is renewed: what is not settled before its lease ends is
delivered again. Owns the acknowledgements of one group, which travel together.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.client.ack_sender import AckSender
from goqueue.client.errors import Closed, GoQueueError
from goqueue.client.http import Transport, post
from goqueue.client.leased_records import LeaseTerms, read_leased
from goqueue.client.leases import HeldLease
from goqueue.client.message import Message
from goqueue.client.tasks import Tasks
from goqueue.client.values import duration

if TYPE_CHECKING:
    from goqueue.client.payloads import PayloadReader

__all__ = ["QueueReceiver"]

# What the broker says when nobody says otherwise; only renewals reckon with it, and there are none.
_LEASE_S = 30.0


class QueueReceiver:
    """Receives for one group; made by `Connection.receive`."""

    def __init__(self, transport: Transport, tasks: Tasks, group: str) -> None:
        self._transport = transport
        self._group = group
        self._settling = AckSender(transport, group)
        self._settler = tasks.start(self._settling.run())
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def receive(
        self,
        topics: Sequence[str],
        limit: int,
        *,
        wait_s: float,
        visibility_s: float | None,
        payloads: "PayloadReader | None" = None,
    ) -> list[Message]:
        """Lease at most `limit` messages; none if none came within `wait_s`."""
        if self._is_closed:
            raise Closed("the connection is closed")
        fields: dict[str, object] = {
            "topics": topics,
            "max_messages": limit,
            "wait": duration(wait_s),
            "visibility_timeout": None if visibility_s is None else duration(visibility_s),
        }
        # Repeated although it leases: what the lost answer leased comes again with its lease's end.
        request = post(
            "queues",
            self._group,
            "receive",
            "records",
            fields=fields,
            is_repeatable=True,
            wait_s=wait_s,
        )
        response = await self._transport.ask(request)
        terms = LeaseTerms(self._settling, lambda _: visibility_s or _LEASE_S, response.asked_at)
        messages = read_leased(response.body, terms)
        if payloads is None:
            return messages
        try:
            return await payloads.attach(messages)
        except GoQueueError:
            leases = [each.lease for each in messages if isinstance(each.lease, HeldLease)]
            await self._settling.release(leases)
            raise

    async def close(self) -> None:
        """Wait for the acknowledgements under way; what is not settled comes again by itself."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._settling.drain()
        self._settler.cancel()
        await asyncio.gather(self._settler, return_exceptions=True)
