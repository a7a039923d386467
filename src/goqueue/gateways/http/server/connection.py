"""One HTTP/1.1 connection: requests in order, deadlines, bounded memory.

One timer for several deadlines that move often and are met rarely.

Moving a deadline later costs nothing: the timer in the loop stays where it is, finds when it goes
off that it is early, and is set again. Only an earlier deadline replaces it.

One connection: what it reads is answered in order, one request at a time, within its deadlines.

Owns the transport, the task that answers and the deadlines. Never looks into a request. Invariant:
responses leave in the order of their requests, each whole, and nothing follows one that says
`Connection: close`.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import cast

from goqueue.gateways.connection_limits import Admission, Capacity
from goqueue.gateways.http.server.application import (
    Application,
    HttpLimits,
    HttpRequest,
    HttpResponse,
)
from goqueue.gateways.http.server.reader import Phase, RequestReader
from goqueue.gateways.http.server.responses import (
    BODY_SLOW,
    CONTINUE,
    CUT_SHORT,
    FAULT,
    HEAD_SLOW,
    STOPPING,
    TOO_MANY_CONNECTIONS,
    UNSENT_FULL,
    Refusal,
    encode,
)
from goqueue.gateways.listener import Endpoint, TcpListener

__all__ = ["NEVER", "Alarm", "HttpConnection", "http_listener"]

NEVER = float("inf")


class Alarm:
    """Calls `ring` no earlier than the deadline last set, and at most once for it."""

    __slots__ = ("_deadline", "_loop", "_ring", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[float], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._deadline = NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER

    def set(self, deadline: float) -> None:
        self._deadline = deadline
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._go_off)
            self._timer_at = deadline

    def stop(self) -> None:
        self._deadline = self._timer_at = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self._timer_at = NEVER
        now = self._loop.time()
        deadline = self._deadline
        if now < deadline:
            self.set(deadline)
            return
        self._deadline = NEVER
        self._ring(now)


_logger = logging.getLogger(__name__)

# A client that has closed and one that has only finished sending look the same until something is
# sent to it. Quick answers are given this long to be that something; then the client is probed, and
# looked at again after the same time, then ever more rarely.
_PROBE_S = 0.02
_PROBE_S_MAX = 5.0
# TCP_CLOSE and TCP_CLOSE_WAIT of the kernel's tcp_states.h.
_RESET = 7
_INPUT_ENDED = 8


class HttpConnection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client."""

    def __init__(self, application: Application, limits: HttpLimits, listener: TcpListener) -> None:
        self._listener = listener
        self._capacity = listener.capacity
        self._traffic = listener.traffic
        self._application = application
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._loop, self._ring)
        self._read_deadline = NEVER
        self._write_deadline = NEVER
        self._probe_deadline = NEVER
        self._probe_s = _PROBE_S
        self._is_probed = False
        self._unread: memoryview | None = None
        self._unsent = 0
        self._worker: asyncio.Task[None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._running_version = "1.1"
        self._is_busy = False
        self._is_reading = True
        self._is_lingering = False
        self._is_half_closed = False
        self._is_lost = False

    @property
    def worker(self) -> asyncio.Task[None] | None:
        """The task that answers, if a request has ever come."""
        return self._worker

    def drain(self) -> None:
        """Answer what has been asked, then close; at once if nothing has."""
        self._reader.finish()
        self._go_on()

    def cut(self) -> None:
        """Close without waiting for anything."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods without being of the class.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        peer = transport.get_extra_info("peername")
        self._client = peer[0] if isinstance(peer, tuple) else ""
        self._reader = RequestReader(
            self._client, self._limits, self._application.body_limit, self._capacity.requests
        )
        match self._listener.admit(self, self._client):
            case Admission.STOPPING:
                self._reader.refuse(STOPPING)
            case Admission.FULL:
                self._reader.refuse(TOO_MANY_CONNECTIONS)
            case Admission.OVERFULL:
                self.cut()
        self._go_on()

    def data_received(self, data: bytes) -> None:
        self._traffic.bytes_in += len(data)
        if self._unread is not None:
            # It was already on its way when reading was paused.
            self._unread = memoryview(bytes(self._unread) + data)
            return
        self._take(data)

    def eof_received(self) -> bool:
        self._is_half_closed = True
        if self._is_lingering:
            return False
        if self._unread is None:
            self._end_input()
        self._probe_soon()
        self._go_on()
        # Closing is ours to decide: an answer may be under way.
        return True

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()
        self._expect_progress()

    def resume_writing(self) -> None:
        self._note_unsent(0)
        self._write_deadline = NEVER
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_lost = True
        self._note_unsent(0)
        self._alarm.stop()
        self._unread = None
        self._reader.release_all()
        if self._worker is not None:
            self._worker.cancel()
        self._listener.forget(self, self._client)

    def _take(self, data: bytes | memoryview) -> None:
        taken = self._reader.feed(data)
        if taken < len(data):
            self._unread = memoryview(data)[taken:]
        self._go_on()

    def _take_unread(self) -> None:
        data, self._unread = self._unread, None
        if data is None or self._is_lost:
            return
        self._take(data)
        if self._is_half_closed and self._unread is None:
            self._end_input()
            self._go_on()

    def _end_input(self) -> None:
        if self._reader.phase is Phase.BETWEEN:
            self._reader.finish()
        else:
            self._reader.refuse(CUT_SHORT)

    def _go_on(self) -> None:
        """After anything has happened on the reading side: answer, rest, set the deadlines."""
        if self._is_lost:
            return
        requests = self._reader.requests
        if not self._is_busy:
            if requests:
                self._start_answering()
            else:
                self._rest()
        if self._is_reading and (self._unread is not None or self._reader.is_full):
            self._is_reading = False
            self._transport.pause_reading()
            self._probe_soon()
        self._set_deadlines()

    def _start_answering(self) -> None:
        self._is_busy = True
        if self._wake is None:
            self._worker = self._loop.create_task(self._serve())
        else:
            self._wake.set_result(None)
            self._wake = None

    def _rest(self) -> None:
        """Everything asked so far is answered: refuse, close or get ready for more."""
        reader = self._reader
        if self._is_lingering or self._transport.is_closing():
            return
        if reader.refusal is not None:
            self._part(reader.refusal)
        elif reader.is_ended:
            self._close()
        elif self._unread is not None:
            # Not now: other connections have their turn between two pieces of this one.
            self._loop.call_soon(self._take_unread)
        elif not self._is_reading:
            self._is_reading = True
            reader.is_turned = True
            self._transport.resume_reading()
        if reader.owes_continue():
            self._write(CONTINUE)

    async def _serve(self) -> None:
        """One task per connection, not per request: waking it is cheaper than making one."""
        requests = self._reader.requests
        try:
            while True:
                while requests:
                    request = requests.popleft()
                    await self._answer(request)
                    if self._drained is not None:
                        await self._drained
                self._is_busy = False
                self._reader.is_turned = True
                self._rest()
                self._set_deadlines()
                if not requests:
                    self._wake = self._loop.create_future()
                    await self._wake
        finally:
            # Cancelled by the loss of the connection; by anything else, the client must not wait.
            self._transport.abort()

    async def _answer(self, request: HttpRequest) -> None:
        reader = self._reader
        size = len(request.body)
        self._traffic.requests_total += 1
        self._running_version = request.version
        try:
            if self._is_too_much(request):
                response = self._refusal(UNSENT_FULL, request.headers)
            else:
                response = await self._application.answer(request)
            buffers = self._encode(request, response)
        except Exception:
            _logger.exception("the answer to a request failed")
            buffers = self._encode(request, self._refusal(FAULT, request.headers))
        if self._is_lost:
            return
        reader.release(size)
        for buffer in buffers:
            self._write(buffer)
        if self._drained is not None:
            # The whole response is in the buffer now; progress is measured from here.
            self._expect_progress()

    def _is_too_much(self, request: HttpRequest) -> bool:
        """Whether readers that do not read hold so much that this one has to come again."""
        is_short = self._capacity.unsent.is_spent
        return is_short and self._application.may_be_large(request.method, request.path)

    def _encode(
        self, request: HttpRequest, response: HttpResponse
    ) -> tuple[bytes | bytearray | memoryview, ...]:
        reader = self._reader
        return encode(
            response,
            is_head=request.method == "HEAD",
            is_last=reader.is_ended and not reader.requests and reader.refusal is None,
            version=request.version,
        )

    def _refusal(self, refusal: Refusal, headers: Mapping[bytes, bytes]) -> HttpResponse:
        return self._application.refusal(
            refusal.status, refusal.code, refusal.sentence, refusal.details, headers
        )

    def _write(self, buffer: bytes | bytearray | memoryview) -> None:
        self._traffic.bytes_out += len(buffer)
        self._transport.write(buffer)

    def _part(self, refusal: Refusal) -> None:
        """Say why, then let the client finish sending before the connection goes."""
        response = self._refusal(refusal, self._reader.headers)
        for buffer in encode(response, is_head=False, is_last=True, version="1.1"):
            self._write(buffer)
        self._unread = None
        if self._is_half_closed:
            self._close()
            return
        self._is_lingering = True
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()
        self._transport.write_eof()
        self._read_deadline = self._loop.time() + self._limits.linger_timeout_s

    def _close(self) -> None:
        self._transport.close()
        self._expect_progress()

    def _set_deadlines(self) -> None:
        reader = self._reader
        if reader.is_turned and not self._is_lingering:
            reader.is_turned = False
            self._read_deadline = self._loop.time() + self._patience()
        elif not self._is_reading:
            self._read_deadline = NEVER
        self._alarm.set(min(self._read_deadline, self._write_deadline, self._probe_deadline))

    def _patience(self) -> float:
        """How long the client has for what it is expected to send next."""
        phase = self._reader.phase
        if not self._is_reading:
            return NEVER
        if phase is Phase.HEAD:
            return self._limits.head_timeout_s
        if phase is Phase.BODY:
            return self._limits.body_timeout_s
        return NEVER if self._is_busy else self._limits.idle_timeout_s

    def _ring(self, now: float) -> None:
        if self._write_deadline <= now:
            self._judge_progress()
        if self._probe_deadline <= now:
            self._probe_deadline = NEVER
            if self._is_busy:
                self._probe(now)
        if self._read_deadline <= now:
            self._read_deadline = NEVER
            self._run_out_of_patience()
        if not self._is_lost:
            self._go_on()

    def _run_out_of_patience(self) -> None:
        phase = self._reader.phase
        if self._is_lingering:
            self._transport.abort()
        elif phase is Phase.BETWEEN:
            self._reader.finish()
        else:
            self._reader.refuse(HEAD_SLOW if phase is Phase.HEAD else BODY_SLOW)

    def _expect_progress(self) -> None:
        self._note_unsent(self._transport.get_write_buffer_size())
        if self._unsent:
            self._write_deadline = self._loop.time() + self._limits.write_timeout_s
            self._set_deadlines()

    def _note_unsent(self, size: int) -> None:
        self._capacity.unsent.replace(self._unsent, size)
        self._unsent = size

    def _judge_progress(self) -> None:
        sent = self._unsent - self._transport.get_write_buffer_size()
        if sent < self._limits.write_bytes_per_s_min * self._limits.write_timeout_s:
            self._write_deadline = NEVER
            self._transport.abort()
        else:
            self._expect_progress()

    def _probe_soon(self) -> None:
        self._probe_s = _PROBE_S
        self._probe_deadline = self._loop.time() + _PROBE_S

    def _probe(self, now: float) -> None:
        """Find out whether a client is still there of which the loop hears nothing.

        The loop does not watch a socket after the end of its input, nor while reading is paused.
        To something sent to a client that has gone, its kernel answers with a reset. An interim
        response is all that may be sent before the answer is known, and only clients of HTTP/1.1
        understand it; one of HTTP/1.0 is given the benefit of the doubt.
        """
        if self._is_reading and not self._is_half_closed:
            return
        peer = self._transport.get_extra_info("socket")
        state = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        if state == _RESET:
            self._transport.abort()
            return
        is_able = self._running_version == "1.1" and self._drained is None
        if state == _INPUT_ENDED and is_able and not self._is_probed:
            self._is_probed = True
            self._write(CONTINUE)
        self._probe_deadline = now + self._probe_s
        self._probe_s = min(self._probe_s * 2, _PROBE_S_MAX)


def http_listener(
    application: Application,
    endpoint: Endpoint,
    *,
    limits: HttpLimits | None = None,
    capacity: Capacity | None = None,
) -> TcpListener:
    """A listener that serves an application over HTTP/1.1."""
    held = HttpLimits() if limits is None else limits
    return TcpListener(
        "http",
        endpoint,
        lambda listener: HttpConnection(application, held, listener),
        Capacity() if capacity is None else capacity,
    )
