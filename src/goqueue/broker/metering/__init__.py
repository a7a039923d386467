"""What a node tells of itself: requests counted by their ends, and all counts as families."""

from goqueue.broker.metering.families import families_of
from goqueue.broker.metering.health import health_families
from goqueue.broker.metering.watching import RequestMetrics

__all__ = ["RequestMetrics", "families_of", "health_families"]
