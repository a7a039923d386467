"""One connection to another broker: the IO between a socket and the machines of a link.

    HEAD ──▶ HANDSHAKE ──▶ OPEN ──▶ CLOSED        an HTTP head, the handshake, then messages
      └───▶ REFUSING ────────────────▶ CLOSED     the listening end refuses a request, perhaps late

Both ends are the same class; the dialling one has an `Attempt`. What an open link means to others
is its owner's business (`connections.py`).

Invariants: nothing larger than a head or a handshake is kept before the link is open, and that
takes at most `HANDSHAKE_S`. What is queued is bounded in bytes; what does not fit ends the link, so
what arrives is always a prefix of what was sent. What the node has not handled yet is bounded too:
at the bound the socket is not read.
"""

import asyncio
import enum
from collections import deque
from typing import Protocol, cast

import msgspec

from goqueue.cluster import (
    Confirm,
    Handshake,
    HandshakeState,
    HandshakeViolated,
    Hello,
    LinkMessage,
    LinkRefused,
    Offer,
    Ping,
    Refuse,
    Welcome,
)
from goqueue.gateways import Admission, ClientCertificate, FailedAttempts, Hold, TcpListener
from goqueue.gateways import peer_of as client_of
from goqueue.model import PeerLane, PeerMessage
from goqueue.runtime.clock import read_clock
from goqueue.runtime.peers.frames import (
    FRAME_BYTES_MAX,
    Buffer,
    FrameDecoder,
    FrameInvalid,
    decode_message,
    encode_message,
)
from goqueue.runtime.peers.upgrade import (
    HEAD_BYTES_MAX,
    SWITCHED,
    Credentials,
    HeadInvalid,
    Outcome,
    judge_request,
    refusal_head,
    report_request,
    request_head,
    status_of,
)

__all__ = ["HANDSHAKE_S", "Attempt", "LinkLimits", "LinkOwner", "LinkState", "PeerLink"]

HANDSHAKE_S = 5.0
# Consecutive ticks: of silence, and of a socket that takes nothing.
_SILENT_TICKS_MAX = 4
_BLOCKED_TICKS_MAX = 10
_WRITE_BUFFER_BYTES = 1024 * 1024
_MIB = 1024 * 1024
_END = b"\r\n\r\n"


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one lane may wait, to be sent and to be handled."""

    queued_bytes_max: int
    unhandled_bytes_max: int
    unhandled_max: int = 4096


LIMITS = {
    PeerLane.CONTROL: LinkLimits(queued_bytes_max=4 * _MIB, unhandled_bytes_max=_MIB),
    PeerLane.REPLICATION: LinkLimits(queued_bytes_max=64 * _MIB, unhandled_bytes_max=32 * _MIB),
    PeerLane.FORWARDING: LinkLimits(queued_bytes_max=32 * _MIB, unhandled_bytes_max=32 * _MIB),
}


class LinkState(enum.Enum):
    """Where a connection stands."""

    HEAD = enum.auto()
    REFUSING = enum.auto()
    HANDSHAKE = enum.auto()
    OPEN = enum.auto()
    CLOSED = enum.auto()


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to reach a broker: the outcome is the broker, or raises why there is none."""

    address: str
    lane: PeerLane
    number: int
    outcome: asyncio.Future[str]


class LinkOwner(Protocol):
    """Who has the links of a node."""

    credentials: Credentials
    attempts: FailedAttempts

    def handshake(self, link: "PeerLink") -> Handshake:
        """The handshake of a new link; raises LinkRefused."""
        ...

    def connected(self, link: "PeerLink") -> None:
        """A socket is there, and has proved nothing."""
        ...

    def attach(self, transport: asyncio.Transport) -> asyncio.Protocol:
        """Serve HTTP on a connection that has proved itself."""
        ...

    def proved(self, link: "PeerLink") -> None:
        """The other end knows the secret, or has a certificate."""
        ...

    def opened(self, link: "PeerLink") -> None: ...

    def received(
        self,
        link: "PeerLink",
        message: PeerMessage,
        data: tuple[bytes | memoryview, ...],
        size: int,
    ) -> None: ...

    def lost(self, link: "PeerLink", reason: str) -> None: ...


