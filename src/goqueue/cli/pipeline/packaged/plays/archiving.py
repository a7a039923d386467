"""An archive as a command plays it: batches shown as they end, then what was done in all."""

import datetime as dt
import sys
from pathlib import Path

import msgspec

from goqueue.cli.output import Output
from goqueue.cli.pipeline.packaged.plays.endeavour import (
    Endeavour,
    endeavour,
    is_drawn,
    write_result,
)
from goqueue.cli.pipeline.showing import batch_document, batch_line
from goqueue.cli.render import encode, printable, sized
from goqueue.pipelines.packaged.archive import (
    Archived,
    ArchiveOptions,
    Compacted,
    CompactOptions,
    Layout,
    archive,
    compact,
)
from goqueue.pipelines.progress import BatchProgress, Journal
from goqueue.pipelines.running import stopped_by_signals

__all__ = ["Request", "run_archive"]

DONE = 0
INTERRUPTED = 130
_NAME = "archive"
_MEBIBYTE = 1 << 20


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    topics: tuple[str, ...]
    to: Path
    checkpoint: Path | None
    master: str
    is_once: bool
    is_compacted: bool
    more: dict[str, object]


def run_archive(request: Request, output: Output) -> int:
    """Archive, or compact; the exit code."""
    with endeavour(_NAME, request.master) as run:
        if request.is_compacted and not request.is_once:
            options = _compaction(request)
            with run.spark() as spark:
                _show_compacted(compact(spark, options), output)
            return DONE
        return _archive(run, request, output)


def _archive(run: Endeavour, request: Request, output: Output) -> int:
    options = ArchiveOptions(
        wiring=run.wiring,
        topics=request.topics,
        to=request.to,
        checkpoint=request.checkpoint,
        is_once=request.is_once,
        every_s=float(str(request.more["every_s"])),
        file_bytes=int(str(request.more["file_size"])) * _MEBIBYTE,
        batch_bytes=int(str(request.more["batch_size"])) * _MEBIBYTE,
        starting=str(request.more["starting"]),
        compression=str(request.more["compression"]),
        fails_on_loss=not request.more["allow_loss"],
    )
    checkpoint = options.checkpoint or Layout(options.to).checkpoint(options.topics)
    journal = Journal(f"{_NAME} {', '.join(options.topics)}", checkpoint, _now())
    journal.tell(lambda progress: _show_batch(progress, output))
    journal.begin()
    error: str | None = "interrupted"
    try:
        with run.spark(checkpoint) as spark, stopped_by_signals() as stop:
            done = archive(spark, options, stop=stop, journal=journal)
            if stop.is_urgent:
                return INTERRUPTED
            error = None
            _show(done, output)
            if request.is_compacted and not stop.is_asked:
                _show_compacted(compact(spark, _compaction(request)), output)
    finally:
        journal.end(_now(), error)
    return DONE


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _compaction(request: Request) -> CompactOptions:
    return CompactOptions(
        to=request.to,
        topics=request.topics,
        file_bytes=int(str(request.more["file_size"])) * _MEBIBYTE,
        compression=str(request.more["compression"]),
    )


def _show_batch(progress: BatchProgress, output: Output) -> None:
    if is_drawn(output):
        print(printable(batch_line(progress)), flush=True)
    else:
        sys.stdout.buffer.write(encode(batch_document(_NAME, progress)) + b"\n")
        sys.stdout.flush()


def _show(done: Archived, output: Output) -> None:
    if is_drawn(output):
        files = f"{done.files:,} files of {sized(done.size_bytes)}"
        print(f"archived {done.rows:,} rows in {done.batches:,} batches: {files}")
    else:
        write_result(_NAME, done, output, is_line=True)


def _show_compacted(done: Compacted, output: Output) -> None:
    if is_drawn(output):
        print(f"{done.files_before:,} files became {done.files_after:,}; {done.rows:,} rows moved")
    else:
        write_result(_NAME, done, output, is_line=True)
