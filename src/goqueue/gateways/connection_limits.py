"""What all connections of a node may hold together, whatever protocol they speak.

Owns three counts: open connections (in all and by client address), bytes of requests that are not
answered yet, and bytes of responses that their readers have not taken. All listeners of a node
share one `Capacity`, so a second gateway does not double the memory or the descriptors that
clients can take. Limits of one protocol (sizes of a head, timeouts) belong to its gateway.

Invariant: every connection that was admitted, also one over the limit, is counted until it is
released. Every operation costs a dictionary access or less.
"""

import enum
from collections import Counter

import msgspec

__all__ = ["Admission", "ByteBudget", "Capacity", "ConnectionLimits"]

_MIB = 1024 * 1024
# Connections over the limit that may be open at once, to be told why they are refused.
_REFUSED_MAX = 64


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of all connections together."""

    connections_max: int = 10_000
    connections_per_address_max: int = 10_000
    # Requests that are being received or answered.
    request_bytes_max: int = 512 * _MIB
    # Responses that wait for their readers; at this number no request is started whose response
    # may be large.
    unsent_bytes_max: int = 512 * _MIB


class Admission(enum.Enum):
    """What is to become of a new connection."""

    ACCEPTED = enum.auto()
    # There is no room: tell the client, then close.
    FULL = enum.auto()
    # There is not even room to tell: close at once.
    OVERFULL = enum.auto()
    # The listener is being stopped: tell the client, then close.
    STOPPING = enum.auto()


class ByteBudget:
    """A number of bytes that may be held; `bytes_held` says how many are."""

    __slots__ = ("_bytes_max", "bytes_held")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes_held = 0

    @property
    def is_spent(self) -> bool:
        return self.bytes_held >= self._bytes_max

    def take(self, size: int) -> bool:
        """Hold more bytes; False, and nothing is held, if that is more than the budget."""
        if self.bytes_held + size > self._bytes_max:
            return False
        self.bytes_held += size
        return True

    def give_back(self, size: int) -> None:
        self.bytes_held -= size

    def replace(self, size: int, new_size: int) -> None:
        """Hold `new_size` where `size` was held, even over the budget: it is there already."""
        self.bytes_held += new_size - size


class Capacity:
    """The counts of one node, against its limits."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self.limits = ConnectionLimits() if limits is None else limits
        self.requests = ByteBudget(self.limits.request_bytes_max)
        self.unsent = ByteBudget(self.limits.unsent_bytes_max)
        self.connections_active = 0
        self.connections_refused_total = 0
        self._by_address: Counter[str] = Counter()

    def admit(self, address: str) -> Admission:
        """Count a new connection, and say whether there is room for it."""
        limits = self.limits
        admission = Admission.ACCEPTED
        if (
            self.connections_active >= limits.connections_max
            or self._by_address[address] >= limits.connections_per_address_max
        ):
            is_overfull = self.connections_active >= limits.connections_max + _REFUSED_MAX
            admission = Admission.OVERFULL if is_overfull else Admission.FULL
            self.connections_refused_total += 1
        self.connections_active += 1
        self._by_address[address] += 1
        return admission

    def release(self, address: str) -> None:
        """Forget a connection that has ended."""
        self.connections_active -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
