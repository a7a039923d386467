"""Refusals: why a command was not carried out, with the facts a caller needs.

A refusal is raised before any change. Faults of the world are events, bugs are assertions.
"""

import enum

__all__ = ["Code", "Refused"]

Fact = str | int | None


class Code(enum.StrEnum):
    """Why a command was refused. The wire value never changes once released."""

    REQUEST_INVALID = "request_invalid"
    NAME_INVALID = "name_invalid"
    STORAGE_FULL = "storage_full"
    STORAGE_FAILED = "storage_failed"
    RECORDS_DAMAGED = "records_damaged"
    OFFSET_OUT_OF_RANGE = "offset_out_of_range"
    MESSAGE_TOO_LARGE = "message_too_large"
    MESSAGE_INVALID = "message_invalid"
    LOG_BUSY = "topic_busy"

    @property
    def is_retriable(self) -> bool:
        """Whether the same command, unchanged, may succeed later."""
        return self in _RETRIABLE


_RETRIABLE = frozenset({Code.STORAGE_FULL, Code.LOG_BUSY})


class Refused(Exception):
    """A command that was turned down: a stable code, then facts."""

    def __init__(self, code: Code, **facts: Fact) -> None:
        super().__init__(code, facts)
        self.code = code
        self.facts = facts

    def __str__(self) -> str:
        details = ", ".join(f"{name}={value}" for name, value in self.facts.items())
        return f"{self.code}: {details}" if details else str(self.code)
