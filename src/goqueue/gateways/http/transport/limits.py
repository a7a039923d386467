"""What one peer may take of the server: bytes, lines, connections and time.

Every number has a default that is the contract's; tests hand in smaller ones.
"""

import msgspec

__all__ = ["HttpLimits"]

KIB = 1024
MIB = 1024 * KIB


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the transport; those of a body are the application's, by route."""

    head_bytes_max: int = 64 * KIB
    headers_max: int = 100
    head_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    idle_timeout_s: float = 60.0
    # A reader that takes less than this rate for this long is cut off.
    write_timeout_s: float = 30.0
    write_bytes_per_s_min: int = KIB
    # How long a refused peer may go on sending before the connection is cut: closing at once would
    # make its kernel throw the refusal away unread.
    linger_timeout_s: float = 2.0
    connections_max: int = 10_000
    connections_per_address_max: int = 10_000
    # Requests parsed and not yet begun, on one connection; at this number reading pauses.
    pipelined_max: int = 16
    # The same in bytes of their bodies, where more than one has not begun.
    pipelined_bytes_max: int = MIB
    write_buffer_bytes_max: int = 256 * KIB
    # Request bodies held by all connections together.
    bodies_bytes_max: int = 512 * MIB
    # Answers that wait for their readers, of all connections together; at this number nothing is
    # begun whose answer may be large.
    unsent_bytes_max: int = 512 * MIB
