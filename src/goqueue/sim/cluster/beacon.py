"""A machine that only says it is there: a heartbeat to every connected broker on every lane.

Each heartbeat says which run sent it and its number on its link, so that the checks of links can
tell a lost, doubled, late or foreign one.
"""

from goqueue.model import (
    MILLISECOND,
    ConnectPeers,
    Heartbeat,
    Instant,
    PeerConnected,
    PeerDisconnected,
    PeerEvent,
    PeerLane,
    Send,
)
from goqueue.sim.cluster.processes import ClusterProcess

__all__ = ["HEARTBEAT_NS", "Beacon"]

HEARTBEAT_NS = 500 * MILLISECOND


class Beacon:
    """Heartbeats of one run of a process."""

    def __init__(self, process: ClusterProcess) -> None:
        self._process = process
        self._due: Instant | None = None
        # How many were sent on the link to each broker, by lane.
        self._sent: dict[tuple[str, PeerLane], int] = {}
        self.received_total = 0

    def begin(self) -> None:
        self._process.send(ConnectPeers(identity=self._process.identity()))
        self._due = Instant(self._process.now().instant + HEARTBEAT_NS)

    def take(self, event: PeerEvent) -> None:
        match event:
            case PeerConnected():
                self._sent[event.broker, event.lane] = 0
                # At once, so that something is under way when a link ends early.
                self._send(event.broker, event.lane)
            case PeerDisconnected():
                if not event.is_refused:
                    self._sent.pop((event.broker, event.lane), None)
            case _:
                self.received_total += 1

    def wake(self) -> None:
        for broker, lane in list(self._sent):
            self._send(broker, lane)
        self._due = Instant(self._process.now().instant + HEARTBEAT_NS)

    def next_deadline(self) -> Instant | None:
        return self._due

    def _send(self, broker: str, lane: PeerLane) -> None:
        number = self._sent[broker, lane] = self._sent[broker, lane] + 1
        process = self._process
        message = Heartbeat(
            broker_epoch=process.incarnation,
            metadata_version=number,
            loop_lag_ms=lane,
            sent_at=process.now().wall,
        )
        data = (process.directory.encode(),)
        process.send(Send(broker=broker, message=message, data=data, lane=lane))
