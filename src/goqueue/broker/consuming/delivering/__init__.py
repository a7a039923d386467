"""Polls and what they are handed: who waits, what is known, what is leased, where its bytes are."""

from goqueue.broker.consuming.delivering.leases import settle
from goqueue.broker.consuming.delivering.polls import Polls
from goqueue.broker.consuming.delivering.spans import fill
from goqueue.broker.consuming.delivering.surveys import ReadingAhead

__all__ = ["Polls", "ReadingAhead", "fill", "settle"]
