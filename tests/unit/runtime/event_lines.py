"""A log that tests read: events as objects, on a clock that tests move."""

from typing import Any

import msgspec

from goqueue.model import SECOND
from goqueue.runtime.event_log import EventLog
from goqueue.runtime.log_events import Level
from goqueue.runtime.log_lines import json_line

__all__ = ["EventLines"]


class EventLines:
    """Collects the events that are written."""

    def __init__(self, level: Level = Level.DEBUG) -> None:
        self.now_ns = 0
        self.lines: list[dict[str, Any]] = []
        self.log = EventLog(
            lambda line: self.lines.append(msgspec.json.decode(line)),
            level=level,
            to_line=json_line,
            monotonic_ns=lambda: self.now_ns,
        )

    def pass_time(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)

    def take(self) -> list[dict[str, Any]]:
        """The events since the last call, without what all lines have."""
        lines, self.lines = self.lines, []
        return [
            {name: value for name, value in line.items() if name not in {"time", "message"}}
            for line in lines
        ]

    def names(self) -> list[str]:
        return [line["event"] for line in self.take()]
