"""The options of `format("goqueue")`: what they are called, what they mean, what is refused."""

from goqueue.spark.options.filters import Filters, Match
from goqueue.spark.options.given import OptionInvalid
from goqueue.spark.options.link import Link
from goqueue.spark.options.places import Place
from goqueue.spark.options.shape import BASE, ORIGIN, Decoding, Shape
from goqueue.spark.options.sink import WriteOptions, write_options
from goqueue.spark.options.source import ReadOptions, Span, is_for_streams, read_options

__all__ = [
    "BASE",
    "ORIGIN",
    "Decoding",
    "Filters",
    "Link",
    "Match",
    "OptionInvalid",
    "Place",
    "ReadOptions",
    "Shape",
    "Span",
    "WriteOptions",
    "is_for_streams",
    "read_options",
    "write_options",
]
