"""How a node speaks with an external metadata store: calls, and what comes of them.

A call is a path and a body of etcd's API, which the core writes and reads: see
`broker/cluster/etcd_calls.py`. The shell carries it to one endpoint after the other.
"""

import msgspec

__all__ = ["CallStore", "StoreEvent"]


class CallStore(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the store; `StoreEvent` with the same number follows."""

    number: int
    path: str
    body: bytes


class StoreEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The store replied to the call of this number, or did not, for a reason.

    Without a body there is no reply: the call may have been carried out, or may be later. Without a
    number what the store knows of the cluster may have changed: it is worth a look.
    """

    number: int | None = None
    body: bytes | None = None
    reason: str = ""
