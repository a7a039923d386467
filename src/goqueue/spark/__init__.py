"""Topics as tables and streams of Spark; what leaves Spark comes back into topics exactly once."""

from goqueue.spark.columns import ColumnInvalid, Undecodable
from goqueue.spark.options import OptionInvalid
from goqueue.spark.reader import DataLost, SchemaChanged
from goqueue.spark.source import GoQueueSource
from goqueue.spark.value_decoder import split_bad

__all__ = [
    "ColumnInvalid",
    "DataLost",
    "GoQueueSource",
    "OptionInvalid",
    "SchemaChanged",
    "Undecodable",
    "split_bad",
]
