"""Columns of Spark: what is read as record batches, and what is written as sheets."""

from goqueue.spark.columns.batches import Batches, Undecodable
from goqueue.spark.columns.kinds import ColumnInvalid, check_columns, row_schema
from goqueue.spark.columns.refusals import refused_row
from goqueue.spark.columns.sheets import to_sheet

__all__ = [
    "Batches",
    "ColumnInvalid",
    "Undecodable",
    "check_columns",
    "refused_row",
    "row_schema",
    "to_sheet",
]
