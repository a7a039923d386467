"""Words of consumer groups: who may lease what, and how partitions are shared out."""

import enum

__all__ = ["Assignor", "GroupState", "Mode", "Start", "Strategy"]


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


class GroupState(enum.StrEnum):
    """What a group is doing. Groups that were deleted are gone, not dead."""

    EMPTY = "empty"
    STABLE = "stable"


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
