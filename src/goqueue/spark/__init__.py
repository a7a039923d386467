"""Topics as tables and streams of Spark; what leaves Spark comes back into topics exactly once."""

from goqueue.spark.options import OptionInvalid
from goqueue.spark.reading import DataLost
from goqueue.spark.source import GoQueueSource

__all__ = ["DataLost", "GoQueueSource", "OptionInvalid"]
