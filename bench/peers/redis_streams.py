"""Redis Streams with every change synced before its answer, and a client of a few lines.

The client finds the end of an answer by counting lines, and so needs values without line breaks.
It builds no objects that a consumer would not look at: entries are taken from the lines by slices.

The append-only file is never rewritten during a run: a rewrite would take a core for a while.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Self

from bench.broker_process import Usage
from bench.dialogue import AnswerEnd, Countdown, Laps, Script, free_port, lines_end

__all__ = [
    "ACK_END",
    "RedisServer",
    "command",
    "entries_end",
    "poll_request",
    "settle",
]

_GROUP = b"g"
_START_S = 20.0
# Lines of a reply before its entries, and of one entry: `*2 $15 id *2 $1 v $100 value`.
_HEAD_LINES = 5
_ENTRY_LINES = 8


def command(*words: bytes) -> bytes:
    """The bytes of one command."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


class RedisServer:
    """`redis-server` on a free port and an empty directory; gone when the block ends."""

    name = "redis"
    per_mille = 1000
    missing = "there is no redis-server on the PATH"

    def __init__(self, folder: str) -> None:
        self._data = tempfile.mkdtemp(prefix="redis-", dir=folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @staticmethod
    def is_there() -> bool:
        return shutil.which("redis-server") is not None

    def __enter__(self) -> Self:
        program = shutil.which("redis-server")
        assert program is not None
        self._process = subprocess.Popen(
            [
                *(program, "--port", str(self.port), "--bind", "127.0.0.1"),
                *("--dir", self._data, "--logfile", os.path.join(self._data, "log")),
                *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
                *("--auto-aof-rewrite-percentage", "0"),
            ]
        )
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self.ask(b"PING")
                return self
            except OSError:
                assert time.monotonic() < deadline, "redis-server did not start in time"
                time.sleep(0.02)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)
        shutil.rmtree(self._data, ignore_errors=True)

    @property
    def usage(self) -> Usage:
        assert self._process is not None
        return Usage(self._process.pid)

    def ask(self, *words: bytes) -> bytes:
        """One command whose answer is a line, on a connection of its own."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(command(*words))
            answer = connection.recv(1 << 16)
        assert not answer.startswith(b"-"), answer
        return answer

    def renew(self, queue: str) -> None:
        """An empty stream with a group."""
        self.ask(b"DEL", queue.encode())
        self.ask(b"XGROUP", b"CREATE", queue.encode(), _GROUP, b"0", b"MKSTREAM")

    def publish(self, queue: str, value: bytes, count: int, left: Countdown) -> Script:
        """Batch after batch, each pipelined and answered before the next is sent."""
        batch = self.publish_one(queue, value)[0] * count
        end = lines_end(2 * count)
        while left.take(count):
            answer = yield batch, end
            assert not answer.startswith(b"-"), answer[:200]

    @staticmethod
    def publish_one(queue: str, value: bytes) -> tuple[bytes, AnswerEnd]:
        return command(b"XADD", queue.encode(), b"*", b"v", value), lines_end(2)

    def publish_singly(self, queue: str, value: bytes, laps: Laps) -> Script:
        return laps.repeat(*self.publish_one(queue, value), b"$")

    @staticmethod
    def consume(queue: str, left: Countdown) -> Script:
        """Lease up to 1,000 entries, acknowledge all of them, and so on."""
        poll = poll_request(queue)
        while left.left > 0:
            count, ack = settle(queue, (yield poll, entries_end))
            if count:
                answer = yield ack, ACK_END
                assert answer == b":%d\r\n" % count, answer
                left.finish(count)

    @staticmethod
    def read(queue: str, counted: list[int]) -> Script:
        """Read a whole stream, 1,000 entries at a time."""
        after = b"0"
        while True:
            words = (b"COUNT", b"1000", b"STREAMS", queue.encode(), after)
            answer = yield command(b"XREAD", *words), entries_end
            count = entry_count(answer)
            if not count:
                return
            lines = answer.split(b"\r\n")
            counted.append(len(lines[_HEAD_LINES + 7 :: _ENTRY_LINES]))
            after = lines[-1 - _ENTRY_LINES + 2]


def poll_request(queue: str) -> bytes:
    """Waits up to 200 ms for entries that no consumer of the group has had."""
    words = (b"GROUP", _GROUP, b"c", b"COUNT", b"1000", b"BLOCK", b"200", b"STREAMS")
    return command(b"XREADGROUP", *words, queue.encode(), b">")


def entries_end(received: bytearray) -> int:
    if received.startswith((b"*-1\r\n", b"-")):
        return len(received)
    count = entry_count(received)
    if count < 0 or received.count(b"\r\n") < _HEAD_LINES + count * _ENTRY_LINES:
        return 0
    return len(received)


def entry_count(answer: bytes | bytearray) -> int:
    """How many entries a reply has; -1 if that is not known yet."""
    if answer.startswith(b"*-1\r\n"):
        return 0
    assert not answer.startswith(b"-"), answer[:200]
    head = bytes(answer[:256]).split(b"\r\n", _HEAD_LINES)
    return int(head[_HEAD_LINES - 1][1:]) if len(head) > _HEAD_LINES else -1


def settle(queue: str, answer: bytes) -> tuple[int, bytes]:
    """How many entries a reply has, and the command that acknowledges them."""
    count = entry_count(answer)
    lines = answer.split(b"\r\n")
    lengths, ids = lines[_HEAD_LINES + 1 :: _ENTRY_LINES], lines[_HEAD_LINES + 2 :: _ENTRY_LINES]
    arguments: list[bytes] = [b""] * (2 * count)
    arguments[0::2], arguments[1::2] = lengths[:count], ids[:count]
    head = command(b"XACK", queue.encode(), _GROUP)
    return count, b"*%d" % (3 + count) + head[2:] + b"\r\n".join(arguments) + b"\r\n"


ACK_END = lines_end(1)
