"""A network of links between simulated brokers that delays, cuts, resets and forgets.

A `_Wire` is one connection with two directions. Each delivers in order, after delays that differ
from wire to wire, so messages overtake each other across links and never within one. Faults:

- *cut*: nothing passes from one address to another; the other way may work. What was under way is
  kept, as TCP repeats it, and arrives after the cut unless the connection has ended.
- *reset*: a connection ends; what it had not delivered is lost, and its ends notice at different
  moments. A process that dies resets its connections; a machine that loses power tells nobody, so
  the other end is half open until it is silent for too long.

Which links open and count is decided by the code that the sockets use (`Handshake`,
`PeerRegistry`). Messages travel as MessagePack, so nobody shares an object with another broker.

- *repeat*: a message of the control lane is sent again over a later connection of the same two
  processes. The sockets do not do so; nobody may rely on that. Where a world asks for it, a message
  of the replication lane comes again, too, whatever has happened between the two processes since.

Not modelled: frames and checksums (tests with sockets do that), and full queues.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from goqueue.cluster import (
    Confirm,
    Handshake,
    HandshakeState,
    Hello,
    LinkRefused,
    Offer,
    PeerRegistry,
    Ping,
    RefusalReason,
    Refuse,
    Welcome,
)
from goqueue.model import (
    MILLISECOND,
    SECOND,
    ConnectPeers,
    PeerConnected,
    PeerDisconnected,
    PeerEvent,
    PeerIdentity,
    PeerLane,
    PeerMessageReceived,
    Send,
    Timestamp,
)
from goqueue.sim.cluster.packets import DialTarget, LinkWeather, Packet, Repeat
from goqueue.sim.cluster.virtual_time import VirtualTime
from goqueue.sim.trace import Trace

__all__ = ["Host", "SimulatedNetwork"]

# As in `runtime/peers`.
_TICK_NS = SECOND
_SILENT_TICKS_MAX = 4
_HANDSHAKE_NS = 5 * SECOND
_DIAL_NS_MIN = 20 * MILLISECOND
_DIAL_NS_MAX = SECOND
_DIAL_GROWTH_MAX = 6
_REPEATS_MAX = 64
_REPEAT_NS_MAX = 3 * SECOND


class _Target(DialTarget):
    """An address that a host dials, with the connection that is being tried."""

    attempt: "_End | None" = None


class _End:
    """One end of a wire at one host."""

    def __init__(
        self, host: "Host", handshake: Handshake | None, target: _Target | None = None
    ) -> None:
        self.host = host
        # The address that this end dialled.
        self.target = target
        self.handshake = handshake
        self.wire: _Wire
        self.is_closed = False
        self.has_heard = True
        self.has_sent = True
        self.silent_ticks = 0
        # What is under way to this end, in order, and the moment of the last arrival.
        self.arriving: deque[Packet] = deque()
        self.last_arrival_ns = 0

    @property
    def is_open(self) -> bool:
        handshake = self.handshake
        return (
            not self.is_closed and handshake is not None and handshake.state is HandshakeState.OPEN
        )

    @property
    def offer(self) -> Offer:
        assert self.handshake is not None
        assert self.handshake.offer is not None
        return self.handshake.offer

    @property
    def other(self) -> "_End":
        near, far = self.wire.ends
        return far if self is near else near


class _Wire:
    """One connection: the dialling end first."""

    def __init__(self, number: int, dialling: _End, listening: _End) -> None:
        self.number = number
        self.ends = (dialling, listening)
        self.is_reset = False
        dialling.wire = listening.wire = self


class Host:
    """The links of one run of a process: what `PeerConnections` is on a real machine.

    `emit` receives the events of the node, `wall` reads the clock of the machine.
    """

    def __init__(
        self,
        network: "SimulatedNetwork",
        address: str,
        peers: tuple[str, ...],
        emit: Callable[[PeerEvent], None],
        wall: Callable[[], Timestamp],
    ) -> None:
        self.network = network
        self.address = address
        self._peers = peers
        self._emit = emit
        self._wall = wall
        self.is_alive = True
        self.is_paused = False
        # What arrives while the process is paused.
        self._backlog: deque[Callable[[], None]] = deque()
        self._identity: PeerIdentity | None = None
        self.registry: PeerRegistry[_End] | None = None
        self._targets: dict[str, _Target] = {}
        self._next_number = 1
        self._ended: dict[str, int] = {}
        self._repeats: deque[Repeat] = deque(maxlen=_REPEATS_MAX)
        network.attach(self)

    # ---- the process -------------------------------------------------------------------------

    def carry_out(self, effect: ConnectPeers | Send) -> None:
        """Do what the node wants of the network."""
        if isinstance(effect, Send):
            end = self.registry.find(effect.broker, effect.lane) if self.registry else None
            if end is not None:
                packet = Packet.of(effect)
                self._transmit(end, packet)
                if effect.lane is PeerLane.CONTROL and self.network.weather.repeats(
                    self.network.random
                ):
                    self._repeats.append(Repeat(effect.broker, packet, end.wire.number))
                elif self.network.weather.comes_late(effect.lane, self.network.random):
                    self._repeat_late(end, packet)
            return
        self._identity = effect.identity
        if self.registry is None:
            self.registry = self.network.registry_type(effect.identity.broker)
            self.network.time.after(_TICK_NS, self._tick)
        for address in (*self._peers, *effect.addresses):
            self._add_target(address)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """Go on with what came meanwhile, in order."""
        self.is_paused = False
        while self._backlog and self.is_alive and not self.is_paused:
            self._backlog.popleft()()

    def die(self, *, is_silent: bool) -> None:
        """The process is gone; with `is_silent` the machine with it, and nobody is told."""
        self.is_alive = False
        self._backlog.clear()
        self.network.detach(self, is_silent=is_silent)

    def when_running(self, action: Callable[[], None]) -> None:
        """Do something as this process: not when it is gone, later when it is paused."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._backlog.append(action)
        else:
            action()

    def links(self) -> dict[tuple[str, PeerLane], int]:
        """The number of the wire that counts for each broker and lane."""
        found = self.registry.links() if self.registry else []
        return {(offer.peer.broker, offer.lane): end.wire.number for offer, end in found}

    # ---- dialling ----------------------------------------------------------------------------

    def _add_target(self, address: str, broker: str = "") -> None:
        target = self._targets.setdefault(address, _Target(address))
        target.broker = target.broker or broker
        self._dial_soon(target)

    def _dial_soon(self, target: _Target) -> None:
        if target.is_dialling or target.is_self:
            return
        target.is_dialling = True
        growth = min(target.failures, _DIAL_GROWTH_MAX)
        bound = min(_DIAL_NS_MAX, _DIAL_NS_MIN << growth)
        delay = self.network.random.randrange(bound + 1)
        self.network.time.after(delay, lambda: self.when_running(partial(self._dial, target)))

    def _dial(self, target: _Target) -> None:
        target.is_dialling = False
        assert self.registry is not None
        assert self._identity is not None
        missing = [lane for lane in PeerLane if self.registry.find(target.broker, lane) is None]
        if target.broker and not missing:
            return
        lane = missing[0] if target.broker else PeerLane.CONTROL
        number = self._next_number
        self._next_number += 1
        handshake = Handshake(self._identity, self._judge, lane=lane, number=number)
        target.is_dialling = True
        target.attempt = _End(self, handshake, target)
        self.network.dial(target.attempt)

    def dialled(self, target: _Target, refusal: str = "", broker: str = "") -> None:
        """An attempt has come to its end: a link, or why there is none."""
        target.is_dialling = False
        target.attempt = None
        target.broker = broker or target.broker
        if refusal == RefusalReason.SELF:
            target.is_self = True
        if refusal == "connection refused" and target.broker:
            self._report_refused(target.broker)
        target.failures = target.failures + 1 if refusal else 0
        if not refusal or refusal != RefusalReason.SELF:
            self._dial_soon(target)

    def _report_refused(self, broker: str) -> None:
        assert self.registry is not None
        if any(self.registry.find(broker, lane) for lane in PeerLane):
            return
        incarnation = self._ended.pop(broker, None)
        if incarnation is None:
            return
        self._emit(
            PeerDisconnected(
                broker=broker, incarnation=incarnation, lane=PeerLane.CONTROL, is_refused=True
            )
        )

    def _judge(self, offer: Offer) -> None:
        assert self.registry is not None
        self.registry.judge(offer)

    # ---- links -------------------------------------------------------------------------------

    def listening_end(self) -> _End | None:
        """The end of a connection that is accepted; None if no link may open yet."""
        if self._identity is None:
            return None
        return _End(self, Handshake(self._identity, self._judge))

    def _transmit(self, end: _End, packet: Packet) -> None:
        end.has_sent = True
        self.network.transmit(end, packet)

    def begin(self, end: _End) -> None:
        """The connection is made: introduce this broker."""
        assert end.handshake is not None
        self._transmit(end, Packet(end.handshake.begin(self._wall())))

    def receive(self, end: _End, packet: Packet) -> None:
        """Something arrives at an end of this host."""
        if end.is_closed:
            return
        end.has_heard = True
        if packet.is_end or (end.is_open and isinstance(packet.link_message, Refuse)):
            # Refused also by an end that found another link while its welcome was under way.
            self.close(end)
        elif end.is_open:
            if packet.kind:
                self._receive_message(end, packet)
            else:
                assert isinstance(packet.link_message, Ping), "an open link has no handshake"
        else:
            assert packet.link_message is not None, "a message came before the link was open"
            self._shake_hands(end, packet.link_message)

    def _receive_message(self, end: _End, packet: Packet) -> None:
        peer = end.offer.peer
        self._emit(
            PeerMessageReceived(
                broker=peer.broker,
                directory=peer.directory,
                incarnation=peer.incarnation,
                message=packet.decode(),
                data=packet.data,
            )
        )

    def _shake_hands(self, end: _End, message: Hello | Welcome | Confirm | Refuse | Ping) -> None:
        handshake = end.handshake
        assert handshake is not None
        target = end.target
        try:
            reply = handshake.receive(message, self._wall())
        except LinkRefused as refused:
            if target is not None:
                named = refused.broker if refused.reason == RefusalReason.DUPLICATE else ""
                self.dialled(target, refused.reason, named)
            else:
                words = Refuse(reason=refused.reason, words=refused.words, broker=refused.broker)
                self._transmit(end, Packet(words))
            self.close(end)
            return
        if reply is not None:
            self._transmit(end, Packet(reply))
        if handshake.state is HandshakeState.OPEN:
            self._opened(end, handshake)
            if target is not None:
                self.dialled(target, broker=end.offer.peer.broker)

    def _opened(self, end: _End, handshake: Handshake) -> None:
        assert self.registry is not None
        offer = end.offer
        for other in self.registry.add(offer, end):
            self._report_end(other)
            self.close(other)
        self._ended.pop(offer.peer.broker, None)
        target = end.target
        self._emit(
            PeerConnected(
                identity=offer.peer,
                lane=offer.lane,
                reached_at=None if target is None else target.address,
                version=handshake.version,
                clock_offset_ns=handshake.clock_offset_ns,
            )
        )
        if target is None:
            self._add_target(offer.peer.address, offer.peer.broker)
        if offer.lane is PeerLane.CONTROL:
            self._repeat_some(end)

    def _repeat_some(self, end: _End) -> None:
        """Send what was remembered for this broker again, at any time from now on."""
        broker = end.offer.peer.broker
        again = [each for each in self._repeats if each.broker == broker]
        for each in again:
            self._repeats.remove(each)
            delay, action = (
                self.network.random.randrange(_REPEAT_NS_MAX),
                partial(self._send_again, each),
            )
            self.network.time.after(delay, partial(self.when_running, action))

    def _send_again(self, repeat: Repeat) -> None:
        end = self.registry.find(repeat.broker, PeerLane.CONTROL) if self.registry else None
        if end is not None and end.wire.number > repeat.wire:
            self._transmit(end, repeat.packet)
            self.network.repeated_total += 1

    def _repeat_late(self, end: _End, packet: Packet) -> None:
        """Send a message again later, to the same process."""
        network, peer = self.network, end.offer.peer

        def send_again() -> None:
            again = self.registry.find(peer.broker, PeerLane.REPLICATION) if self.registry else None
            if again is not None and again.offer.peer.incarnation == peer.incarnation:
                self._transmit(again, packet)
                network.repeated_total += 1

        again_ns = network.random.randrange(_REPEAT_NS_MAX)
        network.time.after(again_ns, lambda: self.when_running(send_again))

    def close(self, end: _End) -> None:
        """End a connection on this side, and tell the other."""
        if end.is_closed:
            return
        was_open = end.is_open
        self.network.close(end)
        if was_open and self.registry is not None and self.registry.remove(end.offer, end):
            self._report_end(end)
        target = end.target
        if target is not None and target.attempt is end:
            self.dialled(target, "the connection was closed")
        if was_open:
            for each in self._targets.values():
                if each.broker == end.offer.peer.broker:
                    each.failures = 0
                    self._dial_soon(each)

    def _report_end(self, end: _End) -> None:
        peer = end.offer.peer
        self._ended[peer.broker] = peer.incarnation
        self._emit(
            PeerDisconnected(broker=peer.broker, incarnation=peer.incarnation, lane=end.offer.lane)
        )

    def _tick(self) -> None:
        """Once a second, as long as the process runs: a pause delays it."""
        assert self.registry is not None
        for _, end in self.registry.links():
            end.silent_ticks = 0 if end.has_heard else end.silent_ticks + 1
            end.has_heard = False
            if end.silent_ticks >= _SILENT_TICKS_MAX:
                self.close(end)
            elif not end.has_sent:
                self._transmit(end, Packet(Ping()))
            end.has_sent = False
        self.network.time.after(_TICK_NS, lambda: self.when_running(self._tick))


