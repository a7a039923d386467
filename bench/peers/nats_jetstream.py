"""NATS JetStream with file storage: a pull consumer, and acks of which the last is confirmed.

From version 2.10 on every write is synced before its answer; older servers sync every two minutes,
and are named for that. JSON answers of the server are one line each, so the client counts lines.
"""

import itertools
import json
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.broker_process import Usage
from bench.dialogue import AnswerEnd, Countdown, Laps, Script, converse, free_port, lines_end

__all__ = ["NatsServer"]

_START_S = 20.0
_SYNCS_FROM = (2, 10)
# What is there; if there is nothing, the next message.
_POLL = b'{"batch":1000,"no_wait":true}'
_WAIT = b'{"batch":1,"expires":200000000}'
_CONSUMER = "c"
_inboxes = itertools.count(1)


class NatsServer:
    """`nats-server` on a free port and an empty directory; gone when the block ends."""

    name = "nats"
    # From 2.10 on every message is synced by itself.
    per_mille = 5
    missing = "there is no nats-server on the PATH"

    def __init__(self, folder: str) -> None:
        self._data = Path(tempfile.mkdtemp(prefix="nats-", dir=folder))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @staticmethod
    def is_there() -> bool:
        return shutil.which("nats-server") is not None

    def __enter__(self) -> Self:
        program = shutil.which("nats-server")
        assert program is not None
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"v(\d+)\.(\d+)", said.stdout)
        is_synced = found is not None and (int(found[1]), int(found[2])) >= _SYNCS_FROM
        if not is_synced:
            self.name, self.per_mille = "nats_unsynced", 1000
        sync = "sync_interval: always" if is_synced else ""
        settings = self._data / "nats.conf"
        settings.write_text(
            f'host: 127.0.0.1\nport: {self.port}\nping_interval: "1h"\n'
            f'jetstream {{ store_dir: "{self._data}"\n{sync} }}\n'
        )
        log = str(self._data / "log")
        self._process = subprocess.Popen([program, "--config", str(settings), "--log", log])
        deadline = time.monotonic() + _START_S
        while True:
            try:
                converse([(self.port, _greet(_inbox()))])
                return self
            except OSError:
                if time.monotonic() > deadline:
                    self.__exit__(None, None, None)
                    raise
                time.sleep(0.05)

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

    def renew(self, queue: str) -> None:
        """An empty stream with a durable consumer."""
        stream = {"name": queue, "subjects": [queue], "storage": "file"}
        config = {"durable_name": _CONSUMER, "ack_policy": "explicit", "max_ack_pending": -1}
        consumer = {"stream_name": queue, "config": config}

        def script() -> Script:
            inbox = _inbox()
            yield from _greet(inbox)
            yield _publish(f"$JS.API.STREAM.DELETE.{queue}", inbox, b""), lines_end(2)
            for subject, fields in (
                (f"$JS.API.STREAM.CREATE.{queue}", stream),
                (f"$JS.API.CONSUMER.DURABLE.CREATE.{queue}.{_CONSUMER}", consumer),
            ):
                answer = yield _publish(subject, inbox, json.dumps(fields).encode()), lines_end(2)
                assert b'"error"' not in answer, answer

        converse([(self.port, script())])

    @staticmethod
    def publish(queue: str, value: bytes, count: int, left: Countdown) -> Script:
        """Batch after batch, each stored before the next is sent."""
        inbox = _inbox()
        yield from _greet(inbox)
        batch, end = _publish(queue, inbox, value) * count, lines_end(2 * count)
        while left.take(count):
            answer = yield batch, end
            assert b'"error"' not in answer, answer[:400]

    @staticmethod
    def publish_singly(queue: str, value: bytes, laps: Laps) -> Script:
        inbox = _inbox()
        yield from _greet(inbox)
        yield from laps.repeat(_publish(queue, inbox, value), lines_end(2), b'"seq"')

    @staticmethod
    def consume(queue: str, left: Countdown) -> Script:
        """Lease up to 1,000 messages, acknowledge all of them, and so on."""
        inbox = _inbox()
        yield from _greet(inbox)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{queue}.{_CONSUMER}"
        poll, wait = _publish(subject, inbox, _POLL), _publish(subject, inbox, _WAIT)
        while left.left > 0:
            answer = yield poll, _polled_end(1000)
            if not answer.startswith(b"MSG "):
                answer = yield wait, _polled_end(1)
            # `MSG subject sid reply size`, then the value; an end before 1,000 is `HMSG`.
            heads = [line for line in answer.split(b"\r\n")[::2] if line.startswith(b"MSG ")]
            replies = [head.split(b" ", 4)[3] for head in heads]
            if not replies:
                continue
            acks = [b"PUB %b 0\r\n\r\n" % reply for reply in replies[:-1]]
            last = b"PUB %b %b 4\r\n+ACK\r\n" % (replies[-1], inbox.encode())
            yield b"".join(acks) + last, lines_end(2)
            left.finish(len(replies))


def _inbox() -> str:
    return f"_INBOX.{next(_inboxes)}"


def _greet(inbox: str) -> Script:
    hello = '{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}'
    said = f"CONNECT {hello}\r\nSUB {inbox} 1\r\nPING\r\n".encode()
    yield said, lambda received: len(received) if received.endswith(b"PONG\r\n") else 0


def _publish(subject: str, inbox: str, value: bytes) -> bytes:
    return f"PUB {subject} {inbox} {len(value)}\r\n".encode() + value + b"\r\n"


def _polled_end(messages: int) -> AnswerEnd:
    def end(received: bytearray) -> int:
        is_full = received.count(b"\r\n") >= 2 * messages
        # A status without a value: there are not so many messages.
        return len(received) if is_full or received.endswith(b"\r\n\r\n\r\n") else 0

    return end
