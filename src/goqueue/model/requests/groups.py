"""Words of consumer groups: who may lease what, and how partitions are assigned."""

import enum

__all__ = ["Assignor", "GroupProtocol", "GroupState", "Mode", "RebalanceState", "Start", "Strategy"]


class Mode(enum.StrEnum):
    """Who may lease what in a group."""

    PARTITIONED = "partitioned"
    SHARED = "shared"
    KEY_ORDERED = "key_ordered"


class Assignor(enum.StrEnum):
    """How the partitions of all subscribed topics are shared out among the members."""

    RANGE = "range"
    ROUND_ROBIN = "roundrobin"
    STICKY = "sticky"


class GroupProtocol(enum.StrEnum):
    """How the members of a group learn of another assignment; one for all of them."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"


class GroupState(enum.StrEnum):
    """What a group is doing. Groups that were deleted are gone, not dead."""

    EMPTY = "empty"
    STABLE = "stable"
    # Cooperative groups: partitions are on their way to other members.
    REBALANCING = "rebalancing"


class RebalanceState(enum.StrEnum):
    """How far a cooperative rebalance is."""

    NONE = "none"
    # Members have to give up partitions; the generation stays.
    PENDING_REVOKE = "pending_revoke"
    # A new generation is in force, and not every member was told.
    PENDING_ASSIGN = "pending_assign"
    # Every member was told; the rebalance is counted, and none is under way.
    COMPLETE = "complete"


class Start(enum.StrEnum):
    """Where a group without a position begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Strategy(enum.StrEnum):
    """Where a reset puts a position."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"
