"""One HTTP/2 connection of a client: frames in, frames out, windows, limits, its end.

Owns the socket and the streams, and never looks into a request: `Application.open` takes each one.

Hostile clients: everything is bounded. A frame by `FRAME_BYTES_MAX`, headers by `HeaderBlock`,
streams by `streams_max`, bodies by the windows, what waits for a slow reader by one write of the
application per stream, all that a tenant holds by `ConnectionBytes`, a turn of the loop by
`_FRAMES_PER_TURN`. `FloodCounts` has what costs work and carries nothing. A socket that takes
nothing for `stall_s` is cut, also while it is closed; a client that is silent while calls are open
is asked with a ping.

Invariants: the windows of the client are never exceeded, and trailers are the last frame of a
stream. Cost: one timer per connection that fires every `tick_s`; no task of its own.
"""

import asyncio
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import ClassVar, cast

from goqueue.gateways.connection_limits import Admission
from goqueue.gateways.grpc.http2.flood_limits import OVERSIZED_WEIGHT, SETTINGS_WEIGHT, FloodCounts
from goqueue.gateways.grpc.http2.frames import (
    FRAME_BYTES_MAX,
    PREFACE,
    WINDOW_MAX,
    ConnectionFault,
    ErrorCode,
    Flag,
    Frame,
    FrameReader,
    FrameType,
    SettingId,
    StreamFault,
    go_away,
    head_of_data,
    reset_stream,
    settings,
    unpadded,
    window_update,
    write_frame,
)
from goqueue.gateways.grpc.http2.header_block import HeaderBlock
from goqueue.gateways.grpc.http2.header_codec import (
    HEADERS_BYTES_MAX,
    TABLE_BYTES,
    HeaderDecoder,
    joined_headers,
)
from goqueue.gateways.grpc.http2.streams import (
    NO_SINK,
    WINDOW_BYTES,
    Application,
    Http2Limits,
    Http2Stream,
    StreamEnded,
    StreamState,
)
from goqueue.gateways.listener import TcpListener
from goqueue.gateways.lost_transport import LOST
from goqueue.gateways.peer import peer_of

__all__ = ["Http2Connection"]

# What the client may send on all streams together before it is allowed more.
_CONNECTION_WINDOW = 2 * 1024 * 1024
_WINDOW_DEFAULT = 65_535
_FRAME_DEFAULT = 16_384
_PING_BYTES = 8
# A connection with more to say lets others have their turn.
_FRAMES_PER_TURN = 1000
# A client has six settings to announce.
_SETTINGS_MAX = 32
_SERVER_PING = b"goqueue?"


