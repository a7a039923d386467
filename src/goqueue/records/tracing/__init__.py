"""Trace contexts of records: those that headers give, and those that follow from offsets."""

from goqueue.records.tracing.adopted import adopt
from goqueue.records.tracing.given import (
    GIVEN_BYTES,
    Told,
    find_contexts,
    fingerprint,
    follow,
    look,
    read_context,
)
from goqueue.records.tracing.made import CONTEXT_BYTES, choose, make_contexts, mix

__all__ = [
    "CONTEXT_BYTES",
    "GIVEN_BYTES",
    "Told",
    "adopt",
    "choose",
    "find_contexts",
    "fingerprint",
    "follow",
    "look",
    "make_contexts",
    "mix",
    "read_context",
]
