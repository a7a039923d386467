"""What peers sent and the node has not handled yet.

Control messages first: a vote does not wait behind copies of logs. Of one lane everything is
handled in the order in which it came.

Invariants: once `PeerConnected` of one life of a broker is here, no message of another life of it
is handed out. Links count what is here, and are not read beyond their bounds.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from goqueue.cluster import BROKERS_MAX
from goqueue.model import PeerConnected, PeerEvent, PeerLane, PeerMessageReceived
from goqueue.runtime.peers.link import PeerLink

__all__ = ["PeerInbox"]

_LIVES_MAX = 4 * BROKERS_MAX


class _Entry(NamedTuple):
    """An event; for a message the link that brought it, and its size."""

    event: PeerEvent
    link: PeerLink | None = None
    size: int = 0


class PeerInbox:
    """Events of peers for the pump, which sets `wake` to hear that there are some."""

    def __init__(self) -> None:
        self._control: deque[_Entry] = deque()
        self._bulk: deque[_Entry] = deque()
        # The life of each broker that connected last: its directory and incarnation.
        self._lives: dict[str, tuple[str, int]] = {}
        self.wake: Callable[[], None] = _stay_asleep
        # Messages of lives that had ended before they were handled.
        self.stale_total = 0

    def __bool__(self) -> bool:
        return bool(self._control or self._bulk)

    def put(
        self, event: PeerEvent, lane: PeerLane, link: PeerLink | None = None, size: int = 0
    ) -> None:
        """Keep an event of a lane until the node takes it."""
        if isinstance(event, PeerConnected):
            self._lives.pop(event.broker, None)
            self._lives[event.broker] = (event.directory, event.incarnation)
            if len(self._lives) > _LIVES_MAX:
                # Not that of a connected broker, of which there are fewer.
                del self._lives[next(iter(self._lives))]
        queue = self._control if lane is PeerLane.CONTROL else self._bulk
        queue.append(_Entry(event, link, size))
        self.wake()

    def take(self, at_most: int) -> list[PeerEvent]:
        """The next events, which the node handles in this order and before those that follow."""
        taken: list[PeerEvent] = []
        while len(taken) < at_most and (self._control or self._bulk):
            entry = self._control.popleft() if self._control else self._bulk.popleft()
            if entry.link is not None:
                entry.link.handled(entry.size)
            event = entry.event
            if isinstance(event, PeerMessageReceived):
                if self._lives.get(event.broker) != (event.directory, event.incarnation):
                    self.stale_total += 1
                    continue
            taken.append(event)
        return taken


def _stay_asleep() -> None:
    """Until a pump is there nobody has to hear of events."""
