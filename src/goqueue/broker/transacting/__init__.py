"""Producers and transactions: commands, markers, the progress of groups within them."""

from goqueue.broker.transacting.describing import Describing
from goqueue.broker.transacting.marking import MARKING_ERRAND, Marking
from goqueue.broker.transacting.progressing import Progressing
from goqueue.broker.transacting.remembering import (
    Remembering,
    authors_snapshot,
    decode_authors,
)
from goqueue.broker.transacting.transacting import Transacting

__all__ = [
    "MARKING_ERRAND",
    "Describing",
    "Marking",
    "Progressing",
    "Remembering",
    "Transacting",
    "authors_snapshot",
    "decode_authors",
]
