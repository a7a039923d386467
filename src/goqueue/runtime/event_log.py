"""The log of the process: levels, limits on repeats, and the way of an event to its line.

Anything in the shell may log, from any thread, by the name of a row of `log_events`. Owns the
windows in which repeats are counted. Never waits for who reads the log.

Invariants
- In a window of `WINDOW_S` seconds an event has at most `burst` lines and one that counts the rest,
  for each of at most `_KEYS_MAX` values of the field that it is counted by.
- What was counted is told when the window ends, also if nothing is logged any more.

Cost of an event below the level: one comparison; of one that is only counted: a lock and a look-up.
"""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

import msgspec

from goqueue.model import SECOND, NodeReport
from goqueue.runtime.log_events import EVENTS, Level, LogEvent
from goqueue.runtime.log_lines import Format, LineWriter, Value, json_line, text_line

__all__ = ["WINDOW_S", "EventLog", "ProcessLog", "silent_log", "start_logging"]

WINDOW_S = 10
_KEYS_MAX = 64
_FLUSH_S = 2.0


class _Window(msgspec.Struct):
    """The lines of one event since the first of them."""

    level: Level
    end_ns: int
    written: int = 0
    repeated: int = 0


class EventLog:
    """Writes events as lines; `put` gets each and must not wait."""

    def __init__(
        self,
        put: Callable[[bytes], None],
        *,
        level: Level = Level.INFO,
        to_line: Format = text_line,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._put = put
        self._level = level
        self._to_line = to_line
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns
        self._guard = threading.Lock()
        # By event and by the value that it is counted by, in the order in which they began.
        self._windows: dict[tuple[str, str], _Window] = {}

    def __call__(self, event: str, /, **fields: Value) -> None:
        """Log an event with the fields of its row."""
        row = EVENTS[event]
        if row.level >= self._level:
            assert fields.keys() == row.fields.keys(), f"{event} has the fields {set(row.fields)}"
            self._log(row, row.level, row.message, fields)

    def report(self, report: NodeReport, /, **fields: Value) -> None:
        """Log what the core reports; `fields` are what the shell adds."""
        event = report.__struct_config__.tag
        assert isinstance(event, str)
        self(event, **msgspec.structs.asdict(report), **fields)

    def write(self, event: str, fields: dict[str, Value]) -> None:
        """Log an event that something else limits, without a look at its repeats."""
        row = EVENTS[event]
        if row.level >= self._level:
            self._put(self._to_line(self._wall_ns(), row.level, event, row.message, fields))

    def library_line(
        self, level: Level, message: str, logger: str, exception: str | None = None
    ) -> None:
        """Log a line of a library."""
        fields: dict[str, Value] = {"logger": logger}
        if exception is not None:
            fields["exception"] = exception
        if level >= self._level:
            self._log(EVENTS["message"], level, message, fields)

    def _log(self, row: LogEvent, level: Level, message: str, fields: dict[str, Value]) -> None:
        if row.burst and not self._may_write(row, level, str(fields.get(row.per, ""))):
            return
        self._put(self._to_line(self._wall_ns(), level, row.name, message, fields))

    def _may_write(self, row: LogEvent, level: Level, value: str) -> bool:
        """Whether a line fits into its window; else it is counted."""
        now_ns = self._monotonic_ns()
        with self._guard:
            self._close_windows(now_ns)
            key = (row.name, value)
            window = self._windows.get(key)
            if window is None:
                if len(self._windows) >= _KEYS_MAX:
                    # Too many values to count each.
                    key = (row.name, "")
                    window = self._windows.get(key)
                if window is None:
                    window = _Window(level, now_ns + WINDOW_S * SECOND)
                    self._windows[key] = window
            if window.written < row.burst:
                window.written += 1
                return True
            window.repeated += 1
            return False

    def close_windows(self) -> float | None:
        """Tell what was counted in windows that are over; seconds until the next one is."""
        now_ns = self._monotonic_ns()
        with self._guard:
            self._close_windows(now_ns)
            window = next(iter(self._windows.values()), None)
        return None if window is None else max(0.0, (window.end_ns - now_ns) / SECOND)

    def close_all_windows(self) -> None:
        """Tell what was counted so far: the process ends."""
        with self._guard:
            self._close_windows(sys.maxsize)

    def _close_windows(self, now_ns: int) -> None:
        while self._windows:
            (event, value), window = next(iter(self._windows.items()))
            if window.end_ns > now_ns:
                return
            del self._windows[event, value]
            if window.repeated:
                self._tell_repeats(EVENTS[event], value, window)

    def _tell_repeats(self, row: LogEvent, value: str, window: _Window) -> None:
        fields: dict[str, Value] = {row.per: value} if row.per else {}
        fields |= {"repeated": window.repeated, "window_s": WINDOW_S}
        message = f"repeated {window.repeated} times in {WINDOW_S} s"
        self._put(self._to_line(self._wall_ns(), window.level, row.name, message, fields))


def silent_log() -> EventLog:
    """A log that nobody reads."""
    return EventLog(lambda _line: None, level=Level.ERROR)


class ProcessLog:
    """The log of this process on standard error, and what libraries log."""

    def __init__(self, level: str, form: str, *, descriptor: int) -> None:
        self.events = EventLog(
            self._put,
            level=Level[level.upper()],
            to_line=json_line if form == "json" else text_line,
        )
        self._writer = LineWriter(descriptor, self._tend)
        self._writer.start()
        logging.basicConfig(level=level.upper(), handlers=[_LibraryLines(self.events)], force=True)

    def _put(self, line: bytes) -> None:
        self._writer.put(line)

    def _tend(self) -> float | None:
        wait_s = self.events.close_windows()
        lost = self._writer.take_lost()
        if lost:
            self.events("log_lines_lost", count=lost)
        return wait_s

    def close(self) -> None:
        """Write what there is, within a few seconds; the log may be used further."""
        self.events.close_all_windows()
        self._writer.flush(_FLUSH_S)


class _LibraryLines(logging.Handler):
    """Lines of libraries, and of bugs, as events."""

    def __init__(self, events: EventLog) -> None:
        super().__init__()
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        level = max(each for each in Level if each <= max(record.levelno, Level.DEBUG))
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        exception = None
        if record.exc_info and record.exc_info[1] is not None:
            exception = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        self._events.library_line(level, message, record.name, exception)


def start_logging(level: str, form: str, *, descriptor: int = 2) -> ProcessLog:
    """Log at `level` (debug, info, warning, error) as `text` or `json` to a file descriptor."""
    return ProcessLog(level, form, descriptor=descriptor)
