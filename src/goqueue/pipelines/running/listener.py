"""What Spark tells while a query runs, taken into a journal.

Imports Spark at once: to be imported by who has a session.
"""

import json

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from goqueue.pipelines.progress import Journal, batch_progress

__all__ = ["JournalListener", "take_recent"]


class JournalListener(StreamingQueryListener):
    """Takes the batches of one query into a journal as they end."""

    def __init__(self, journal: Journal, query_name: str) -> None:
        self._journal = journal
        self._query_name = query_name

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing: who started it knows."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        if event.progress.name == self._query_name:
            _take(self._journal, event.progress.json)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing: no batch was made."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing: who waits for the query sees it."""


def take_recent(query: StreamingQuery, journal: Journal) -> None:
    """Take what the listener was not told yet: events come later than batches end."""
    for progress in query.recentProgress:
        _take(journal, progress.json)


def _take(journal: Journal, report: str) -> None:
    told = json.loads(report)
    # A trigger that found nothing to do is reported under the number of the batch to come.
    if "addBatch" in told.get("durationMs", {}):
        journal.take(batch_progress(told))
