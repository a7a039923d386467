"""The broker as Spark's processes see it: calls that wait for their answers."""

from goqueue.spark.broker.calls import Broker, broker
from goqueue.spark.broker.values import Author, Batch, Portion, TopicView, Truncated

__all__ = ["Author", "Batch", "Broker", "Portion", "TopicView", "Truncated", "broker"]
