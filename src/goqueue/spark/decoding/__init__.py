"""What values mean, and what becomes of those that mean nothing."""

from goqueue.spark.decoding.letters import LETTER, PREFIX, Origin, letter_headers, split_bad
from goqueue.spark.decoding.schema import SchemaInvalid, schema_of
from goqueue.spark.decoding.values import Decoded, JsonValues

__all__ = [
    "LETTER",
    "PREFIX",
    "Decoded",
    "JsonValues",
    "Origin",
    "SchemaInvalid",
    "letter_headers",
    "schema_of",
    "split_bad",
]
