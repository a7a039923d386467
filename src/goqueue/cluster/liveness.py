"""Which brokers are alive, as one broker hears them.

Owns when each other broker was last heard. Statuses are for people; fencing follows the shorter
`session_ns`, and comes at once where nothing listens any more. Neither is needed for safety: a
broker that is wrongly taken for dead only has to register again.

A broker whose own loop stood still heard nobody, and that says nothing about the others: it starts
their time anew instead of accusing them.

Invariant: a broker is dead only if this one ran, without a pause of its own, for `dead_ns` and
heard nothing from it.

Cost: one entry per broker, nothing per heartbeat but a time.
"""

import enum

import msgspec

from goqueue.model import MILLISECOND, SECOND, Heartbeat, Instant

__all__ = ["Liveness", "LivenessTimes", "NodeStatus"]


class NodeStatus(enum.StrEnum):
    """What others see of a broker."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"
    LEAVING = "leaving"


class LivenessTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long silence may last."""

    heartbeat_ns: int = 500 * MILLISECOND
    session_ns: int = 3 * SECOND
    suspect_ns: int = 6 * SECOND
    dead_ns: int = 9 * SECOND
    # A loop that was away for longer accuses nobody.
    lag_max_ns: int = 250 * MILLISECOND


class _Heard(msgspec.Struct):
    """When a broker was last heard, or when its time began."""

    at: Instant
    was_ever: bool
    is_refused: bool = False
    is_leaving: bool = False
    is_full: bool = False
    loop_lag_ms: int = 0
    followed_version: int = 0
    # The broker epoch in which it has handed over what it led; 0 if it has not.
    resigning_epoch: int = 0


class Liveness:
    """How long each broker has been silent."""

    def __init__(self, times: LivenessTimes) -> None:
        self._times = times
        self._heard: dict[str, _Heard] = {}

    def expect(self, broker: str, now: Instant, *, is_connected: bool) -> None:
        """A broker belongs to the cluster: its time begins, unless it runs already."""
        self._heard.setdefault(broker, _Heard(now, was_ever=is_connected))

    def forget(self, broker: str) -> None:
        """A broker no longer belongs to the cluster."""
        self._heard.pop(broker, None)

    def hear(self, broker: str, now: Instant) -> None:
        """A message of a broker arrived."""
        heard = self._heard.setdefault(broker, _Heard(now, was_ever=True))
        heard.at = now
        heard.was_ever = True
        heard.is_refused = False

    def hear_heartbeat(self, broker: str, heartbeat: Heartbeat) -> None:
        """What a broker that was just heard says of itself."""
        heard = self._heard.get(broker)
        if heard is not None:
            heard.is_leaving = heartbeat.is_leaving
            heard.resigning_epoch = heartbeat.broker_epoch if heartbeat.is_resigning else 0
            heard.is_full = heartbeat.is_full
            heard.loop_lag_ms = heartbeat.loop_lag_ms
            # An earlier message may come later; a run that is new registers behind all of it.
            heard.followed_version = max(heard.followed_version, heartbeat.metadata_version)

    def refuse(self, broker: str) -> None:
        """The connection to a broker broke, and nothing listens at its address."""
        heard = self._heard.get(broker)
        if heard is not None:
            heard.is_refused = True

    def detect_pause(self, due: Instant, now: Instant) -> bool:
        """Whether this broker was away: it wanted to run at `due`. Then nobody is accused."""
        if now - due <= self._times.lag_max_ns:
            return False
        self.restart(now)
        return True

    def restart(self, now: Instant) -> None:
        """Nobody could be heard until now, or it did not matter: every time begins anew.

        A run that was found gone stays so: that does not follow from silence.
        """
        for heard in self._heard.values():
            heard.at = now

    def last_heard(self, broker: str) -> Instant | None:
        """When a broker was last heard in this life; None if never."""
        heard = self._heard.get(broker)
        return heard.at if heard is not None and heard.was_ever else None

    def status(self, broker: str, now: Instant) -> NodeStatus:
        """What to say of a broker; one that was never heard is suspect until it is dead."""
        heard = self._heard.get(broker)
        if heard is None:
            return NodeStatus.SUSPECT
        silence = now - heard.at
        if silence >= self._times.dead_ns:
            return NodeStatus.DEAD
        if silence >= self._times.suspect_ns or not heard.was_ever:
            return NodeStatus.SUSPECT
        return NodeStatus.LEAVING if heard.is_leaving else NodeStatus.ALIVE

    def is_full(self, broker: str) -> bool:
        """Whether the disk of a broker took no more records when it was last heard."""
        heard = self._heard.get(broker)
        return heard is not None and heard.is_full

    def is_leaving(self, broker: str) -> bool:
        """Whether a broker said that it was about to stop."""
        heard = self._heard.get(broker)
        return heard is not None and heard.is_leaving

    def is_resigning(self, broker: str, epoch: int) -> bool:
        """Whether a broker, in this epoch of its own, has handed over what it led, and stops."""
        heard = self._heard.get(broker)
        return heard is not None and heard.resigning_epoch == epoch

    def loop_lag_ms(self, broker: str) -> int:
        """How late the loop of a broker was when it was last heard."""
        heard = self._heard.get(broker)
        return 0 if heard is None else heard.loop_lag_ms

    def followed_version(self, broker: str) -> int:
        """The version of the metadata that a broker is known to decide by."""
        heard = self._heard.get(broker)
        return 0 if heard is None else heard.followed_version

    def is_lost(self, broker: str, now: Instant) -> bool:
        """Whether a controller should fence a broker."""
        heard = self._heard.get(broker)
        if heard is None:
            return False
        return heard.is_refused or now - heard.at >= self._times.session_ns
