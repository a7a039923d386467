"""Which messages a worker has in hand, and which it has finished and not yet acked for good.

The broker may deliver again what this very process is still working on, or has just finished: its
leases end when the node restarts, and an ack may be lost with it. Such a delivery is not work. If
the work is under way, it settles the new lease instead of the old one; if it is finished, the new
lease is acked. So a handler runs once for a message as long as its process lives, however often
the node restarts, unless another worker of the group gets it. A handler that acks its message
itself has finished the work with that: its ack is followed up like one of the worker.

A message is known by its place and its timestamp: a topic that was deleted and created again has
other messages at the same offsets.

Invariant: a finished place is remembered until an ack of it is durable; of those whose ack was
refused the newest 10,000. Costs two entries of tables for each message, removed with its ack.
"""

from collections import deque
from typing import NamedTuple

from goqueue.client.ack_sender import PendingAck
from goqueue.client.leases import HeldLease
from goqueue.client.message import Message

__all__ = ["DeliveryLedger", "WorkInHand"]

_REFUSED_MAX = 10_000


class _Place(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int


class _Unconfirmed(NamedTuple):
    place: _Place
    ack: PendingAck


class WorkInHand:
    """One message in hand, with the lease by which it is to be settled."""

    __slots__ = ("is_acked_by_handler", "message", "place")

    def __init__(self, place: _Place, message: Message) -> None:
        self.place = place
        self.message = message
        # By a lease that a newer one has replaced.
        self.is_acked_by_handler = False

    @property
    def lease(self) -> HeldLease:
        lease = self.message.lease
        assert isinstance(lease, HeldLease), "a consumer hands out leased messages"
        return lease

    @property
    def is_acked(self) -> bool:
        """Whether the handler has acked the message: it is done, whatever became of the ack."""
        return self.is_acked_by_handler or self.lease.pending_ack is not None

    @property
    def is_settled(self) -> bool:
        """Whether the handler has settled the message by itself: a new delivery is new work."""
        lease, ack = self.lease, self.lease.pending_ack
        if ack is not None:
            return ack.is_settled and not ack.is_refused
        return lease.is_over and not lease.is_lost

    def replace_lease(self, message: Message) -> None:
        """The message was delivered again while it is in hand."""
        self.is_acked_by_handler = self.is_acked
        self.message = message


class DeliveryLedger:
    """The deliveries to one handler."""

    def __init__(self) -> None:
        self._in_hand: dict[_Place, WorkInHand] = {}
        self._finished: set[_Place] = set()
        self._unconfirmed: deque[_Unconfirmed] = deque()
        self._refused: deque[_Place] = deque()

    def __len__(self) -> int:
        """How many messages are in hand."""
        return len(self._in_hand)

    def begin(self, message: Message) -> WorkInHand | None:
        """Take a delivery in; None if there is nothing to do for it but what was done before."""
        self._forget_confirmed()
        place = _Place(message.topic, message.partition, message.offset, message.timestamp)
        work = self._in_hand.get(place)
        if work is not None and not work.is_settled:
            work.replace_lease(message)
            return None
        work = WorkInHand(place, message)
        if place in self._finished:
            self.ack(work)
            return None
        self._in_hand[place] = work
        return work

    def end(self, work: WorkInHand) -> None:
        """The handler has returned, raised, or was interrupted."""
        if self._in_hand.get(work.place) is work:
            del self._in_hand[work.place]

    def abandon(self) -> None:
        """The leases are given back: whatever is still in hand can no longer be settled."""
        for work in self._in_hand.values():
            work.lease.lose()

    def ack(self, work: WorkInHand) -> bool:
        """Ack finished work, unless its handler has settled it; False if its lease was lost.

        An ack of the handler that fails is repeated when the message is delivered again.
        """
        lease, ack = work.lease, work.lease.pending_ack
        if lease.is_lost and ack is None:
            self._remember(work.place)
            return False
        if ack is not None or not lease.is_over:
            self._finished.add(work.place)
            self._unconfirmed.append(_Unconfirmed(work.place, ack or lease.ack()))
        self._forget_confirmed()
        return True

    def _forget_confirmed(self) -> None:
        """What the node knows to be done is new work if it comes again: somebody replays it."""
        unconfirmed = self._unconfirmed
        while unconfirmed and unconfirmed[0].ack.is_settled:
            place, ack = unconfirmed.popleft()
            if ack.is_refused:
                self._remember(place)
            else:
                self._finished.discard(place)

    def _remember(self, place: _Place) -> None:
        """It was done and will be delivered again."""
        self._finished.add(place)
        self._refused.append(place)
        if len(self._refused) > _REFUSED_MAX:
            self._finished.discard(self._refused.popleft())