class PeerLink(asyncio.Protocol):
    """One connection; `attempt` if this end dialled it, `listener` if it was accepted."""

    def __init__(
        self,
        owner: LinkOwner,
        *,
        attempt: Attempt | None = None,
        listener: TcpListener | None = None,
    ) -> None:
        self._owner = owner
        self._listener = listener
        self.attempt = attempt
        self.state = LinkState.HEAD
        self.certificate: ClientCertificate | None = None
        # Which secrets may prove it: see `Credentials`.
        self.generation = owner.credentials.generation
        self._loop = asyncio.get_running_loop()
        self._head = b""
        self._decoder = FrameDecoder()
        self._handshake: Handshake | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._hold: Hold | None = None
        self._limits = LIMITS[PeerLane.CONTROL]
        # Frames that the transport does not take yet.
        self._queue: deque[list[Buffer]] = deque()
        self._sizes: deque[int] = deque()
        self.queued_bytes = 0
        self._is_blocked = False
        self._blocked_ticks = 0
        self._has_sent = True
        self._has_heard = True
        self._silent_ticks = 0
        self._unhandled_bytes = 0
        self._unhandled = 0
        self._is_paused = False
        self.reason = "the connection was closed"

    # ---- what others ask ---------------------------------------------------------------------

    @property
    def offer(self) -> Offer:
        """Which link this is; it is open, or was."""
        assert self._handshake is not None
        assert self._handshake.offer is not None
        return self._handshake.offer

    @property
    def version(self) -> int:
        assert self._handshake is not None
        return self._handshake.version

    @property
    def clock_offset_ns(self) -> int:
        assert self._handshake is not None
        return self._handshake.clock_offset_ns

    @property
    def address(self) -> str:
        """Where the other end is, as the socket says."""
        return self._peer.address

    @property
    def worker(self) -> None:
        """No task answers requests."""
        return

    def drain(self) -> None:
        """Send what is queued, then close."""
        if self.state is LinkState.OPEN:
            self._flush()
            self._transport.close()
        else:
            self.cut()

    def cut(self) -> None:
        """Close without waiting for anything."""
        self._transport.abort()

    def end(self, reason: str) -> None:
        """Close at once, for this reason."""
        self.reason = reason
        self._transport.abort()

    # ---- what the event loop calls -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods without being of the class.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self._peer = client_of(transport)
        self.certificate = self._peer.certificate
        self._timer = self._loop.call_later(HANDSHAKE_S, self.end, "the handshake took too long")
        if self._listener is not None:
            if self._listener.admit(self, self._peer) is not Admission.ACCEPTED:
                self.end("no room")
                return
            self._owner.connected(self)
        elif self.attempt is not None:
            self._transport.write(request_head(self.attempt.address, self._owner.credentials))

    def data_received(self, data: bytes) -> None:
        self._has_heard = True
        try:
            if self.state is LinkState.HEAD:
                self._receive_head(data)
            elif self.state is LinkState.HANDSHAKE or self.state is LinkState.OPEN:
                self._receive_frames(data)
        except LinkRefused as refused:
            self._refuse(refused)
        except (FrameInvalid, HandshakeViolated, HeadInvalid) as error:
            self._fail(error)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._blocked_ticks = 0
        while self._queue and not self._is_blocked:
            self.queued_bytes -= self._sizes.popleft()
            self._write(self._queue.popleft())

    def connection_lost(self, error: Exception | None) -> None:
        state, self.state = self.state, LinkState.CLOSED
        if error is not None:
            self.reason = str(error) or type(error).__name__
        if self._timer is not None:
            self._timer.cancel()
        if self._hold is not None:
            self._hold.release()
        self._queue.clear()
        self._sizes.clear()
        self.queued_bytes = 0
        if self.attempt is not None and not self.attempt.outcome.done():
            self.attempt.outcome.set_exception(ConnectionError(self.reason))
        if self._listener is not None:
            self._listener.forget(self, self._peer)
        self._owner.lost(self, self.reason if state is LinkState.OPEN else "")

    # ---- the head ----------------------------------------------------------------------------

    def _receive_head(self, data: bytes) -> None:
        self._head += data
        end = self._head.find(_END)
        is_whole = end >= 0
        if not is_whole and len(self._head) <= HEAD_BYTES_MAX:
            return
        head, rest = self._head[: end + len(_END)], self._head[end + len(_END) :]
        self._head = b""
        if self.attempt is not None:
            status = status_of(head) if is_whole else 0
            if status == Outcome.UNPROVED.status:
                raise LinkRefused("unauthenticated", "it has another cluster secret or authority")
            if status != Outcome.LINK.status:
                raise LinkRefused("http", f"it answers with status {status}")
            self._begin_handshake()
            # A broker that is not ready says so at once, and waits for no hello.
            self._receive_frames(rest)
            return
        outcome = Outcome.INVALID
        if is_whole and len(head) <= HEAD_BYTES_MAX:
            outcome = judge_request(head, self._owner.credentials, self.certificate)
        if outcome is Outcome.REPORT and (not rest or head.startswith(b"POST ")):
            self._pass_on(head, rest)
        elif outcome not in {Outcome.LINK, Outcome.REPORT}:
            self._answer_refused(outcome)
        elif rest:
            raise FrameInvalid("bytes came before the protocol was switched")
        else:
            self._owner.proved(self)
            self._transport.write(SWITCHED)
            self._begin_handshake()

    def _pass_on(self, head: bytes, rest: bytes) -> None:
        """Let HTTP answer this one request; the connection is no link any more."""
        assert self._listener is not None
        self.state = LinkState.CLOSED
        if self._timer is not None:
            self._timer.cancel()
        self._owner.proved(self)
        self._listener.forget(self, self._peer)
        protocol = self._owner.attach(self._transport)
        self._transport.set_protocol(protocol)
        protocol.data_received(report_request(head) + rest)

    def _answer_refused(self, outcome: Outcome) -> None:
        self.state = LinkState.REFUSING
        if outcome is not Outcome.UNPROVED:
            self._finish_refusal(outcome)
            return
        self._hold = self._owner.attempts.hold(self.address)
        if self._hold is None:
            self.end("too many failed attempts")
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._hold.delay_s, self._finish_refusal, outcome)

    def _finish_refusal(self, outcome: Outcome) -> None:
        self._transport.write(refusal_head(outcome))
        self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(HANDSHAKE_S, self.cut)

    # ---- the handshake -----------------------------------------------------------------------

    def _begin_handshake(self) -> None:
        self.state = LinkState.HANDSHAKE
        self._handshake = self._owner.handshake(self)
        if self.attempt is not None:
            self._write_message(self._handshake.begin(read_clock().wall))

    def _receive_frames(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            size = len(frame.header) + sum(map(len, frame.data))
            self._receive(decode_message(frame), frame.data, size)
            if self._transport.is_closing():
                break

    def _receive(
        self,
        message: LinkMessage | PeerMessage,
        data: tuple[bytes | memoryview, ...],
        size: int,
    ) -> None:
        if self.state is LinkState.OPEN:
            if isinstance(message, Refuse):
                # The other end found another link while its welcome was under way.
                self.end(f"refused: {message.reason[:100]}")
                return
            if isinstance(message, Hello | Welcome | Confirm):
                raise FrameInvalid(f"{type(message).__name__} came on an open link")
            if not isinstance(message, Ping):
                self._count_unhandled(size)
                self._owner.received(self, message, data, size)
            return
        if data:
            raise FrameInvalid("a handshake has no attachments")
        handshake = self._handshake
        assert handshake is not None
        reply = handshake.receive(message, read_clock().wall)
        if reply is not None:
            self._write_message(reply)
        if handshake.state is HandshakeState.OPEN:
            self._open(handshake)

    def _open(self, handshake: Handshake) -> None:
        assert handshake.offer is not None
        self.state = LinkState.OPEN
        self._decoder.bytes_max = FRAME_BYTES_MAX
        self._limits = LIMITS[handshake.offer.lane]
        if self._timer is not None:
            self._timer.cancel()
        self._owner.opened(self)
        if self.attempt is not None:
            self.attempt.outcome.set_result(handshake.offer.peer.broker)

    def _refuse(self, refused: LinkRefused) -> None:
        self.reason = str(refused)
        if self.attempt is not None:
            if not self.attempt.outcome.done():
                self.attempt.outcome.set_exception(refused)
            self._transport.abort()
            return
        broker = refused.broker if self._handshake is not None else ""
        self._write_message(Refuse(reason=refused.reason, words=refused.words, broker=broker))
        self.state = LinkState.REFUSING
        self._transport.close()

    def _fail(self, error: Exception) -> None:
        if self.attempt is not None and not self.attempt.outcome.done():
            self.attempt.outcome.set_exception(ConnectionError(str(error)))
        self.end(str(error))

    # ---- messages ----------------------------------------------------------------------------

    def send(self, message: PeerMessage, data: tuple[Buffer, ...] = ()) -> int:
        """Send a message, or queue it; the number of its bytes. A full queue ends the link."""
        if self.state is not LinkState.OPEN or self._transport.is_closing():
            return 0
        buffers, size = encode_message(message, data)
        self._has_sent = True
        if not self._is_blocked:
            self._write(buffers)
        elif self.queued_bytes + size > self._limits.queued_bytes_max:
            self.end(f"the other end is too slow: {self.queued_bytes} bytes were queued")
        else:
            self._queue.append(buffers)
            self._sizes.append(size)
            self.queued_bytes += size
        return size

    def _write_message(self, message: LinkMessage) -> None:
        self._has_sent = True
        self._write(encode_message(message)[0])

    def _write(self, buffers: list[Buffer]) -> None:
        # With one call: each by itself would be a packet that wakes the other end for a few bytes.
        self._transport.writelines(buffers)

    def _flush(self) -> None:
        for buffers in self._queue:
            self._write(buffers)
        self._queue.clear()
        self._sizes.clear()
        self.queued_bytes = 0

    def _count_unhandled(self, size: int) -> None:
        self._unhandled += 1
        self._unhandled_bytes += size
        if not self._is_paused and (
            self._unhandled >= self._limits.unhandled_max
            or self._unhandled_bytes >= self._limits.unhandled_bytes_max
        ):
            self._is_paused = True
            self._transport.pause_reading()

    def handled(self, size: int) -> None:
        """The node has taken a message of this size."""
        self._unhandled -= 1
        self._unhandled_bytes -= size
        if self._is_paused and (
            self._unhandled <= self._limits.unhandled_max // 2
            and self._unhandled_bytes <= self._limits.unhandled_bytes_max // 2
        ):
            self._is_paused = False
            if self.state is LinkState.OPEN and not self._transport.is_closing():
                self._transport.resume_reading()

    def tick(self) -> None:
        """A second of this loop has passed: close a link that is silent or stuck."""
        if self.state is not LinkState.OPEN:
            return
        # A link that is not read says nothing about the other end.
        is_silent = not self._has_heard and not self._is_paused
        self._silent_ticks = self._silent_ticks + 1 if is_silent else 0
        self._has_heard = False
        self._blocked_ticks = self._blocked_ticks + 1 if self._is_blocked else 0
        if self._silent_ticks >= _SILENT_TICKS_MAX:
            self.end("nothing was heard for seconds")
        elif self._blocked_ticks >= _BLOCKED_TICKS_MAX:
            self.end("the other end took nothing for ten seconds")
        elif not self._has_sent and not self._is_blocked:
            self._write_message(Ping())
        self._has_sent = False
