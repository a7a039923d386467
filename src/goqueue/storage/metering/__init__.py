"""What storage did, counted by topic, and the families made of it."""

from goqueue.storage.metering.families import families_of
from goqueue.storage.metering.meters import UNCOUNTED, IndexType, Meters, TopicMeter

__all__ = ["UNCOUNTED", "IndexType", "Meters", "TopicMeter", "families_of"]
