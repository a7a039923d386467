"""All links of one node: the listener of port 7000, dialling, and the way to and from the pump.

Owns the sockets. Which link counts is decided by the registry, what is said on one by its
handshake; this module carries it out, and reports links and messages to the node in an order that
the node can believe: `PeerConnected`, messages, `PeerDisconnected`, for each lane.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import Callable, Iterator, Sequence
from random import Random

import msgspec

from goqueue.cluster import (
    BROKERS_MAX,
    Handshake,
    LinkRefused,
    Offer,
    PeerRegistry,
    RefusalReason,
)
from goqueue.gateways import (
    Address,
    Capacity,
    ConnectionLimits,
    Endpoint,
    FailedAttempts,
    TcpListener,
)
from goqueue.metrics import Family, Kind
from goqueue.model import (
    ConnectPeers,
    PeerConnected,
    PeerDisconnected,
    PeerIdentity,
    PeerLane,
    PeerMessage,
    PeerMessageReceived,
    Secret,
    Send,
)
from goqueue.runtime.event_log import EventLog
from goqueue.runtime.peers.dialler import Dialler
from goqueue.runtime.peers.inbox import PeerInbox
from goqueue.runtime.peers.link import HANDSHAKE_S, Attempt, PeerLink
from goqueue.runtime.peers.upgrade import Credentials

__all__ = ["PeerConnections", "PeerNetwork", "split_address"]

_UNPROVED_MAX = 256
# Those that had to go for others are counted until their sockets are closed, some turns later.
_CONNECTIONS_MAX = 4 * _UNPROVED_MAX + len(PeerLane) * BROKERS_MAX
_TICK_S = 1.0
_SKEW_NS_MAX = 500_000_000
_REPLACED = "the secret that proved it was replaced"


class PeerNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Where this node listens for brokers, whom it dials, and what proves brokers to each other.

    Without `client_tls` only loopback addresses are dialled. `reports` serves HTTP on connections
    that have proved themselves and ask for a report instead of a link.
    """

    endpoint: Endpoint
    peers: tuple[str, ...]
    credentials: Credentials
    client_tls: Callable[[], ssl.SSLContext] | None = None
    reports: TcpListener | None = None


