"""The load generator: many connections in one thread, each driven by a script.

A script is a generator that yields what to send and how to find the end of the answer, and gets the
answer back. There are no futures, tasks or streams between it and the socket, so that the generator
spends little of the two cores that it shares with the broker. Waits are exact to some 50
microseconds; those of asyncio and uvloop are to a millisecond, more than the latencies measured.
"""

import select
import socket
import time
from collections.abc import Callable, Generator, Iterable
from types import TracebackType

__all__ = [
    "AnswerEnd",
    "Connection",
    "Countdown",
    "Dialogue",
    "Laps",
    "Script",
    "converse",
    "free_port",
    "lines_end",
]

# The number of bytes of the answer at the front of what was received; 0 while it is not complete.
AnswerEnd = Callable[[bytearray], int]
Script = Generator[tuple[bytes, AnswerEnd], bytes, None]
_RECEIVE_BYTES = 1 << 20


class Countdown:
    """How much work is left, over all scripts that share it, and when the last of it was done."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._began = time.perf_counter()
        self.seconds = 0.0

    def take(self, count: int) -> bool:
        """Whether there was work left; if so, it is taken."""
        if self.left <= 0:
            return False
        self.left -= count
        return True

    def finish(self, count: int) -> None:
        """So much of the work is done; consumers learn only then how much it was."""
        self.left -= count
        if self.left <= 0:
            self.seconds = time.perf_counter() - self._began


class Laps:
    """How long each request took, of scripts that send one after another until a moment."""

    def __init__(self, seconds: float) -> None:
        self._until = time.perf_counter() + seconds
        self.taken: list[float] = []

    def repeat(self, request: bytes, end: AnswerEnd, accepted: bytes) -> Script:
        """Send the same request over and over; every answer has `accepted` in it."""
        began = time.perf_counter()
        while began < self._until:
            answer = yield request, end
            now = time.perf_counter()
            self.taken.append(now - began)
            began = now
            assert accepted in answer, answer[:400]


class Connection:
    """One connection with one request on it at a time."""

    def __init__(self, epoll: select.epoll, port: int) -> None:
        self._epoll = epoll
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._received = bytearray()
        self._unsent = b""
        self._end: AnswerEnd = len
        self._on_answer: Callable[[bytes], None] | None = None
        epoll.register(self._socket, select.EPOLLIN)

    @property
    def fileno(self) -> int:
        return self._socket.fileno()

    def ask(self, data: bytes, end: AnswerEnd, on_answer: Callable[[bytes], None]) -> None:
        """Send a request. Bytes that were received ahead of it belong to its answer."""
        self._end = end
        self._on_answer = on_answer
        if data:
            self._send(data)
        if self._received:
            self._deliver()

    def handle(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._send(self._unsent)
        if events & ~select.EPOLLOUT:
            piece = self._socket.recv(_RECEIVE_BYTES)
            if not piece:
                raise ConnectionResetError("the peer closed a connection")
            self._received += piece
            self._deliver()

    def close(self) -> None:
        self._epoll.unregister(self._socket)
        self._socket.close()

    def _send(self, data: bytes) -> None:
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        was_waiting = bool(self._unsent)
        self._unsent = data[sent:] if sent < len(data) else b""
        if bool(self._unsent) != was_waiting:
            more = select.EPOLLOUT if self._unsent else 0
            self._epoll.modify(self._socket, select.EPOLLIN | more)

    def _deliver(self) -> None:
        on_answer = self._on_answer
        if on_answer is None:
            return
        end = self._end(self._received)
        if not end:
            return
        if end == len(self._received):
            answer, self._received = bytes(self._received), bytearray()
        else:
            answer = bytes(self._received[:end])
            del self._received[:end]
        self._on_answer = None
        on_answer(answer)


class Dialogue:
    """The connections of a measure, closed when the block ends."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._running = 0

    def __enter__(self) -> "Dialogue":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._connections.values():
            connection.close()
        self._epoll.close()

    def connect(self, port: int) -> Connection:
        connection = Connection(self._epoll, port)
        self._connections[connection.fileno] = connection
        return connection

    def start(self, port: int, script: Script) -> None:
        """Run a script on a connection of its own."""
        first = next(script, None)
        if first is None:
            return
        self._running += 1
        send, ask = script.send, self.connect(port).ask

        def resume(answer: bytes) -> None:
            try:
                data, end = send(answer)
            except StopIteration:
                self._running -= 1
            else:
                ask(data, end, resume)

        ask(*first, resume)

    def run(self, until: Countdown | None = None) -> None:
        """Until all scripts have ended, or there is no work left for those that wait for it."""
        while self._running and (until is None or until.left > 0):
            for number, events in self._epoll.poll():
                self._connections[number].handle(events)

    def step(self, seconds: float) -> None:
        """Handle what has come, or comes within this time."""
        select.select([self._epoll], [], [], max(0.0, seconds))
        for number, events in self._epoll.poll(0):
            self._connections[number].handle(events)


def converse(scripts: Iterable[tuple[int, Script]], until: Countdown | None = None) -> float:
    """Run scripts side by side, each on a connection to its port; the seconds that it took.

    With `until` they are broken off when that is done.
    """
    with Dialogue() as dialogue:
        began = time.perf_counter()
        for port, script in scripts:
            dialogue.start(port, script)
        dialogue.run(until)
        return time.perf_counter() - began


def lines_end(lines: int) -> AnswerEnd:
    """The answer is so many lines, or as many as came with the last of them."""

    def end(received: bytearray) -> int:
        return len(received) if received.count(b"\r\n") >= lines else 0

    return end


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
