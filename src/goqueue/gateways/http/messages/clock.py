"""Timestamps as text, many at a time: records of one batch share a moment, others a second."""

from goqueue.model import SECOND, Timestamp, format_time

__all__ = ["TimeWriter"]


class TimeWriter:
    """Writes times as `format_time` does, and remembers the last moment and its second."""

    __slots__ = ("_at", "_prefix", "_second", "_text")

    def __init__(self) -> None:
        self._at = -1
        self._text = ""
        self._second = -1
        self._prefix = ""

    def write(self, at: int) -> str:
        """The text of a time that is not before 1970."""
        if at == self._at:
            return self._text
        second, fraction = divmod(at, SECOND)
        if second != self._second:
            self._second = second
            self._prefix = format_time(Timestamp(second * SECOND))[:-1]
        decimals = f".{fraction:09d}".rstrip("0") if fraction else ""
        self._at = at
        self._text = f"{self._prefix}{decimals}Z"
        return self._text