class SimulatedNetwork:
    """Every wire of a world. `registry_type` is for worlds with a planted fault."""

    def __init__(
        self,
        time: VirtualTime,
        random: Random,
        trace: Trace,
        registry_type: type[PeerRegistry[_End]] = PeerRegistry,
    ) -> None:
        self.time = time
        self.random = random
        self.registry_type = registry_type
        self.weather = LinkWeather()
        self._trace = trace
        self._hosts: dict[str, Host] = {}
        # Addresses of machines without power: nothing there even refuses.
        self._dark: dict[str, None] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._wires: dict[int, _Wire] = {}
        self._next_wire = 1
        self.repeated_total = 0

    # ---- faults ------------------------------------------------------------------------------

    def cut(self, source: str, destination: str) -> None:
        """Let nothing pass from one address to another."""
        self._cuts[source, destination] = None
        self._trace.note("cut", f"{source} -> {destination}")

    def heal(self) -> None:
        """End every cut; what was kept arrives."""
        if self._cuts:
            self._trace.note("heal", len(self._cuts))
        self._cuts.clear()
        for wire in list(self._wires.values()):
            for end in wire.ends:
                self._schedule_arrivals(end)

    def reset_some(self, share: float) -> None:
        """Reset some of the connections."""
        for wire in list(self._wires.values()):
            if not wire.is_reset and self.random.random() < share:
                self._reset(wire)

    def _reset(self, wire: _Wire) -> None:
        self._trace.note("reset", wire.number)
        wire.is_reset = True
        for end in wire.ends:
            end.arriving.clear()
            self._close_later(end)

    def _close_later(self, end: _End) -> None:
        delay = self._delay_ns()
        host = end.host
        self.time.after(delay, lambda: host.when_running(partial(host.close, end)))

    # ---- hosts -------------------------------------------------------------------------------

    def attach(self, host: Host) -> None:
        assert host.address not in self._hosts, "two processes listen at one address"
        self._dark.pop(host.address, None)
        self._hosts[host.address] = host

    def detach(self, host: Host, *, is_silent: bool) -> None:
        """A process is gone: its kernel resets its connections, unless it is gone as well."""
        del self._hosts[host.address]
        if is_silent:
            self._dark[host.address] = None
        for wire in list(self._wires.values()):
            for end in wire.ends:
                if end.host is host and not end.is_closed:
                    end.is_closed = True
                    if is_silent:
                        # What it had sent may still be under way; nothing follows it.
                        continue
                    self.transmit(end, Packet(is_end=True))
            self._forget(wire)

    # ---- connections -------------------------------------------------------------------------

    def dial(self, end: _End) -> None:
        """Connect to an address; `dialled` of the host hears of it if nothing comes about."""
        host, target = end.host, end.target
        assert target is not None
        route, back = (host.address, target.address), (target.address, host.address)
        fail = partial(host.dialled, target)
        there = self._hosts.get(target.address)
        if target.address in self._dark or route in self._cuts or back in self._cuts:
            late = partial(fail, "nothing answers")
            self.time.after(_HANDSHAKE_NS, lambda: host.when_running(late))
            return
        listening = there.listening_end() if there is not None else None
        if there is None or listening is None:
            refusal = "connection refused" if there is None else RefusalReason.NOT_READY
            soon = partial(fail, str(refusal))
            self.time.after(2 * self._delay_ns(), lambda: host.when_running(soon))
            return
        wire = _Wire(self._next_wire, end, listening)
        self._next_wire += 1
        self._wires[wire.number] = wire
        for each in wire.ends:
            self.time.after(_HANDSHAKE_NS, partial(self._check_handshake, each))
        host.begin(end)

    def _check_handshake(self, end: _End) -> None:
        if not end.is_open and not end.is_closed:
            end.host.when_running(partial(end.host.close, end))

    def transmit(self, end: _End, packet: Packet) -> None:
        """Send a packet from an end to the other one."""
        other = end.other
        if end.wire.is_reset:
            return
        if other.is_closed and not packet.is_end:
            # Nobody is there: a reset comes back, if it can.
            if not self._is_dark(other) and not self._is_cut(end) and not self._is_cut(other):
                self._close_later(end)
            return
        if self.random.random() < self.weather.reset_share:
            self._reset(end.wire)
            return
        other.arriving.append(packet)
        self._schedule_arrival(other, packet)

    def _is_dark(self, end: _End) -> bool:
        return end.host.address in self._dark

    def _is_cut(self, end: _End) -> bool:
        """Whether nothing passes from this end to the other."""
        return (end.host.address, end.other.host.address) in self._cuts

    def _delay_ns(self) -> int:
        weather = self.weather
        if weather.slow_share and self.random.random() < weather.slow_share:
            return self.random.randrange(weather.slow_ns_max + 1)
        return self.random.randint(weather.delay_ns_min, weather.delay_ns_max)

    def _schedule_arrival(self, end: _End, packet: Packet) -> None:
        arrival = max(self.time.now_ns + self._delay_ns(), end.last_arrival_ns)
        arrival += self.weather.transit_ns(packet.size)
        end.last_arrival_ns = arrival
        self.time.after(arrival - self.time.now_ns, partial(self._arrive, end))

    def _schedule_arrivals(self, end: _End) -> None:
        for packet in end.arriving:
            self._schedule_arrival(end, packet)

    def _arrive(self, end: _End) -> None:
        """The next packet reaches an end, unless something keeps it."""
        if not end.arriving or self._is_cut(end.other):
            # Reset meanwhile, or kept until the cut ends.
            return
        packet = end.arriving.popleft()
        host = end.host
        if end.is_closed or not host.is_alive:
            if not packet.is_end and not self._is_dark(end) and not self._is_cut(end):
                self._close_later(end.other)
            return
        host.when_running(partial(host.receive, end, packet))

    def close(self, end: _End) -> None:
        """One end closes: the other hears of it behind what was sent before."""
        end.is_closed = True
        if not end.other.is_closed:
            self.transmit(end, Packet(is_end=True))
        self._forget(end.wire)

    def _forget(self, wire: _Wire) -> None:
        if all(end.is_closed for end in wire.ends):
            self._wires.pop(wire.number, None)
            for end in wire.ends:
                end.arriving.clear()
