"""Topics read by Spark."""

from goqueue.spark.reading.loss import DataLost
from goqueue.spark.reading.readers import TopicReader, TopicStreamReader

__all__ = ["DataLost", "TopicReader", "TopicStreamReader"]
