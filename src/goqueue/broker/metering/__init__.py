"""What a node tells of itself: requests counted by their ends, and all counts as families."""

from goqueue.broker.metering.families import families_of
from goqueue.broker.metering.health import health_families
from goqueue.broker.metering.watching import Watching

__all__ = ["Watching", "families_of", "health_families"]
