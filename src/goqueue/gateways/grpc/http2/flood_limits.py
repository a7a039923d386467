"""What a client may send that costs work and carries nothing, counted between two ticks.

Owns the counters of one connection. Each has a bound; above it the connection ends with
ENHANCE_YOUR_CALM, and the reason names the flood.
"""

from goqueue.gateways.grpc.http2.frames import ConnectionFault, ErrorCode
from goqueue.gateways.grpc.http2.streams import Http2Limits

__all__ = ["OVERSIZED_WEIGHT", "SETTINGS_WEIGHT", "FloodCounts"]

# What one of these frames counts as empty ones: each may cost as much.
SETTINGS_WEIGHT = 10
OVERSIZED_WEIGHT = 100
# So many bytes that were sent allow the client to open a window once more.
_BYTES_PER_UPDATE = 256


class FloodCounts:
    """Counts frames; each method raises ConnectionFault for one too many."""

    __slots__ = ("_empty", "_limits", "_pings", "_resets", "_sent_bytes", "_updates")

    def __init__(self, limits: Http2Limits) -> None:
        self._limits = limits
        self.start_again()

    def start_again(self) -> None:
        """A new tick begins."""
        self._resets = self._pings = self._empty = self._updates = self._sent_bytes = 0

    def sent(self, size: int) -> None:
        """Data were sent: the client may ask whether this side lives, and open its windows."""
        self._pings = 0
        self._sent_bytes += size

    def reset(self) -> None:
        """A call was given up: by the client, or because it broke the protocol.

        Work that a client makes this side give up is no cheaper than what it gives up by itself.
        """
        self._resets += 1
        if self._resets > self._limits.resets_max:
            raise _flood("too many resets")

    def ping(self) -> None:
        self._pings += 1
        if self._pings > self._limits.pings_max:
            raise _flood("too_many_pings")

    def empty(self, weight: int = 1) -> None:
        """A frame that carries nothing, or costs as much as so many of them."""
        self._empty += weight
        if self._empty > self._limits.empty_max:
            raise _flood("too many empty frames")

    def window_update(self) -> None:
        """A window was opened: by single bytes, each costs a frame and a wake-up."""
        self._updates += 1
        allowed = self._limits.updates_max + self._sent_bytes // _BYTES_PER_UPDATE
        if self._updates > allowed:
            raise _flood("too many window updates")


def _flood(reason: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, reason)
