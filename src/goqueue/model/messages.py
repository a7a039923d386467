"""What a producer hands in and what a reader gets back, as single objects.

The publish and fetch paths work on batches of bytes; these objects exist only at an edge
that needs them (tests, JSON, the SDK, the command line).
"""

import enum

import msgspec

__all__ = ["Header", "Message", "Priority", "Record"]

Header = tuple[str, bytes]


class Priority(enum.IntEnum):
    """Lane of a message in queue reads; stream reads ignore it."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message before it has an offset. An empty key is no key; a value of None is a tombstone."""

    value: bytes | None
    key: bytes = b""
    headers: tuple[Header, ...] = ()
    priority: int = Priority.NORMAL
    timestamp: int = 0
    is_control: bool = False
    is_commit: bool = False
    is_delayed: bool = False
    is_compressed: bool = False


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A record as stored: a message with its place in the log."""

    offset: int
    timestamp: int
    priority: int
    flags: int
    key: bytes
    value: bytes | None
    headers: tuple[Header, ...]
