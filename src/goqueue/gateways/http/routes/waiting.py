"""What the routes that read messages have in common: how long they wait, and what they show."""

import enum

from goqueue.gateways.http.table import choice
from goqueue.model import SECOND

__all__ = ["ISOLATION", "Isolation", "shortened"]


class Isolation(enum.StrEnum):
    """Whether messages of open and aborted transactions are shown; today there are none."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


ISOLATION = choice(
    "isolation",
    "whether messages of open and aborted transactions are shown",
    default=Isolation.READ_COMMITTED,
)


def shortened(wait_ns: int) -> int:
    """How long to wait so that a client whose own timeout is the same still gets the answer."""
    return wait_ns - min(wait_ns // 10, SECOND)
