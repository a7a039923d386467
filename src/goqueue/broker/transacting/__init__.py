"""Producers and transactions: commands, markers, the progress of groups within them."""

from goqueue.broker.transacting.describing import TransactionDescriptions
from goqueue.broker.transacting.marking import MARKING_ERRAND, MarkerWriter
from goqueue.broker.transacting.progressing import TransactionOffsets
from goqueue.broker.transacting.remembering import (
    ProducerSnapshots,
    authors_snapshot,
    decode_authors,
)
from goqueue.broker.transacting.transacting import TransactionCoordinator

__all__ = [
    "MARKING_ERRAND",
    "TransactionDescriptions",
    "MarkerWriter",
    "TransactionOffsets",
    "ProducerSnapshots",
    "TransactionCoordinator",
    "authors_snapshot",
    "decode_authors",
]
