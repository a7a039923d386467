"""Topics written by Spark: tasks stage what they publish, the driver decides on all of it."""

from goqueue.spark.writing.decision import Decision
from goqueue.spark.writing.staging import Beats, Staged, publish
from goqueue.spark.writing.writers import TopicStreamWriter, TopicWriter

__all__ = ["Beats", "Decision", "Staged", "TopicStreamWriter", "TopicWriter", "publish"]
