"""Lines of the log: their two formats, and the thread that writes them.

Owns the escaping of hostile values and the queue between the node and whoever reads standard
error. Never decides what is logged.

Invariants
- One event is one line, whatever its fields hold; only a traceback in text has several, indented.
- `LineWriter.put` never waits: a line that finds the queue full is dropped and counted.
"""

import datetime as dt
import functools
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from goqueue.runtime.log_events import Level

__all__ = [
    "LINES_MAX",
    "VALUE_CHARACTERS_MAX",
    "Format",
    "LineWriter",
    "Value",
    "json_line",
    "text_line",
]

Value = str | int | float | bool | tuple[str, ...]
Format = Callable[[int, Level, str, str, Mapping[str, Value]], bytes]

VALUE_CHARACTERS_MAX = 256
_MESSAGE_CHARACTERS_MAX = 2_000
_TRACEBACK_CHARACTERS_MAX = 16_000
_ITEMS_MAX = 5
_EXCEPTION = "exception"

LINES_MAX = 10_000
# Between two writes: lines that come together are written together, and the thread is not woken
# for each of them.
_PAUSE_S = 0.02

# What a value may have without quotes.
_BARE = re.compile(r"[!#-<>-\[\]-~]+…?")
_PLAIN = re.compile(rb"[ -~]*")
_encoder = msgspec.json.Encoder()


def text_line(
    wall_ns: int, level: Level, event: str, message: str, fields: Mapping[str, Value]
) -> bytes:
    """`TIME LEVEL event: message name=value ...`."""
    parts = [f"{_time(wall_ns)} {level.name:<7} {event}: {_printable(_cut_message(message))}"]
    parts += (f"{name}={_text(value)}" for name, value in fields.items() if name != _EXCEPTION)
    line = " ".join(parts)
    if _EXCEPTION in fields:
        traceback = _cut(str(fields[_EXCEPTION]), _TRACEBACK_CHARACTERS_MAX)
        line = "\n    ".join([line, *map(_printable, traceback.splitlines())])
    return line.encode("utf-8", "backslashreplace") + b"\n"


def json_line(
    wall_ns: int, level: Level, event: str, message: str, fields: Mapping[str, Value]
) -> bytes:
    """One JSON object with the same fields."""
    line: dict[str, object] = {
        "time": _time(wall_ns),
        "level": level.name.lower(),
        "event": event,
        "message": _whole(_cut_message(message)),
    }
    for name, value in fields.items():
        if isinstance(value, str):
            most = _TRACEBACK_CHARACTERS_MAX if name == _EXCEPTION else VALUE_CHARACTERS_MAX
            line[name] = _whole(_cut(value, most))
        elif isinstance(value, tuple):
            line[name] = [_whole(_cut(each, VALUE_CHARACTERS_MAX)) for each in _few(value)]
        else:
            line[name] = value
    encoded = _encoder.encode(line)
    if not _PLAIN.fullmatch(encoded):
        encoded = _escape(encoded.decode())
    return encoded + b"\n"


def _escape(text: str) -> bytes:
    """JSON with everything escaped that a terminal acts upon or that some readers end a line at.

    C1 controls, DEL, U+2028 and U+2029, marks of direction. They occur in strings only.
    """
    if text.isprintable():
        return text.encode()
    return "".join(each if each.isprintable() else _escaped(each) for each in text).encode()


def _escaped(character: str) -> str:
    units = memoryview(character.encode("utf-16-le")).cast("H")
    return "".join(f"\\u{unit:04x}" for unit in units)


def _time(wall_ns: int) -> str:
    seconds, rest = divmod(wall_ns, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@functools.lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%S}"


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = ", ".join(_few(value)) if isinstance(value, tuple) else value
    text = _cut(text, VALUE_CHARACTERS_MAX)
    if _BARE.fullmatch(text):
        return text
    return '"' + _printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _few(items: tuple[str, ...]) -> tuple[str, ...]:
    if len(items) <= _ITEMS_MAX:
        return items
    return (*items[:_ITEMS_MAX], f"and {len(items) - _ITEMS_MAX} more")


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def _cut_message(message: str) -> str:
    return _cut(message, _MESSAGE_CHARACTERS_MAX)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _whole(text: str) -> str:
    """Without halves of characters, which JSON cannot carry."""
    return text.encode("utf-8", "backslashreplace").decode()


class LineWriter:
    """Writes lines to a file descriptor in a thread of its own.

    `tend` is called in that thread between writes; it returns after how many seconds it wants to be
    called again, or None: after the next line.
    """

    def __init__(
        self,
        descriptor: int,
        tend: Callable[[], float | None],
        *,
        lines_max: int = LINES_MAX,
    ) -> None:
        self._descriptor = descriptor
        self._tend = tend
        self._lines_max = lines_max
        self._guard = threading.Lock()
        self._lost = 0
        self._is_read = True
        self._is_urgent = threading.Event()
        self._queue: queue.SimpleQueue[bytes | threading.Event] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="goqueue-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Write a line soon."""
        if self._queue.qsize() >= self._lines_max:
            self._lose(1)
        else:
            self._queue.put(line)

    def take_lost(self) -> int:
        """The number of lines that were dropped since the last call; 0 while nobody reads."""
        if not self._lost or not self._is_read:
            return 0
        with self._guard:
            lost, self._lost = self._lost, 0
        return lost

    def _lose(self, count: int) -> None:
        with self._guard:
            self._lost += count

    def flush(self, timeout_s: float) -> bool:
        """Wait until the lines of before are written; False if that takes too long."""
        written = threading.Event()
        self._queue.put(written)
        self._is_urgent.set()
        return written.wait(timeout_s)

    def _run(self) -> None:
        while True:
            wait_s = self._tend()
            lines: list[bytes] = []
            flushed: list[threading.Event] = []
            with suppress(queue.Empty):
                item = self._queue.get(timeout=wait_s)
                while True:
                    if isinstance(item, bytes):
                        lines.append(item)
                    else:
                        flushed.append(item)
                    if len(lines) >= self._lines_max:
                        break
                    item = self._queue.get_nowait()
            self._write(b"".join(lines), len(lines))
            for each in flushed:
                each.set()
            self._is_urgent.wait(_PAUSE_S)
            self._is_urgent.clear()

    def _write(self, data: bytes, count: int) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
                self._is_read = True
            except BlockingIOError:
                # A terminal or pipe that somebody else made non-blocking.
                time.sleep(0.01)
            except OSError:
                # The reader has gone, or the log is on a full disk: nobody could be told now.
                self._is_read = False
                self._lose(count)
                return
