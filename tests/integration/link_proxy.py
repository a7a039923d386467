"""A small TCP proxy between nodes that delays, drops and cuts, each direction by itself.

One proxy stands in front of one port. `Direction.FORWARD` is from who dials to who listens. What is
cut is kept and passed on later, as a network does that loses packets and repeats them; a connection
that is dropped is closed on both sides, with what was under way; a black hole accepts and says
nothing.
"""

import enum
import select
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from types import TracebackType

__all__ = ["Direction", "LinkProxy"]

_PIECE = 65_536
_LINGER_NONE = struct.pack("ii", 1, 0)
_POLL_S = 0.005


class Direction(enum.Enum):
    """From who dials to who listens, and back."""

    FORWARD = 0
    BACKWARD = 1


class _Pipe:
    """One direction of one connection: what came, and when it may go on."""

    def __init__(self, source: socket.socket, sink: socket.socket, direction: Direction) -> None:
        self.source = source
        self.sink = sink
        self.direction = direction
        self.held: deque[tuple[float, bytes]] = deque()
        self.has_ended = False


class LinkProxy:
    """Listens on a port of its own and connects to another; runs in one thread."""

    def __init__(self, target_port: int, port: int = 0) -> None:
        """Without a `port` the system chooses one."""
        self._target = ("127.0.0.1", target_port)
        self._listening = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port: int = self._listening.getsockname()[1]
        self.delay_s = dict.fromkeys(Direction, 0.0)
        self._is_cut = dict.fromkeys(Direction, False)
        self._is_black = False
        self._pipes: list[_Pipe] = []
        self._lonely: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_stopping = False
        self.accepted_total = 0
        self.bytes_total = dict.fromkeys(Direction, 0)
        self._thread = threading.Thread(target=self._run, name="link proxy", daemon=True)

    def __enter__(self) -> "LinkProxy":
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._is_stopping = True
        self._thread.join()
        self._listening.close()

    # ---- faults ------------------------------------------------------------------------------

    def cut(self, *directions: Direction) -> None:
        """Pass nothing in these directions; both if none is named."""
        for each in directions or Direction:
            self._is_cut[each] = True

    def heal(self) -> None:
        """Pass everything again, also what was kept."""
        self._is_black = False
        for each in Direction:
            self._is_cut[each] = False
            self.delay_s[each] = 0.0

    def swallow_connections(self) -> None:
        """Accept connections from now on and let nobody answer them."""
        self._is_black = True

    def drop_all(self) -> None:
        """Reset every connection; what was under way is lost."""
        with self._lock:
            for pipe in self._pipes:
                pipe.held.clear()
                _reset(pipe.source)
                _reset(pipe.sink)
            self._pipes.clear()

    # ---- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_stopping:
            with self._lock:
                sources = {pipe.source: pipe for pipe in self._pipes if not pipe.has_ended}
            readable, _, _ = select.select([self._listening, *sources], [], [], _POLL_S)
            with self._lock:
                for each in readable:
                    if each is self._listening:
                        self._accept()
                    elif sources[each] in self._pipes:
                        self._read(sources[each])
                for pipe in list(self._pipes):
                    self._pass_on(pipe)
        self.drop_all()
        for each in self._lonely:
            each.close()

    def _accept(self) -> None:
        near, _ = self._listening.accept()
        self.accepted_total += 1
        if self._is_black:
            self._lonely.append(near)
            return
        try:
            far = socket.create_connection(self._target, timeout=2)
        except OSError:
            _reset(near)
            return
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pipes.append(_Pipe(near, far, Direction.FORWARD))
        self._pipes.append(_Pipe(far, near, Direction.BACKWARD))

    def _read(self, pipe: _Pipe) -> None:
        try:
            piece = pipe.source.recv(_PIECE)
        except OSError:
            piece = b""
        if not piece:
            pipe.has_ended = True
        pipe.held.append((time.monotonic() + self.delay_s[pipe.direction], piece))

    def _pass_on(self, pipe: _Pipe) -> None:
        """Pass on what is due; an end is passed on too, behind what came before it."""
        if self._is_cut[pipe.direction] or pipe not in self._pipes:
            return
        while pipe.held and pipe.held[0][0] <= time.monotonic():
            _, piece = pipe.held.popleft()
            self.bytes_total[pipe.direction] += len(piece)
            try:
                if piece:
                    pipe.sink.sendall(piece)
                    continue
            except OSError:
                pass
            self._close(pipe)
            return

    def _close(self, pipe: _Pipe) -> None:
        """Close a connection on the side that its end has reached."""
        ends = {pipe.source, pipe.sink}
        if not self._is_cut[Direction.FORWARD] and not self._is_cut[Direction.BACKWARD]:
            self._pipes = [each for each in self._pipes if each.source not in ends]
            for each in ends:
                each.close()
        else:
            # The other way is cut: that side does not hear of it yet.
            self._pipes.remove(pipe)
            with suppress(OSError):
                pipe.sink.shutdown(socket.SHUT_WR)


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    end.close()
