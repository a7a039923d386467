"""What is measured: how large, how many at a time, how fast, for how long."""

import msgspec

__all__ = ["SECOND_NS", "Pace", "Plan"]

SECOND_NS = 1_000_000_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`rate` is messages per second over all workers; None is as fast as it goes."""

    topic: str
    size: int
    rate: float | None
    batch: int
    concurrency: int
    duration_s: float


class Pace:
    """When the next batch is due. Pure: told the time.

    A batch that leaves late is still measured from the moment it was due: a server that stalls
    must not get the pause for free.
    """

    def __init__(self, plan: Plan, started_ns: int) -> None:
        self._gap_ns = None if plan.rate is None else int(plan.batch / plan.rate * SECOND_NS)
        self._next_ns = started_ns

    def due_ns(self, now_ns: int) -> int:
        """The moment of the next batch, which is now if there is no pace to keep."""
        if self._gap_ns is None:
            return now_ns
        due = self._next_ns
        self._next_ns += self._gap_ns
        return due