class PeerConnections:
    """The links of one node. `carry_out` receives the effects of the node, `inbox` its events."""

    def __init__(self, network: PeerNetwork, log: EventLog, random: Random) -> None:
        self._network = network
        self._log = log
        self._loop = asyncio.get_running_loop()
        self.inbox = PeerInbox()
        self.credentials = network.credentials
        self.attempts = FailedAttempts(self._loop.time)
        self._identity: PeerIdentity | None = None
        self._registry: PeerRegistry[PeerLink] | None = None
        # Its own: clients that fill the other listeners keep no broker out.
        self._capacity = Capacity(
            ConnectionLimits(
                connections_max=_CONNECTIONS_MAX,
                connections_per_address_max=_CONNECTIONS_MAX,
                unproven_max=_UNPROVED_MAX,
            )
        )
        self._listener = TcpListener(
            "internal",
            network.endpoint,
            lambda listener: PeerLink(self, listener=listener),
            self._capacity,
        )
        self._dialler = Dialler(self._dial, self._missing_lane, self._report_refused, random, log)
        self._next_number = 1
        # Brokers whose last link has ended: their incarnation, until nothing listens there.
        self._ended: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self.refused_total = 0
        self.messages_sent_total = 0
        self.messages_received_total = 0
        self.bytes_sent_total = 0
        self.bytes_received_total = 0

    # ---- starting and stopping ---------------------------------------------------------------

    async def open(self) -> Address:
        """Take the address; raises OSError."""
        return await self._listener.open()

    async def serve(self) -> None:
        """Accept connections; links open when the node has said who it is."""
        await self._listener.serve()
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    async def stop(self, grace_s: float) -> None:
        """Dial and accept no more, send what is queued, close everything within the grace."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        await self._dialler.stop()
        open_links = self._registry.links() if self._registry is not None else []
        for _, link in open_links:
            if link.attempt is not None:
                link.drain()
        await self._listener.stop(grace_s)
        if self._network.reports is not None:
            await self._network.reports.stop(0)
        for _, link in self._registry.links() if self._registry is not None else []:
            link.cut()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(_TICK_S, self._tick)
        if self._registry is not None:
            for _, link in self._registry.links():
                link.tick()

    # ---- effects of the node -----------------------------------------------------------------

    def carry_out(self, effect: ConnectPeers | Send) -> None:
        if isinstance(effect, Send):
            registry = self._registry
            link = None if registry is None else registry.find(effect.broker, effect.lane)
            if link is not None:
                size = link.send(effect.message, effect.data)
                self.messages_sent_total += 1
                self.bytes_sent_total += size
        elif not self._is_stopping:
            self._connect(effect)

    def _connect(self, effect: ConnectPeers) -> None:
        self._identity = effect.identity
        if self._registry is None:
            self._registry = PeerRegistry(effect.identity.broker)
            self._dialler.add(self._allowed(self._network.peers), is_kept=True)
        self._dialler.add(self._allowed(effect.addresses), is_kept=False)

    def _allowed(self, addresses: tuple[str, ...]) -> Iterator[str]:
        """Those that the secret may be sent to."""
        for address in addresses:
            if self._network.client_tls is not None or is_loopback(address):
                yield address
            else:
                self._log(
                    "peer_unreachable", address=address, reason="links beyond loopback need TLS"
                )

    # ---- dialling ----------------------------------------------------------------------------

    async def _dial(self, address: str, lane: PeerLane) -> str:
        host, port = split_address(address)
        attempt = Attempt(
            address=address,
            lane=lane,
            number=self._next_number,
            outcome=self._loop.create_future(),
        )
        self._next_number += 1
        tls = self._network.client_tls
        async with asyncio.timeout(HANDSHAKE_S):
            _, link = await self._loop.create_connection(
                lambda: PeerLink(self, attempt=attempt),
                host,
                port,
                ssl=None if tls is None else tls(),
                server_hostname=None if tls is None else host,
            )
            try:
                return await attempt.outcome
            finally:
                if not attempt.outcome.done() or attempt.outcome.cancelled():
                    link.end("the handshake took too long")

    def _missing_lane(self, broker: str) -> PeerLane | None:
        assert self._registry is not None
        for lane in PeerLane:
            if self._registry.find(broker, lane) is None:
                return lane
        return None

    def _report_refused(self, broker: str) -> None:
        """Nothing listens where a broker was: its process is gone."""
        if self._has_link(broker):
            # Those links break too; then it is dialled again.
            return
        incarnation = self._ended.pop(broker, None)
        if incarnation is None:
            return
        gone = PeerDisconnected(
            broker=broker, incarnation=incarnation, lane=PeerLane.CONTROL, is_refused=True
        )
        self.inbox.put(gone, PeerLane.CONTROL)

    def _has_link(self, broker: str) -> bool:
        assert self._registry is not None
        return any(self._registry.find(broker, lane) is not None for lane in PeerLane)

    # ---- what links report -------------------------------------------------------------------

    def handshake(self, link: PeerLink) -> Handshake:
        """The handshake of a new link; raises LinkRefused."""
        identity, registry = self._identity, self._registry
        if identity is None or registry is None or self._is_stopping:
            raise LinkRefused(RefusalReason.NOT_READY, "the broker is starting or stopping")

        def judge(offer: Offer) -> None:
            _check_certificate(link, offer)
            registry.judge(offer)

        if link.attempt is None:
            return Handshake(identity, judge)
        return Handshake(identity, judge, lane=link.attempt.lane, number=link.attempt.number)

    def connected(self, link: PeerLink) -> None:
        # A broker proves itself within a round trip: the oldest that has not is none.
        leaving = self._capacity.unproven.add(link, link.address)
        if leaving is not None:
            leaving.cut()

    def attach(self, transport: asyncio.Transport) -> asyncio.Protocol:
        assert self._network.reports is not None, "reports are served by a node"
        return self._network.reports.attach(transport)

    def proved(self, link: PeerLink) -> None:
        self._capacity.unproven.remove(link)

    def replace_secrets(self, secrets: Sequence[Secret]) -> None:
        """Accept these from now on, and send the first.

        Links that a secret may have proved which is not accepted any more end; the brokers that
        have another one are back at once.
        """
        if self.credentials.replace(secrets) and self._registry is not None:
            for _, link in self._registry.links():
                if self._is_outdated(link):
                    link.end(_REPLACED)

    def _is_outdated(self, link: PeerLink) -> bool:
        """Whether a secret may have proved this link that is not accepted any more."""
        return link.certificate is None and link.generation != self.credentials.generation

    def opened(self, link: PeerLink) -> None:
        registry, offer = self._registry, link.offer
        assert registry is not None
        if self._is_outdated(link):
            link.end(_REPLACED)
            return
        for other in registry.add(offer, link):
            self._report_end(other, "")
            other.end("another link took its place")
        peer = offer.peer
        self._ended.pop(peer.broker, None)
        attempt = link.attempt
        event = PeerConnected(
            identity=peer,
            lane=offer.lane,
            reached_at=None if attempt is None else attempt.address,
            version=link.version,
            clock_offset_ns=link.clock_offset_ns,
        )
        self.inbox.put(event, offer.lane)
        if attempt is None and (self._network.client_tls is not None or is_loopback(peer.address)):
            self._dialler.learn(peer.address, peer.broker)
        if offer.lane is PeerLane.CONTROL:
            self._log(
                "peer_connected",
                broker=peer.broker,
                address=peer.address,
                incarnation=peer.incarnation,
                version=link.version,
            )
            if abs(link.clock_offset_ns) > _SKEW_NS_MAX:
                offset_ms = link.clock_offset_ns // 1_000_000
                self._log("peer_clock_differs", broker=peer.broker, offset_ms=offset_ms)

    def received(
        self,
        link: PeerLink,
        message: PeerMessage,
        data: tuple[bytes | memoryview, ...],
        size: int,
    ) -> None:
        offer = link.offer
        peer = offer.peer
        self.messages_received_total += 1
        self.bytes_received_total += size
        event = PeerMessageReceived(
            broker=peer.broker,
            directory=peer.directory,
            incarnation=peer.incarnation,
            message=message,
            data=data,
        )
        self.inbox.put(event, offer.lane, link, size)

    def lost(self, link: PeerLink, reason: str) -> None:
        self._capacity.unproven.remove(link)
        if not reason:
            self.refused_total += link.attempt is None
            return
        assert self._registry is not None
        if self._registry.remove(link.offer, link):
            self._report_end(link, reason)
        self._dialler.lost(link.offer.peer.broker)

    def _report_end(self, link: PeerLink, reason: str) -> None:
        """Tell the node, and the log unless another link took the place: no reason is given."""
        offer = link.offer
        broker, incarnation = offer.peer.broker, offer.peer.incarnation
        self._ended[broker] = incarnation
        while len(self._ended) > BROKERS_MAX:
            del self._ended[next(iter(self._ended))]
        gone = PeerDisconnected(broker=broker, incarnation=incarnation, lane=offer.lane)
        self.inbox.put(gone, offer.lane)
        if reason and offer.lane is PeerLane.CONTROL and not self._is_stopping:
            self._log("peer_disconnected", broker=broker, reason=reason)

    # ---- metrics -----------------------------------------------------------------------------

    def metrics(self) -> Iterator[Family]:
        links = self._registry.links() if self._registry is not None else []
        yield Family(
            name="goqueue_peer_links",
            kind=Kind.GAUGE,
            meaning="Open links to other brokers, three for each.",
            samples=[((), len(links))],
        )
        yield Family(
            name="goqueue_peer_queued_bytes",
            kind=Kind.GAUGE,
            meaning="Bytes that links to other brokers have queued.",
            samples=[((), sum(link.queued_bytes for _, link in links))],
        )
        stale_total = self.inbox.stale_total
        network, peer = "goqueue_cluster_inter_broker_network", "goqueue_peer"
        counters = (
            (f"{network}_in_bytes", "Bytes of messages of other nodes.", self.bytes_received_total),
            (f"{network}_out_bytes", "Bytes sent to other nodes.", self.bytes_sent_total),
            (f"{peer}_messages_sent", "Messages sent to other brokers.", self.messages_sent_total),
            (
                f"{peer}_messages_received",
                "Messages of other brokers.",
                self.messages_received_total,
            ),
            (
                f"{peer}_messages_stale",
                "Messages of a run of a broker that had ended.",
                stale_total,
            ),
            (f"{peer}_refused", "Connections of brokers that opened no link.", self.refused_total),
        )
        for name, meaning, value in counters:
            yield Family(
                name=f"{name}_total",
                kind=Kind.COUNTER,
                meaning=meaning,
                samples=[((), value)],
            )


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, without the brackets of an IPv6 address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine is reached at `host:port`."""
    host = split_address(address)[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_certificate(link: PeerLink, offer: Offer) -> None:
    """Raise LinkRefused unless a broker with a certificate names a host that is in it."""
    if link.certificate is None:
        return
    host = split_address(offer.peer.address)[0]
    if not {f"dns:{host}", f"ip:{host}"} & set(link.certificate.names):
        words = f"the certificate does not name {host}, which the broker advertises"
        raise LinkRefused(RefusalReason.CERTIFICATE, words)
