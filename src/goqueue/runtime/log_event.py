"""One kind of line in the log of a node: its level, its fields, and how often it is written."""

import enum

import msgspec

__all__ = ["Level", "LogEvent"]


class Level(enum.IntEnum):
    """How urgent a line is; the numbers are those of `logging`."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of line.

    `burst` lines of it are written per window (`event_log.WINDOW_S`), counted by the value of the
    field `per` if there is one; further ones are counted. 0 is without a limit, for events that
    something else limits. `advice` is what an operator does about it.
    """

    name: str
    level: Level
    message: str
    fields: dict[str, str]
    advice: str = ""
    burst: int = 10
    per: str = ""
