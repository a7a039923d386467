"""Runs a pipeline as one Spark query, and stops it between batches.

Spark cannot stop after a batch: `stop()` interrupts what is running. So the query is stopped when
its status says that no batch is being processed, which is the case shortly before each, while
offsets are queried and written. What is interrupted there has published nothing. A second request
to stop interrupts at once. Progress that Spark reports goes to the journal.

Imports Spark at once, so it is imported only by code that has a session.

Invariant: when a run ends, its journal holds every batch that was done, and the lock is released.
"""

import contextlib
import datetime as dt
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from goqueue.client import GoQueueError, ServerUnreachable
from goqueue.pipelines.errors import Failure, Fault, StepInvalid, explain
from goqueue.pipelines.offset_publisher import GroupMirror
from goqueue.pipelines.plan import Plan, build
from goqueue.pipelines.progress import Journal, Totals, batch_progress
from goqueue.pipelines.sinks import Table, check_sink, place_of, source_options, writer
from goqueue.pipelines.spec import Pipeline, interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = [
    "JournalListener",
    "RunFailed",
    "RunRequest",
    "Stop",
    "checkpoint_of",
    "local_checkpoint",
    "query_name",
    "run_pipeline",
    "stopped_by_signals",
    "take_recent",
]


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


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Asked once: finish the batch. Asked again: now."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._is_urgent = False

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    @property
    def is_urgent(self) -> bool:
        return self._is_urgent

    def ask(self) -> None:
        self._is_urgent = self._asked.is_set()
        self._asked.set()

    def wait(self, seconds: float) -> None:
        """Wait until a stop is requested, at most this long."""
        self._asked.wait(seconds)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """INT and TERM ask to stop. To be entered when a session exists: Spark sets its own handler."""
    stop = Stop()

    def note(_: int, __: FrameType | None) -> None:
        stop.ask()

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_LOOK_S = 0.1
# A query that works without a pause is between two batches for some fifty milliseconds.
_CLOSE_LOOK_S = 0.002
_AT_WORK = ("Processing", "No new data but")


class RunFailed(RuntimeError):
    """A pipeline that ended by an error."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run: a pipeline, the folder of its file, and the way to the broker."""

    pipeline: Pipeline
    folder: Path
    link: dict[str, str]
    checkpoint: str | None = None
    is_once: bool = False


def run_pipeline(
    spark: "SparkSession",
    request: RunRequest,
    journal: Journal,
    stop: Stop,
    show: Callable[[Table], None],
) -> Totals:
    """Run until nothing is left or a stop is requested; return the totals.

    Raises `StepInvalid`, `CheckpointBusy` or `RunFailed`.
    """
    journal.begin()
    error: str | None = "interrupted"
    try:
        while True:
            plan = _planned(spark, request)
            try:
                _play(plan, request, journal, stop, show)
                break
            except RunFailed as failure:
                # The columns of a source are those of an old version: the next plan has the new.
                if failure.failure.fault is not Fault.SCHEMA or stop.is_asked:
                    raise
        error = None
    except (RunFailed, StepInvalid) as failure:
        error = str(failure)
        raise
    finally:
        journal.end(_now(), error)
    return journal.totals


def _planned(spark: "SparkSession", request: RunRequest) -> Plan:
    """The plan, with a sink that takes its rows."""
    try:
        plan = build(spark, request.pipeline, request.folder, request.link)
        check_sink(plan.written, request.pipeline, request.link)
    except GoQueueError as error:
        is_unreached = isinstance(error, ServerUnreachable)
        failure = Failure(Fault.SERVER if is_unreached else Fault.WORK, error.sentence)
        raise RunFailed(failure) from error
    return plan


def _play(
    plan: Plan, request: RunRequest, journal: Journal, stop: Stop, show: Callable[[Table], None]
) -> None:

    name = query_name(request.pipeline)
    mirror = _mirror(request)
    if mirror is not None:
        journal.tell(mirror.show)
    streams = plan.written.sparkSession.streams
    listener = JournalListener(journal, name)
    streams.addListener(listener)
    try:
        query = _start(plan, request, name, show)
        try:
            _watch(query, stop)
        finally:
            if query.isActive:
                query.stop()
            take_recent(query, journal)
        error = query.exception()
        if error is not None:
            raise RunFailed(explain(str(error)))
    finally:
        streams.removeListener(listener)
        if mirror is not None:
            mirror.close()


def _start(
    plan: Plan, request: RunRequest, name: str, show: Callable[[Table], None]
) -> "StreamingQuery":
    from pyspark.errors import PySparkException

    writing = writer(plan.written, request.pipeline, request.folder, request.link, show)
    writing = _triggered(writing, request).queryName(name)
    try:
        return writing.option("checkpointLocation", checkpoint_of(request)).start()
    except PySparkException as error:
        raise RunFailed(explain(str(error))) from error


def _watch(query: "StreamingQuery", stop: Stop) -> None:
    """Until the query ends by itself, or may be stopped."""
    while query.isActive:
        if stop.is_urgent:
            return
        if not stop.is_asked:
            stop.wait(_LOOK_S)
        elif query.status["message"].startswith(_AT_WORK):
            time.sleep(_CLOSE_LOOK_S)
        else:
            return


def _triggered(writing: "DataStreamWriter", request: RunRequest) -> "DataStreamWriter":
    trigger = request.pipeline.trigger
    if request.is_once or trigger == "available_now":
        return writing.trigger(availableNow=True)
    if trigger == "once":
        return writing.trigger(once=True)
    if trigger is None:
        trigger = "1 minute" if request.pipeline.sink.parquet is not None else "0 seconds"
    return writing.trigger(processingTime=interval(trigger) or trigger)


def query_name(pipeline: Pipeline) -> str:
    """A name that says what is read and written; Spark names its sources by addresses."""
    return f"{pipeline.name}: {','.join(pipeline.topic_names)} -> {place_of(pipeline.sink)}"


def checkpoint_of(request: RunRequest) -> str:
    """The checkpoint: as the command line says, else the file, else beside the file."""
    if request.checkpoint is not None:
        return request.checkpoint
    told = request.pipeline.checkpoint or f"_pipelines/{request.pipeline.name}"
    return told if "://" in told else str(request.folder / told)


def local_checkpoint(request: RunRequest) -> Path | None:
    """The checkpoint as a folder of this machine; None if it is elsewhere."""
    place = checkpoint_of(request)
    return None if "://" in place else Path(place)


def _mirror(request: RunRequest) -> GroupMirror | None:
    if request.pipeline.group is None:
        return None
    first = next(iter(request.pipeline.views.values()))
    return GroupMirror(request.pipeline.group, source_options(first, request.link))


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
