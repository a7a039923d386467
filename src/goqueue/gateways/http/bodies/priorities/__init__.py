"""Bodies about priorities: how the lanes of each group fare."""

from goqueue.gateways.http.bodies.priorities.statistics import LaneOut, PriorityStats

__all__ = ["LaneOut", "PriorityStats"]
