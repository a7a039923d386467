"""RabbitMQ with durable queues, persistent messages and publisher confirms, over AMQP 0-9-1.

A confirm comes after the message is synced. An ack of a consumer has no answer in this protocol, so
consuming promises less here than elsewhere: a crash may bring messages again that were acked.

The client knows as much of the protocol as it needs: frames of one channel, one message to a body
frame, and deliveries that are all of the same length.
"""

import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.broker_process import Usage
from bench.dialogue import Countdown, Laps, Script, converse, free_port

__all__ = ["RabbitServer"]

# The program on the PATH, as Debian has it, runs only as the user of its package.
_PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_START_S = 90.0
_PREFETCH = 2000
_METHOD, _HEADER, _BODY = 1, 2, 3
_FRAME = struct.Struct(">BHI")
_CONFIRM = struct.Struct(">HHQB")
_BASIC_ACK = (60, 80)


def _frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + b"\xce"


def _method(class_id: int, method: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    return _frame(_METHOD, struct.pack(">HH", class_id, method) + arguments, channel)


def _short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def _frame_end(received: bytearray, start: int = 0) -> int:
    """The end of the frame at `start`; 0 while it is not complete."""
    if len(received) < start + _FRAME.size:
        return 0
    end = start + _FRAME.size + int(_FRAME.unpack_from(received, start)[2]) + 1
    return end if len(received) >= end else 0


def _frames_end(received: bytearray) -> int:
    """The end of the last complete frame."""
    end = 0
    while following := _frame_end(received, end):
        end = following
    return end


class RabbitServer:
    """`rabbitmq-server` on free ports and an empty directory; gone when the block ends."""

    name = "rabbitmq"
    per_mille = 50
    missing = "there is no rabbitmq-server on the PATH and in /usr/lib/rabbitmq/bin"

    def __init__(self, folder: str) -> None:
        self._data = Path(tempfile.mkdtemp(prefix="rabbitmq-", dir=folder))
        self._process: subprocess.Popen[bytes] | None = None
        self._epmd = {**os.environ, "ERL_EPMD_PORT": str(free_port())}
        self.port = free_port()

    @staticmethod
    def is_there() -> bool:
        return shutil.which("rabbitmq-server") is not None and os.path.exists(_PROGRAM)

    def __enter__(self) -> Self:
        plugins = self._data / "plugins"
        plugins.write_text("[].")
        # Erlang keeps a cookie in HOME, and a log of crashes where it is started.
        settings = {
            **self._epmd,
            "HOME": str(self._data),
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self._data / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self._data / "log"),
            "RABBITMQ_PID_FILE": str(self._data / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        }
        self._process = subprocess.Popen(
            [_PROGRAM],
            env=settings,
            cwd=self._data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _START_S
        while True:
            try:
                converse([(self.port, self.greet())])
                return self
            except OSError:
                if time.monotonic() > deadline:
                    self.__exit__(None, None, None)
                    raise
                time.sleep(0.2)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        # The shell that started the broker ends with it.
        os.kill(self._pid, signal.SIGKILL)
        self._process.wait(30)
        # The port mapper of Erlang outlives those who start it.
        mapper = shutil.which("epmd")
        if mapper is not None:
            subprocess.run([mapper, "-kill"], env=self._epmd, capture_output=True, check=False)
        shutil.rmtree(self._data, ignore_errors=True)

    @property
    def usage(self) -> Usage:
        return Usage(self._pid)

    @property
    def _pid(self) -> int:
        return int((self._data / "pid").read_text())

    @staticmethod
    def greet() -> Script:
        """Open a connection with one channel that confirms."""
        yield b"AMQP\x00\x00\x09\x01", _frame_end
        mechanism = _long(b"") + _short(b"PLAIN") + _long(b"\0guest\0guest") + _short(b"en_US")
        yield _method(10, 11, mechanism, channel=0), _frame_end
        # Frames of up to 128 KiB, and no heartbeats.
        tune = _method(10, 31, struct.pack(">HIH", 2047, 1 << 17, 0), channel=0)
        yield tune + _method(10, 40, _short(b"/") + b"\0\0", channel=0), _frame_end
        yield _method(20, 10, b"\0"), _frame_end
        yield _method(85, 10, b"\0"), _frame_end

    def renew(self, queue: str) -> None:
        def script() -> Script:
            yield from self.greet()
            name = struct.pack(">H", 0) + _short(queue.encode())
            yield _method(50, 40, name + b"\0"), _frame_end
            # Durable; neither exclusive nor deleted with its last consumer.
            answer = yield _method(50, 10, name + b"\x02" + _long(b"")), _frame_end
            assert answer[7:11] == struct.pack(">HH", 50, 11), answer

        converse([(self.port, script())])

    def publish_singly(self, queue: str, value: bytes, laps: Laps) -> Script:
        yield from self.greet()
        yield from laps.repeat(_content(queue, value), _frame_end, struct.pack(">HH", *_BASIC_ACK))

    def publish(self, queue: str, value: bytes, count: int, left: Countdown) -> Script:
        """Batch after batch, each confirmed before the next is sent."""
        yield from self.greet()
        batch = _content(queue, value) * count
        below = last = 0
        while left.take(count):
            last += count
            answer = yield batch, _frames_end
            # Confirmed one by one ahead of the others.
            ahead: set[int] = set()
            while True:
                for tag, is_multiple in _confirms(answer):
                    below = max(below, tag) if is_multiple else below
                    ahead.add(tag)
                while below + 1 in ahead:
                    below += 1
                if below >= last:
                    break
                answer = yield b"", _frames_end

    def consume(self, queue: str, left: Countdown) -> Script:
        """Deliveries come as they may; all that came together are acknowledged together."""
        yield from self.greet()
        yield _method(60, 10, struct.pack(">IHB", 0, _PREFETCH, 0)), _frame_end
        target = struct.pack(">H", 0) + _short(queue.encode()) + _short(b"c") + b"\0" + _long(b"")
        yield _method(60, 20, target), _frame_end
        size = 7 + 4 + 2 + 8 + 1 + 1 + 1 + len(queue) + 1 + 7 + 15 + 1 + 7 + 100 + 1

        def deliveries_end(received: bytearray) -> int:
            return len(received) // size * size

        ack = b""
        while left.left > 0:
            answer = yield ack, deliveries_end
            count = len(answer) // size
            tag = answer[(count - 1) * size + 13 : (count - 1) * size + 21]
            ack = _method(*_BASIC_ACK, tag + b"\x01")
            left.finish(count)


def _content(queue: str, value: bytes) -> bytes:
    """The frames of one message."""
    target = struct.pack(">H", 0) + _short(b"") + _short(queue.encode()) + b"\0"
    # Content of class 60; its only property is that it is persistent.
    header = struct.pack(">HHQHB", 60, 0, len(value), 0x1000, 2)
    return _method(60, 40, target) + _frame(_HEADER, header) + _frame(_BODY, value)


def _confirms(frames: bytes) -> Iterator[tuple[int, bool]]:
    """The tags of all confirms among frames, each with whether those before it are meant, too."""
    at = 0
    while at < len(frames):
        class_id, method, tag, is_multiple = _CONFIRM.unpack_from(frames, at + _FRAME.size)
        assert (class_id, method) == _BASIC_ACK, frames[at : at + 200]
        yield tag, bool(is_multiple)
        at += _FRAME.size + _CONFIRM.size + 1
