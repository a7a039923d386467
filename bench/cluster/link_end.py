"""One broker that has nothing but links: `python -m bench.cluster.link_end NAME PORT PEERS...`.

Confirms what comes: every message with `is_leaving` at once, others each `CONFIRM_EVERY`. With
`heartbeats` it sends one to each connected broker every half second, as a member of a cluster does.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from random import Random

import uvloop

from goqueue.gateways import Endpoint
from goqueue.model import (
    ConnectPeers,
    Heartbeat,
    PeerConnected,
    PeerDisconnected,
    PeerEvent,
    PeerIdentity,
    PeerLane,
    PeerMessageReceived,
    Secret,
    Send,
)
from goqueue.runtime.event_log import silent_log
from goqueue.runtime.peers import Credentials, PeerConnections, PeerNetwork

__all__ = ["CONFIRM_EVERY", "LinkEnd"]

CONFIRM_EVERY = 1024
# As many as a node handles in one turn.
_EVENTS_AT_ONCE = 16
_HEARTBEAT_S = 0.5


class LinkEnd:
    """The links of one broker, whose events go to `take`."""

    def __init__(self, name: str, port: int, peers: list[int]) -> None:
        network = PeerNetwork(
            endpoint=Endpoint("127.0.0.1", port),
            peers=tuple(f"127.0.0.1:{each}" for each in peers),
            credentials=Credentials(Secret("bench-" * 4)),
        )
        self._links = PeerConnections(network, silent_log(), Random(port))
        self._links.inbox.wake = self._wake
        self._loop = asyncio.get_running_loop()
        self._is_scheduled = False
        self._identity = PeerIdentity(
            broker=name,
            directory=name.encode().hex().rjust(32, "0"),
            incarnation=1,
            address=f"127.0.0.1:{port}",
        )
        self.take: Callable[[PeerEvent], None] = self._answer
        self.connected: dict[tuple[str, PeerLane], None] = {}
        self._received = 0

    async def start(self) -> None:
        await self._links.open()
        await self._links.serve()
        self._links.carry_out(ConnectPeers(identity=self._identity))

    async def stop(self) -> None:
        await self._links.stop(1)

    def send(
        self,
        broker: str,
        message: Heartbeat,
        data: tuple[bytes, ...] = (),
        lane: PeerLane = PeerLane.REPLICATION,
    ) -> None:
        self._links.carry_out(Send(broker=broker, message=message, data=data, lane=lane))

    def _wake(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False
        inbox = self._links.inbox
        while inbox:
            for event in inbox.take(_EVENTS_AT_ONCE):
                if isinstance(event, PeerConnected):
                    self.connected[event.broker, event.lane] = None
                elif isinstance(event, PeerDisconnected):
                    self.connected.pop((event.broker, event.lane), None)
                self.take(event)

    def _answer(self, event: PeerEvent) -> None:
        if not isinstance(event, PeerMessageReceived):
            return
        assert isinstance(event.message, Heartbeat)
        if not event.message.is_leaving:
            self._received += 1
        if event.message.is_leaving or self._received % CONFIRM_EVERY == 0:
            self.send(event.broker, Heartbeat(metadata_version=self._received))

    async def send_heartbeats(self) -> None:
        self.take = lambda _: None
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            for broker, lane in list(self.connected):
                if lane is PeerLane.CONTROL:
                    self.send(broker, Heartbeat(), lane=lane)


async def _main(name: str, port: int, peers: list[int], *, has_heartbeats: bool) -> None:
    end = LinkEnd(name, port, peers)
    await end.start()
    print("ready", os.getpid(), flush=True)
    if has_heartbeats:
        await end.send_heartbeats()
    await asyncio.Event().wait()


if __name__ == "__main__":
    _, _mode, _name, _port, *_peers = sys.argv
    uvloop.run(
        _main(_name, int(_port), [int(each) for each in _peers], has_heartbeats=_mode == "idle")
    )
