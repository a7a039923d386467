"""Who wrote what into one partition, as its log says it."""

from goqueue.log.authors.authors import Authors, AuthorsStated, Ending
from goqueue.log.authors.batch_mark import (
    BATCH_HEADER,
    BatchMark,
    label,
    last_mark_in,
    marks_in,
    parse_mark,
)
from goqueue.log.authors.replay import Interruption, replay, statements_in
from goqueue.log.authors.spans import Spans
from goqueue.log.authors.writer import Repeat, Writer, WriterStated

__all__ = [
    "BATCH_HEADER",
    "Authors",
    "AuthorsStated",
    "BatchMark",
    "Ending",
    "Interruption",
    "Repeat",
    "Spans",
    "Writer",
    "WriterStated",
    "label",
    "last_mark_in",
    "marks_in",
    "parse_mark",
    "replay",
    "statements_in",
]
