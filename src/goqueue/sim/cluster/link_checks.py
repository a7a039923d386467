"""What a network of links promises to a node, checked at every event.

- A lane opens once, then brings messages, then ends: nothing comes before or after.
- What arrives on a link is a prefix of what was sent on it, in order.
- A message names the run that sent it. Once a run of a broker has connected, nothing of an earlier
  run arrives on any lane, and no earlier run connects.
- Some time after everything is healed each pair has one link on every lane, the same at both ends.
"""

from collections.abc import Sequence

from goqueue.model import (
    Heartbeat,
    PeerConnected,
    PeerDisconnected,
    PeerEvent,
    PeerLane,
    PeerMessageReceived,
)
from goqueue.sim.cluster.processes import ClusterProcess
from goqueue.sim.oracle import Violation

__all__ = ["LinkChecks"]


class _View:
    """What one run of a process has been told."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, PeerLane], PeerConnected] = {}
        self.numbers: dict[tuple[str, PeerLane], int] = {}
        self.newest: dict[tuple[str, str], int] = {}


class LinkChecks:
    """Checks the events of every process of a world; `expect_beacons` where heartbeats count."""

    def __init__(self, *, expects_beacons: bool = True) -> None:
        self._expects_beacons = expects_beacons
        self._views: dict[tuple[str, str, int], _View] = {}
        self.messages_total = 0
        self.connections_total = 0

    def observe(self, process: ClusterProcess, event: PeerEvent) -> None:
        """Hear of an event before the machine does; raises Violation."""
        key = (process.name, process.directory, process.incarnation)
        view = self._views.setdefault(key, _View())
        match event:
            case PeerConnected():
                self._connected(view, event)
            case PeerDisconnected():
                self._disconnected(view, event)
            case PeerMessageReceived():
                self._received(view, event)

    def _connected(self, view: _View, event: PeerConnected) -> None:
        self.connections_total += 1
        lane = (event.broker, event.lane)
        life = (event.broker, event.directory)
        if lane in view.open:
            raise Violation("link-opened-twice", f"{lane}")
        if event.incarnation < view.newest.get(life, 0):
            raise Violation("stale-incarnation-connected", f"{event.identity}")
        for (broker, other), present in view.open.items():
            same = (present.directory, present.incarnation)
            if broker == event.broker and same != (event.directory, event.incarnation):
                raise Violation("two-lives-connected", f"{lane} and {other}: {event.identity}")
        view.newest[life] = event.incarnation
        view.open[lane] = event
        view.numbers[lane] = 0

    def _disconnected(self, view: _View, event: PeerDisconnected) -> None:
        lane = (event.broker, event.lane)
        if event.is_refused:
            if any(broker == event.broker for broker, _ in view.open):
                raise Violation("refused-while-connected", event.broker)
            return
        present = view.open.pop(lane, None)
        if present is None or present.incarnation != event.incarnation:
            raise Violation("link-ended-without-beginning", f"{lane} {event.incarnation}")

    def _received(self, view: _View, event: PeerMessageReceived) -> None:
        self.messages_total += 1
        lives = {
            (present.directory, present.incarnation)
            for (broker, _), present in view.open.items()
            if broker == event.broker
        }
        if lives != {(event.directory, event.incarnation)}:
            raise Violation("message-without-link", f"{event} while {lives} are connected")
        if self._expects_beacons:
            self._check_beacon(view, event)

    def _check_beacon(self, view: _View, event: PeerMessageReceived) -> None:
        message = event.message
        assert isinstance(message, Heartbeat)
        lane = (event.broker, PeerLane(message.loop_lag_ms))
        if lane not in view.open:
            raise Violation("message-after-disconnect", f"{lane}")
        if (event.directory.encode(),) != event.data or event.incarnation != message.broker_epoch:
            raise Violation("message-of-another-life", f"{event}")
        view.numbers[lane] += 1
        if message.metadata_version != view.numbers[lane]:
            words = f"{lane}: {message.metadata_version}, not {view.numbers[lane]}"
            raise Violation("link-not-a-prefix", words)

    def check_healed(self, processes: Sequence[ClusterProcess]) -> None:
        """Every pair has its three links; raises Violation."""
        running = [each for each in processes if each.is_running]
        for process in running:
            assert process.host is not None
            links = process.host.links()
            for other in running:
                if other is process:
                    continue
                assert other.host is not None
                theirs = other.host.links()
                for lane in PeerLane:
                    mine = links.get((other.name, lane))
                    if mine is None or mine != theirs.get((process.name, lane)):
                        words = f"{process.name} and {other.name} on {lane.name.lower()}"
                        raise Violation("not-connected-after-healing", words)
