"""What the routes that read messages have in common: how long they wait, and what they show."""

from goqueue.gateways.http.table import choice
from goqueue.model import SECOND
from goqueue.model.requests import Isolation

__all__ = ["ISOLATION", "POLL_ISOLATION", "shortened"]

ISOLATION = choice(
    "isolation",
    "whether messages of open and aborted transactions are shown, and those behind the first open",
    default=Isolation.READ_COMMITTED,
)
# A lease on a message that may vanish would be no lease.
POLL_ISOLATION = choice(
    "isolation",
    "taken as elsewhere, but a poll hands out committed messages only, whatever it says",
    default=Isolation.READ_COMMITTED,
)


def shortened(wait_ns: int) -> int:
    """How long to wait so that a client whose own timeout is the same still gets the answer."""
    return wait_ns - min(wait_ns // 10, SECOND)
