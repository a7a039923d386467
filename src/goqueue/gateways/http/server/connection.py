"""One HTTP/1.1 connection: the IO between a socket, the reader of requests and the application.

Owns the transport, the handler of the request that is being answered, and the timer. Where the
connection stands, and what may follow, is in `states.py`; this module reports events to it and does
what the state allows. It never looks into a request.

Invariant: responses leave in the order of their requests, each whole, and nothing follows one that
says `Connection: close`.

Cost per request: no task, and no timer. The deadlines of a connection, that of the handler among
them, share one timer that moves at most once per time limit (see `deadlines.py`).
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import cast

from goqueue.gateways.connection_limits import Admission, ConnectionBytes
from goqueue.gateways.credentials import Hold
from goqueue.gateways.http.server.application import (
    Application,
    HttpLimits,
    HttpRequest,
    HttpResponse,
    HttpStream,
)
from goqueue.gateways.http.server.deadlines import (
    TCP_INPUT_ENDED,
    TCP_RESET,
    Alarm,
    ClientProbe,
    SendProgress,
    tcp_state_of,
)
from goqueue.gateways.http.server.reader import KnownHeads, RequestReader
from goqueue.gateways.http.server.request_runner import STREAMED, Outcome, RequestRunner
from goqueue.gateways.http.server.responses import (
    BODY_SLOW,
    CONTINUE,
    CUT_SHORT,
    FAULT,
    HEAD_SLOW,
    LAST_CHUNK,
    STOPPING,
    TOO_MANY_CONNECTIONS,
    UNAUTHENTICATED,
    UNSENT_FULL,
    Buffer,
    Refusal,
    chunk,
    encode,
)
from goqueue.gateways.http.server.states import (
    NEVER,
    ConnectionState,
    Event,
    Input,
    Phase,
    State,
    read_timeouts,
)
from goqueue.gateways.listener import TcpListener
from goqueue.gateways.lost_transport import LOST
from goqueue.gateways.paced_writer import PIECE_BYTES, PacedWriter
from goqueue.gateways.peer import peer_of

__all__ = ["HttpConnection"]

_logger = logging.getLogger(__name__)

# Bound here for the path of every request, see `states.py`.
_IDLE, _ANSWERING = State.IDLE, State.ANSWERING
_READING, _PAUSED = Input.READING, Input.PAUSED
_PHASE_ENDED = Phase.ENDED
_REQUEST_READ, _ANSWERED = Event.REQUEST_READ, Event.ANSWERED


class HttpConnection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client."""

    def __init__(
        self,
        application: Application,
        limits: HttpLimits,
        listener: TcpListener,
        heads: KnownHeads | None = None,
    ) -> None:
        self._listener = listener
        self._capacity = listener.capacity
        self._traffic = listener.traffic
        self._application = application
        self._limits = limits
        self._heads = heads
        self._timeouts = read_timeouts(limits)
        self._loop = asyncio.get_running_loop()
        self._states = ConnectionState()
        self._alarm = Alarm(self._loop, self._on_deadline)
        self._read_deadline = NEVER
        self._handling_deadline = NEVER
        self._bytes = ConnectionBytes(self._capacity, has_tenants=application.guard is not None)
        self._progress = SendProgress(limits, self._bytes.unsent)
        self._probe = ClientProbe()
        # Bytes that were received and not yet parsed.
        self._unread: memoryview | None = None
        # The request whose answer has to wait for something, and its handler.
        self._request: HttpRequest | None = None
        self._runner: RequestRunner | None = None
        # The client does not read, and the transport has buffered enough.
        self._is_blocked = False
        # Under TLS, what is larger than the transport should get at once waits in between.
        self._writer: asyncio.Transport | PacedWriter = LOST
        self._paced: PacedWriter | None = None
        self._version_answered = "1.1"
        # The body that is being sent, and what waits until the client has read some of it.
        self._stream: HttpStream | None = None
        self._drained: asyncio.Future[None] | None = None
        # Until a key was proved, where one is asked for.
        self._is_unproven = False
        # When the first acceptable request has to have come.
        self._first_by = NEVER
        # The answer to a failed attempt to authenticate, while it is held back.
        self._hold: Hold | None = None
        self._hold_timer: asyncio.TimerHandle | None = None

    # ---- what the listener calls -----------------------------------------------------------

    @property
    def states(self) -> ConnectionState:
        """Where the connection stands."""
        return self._states

    worker = None  # No task answers requests.

    def drain(self) -> None:
        """Answer what has been asked, then close; at once if nothing has."""
        self._reader.finish()
        self._advance()

    def cut(self) -> None:
        """Close without waiting for anything."""
        if self._states.state is not State.CLOSED:
            self._states.on(Event.CUT)
        self._transport.abort()

    # ---- what the event loop calls ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods without being of the class.
        self._transport = self._writer = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        self._peer = peer_of(transport)
        if self._peer.is_tls:
            self._writer = self._paced = PacedWriter(self._transport, self._loop, self._unblock)
            self._transport.set_write_buffer_limits(high=PIECE_BYTES)
        self._connected = self._application.connected(self._bytes)
        self._reader = RequestReader(
            self._peer,
            self._limits,
            self._application.resolve,
            self._bytes.requests,
            self._application.guard,
            admit=self._connected.admit,
            heads=self._heads,
        )
        match self._listener.admit(self, self._peer):
            case Admission.STOPPING:
                self._reader.refuse(STOPPING)
            case Admission.FULL:
                self._reader.refuse(TOO_MANY_CONNECTIONS)
            case Admission.OVERFULL | Admission.EXPIRED:
                self.cut()
            case Admission.ACCEPTED:
                if self._application.guard is not None:
                    self._expect_key()
        self._advance()

    def _expect_key(self) -> None:
        """Whoever sends no key soon has to leave, and makes room for others before."""
        self._is_unproven = True
        self._first_by = self._loop.time() + self._limits.head_timeout_s
        leaving = self._capacity.unproven.add(self, self._peer.address)
        if leaving is not None:
            leaving.cut()

    def _note_key(self) -> None:
        """A first request was acceptable; one without a key leaves the connection unproven."""
        self._first_by = NEVER
        if self._reader.has_proven:
            self._is_unproven = False
            self._capacity.unproven.remove(self)

    def data_received(self, data: bytes) -> None:
        self._traffic.bytes_in += len(data)
        if self._unread is not None:
            # It was already on its way when reading was paused.
            self._unread = memoryview(bytes(self._unread) + data)
            return
        self._feed(data)

    def eof_received(self) -> bool:
        self._states.on_input(Event.INPUT_ENDED)
        if self._paced is not None:
            self._paced.clear()
        if self._states.state is State.LINGERING:
            return False
        if self._unread is None:
            self._end_input()
        self._probe.start(self._loop.time())
        self._advance()
        # Closing is ours to decide: a response may be under way. Under TLS it is not: the end of
        # the input ends the connection, and what is not answered yet is not answered.
        return not self._peer.is_tls

    def pause_writing(self) -> None:
        if self._paced is not None:
            self._paced.pause()
        self._block()

    def resume_writing(self) -> None:
        if self._paced is None or not self._paced.resume():
            self._unblock()

    def _block(self) -> None:
        """The client does not read as fast as it is answered; only less unsent is progress."""
        if not self._is_blocked:
            self._is_blocked = True
            self._expect_progress()

    def _unblock(self) -> None:
        self._is_blocked = False
        self._progress.clear()
        if self._states.state is State.SENDING:
            # Not now: the transport is still busy with its buffer.
            self._loop.call_soon(self._resume_answering)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        self._states.on(Event.LOST)
        if self._paced is not None:
            self._paced.clear()
        self._transport, self._writer, self._paced = LOST, LOST, None
        self._progress.clear()
        self._alarm.stop()
        self._release_hold()
        if self._is_unproven:
            self._capacity.unproven.remove(self)
        self._connected.close()
        self._unread = None
        self._reader.release_all()
        self._bytes.close()
        runner, self._runner, self._request = self._runner, None, None
        if runner is not None:
            runner.interrupt(asyncio.CancelledError())
        self._listener.forget(self, self._peer)

    # ---- reading ---------------------------------------------------------------------------

    def _feed(self, data: bytes | memoryview) -> None:
        taken = self._reader.feed(data)
        if self._is_unproven and self._reader.has_accepted:
            self._note_key()
        if taken < len(data):
            self._unread = memoryview(data)[taken:]
        self._advance()

    def _feed_unread(self) -> None:
        data, self._unread = self._unread, None
        if data is None or self._states.state is State.CLOSED:
            return
        self._feed(data)
        if self._states.input is Input.ENDED and self._unread is None:
            self._end_input()
            self._advance()

    def _end_input(self) -> None:
        if self._reader.phase in (Phase.HEAD, Phase.BODY):
            self._reader.refuse(CUT_SHORT)
        else:
            self._reader.finish()

    def _advance(self) -> None:
        """After anything has happened on the reading side: answer, rest, set the deadlines."""
        states = self._states
        if states.state is _IDLE:
            if self._reader.requests:
                states.on(_REQUEST_READ)
                self._answer_requests()
            else:
                self._rest()
        if states.input is _READING and (self._unread is not None or self._reader.is_full):
            states.on_input(Event.READING_PAUSED)
            self._transport.pause_reading()
            self._probe.start(self._loop.time())
        self._set_deadlines()

    def _rest(self) -> None:
        """Everything asked so far is answered: refuse, close or get ready for more."""
        reader = self._reader
        if self._transport.is_closing():
            # It has failed by itself, and the loss is about to be reported.
            return
        if reader.refusal is UNAUTHENTICATED:
            self._refuse_late()
        elif reader.refusal is not None:
            self._refuse(reader.refusal)
        elif reader.phase is _PHASE_ENDED:
            self._close()
        elif self._unread is not None:
            # Not now: other connections have their turn between two pieces of this one.
            self._loop.call_soon(self._feed_unread)
        elif self._states.input is _PAUSED:
            self._resume_reading()
        if reader.owes_continue():
            self._write(CONTINUE)

    def _resume_reading(self) -> None:
        self._states.on_input(Event.READING_RESUMED)
        self._reader.has_new_phase = True
        self._transport.resume_reading()

    # ---- answering -------------------------------------------------------------------------

    def _answer_requests(self) -> None:
        """Answer the requests that were read, in order, until one has to wait or none is left."""
        states, requests = self._states, self._reader.requests
        while states.state is _ANSWERING:
            if not requests:
                states.on(_ANSWERED)
                self._reader.has_new_phase = True
                self._rest()
                return
            request = requests.popleft()
            outcome = self._begin(request)
            if outcome is None:
                return
            self._respond(request, outcome)

    def _begin(self, request: HttpRequest) -> Outcome | None:
        """Start to answer; None if that takes its time."""
        self._traffic.requests_total += 1
        self._version_answered = request.version
        if self._bytes.unsent.is_spent and request.target.may_be_large:
            # Readers that do not read hold so much that this one has to come again.
            return self._refusal(UNSENT_FULL, request.headers)
        runner = RequestRunner(self._loop, self._application.answer(request), self._handled)
        outcome = runner.start()
        if outcome is None:
            self._request, self._runner = request, runner
            self._handling_deadline = self._loop.time() + request.target.handling_s
        return outcome

    def _handled(self, outcome: Outcome) -> None:
        """What had to wait has come to an end."""
        request, self._request, self._runner = self._request, None, None
        self._handling_deadline = NEVER
        if self._states.state is not _ANSWERING:
            return
        assert request is not None
        self._respond(request, outcome)
        self._answer_requests()
        self._set_deadlines()

    def _respond(self, request: HttpRequest, outcome: Outcome) -> None:
        self._reader.release(len(request.body))
        if isinstance(outcome, asyncio.CancelledError):
            # Nobody will answer, and the client must not wait.
            self.cut()
            return
        if isinstance(outcome, HttpResponse) and outcome.stream is not None:
            self._begin_stream(request, outcome, outcome.stream)
            return
        for buffer in self._encode(request, outcome):
            self._write(buffer)
        if self._is_blocked and self._states.state is _ANSWERING:
            self._states.on(Event.WRITE_BLOCKED)
            # The whole response is in the buffer now; progress is measured from here.
            self._expect_progress()

    def _resume_answering(self) -> None:
        """The client has read most of a response."""
        if self._states.state is State.SENDING and not self._is_blocked:
            self._states.on(Event.WRITE_DRAINED)
            self._answer_requests()
            self._set_deadlines()

    def _encode(self, request: HttpRequest, outcome: Outcome) -> tuple[Buffer, ...]:
        failure: BaseException
        if isinstance(outcome, HttpResponse):
            try:
                return self._encode_response(request, outcome)
            except ValueError as error:
                failure = error
        else:
            failure = outcome
        _logger.error("the answer to a request failed", exc_info=failure)
        return self._encode_response(request, self._refusal(FAULT, request.headers))

    def _encode_response(self, request: HttpRequest, response: HttpResponse) -> tuple[Buffer, ...]:
        reader = self._reader
        return encode(
            response,
            is_head=request.method == "HEAD",
            is_last=reader.phase is _PHASE_ENDED and not reader.requests and reader.refusal is None,
            version=request.version,
        )

    def _refusal(self, refusal: Refusal, headers: Mapping[bytes, bytes]) -> HttpResponse:
        client = self._peer.address
        return self._application.refusal(
            refusal.status, refusal.code, refusal.sentence, refusal.details, headers, client=client
        )

    # ---- streaming -------------------------------------------------------------------------

    def _begin_stream(
        self, request: HttpRequest, response: HttpResponse, stream: HttpStream
    ) -> None:
        """Send a body as it comes into being; the connection ends with it."""
        self._reader.finish()
        is_head = request.method == "HEAD"
        for buffer in encode(response, is_head=True, is_last=True, version=request.version):
            self._write(buffer)
        self._states.on(Event.STREAM_BEGUN)
        if is_head:
            self._close()
            return
        self._stream = stream
        self._transport.set_write_buffer_limits(high=self._limits.stream_buffer_bytes_max)
        runner = RequestRunner(self._loop, self._run_stream(stream), self._streamed)
        self._runner = runner
        outcome = runner.start()
        if outcome is not None:
            self._streamed(outcome)

    async def _run_stream(self, stream: HttpStream) -> HttpResponse:
        await stream.run(self)
        return STREAMED

    async def send(self, data: bytes | bytearray) -> None:
        """Send a piece of the stream; waits while the client does not keep up."""
        if not data or self._states.state is not State.STREAMING:
            return
        self._write(self._chunk(data))
        while self._is_blocked:
            self._drained = self._loop.create_future()
            await self._drained

    def _chunk(self, data: bytes | bytearray) -> Buffer:
        return chunk(data) if self._version_answered == "1.1" else data

    def _streamed(self, outcome: Outcome) -> None:
        """The body is over, or broke off."""
        self._runner = self._stream = None
        if self._states.state is not State.STREAMING:
            return
        if isinstance(outcome, BaseException):
            if not isinstance(outcome, asyncio.CancelledError):
                _logger.error("a stream failed", exc_info=outcome)
            # Without its last chunk: the client sees that something is missing.
            self.cut()
            return
        if self._version_answered == "1.1":
            self._write(LAST_CHUNK)
        self._close()

    # ---- writing and closing ---------------------------------------------------------------

    def _write(self, buffer: Buffer) -> None:
        self._traffic.bytes_out += len(buffer)
        self._writer.write(buffer)
        if self._paced is not None and self._paced.is_pending:
            self._block()

    def _refuse_late(self) -> None:
        """Let a caller without a valid key wait for the answer; what it sends is not kept."""
        guard = self._application.guard
        assert guard is not None
        if self._hold is not None:
            return
        self._capacity.suspects.add(self._peer.address, self._loop.time())
        self._hold = hold = guard.hold(self._peer.address, self._reader.headers)
        if hold is None:
            self.cut()
            return
        self._hold_timer = self._loop.call_later(hold.delay_s, self._end_hold)

    def _end_hold(self) -> None:
        self._release_hold()
        if self._states.state is _IDLE and not self._transport.is_closing():
            self._refuse(UNAUTHENTICATED)
            self._set_deadlines()

    def _release_hold(self) -> None:
        if self._hold is not None and self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold.release()

    def _refuse(self, refusal: Refusal) -> None:
        """Say why, then let the client finish sending before the connection closes."""
        response = self._refusal(refusal, self._reader.headers)
        for buffer in encode(response, is_head=False, is_last=True, version="1.1"):
            self._write(buffer)
        self._unread = None
        if self._states.input is Input.ENDED:
            self._close()
            return
        self._states.on(Event.REFUSED)
        self._reader.has_new_phase = True
        if self._states.input is _PAUSED:
            self._resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _close(self) -> None:
        self._states.on(Event.FINISHED)
        self._writer.close()
        self._expect_progress()

    # ---- deadlines -------------------------------------------------------------------------

    def _set_deadlines(self) -> None:
        states, reader = self._states, self._reader
        if states.input is not _READING:
            self._read_deadline = NEVER
            reader.has_new_phase = False
        elif reader.has_new_phase:
            reader.has_new_phase = False
            timeout_s = self._timeouts[states.state][reader.phase]
            self._read_deadline = self._loop.time() + timeout_s
            if reader.phase is not Phase.ENDED:
                self._read_deadline = min(self._read_deadline, self._first_by)
        self._alarm.set(
            min(
                self._read_deadline,
                self._handling_deadline,
                self._progress.deadline,
                self._probe.deadline,
            )
        )

    def _on_deadline(self, now: float) -> None:
        if self._progress.deadline <= now:
            self._judge_progress()
        if self._probe.deadline <= now:
            self._probe.stop()
            if self._states.state in (State.ANSWERING, State.SENDING, State.STREAMING):
                self._look_for_client(now)
        if self._handling_deadline <= now:
            self._end_handling()
        if self._read_deadline <= now:
            self._read_deadline = NEVER
            self._end_patience()
        self._advance()

    def _end_handling(self) -> None:
        """An answer takes too long: the handler says so to the client."""
        self._handling_deadline = NEVER
        runner = self._runner
        if runner is not None:
            outcome = runner.interrupt(TimeoutError())
            if outcome is not None:
                self._handled(outcome)

    def _end_patience(self) -> None:
        phase = self._reader.phase
        if self._states.state is State.LINGERING:
            self.cut()
        elif phase is Phase.HEAD:
            self._reader.refuse(HEAD_SLOW)
        elif phase is Phase.BODY:
            self._reader.refuse(BODY_SLOW)
        else:
            self._reader.finish()

    def _expect_progress(self) -> None:
        self._progress.expect(self._writer.get_write_buffer_size(), self._loop.time())
        self._set_deadlines()

    def _judge_progress(self) -> None:
        if self._progress.is_enough(self._writer.get_write_buffer_size()):
            self._expect_progress()
        else:
            self._progress.deadline = NEVER
            self.cut()

    def _look_for_client(self, now: float) -> None:
        """Find out whether a client is still there, see `ClientProbe`."""
        if self._states.input is _READING:
            return
        state = tcp_state_of(self._transport)
        if state == TCP_RESET:
            self.cut()
            return
        is_able = self._version_answered == "1.1" and not self._is_blocked
        if state == TCP_INPUT_ENDED and is_able and not self._probe.is_sent:
            self._probe.is_sent = True
            self._write(CONTINUE if self._stream is None else self._chunk(self._stream.probe))
        self._probe.repeat(now)
