"""What a member measures of the others: heartbeats, silence, losses, answers and clocks.

Nothing is decided by it; who is alive says `Liveness`. No message is sent for it: heartbeats state
the wall clock of their sender, and every node confirms what the controller says of the metadata
log, with the controller's own instant at which that was said. So the controller measures the way to
every node and back, and each node the clocks of all others.

Invariant: only registered brokers have an entry.

Cost: one entry for each broker; a comparison for each every half second.
"""

from collections.abc import Collection

import msgspec

from goqueue.cluster import Liveness, LivenessTimes
from goqueue.metrics import Histogram
from goqueue.model import SECOND, Heartbeat, Instant, Now, ReplicaAck

__all__ = ["Heard", "Heartbeats"]

# An answer that comes later is to something that an earlier run of this broker said.
_ANSWER_NS_MAX = 10 * SECOND


class Heard(msgspec.Struct):
    """What was measured of one broker since this process began."""

    received: int = 0
    missed: int = 0
    failures: int = 0
    answers: Histogram = msgspec.field(default_factory=Histogram)
    clock_offset_ns: int | None = None
    is_leaving: bool = False
    is_lost: bool = False


class Heartbeats:
    """Measures brokers by what they say."""

    def __init__(self, me: str, liveness: Liveness, times: LivenessTimes) -> None:
        self._me = me
        self._liveness = liveness
        self._overdue_ns = 2 * times.heartbeat_ns
        self._heard: dict[str, Heard] = {}

    def of(self, broker: str) -> Heard | None:
        """What was measured of another registered broker."""
        return self._heard.get(broker)

    def hear(self, broker: str, message: object, now: Now) -> None:
        """A registered broker said something."""
        if isinstance(message, Heartbeat):
            self._liveness.hear_heartbeat(broker, message)
            heard = self._heard.setdefault(broker, Heard())
            heard.received += 1
            heard.is_lost, heard.is_leaving = False, message.is_leaving
            # The way that it took makes the other clock seem late by as much.
            heard.clock_offset_ns = message.sent_at - now.wall
        elif isinstance(message, ReplicaAck) and message.asked:
            took_ns = now.instant - message.asked
            if 0 <= took_ns < _ANSWER_NS_MAX:
                self._heard.setdefault(broker, Heard()).answers.observe(took_ns)

    def count_silence(self, brokers: Collection[str], now: Instant) -> None:
        """Half a second has passed: count which of the registered brokers were not heard.

        One that said that it was about to stop is not found lost.
        """
        for broker in [each for each in self._heard if each not in brokers]:
            del self._heard[broker]
        for broker in brokers:
            if broker == self._me:
                continue
            heard = self._heard.setdefault(broker, Heard())
            last = self._liveness.last_heard(broker)
            heard.missed += last is not None and now - last >= self._overdue_ns
            is_lost = self._liveness.is_lost(broker, now)
            heard.failures += is_lost and not heard.is_lost and not heard.is_leaving
            heard.is_lost = is_lost
