"""Whether a log accepts writes, and why not: failed, full, being truncated.

Invariant: a failure is final in this process; the other conditions are temporary.
"""

from goqueue.model import Code, Instant, Now, Offset, Refused

__all__ = ["Condition"]


class Condition:
    """Why a log does not accept writes."""

    __slots__ = ("failure", "full_until", "truncating_to")

    def __init__(self) -> None:
        self.failure: str | None = None
        # When to try the disk again: only a write shows whether there is space.
        self.full_until: Instant | None = None
        self.truncating_to: Offset | None = None

    @property
    def is_sound(self) -> bool:
        """Whether segments may be removed."""
        return self.failure is None and self.truncating_to is None

    def check_writable(self, now: Now, in_flight: int, in_flight_max: int) -> None:
        """Refuse an append that is not possible now."""
        self.check_not_failed()
        if self.full_until is not None:
            if now.instant < self.full_until:
                raise Refused(Code.STORAGE_FULL)
            self.full_until = None
        self.check_not_truncating()
        if in_flight >= in_flight_max:
            raise Refused(Code.LOG_BUSY, reason="in flight")

    def check_not_failed(self) -> None:
        if self.failure is not None:
            raise Refused(Code.STORAGE_FAILED, reason=self.failure)

    def check_not_truncating(self) -> None:
        if self.truncating_to is not None:
            raise Refused(Code.LOG_BUSY, reason="truncation")