class Http2Connection(asyncio.Protocol):
    """Speaks HTTP/2 with one client."""

    def __init__(
        self, application: Application, limits: Http2Limits, listener: TcpListener
    ) -> None:
        self._application = application
        self._limits = limits
        self._listener = listener
        self._capacity = listener.capacity
        self._traffic = listener.traffic
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(PREFACE)
        self._decoder = HeaderDecoder()
        self._streams: dict[int, Http2Stream] = {}
        self._last_stream = 0
        self._block = HeaderBlock()
        self._send_window = _WINDOW_DEFAULT
        self._initial_window = _WINDOW_DEFAULT
        self._frame_max = _FRAME_DEFAULT
        self._receive_window = _CONNECTION_WINDOW
        self._returned = 0
        # Streams that wait until they may send, the longest first.
        self._senders: dict[Http2Stream, None] = {}
        self._is_blocked = False
        self._buffered = 0
        self._is_draining = False
        self._is_lost = False
        self._floods = FloodCounts(limits)
        # Frames that came and wait for their turn; meanwhile nothing is read.
        self._frames: Iterator[Frame] | None = None
        self._backlog = bytearray()
        self._is_held = False
        self._closing_at: float | None = None
        self._heard_at = self._loop.time()
        self._has_asked = False
        self._blocked_at = 0.0

    # ---- what the listener calls -----------------------------------------------------------

    @property
    def worker(self) -> None:
        """Tasks belong to the calls, which cancel them."""
        return

    def drain(self) -> None:
        """Accept no more calls, let those that are open end, then close."""
        if self._is_draining or self._is_lost:
            return
        self._is_draining = True
        self._write(go_away(self._last_stream, ErrorCode.NO_ERROR))
        for stream in list(self._streams.values()):
            if stream.sink is not None:
                stream.sink.stop()
        self._close_when_done()

    def cut(self) -> None:
        """Close without waiting for anything."""
        self._transport.abort()

    # ---- what the event loop calls ---------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods without being of the class.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        self.peer = peer_of(transport)
        self._scope = self._application.connected(self)
        self.held = self._scope.held
        self._timer = self._loop.call_later(self._limits.tick_s, self._tick)
        admission = self._listener.admit(self, self.peer)
        if admission in (Admission.OVERFULL, Admission.EXPIRED):
            self.cut()
            return
        announced = {
            SettingId.MAX_CONCURRENT_STREAMS: self._limits.streams_max,
            SettingId.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
            SettingId.MAX_FRAME_SIZE: FRAME_BYTES_MAX,
            SettingId.MAX_HEADER_LIST_SIZE: HEADERS_BYTES_MAX,
            SettingId.HEADER_TABLE_SIZE: TABLE_BYTES,
        }
        self._write(settings(announced))
        self._write(window_update(0, _CONNECTION_WINDOW - _WINDOW_DEFAULT))
        if admission is not Admission.ACCEPTED:
            self._end(ErrorCode.ENHANCE_YOUR_CALM, "too many connections")
        elif self._scope.is_unproven:
            leaving = self._capacity.unproven.add(self, self.peer.address)
            if leaving is not None:
                leaving.cut()

    def data_received(self, data: bytes) -> None:
        self._traffic.bytes_in += len(data)
        self._heard_at = self._loop.time()
        self._has_asked = False
        if self._is_lost:
            return
        if self._frames is not None:
            # What a transport had read before it was told to wait.
            self._backlog += data
            return
        self._frames = self._reader.feed(data)
        self._handle_some()

    def _handle_some(self) -> None:
        """Handle what came, as much as a turn allows, and the rest after others had theirs."""
        frames, handled = self._frames, 0
        if frames is None or self._is_lost or self._transport.is_closing():
            self._frames = None
            return
        try:
            for frame in islice(frames, _FRAMES_PER_TURN):
                handled += 1
                self._handle(frame)
                if self._transport.is_closing():
                    self._frames = None
                    return
        except ConnectionFault as fault:
            self._frames = None
            self._end(fault.code, fault.reason)
            return
        if handled == _FRAMES_PER_TURN:
            self._is_held = True
            self._transport.pause_reading()
            self._loop.call_soon(self._handle_some)
            return
        self._frames = None
        if self._backlog:
            data, self._backlog = bytes(self._backlog), bytearray()
            self._frames = self._reader.feed(data)
            self._loop.call_soon(self._handle_some)
        elif self._is_held:
            self._is_held = False
            if not self._is_blocked:
                self._transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._blocked_at = self._loop.time()
        self._record_buffered()
        if not self._is_lost:
            # What is answered to it would only pile up.
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._record_buffered()
        if not self._is_lost and self._frames is None:
            self._transport.resume_reading()
        self._wake_senders()

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_lost = True
        self._is_blocked = False
        self.held.unsent.replace(self._buffered, 0)
        self._buffered = 0
        self._timer.cancel()
        self._capacity.unproven.remove(self)
        for stream in list(self._streams.values()):
            self._close_stream(stream, is_cancelled=True)
        self._scope.close()
        self._transport = LOST
        self._listener.forget(self, self.peer)

    # ---- what the application calls --------------------------------------------------------

    def prove(self) -> None:
        """A key was proved on this connection."""
        self._capacity.unproven.remove(self)

    def refuse_caller(self) -> None:
        """Somebody failed to prove a key: the connection ends with what is answered."""
        if self._is_draining or self._is_lost:
            return
        self._is_draining = True
        self._write(go_away(self._last_stream, ErrorCode.NO_ERROR, "no valid key"))
        self._close_when_done()

    def open_window(self, stream: int, size: int) -> None:
        """Allow the client to send more on a stream."""
        self._write(window_update(stream, size))

    async def send(self, stream: Http2Stream, data: bytes | bytearray) -> None:
        """Send a part of a body, as fast as the client takes it; raises StreamEnded."""
        view, position = memoryview(data), 0
        size = len(view)
        while position < size:
            if stream.is_closed:
                raise StreamEnded
            room = min(self._send_window, stream.send_window, self._frame_max, size - position)
            if room <= 0 or self._is_blocked:
                await self._wait_to_send(stream, size - position)
                continue
            self.send_at_once(stream, view[position : position + room])
            position += room

    def has_room(self, stream: Http2Stream, size: int) -> bool:
        """Whether so many bytes of a stream fit into one frame and into the windows."""
        room = min(self._send_window, stream.send_window, self._frame_max)
        return size <= room and not self._is_blocked and not self._is_lost

    def send_at_once(self, stream: Http2Stream, data: bytes | memoryview) -> None:
        """Send a frame for which there is room."""
        size = len(data)
        self._send_window -= size
        stream.send_window -= size
        self._floods.sent(size)
        self._write(head_of_data(0, stream.number, size) + data)

    def send_headers(self, stream: Http2Stream, block: bytes, *, is_last: bool) -> None:
        """Send headers or trailers; nothing if the stream is over."""
        if stream.is_closed or self._is_lost:
            return
        flags = Flag.END_HEADERS | (Flag.END_STREAM if is_last else 0)
        self._write(write_frame(FrameType.HEADERS, flags, stream.number, block))
        if is_last:
            if not stream.has_input_ended:
                # The client need not send the rest.
                self._write(reset_stream(stream.number, ErrorCode.NO_ERROR))
            self._close_stream(stream, is_cancelled=False)

    def reset(self, stream: Http2Stream, code: ErrorCode) -> None:
        """End a stream at once."""
        if not stream.is_closed:
            self._write(reset_stream(stream.number, code))
            self._close_stream(stream, is_cancelled=True)

    # ---- frames ----------------------------------------------------------------------------

    def _handle(self, frame: Frame) -> None:
        self._block.check(frame)
        handle = self._HANDLERS.get(frame.kind)
        if handle is None:
            # Of an unknown type, or a priority.
            self._floods.empty()
            return
        try:
            handle(self, frame)
        except StreamFault as fault:
            self._floods.reset()
            stream = self._streams.get(fault.stream)
            if stream is not None:
                self.reset(stream, fault.code)

    def _on_data(self, frame: Frame) -> None:
        size = len(frame.payload)
        self._receive_window -= size
        if self._receive_window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window is exceeded")
        self._returned += size
        if self._returned >= _CONNECTION_WINDOW // 2:
            self._receive_window += self._returned
            self._write(window_update(0, self._returned))
            self._returned = 0
        stream = self._streams.get(frame.stream)
        is_last = bool(frame.flags & Flag.END_STREAM)
        if not size and not is_last:
            self._floods.empty()
        if stream is None:
            # A call that was ended here: what was on its way is dropped.
            self._check_known(frame.stream)
            return
        if stream.has_input_ended:
            raise StreamFault(frame.stream, ErrorCode.STREAM_CLOSED)
        stream.take_window(size)
        data = unpadded(frame)
        if len(data) < size:
            stream.give_back(size - len(data))
        assert stream.sink is not None
        if len(data):
            stream.sink.receive(data)
        if is_last and not stream.is_closed:
            self._end_input(stream)

    def _end_input(self, stream: Http2Stream) -> None:
        stream.state = StreamState.INPUT_ENDED
        assert stream.sink is not None
        stream.sink.end_input()

    def _on_headers(self, frame: Frame) -> None:
        if self._block.begin(frame):
            self._end_block()

    def _on_continuation(self, frame: Frame) -> None:
        if self._block.append(frame):
            self._end_block()

    def _end_block(self) -> None:
        """A header block is whole: a new request, or the trailers of one."""
        frame, block = self._block.take()
        # Also of a request that is refused: the table of the decoder is shared by all.
        headers = self._decoder.decode(block)
        is_last = bool(frame.flags & Flag.END_STREAM)
        stream = self._streams.get(frame.stream)
        if stream is not None:
            if stream.has_input_ended or not is_last:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "headers within a body")
            self._end_input(stream)
            return
        if headers is None:
            self._floods.empty(OVERSIZED_WEIGHT)
        if frame.stream <= self._last_stream:
            # Trailers of a call that was ended here.
            self._floods.empty()
            return
        self._last_stream = frame.stream
        if self._is_draining or len(self._streams) >= self._limits.streams_max:
            self._write(reset_stream(frame.stream, ErrorCode.REFUSED_STREAM))
            return
        joined = None if headers is None else joined_headers(headers)
        stream = Http2Stream(self, frame.stream, joined or {}, self._initial_window)
        self._streams[frame.stream] = stream
        self._traffic.requests_total += 1
        if joined is None:
            stream.state = StreamState.INPUT_ENDED if is_last else StreamState.OPEN
            stream.sink = NO_SINK
            reason = "the headers are too large" if headers is None else "the headers are invalid"
            self._application.refuse(stream, reason)
            return
        stream.sink = self._application.open(self._scope, stream)
        if is_last and not stream.is_closed:
            self._end_input(stream)

    def _on_reset(self, frame: Frame) -> None:
        if len(frame.payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a reset has four bytes")
        self._check_known(frame.stream)
        self._floods.reset()
        stream = self._streams.get(frame.stream)
        if stream is not None:
            self._close_stream(stream, is_cancelled=True)

    def _on_settings(self, frame: Frame) -> None:
        if frame.stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "settings of a stream")
        if frame.flags & Flag.ACK:
            if frame.payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement is empty")
            self._floods.empty()
            return
        if len(frame.payload) % 6:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "settings are cut short")
        self._floods.empty(SETTINGS_WEIGHT)
        if len(frame.payload) > 6 * _SETTINGS_MAX:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many settings")
        for name, value in struct.iter_unpack(">HL", frame.payload):
            if name == SettingId.INITIAL_WINDOW_SIZE:
                self._set_initial_window(value)
            elif name == SettingId.MAX_FRAME_SIZE:
                if not _FRAME_DEFAULT <= value < 2**24:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "an impossible frame size")
                self._frame_max = min(value, FRAME_BYTES_MAX)
        self._write(write_frame(FrameType.SETTINGS, Flag.ACK, 0))

    def _set_initial_window(self, size: int) -> None:
        if size > WINDOW_MAX:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "an impossible window")
        change, self._initial_window = size - self._initial_window, size
        for stream in self._streams.values():
            stream.send_window += change
            if stream.send_window > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is too large")
        self._wake_senders()

    def _on_ping(self, frame: Frame) -> None:
        if frame.stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a ping of a stream")
        if len(frame.payload) != _PING_BYTES:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a ping has eight bytes")
        if frame.flags & Flag.ACK:
            self._floods.empty()
            return
        self._floods.ping()
        self._write(write_frame(FrameType.PING, Flag.ACK, 0, bytes(frame.payload)))

    def _on_go_away(self, frame: Frame) -> None:
        """The client opens no more calls."""
        if frame.stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a farewell of a stream")
        self._is_draining = True
        self._close_when_done()

    def _on_window_update(self, frame: Frame) -> None:
        if len(frame.payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a window has four bytes")
        self._floods.window_update()
        size = int.from_bytes(frame.payload, "big") & WINDOW_MAX
        if not frame.stream:
            was_open = self._send_window > 0
            self._send_window += size
            if not size or self._send_window > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "an impossible window")
            if not was_open:
                self._wake_senders()
            return
        self._check_known(frame.stream)
        stream = self._streams.get(frame.stream)
        if stream is None:
            return
        stream.send_window += size
        if not size or stream.send_window > WINDOW_MAX:
            raise StreamFault(frame.stream, ErrorCode.FLOW_CONTROL_ERROR)
        stream.wake()

    def _on_push(self, _frame: Frame) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client cannot push")

    def _check_known(self, number: int) -> None:
        if not number or number > self._last_stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame of a stream that never began")

    # ---- sending ---------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        self._traffic.bytes_out += len(data)
        self._transport.write(data)

    async def _wait_to_send(self, stream: Http2Stream, size: int) -> None:
        self.held.unsent.replace(stream.unsent, size)
        stream.unsent = size
        stream.waiter = self._loop.create_future()
        self._senders[stream] = None
        try:
            await stream.waiter
        finally:
            self._forget_sender(stream)

    def _forget_sender(self, stream: Http2Stream) -> None:
        self._senders.pop(stream, None)
        self.held.unsent.replace(stream.unsent, 0)
        stream.unsent, stream.waiter = 0, None

    def _wake_senders(self) -> None:
        for stream in self._senders:
            stream.wake()

    def _record_buffered(self) -> None:
        size = self._transport.get_write_buffer_size() if self._is_blocked else 0
        self.held.unsent.replace(self._buffered, size)
        self._buffered = size

    # ---- ends ------------------------------------------------------------------------------

    def _close_stream(self, stream: Http2Stream, *, is_cancelled: bool) -> None:
        stream.state = StreamState.CLOSED
        self._streams.pop(stream.number, None)
        stream.wake()
        if is_cancelled and stream.sink is not None:
            stream.sink.cancel()
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._is_draining and not self._streams and not self._is_lost:
            self._is_lost = True
            self._linger()

    def _end(self, code: ErrorCode, reason: str) -> None:
        """End the connection for a fault of the client."""
        self._write(go_away(self._last_stream, code, reason))
        self._is_lost = True
        for stream in list(self._streams.values()):
            self._close_stream(stream, is_cancelled=True)
        self._linger()

    def _linger(self) -> None:
        """Throw away what the client still sends until it has read the last word, then close.

        Closing at once would make the kernel answer what is unread with a reset, and the reason
        would be lost.
        """
        if self._transport.is_closing():
            return
        self._timer.cancel()
        self._timer = self._loop.call_later(self._limits.linger_s, self.cut)
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _tick(self) -> None:
        """What is counted in time: floods, silence, a reader that does not read."""
        limits, now = self._limits, self._loop.time()
        self._timer = self._loop.call_later(limits.tick_s, self._tick)
        self._floods.start_again()
        silent_s = now - self._heard_at
        buffered = self._transport.get_write_buffer_size()
        if self._is_blocked and buffered < self._buffered:
            self._blocked_at = now
            self._record_buffered()
        is_stalled = self._is_blocked and now - self._blocked_at >= limits.stall_s
        if self._transport.is_closing():
            # What is left to send may wait for a client that reads nothing.
            self._closing_at = self._closing_at or now
            is_stalled = is_stalled or now - self._closing_at >= limits.stall_s
        if (
            is_stalled
            or not self._reader.has_begun
            or (self._scope.is_unproven and not self._streams)
        ):
            self.cut()
        elif not self._streams:
            if silent_s >= limits.idle_s:
                self.drain()
        elif silent_s >= limits.silence_s * 1.5 and self._has_asked:
            self.cut()
        elif silent_s >= limits.silence_s and not self._has_asked and not self._is_blocked:
            self._has_asked = True
            self._write(write_frame(FrameType.PING, 0, 0, _SERVER_PING))

    _HANDLERS: ClassVar[dict[int, "Callable[[Http2Connection, Frame], None]"]] = {
        FrameType.DATA: _on_data,
        FrameType.HEADERS: _on_headers,
        FrameType.RST_STREAM: _on_reset,
        FrameType.SETTINGS: _on_settings,
        FrameType.PUSH_PROMISE: _on_push,
        FrameType.PING: _on_ping,
        FrameType.GOAWAY: _on_go_away,
        FrameType.WINDOW_UPDATE: _on_window_update,
        FrameType.CONTINUATION: _on_continuation,
    }
