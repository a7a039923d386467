"""Runs an archive: a stream of files, each batch brought into the folder exactly once.

The manifest says what was archived, and a batch is known by its query and number; the checkpoint
only says what comes next. If it is lost, a new one begins where the manifest ends.
"""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from goqueue.pipelines.archive.directory import ArchiveDirectory, open_archive
from goqueue.pipelines.archive.files import Draft
from goqueue.pipelines.archive.manifest import Commit, Entry, Layout, StagedFile, part_path
from goqueue.pipelines.connection import OptionWrong, PipelineFailed
from goqueue.pipelines.packaged_options import ArchiveOptions
from goqueue.pipelines.progress import OUT, ROWS, Journal, batch_progress
from goqueue.pipelines.runner import Stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Archived", "archive", "landings"]

_DRAFTS = msgspec.json.Decoder(Draft)

_LOOK_S = 0.1


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has brought into the archive."""

    batches: int = 0
    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    seconds: float = 0.0


def archive(
    spark: "SparkSession",
    options: ArchiveOptions,
    *,
    stop: Stop | None = None,
    journal: Journal | None = None,
) -> Archived:
    """Archive until nothing is left or a stop is requested; batches go to the journal."""
    layout = Layout(options.to)
    checkpoint = options.checkpoint or layout.checkpoint(options.topics)
    with open_archive(layout) as directory:
        sink = _ArchiveSink(directory, checkpoint)
        query = _start(spark, options, checkpoint, sink, _starting(options, checkpoint, directory))
        try:
            _watch(query, sink, stop or Stop(), journal)
        finally:
            if query.isActive:
                query.stop()
        if journal is not None:
            _take(query, journal)
        error = query.exception()
        if error is not None:
            # A sentence of our own, raised in the driver, comes back wrapped by Spark.
            raise sink.failure or error
        directory.fold()
        return sink.archived


def _watch(
    query: "StreamingQuery", sink: "_ArchiveSink", stop: Stop, journal: Journal | None
) -> None:
    """Until the query ends by itself, or may be stopped: not while a batch is brought in."""
    while query.isActive and not stop.is_urgent:
        if not stop.is_asked:
            stop.wait(_LOOK_S)
        elif sink.is_busy:
            time.sleep(_LOOK_S / 10)
        else:
            return
        if journal is not None:
            _take(query, journal)


def _take(query: "StreamingQuery", journal: Journal) -> None:
    """Tell a journal of batches. Spark counts files as rows, so rows are counted beside them."""
    for report in query.recentProgress:
        told = json.loads(report.json)
        if "addBatch" not in told.get("durationMs", {}):
            continue
        progress = batch_progress(told)
        rows = progress.rows_out or 0
        seconds = max(progress.batch_ms, 1) / 1000
        journal.take(
            msgspec.structs.replace(progress, rows_in=rows, rows_per_s=round(rows / seconds, 1))
        )


def landings(query: str, batch: int, drafts: list[Draft]) -> tuple[StagedFile, ...]:
    """Staged files with their places in the archive, numbered in the order of their rows."""

    def order(draft: Draft) -> tuple[str, str, int, int]:
        return (draft.topic, draft.date, draft.runs[0].partition, draft.runs[0].first_offset)

    found = []
    for number, draft in enumerate(sorted(drafts, key=order)):
        entry = Entry(
            path=part_path(draft.topic, draft.date, query, batch, number),
            topic=draft.topic,
            date=draft.date,
            runs=draft.runs,
            rows=draft.rows,
            size_bytes=draft.size_bytes,
            sha256=draft.sha256,
            first_time_us=draft.first_time_us,
            last_time_us=draft.last_time_us,
        )
        found.append(StagedFile(draft.staged, entry))
    return tuple(found)


class _ArchiveSink:
    """Told of each batch by Spark, maybe again after a restart."""

    def __init__(self, directory: ArchiveDirectory, checkpoint: Path) -> None:
        self._directory = directory
        self._checkpoint = checkpoint
        self._began = time.monotonic()
        self.archived = Archived()
        self.is_busy = False
        self.failure: PipelineFailed | None = None

    def __call__(self, files: "DataFrame", batch: int) -> None:
        self.is_busy = True
        try:
            self._bring(files, batch)
        except PipelineFailed as failure:
            self.failure = failure
            raise
        finally:
            self.is_busy = False

    def _bring(self, files: "DataFrame", batch: int) -> None:
        query = _query_of(self._checkpoint)
        if self._directory.manifest.has(query, batch):
            # Decided before, and put in place by the recovery: the files are not even read.
            return
        self._directory.begin(query, batch)
        drafts = [_DRAFTS.decode(row.draft) for row in files.select("draft").collect()]
        found = landings(query, batch, drafts)
        if found:
            self._directory.commit(Commit(query=query, batch=batch, landings=found))
            self._directory.fold()
        before = self.archived
        self.archived = Archived(
            batches=before.batches + 1,
            files=before.files + len(found),
            rows=before.rows + sum(each.entry.rows for each in found),
            size_bytes=before.size_bytes + sum(each.entry.size_bytes for each in found),
            seconds=round(time.monotonic() - self._began, 3),
        )


def _query_of(checkpoint: Path) -> str:
    """The id that a query keeps over restarts."""
    found: str = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    return found


def _starting(options: ArchiveOptions, checkpoint: Path, directory: ArchiveDirectory) -> str:
    """Where a run without a checkpoint begins: after what is in the archive."""
    upto = directory.manifest.upto(options.topics)
    if not upto or (checkpoint / "metadata").exists():
        return options.starting
    if options.starting != "earliest":
        words = f"the archive has rows of {', '.join(sorted(upto))}, and continues after them"
        raise OptionWrong("--from", words)
    return json.dumps(
        {
            topic: {str(number): offset for number, offset in upto.get(topic, {}).items()}
            for topic in options.topics
        }
    )


def _start(
    spark: "SparkSession",
    options: ArchiveOptions,
    checkpoint: Path,
    sink: _ArchiveSink,
    starting: str,
) -> "StreamingQuery":
    from pyspark.sql import functions

    from goqueue.pipelines.archive.source import FORMAT, ArchiveSource

    spark.dataSource.register(ArchiveSource)
    if checkpoint.exists() and not checkpoint.is_dir():
        raise PipelineFailed(f"{checkpoint} is no folder for a checkpoint")
    link = options.connection.options(
        subscribe=",".join(options.topics),
        startingOffsets=starting,
        includeHeaders="true",
        headersAs="array",
        failOnDataLoss=str(options.fails_on_loss).lower(),
        maxBytesPerTrigger=str(options.batch_bytes),
        maxBytesPerPartition=str(options.file_bytes * 2),
        batchRows="50000",
    )
    own = {
        "archive.folder": str(options.to.resolve()),
        "archive.compression": options.compression,
        "archive.fileBytes": str(options.file_bytes),
    }
    files = spark.readStream.format(FORMAT).options(**link, **own).load()
    counted = functions.coalesce(functions.sum("rows"), functions.lit(0))
    writer = (
        files.observe(OUT, counted.alias(ROWS))
        .writeStream.foreachBatch(sink)
        .queryName(f"archive {', '.join(options.topics)}")
        .option("checkpointLocation", str(checkpoint))
    )
    if options.is_once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{int(options.every_s * 1000)} milliseconds").start()
