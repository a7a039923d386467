"""What makes Spark find `format("goqueue")` by itself: it imports modules whose names begin so."""

from goqueue.spark import GoQueueSource as DefaultSource

__all__ = ["DefaultSource"]
