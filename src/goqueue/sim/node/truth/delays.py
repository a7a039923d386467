"""What must be true of one delayed message: when it is due, and whether it may still come.

Knows what its producer asked for and what others were told of it. A message whose cancellation was
asked for but never answered may be delivered or not, but only one of both.
"""

from goqueue.model import Record
from goqueue.sim.node.truth.places import Place

__all__ = ["DELAYED_FROM", "DELIVER_AT", "DelayTruth", "number_in"]

DELAYED_FROM = "gq.delayed-from"
DELIVER_AT = "gq.deliver-at"


class DelayTruth:
    """The delay of one message; `moment` is when it was published, as the peaks count."""

    def __init__(self, due: int, moment: int) -> None:
        self.due = due
        self.moment = moment
        # Where its first record stands, which nobody sees; it names the message.
        self.first: Place | None = None
        # Cancellations that were asked for, and of which it is not certain that they failed.
        self.cancels = 0
        self.is_cancelled = False


def number_in(record: Record, name: str) -> int | None:
    """What a header says that holds a number, if it is there."""
    return next((int(value) for header, value in record.headers if header == name), None)
