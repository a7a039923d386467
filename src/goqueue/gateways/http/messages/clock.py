"""Timestamps as text, many at a time: records of one second share all but their decimals."""

from goqueue.model import SECOND, Timestamp, format_time

__all__ = ["TimeWriter"]


class TimeWriter:
    """Writes times as `format_time` does, and remembers the last second."""

    __slots__ = ("_prefix", "_second")

    def __init__(self) -> None:
        self._second = -1
        self._prefix = ""

    def write(self, at: int) -> str:
        second, fraction = divmod(at, SECOND)
        if second != self._second:
            self._second = second
            self._prefix = format_time(Timestamp(second * SECOND))[:-1]
        if not fraction:
            return self._prefix + "Z"
        return f"{self._prefix}.{fraction:09d}".rstrip("0") + "Z"
