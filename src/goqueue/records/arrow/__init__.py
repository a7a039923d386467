"""Records as the buffers of Arrow columns, and back, with no Python object per row.

Knows how Arrow lays out a column, and nothing of pyarrow: whoever has it wraps the buffers.
"""

from goqueue.records.arrow.input import BinaryColumn, HeaderColumn, InputColumns, IntegerColumn
from goqueue.records.arrow.output import BinaryBuffers, OutputColumns
from goqueue.records.arrow.reader import ArrowReader
from goqueue.records.arrow.writer import ArrowWriter, PartitionBatches

__all__ = [
    "ArrowReader",
    "ArrowWriter",
    "BinaryBuffers",
    "BinaryColumn",
    "HeaderColumn",
    "InputColumns",
    "IntegerColumn",
    "OutputColumns",
    "PartitionBatches",
]
