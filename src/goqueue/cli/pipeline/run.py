"""`pipeline run FILE`: run a pipeline and show its progress.

Checks everything that can be checked before Spark starts, because starting takes seconds. Progress
is a live table on a terminal, otherwise one line or JSON object per batch. Batches are reported by
threads of Spark; one lock keeps their output apart.
"""

import contextlib
import datetime as dt
import logging
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from goqueue.cli.client import chosen_settings, run_session
from goqueue.cli.errors import explained
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Output
from goqueue.cli.output import console, encode, printable, table
from goqueue.cli.pipeline.session import EXPECTED, asked_of, ended, link_to, look_at_topics
from goqueue.pipelines import session
from goqueue.pipelines.progress import BatchProgress, Journal, Totals, folder_of
from goqueue.pipelines.runner import RunRequest, local_checkpoint, run_pipeline, stopped_by_signals
from goqueue.pipelines.sinks import Table
from goqueue.pipelines.spec import Pipeline, option_texts
from goqueue.pipelines.spec_files import read_pipeline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

__all__ = [
    "Display",
    "Flags",
    "batch_document",
    "batch_line",
    "displayed",
    "log_path",
    "run_pipeline_file",
]


class Display:
    """Shows batches as they end."""

    def __init__(self, pipeline: Pipeline, output: Output, live: "Live | None") -> None:
        self._pipeline = pipeline
        self._output = output
        self._live = live
        self._lock = threading.Lock()
        self._batches = 0
        self._violations: dict[str, int] = {}

    def batch(self, progress: BatchProgress) -> None:
        with self._lock:
            self._batches += 1
            for each in progress.violations:
                counted = self._violations.get(each.expectation, 0)
                self._violations[each.expectation] = counted + each.count
            if not self._output.is_table:
                self._write(batch_document(self._pipeline.name, progress))
            elif self._live is not None:
                self._live.update(self._drawn(progress), refresh=True)
            else:
                print(printable(batch_line(progress)), flush=True)

    def rows(self, shown: Table) -> None:
        """The rows of a batch, for a sink that is the screen."""
        with self._lock:
            if not self._output.is_table:
                rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
                self._write({"batch": shown.batch, "count": shown.count, "rows": rows})
                return
            drawn = table(shown.columns, shown.rows)
            screen = console() if self._live is None else self._live.console
            if shown.rows:
                screen.print(drawn)

    def end(self, totals: Totals, *, is_stopped: bool) -> None:
        """The last line for a person."""
        if self._output.is_table:
            word = "stopped" if is_stopped else "done"
            told = f"{_many(self._batches, 'batch', 'batches')} in this run"
            print(f"{word}: {told}; {totals.rows_in:,} rows in, {totals.rows_out:,} out in all")

    def _write(self, document: object) -> None:
        sys.stdout.buffer.write(encode(document) + b"\n")
        sys.stdout.flush()

    def _drawn(self, progress: BatchProgress) -> "RenderableType":
        rows = [
            ("batch", f"{progress.batch}"),
            ("rows in", f"{progress.rows_in:,}"),
            ("rows out", "" if progress.rows_out is None else f"{progress.rows_out:,}"),
            ("rows/s", f"{progress.rows_per_s:,.0f}"),
            ("lag", "" if progress.lag is None else f"{progress.lag:,}"),
            ("batch time", f"{progress.batch_ms:,} ms"),
        ]
        if progress.watermark is not None:
            rows.append(("watermark", progress.watermark))
        rows += [(name, str(value)) for name, value in progress.observed.items()]
        for each in self._pipeline.expectations:
            count = self._violations.get(each.name, 0)
            rows.append((f"{each.on_violation}: {each.name}", f"{count:,}"))
        return table((self._pipeline.name, ""), rows)


def batch_line(progress: BatchProgress) -> str:
    """A batch on one line."""
    parts = [
        f"batch {progress.batch}",
        f"{progress.rows_in:,} rows in",
        *([] if progress.rows_out is None else [f"{progress.rows_out:,} out"]),
        f"{progress.rows_per_s:,.0f} rows/s",
        f"{progress.batch_ms:,} ms",
        *([] if progress.lag is None else [f"lag {progress.lag:,}"]),
        *(f"{each.expectation}: {each.count:,}" for each in progress.violations if each.count),
        *(f"{name}={value}" for name, value in progress.observed.items()),
    ]
    return ", ".join(parts)


def batch_document(pipeline: str, progress: BatchProgress) -> object:
    """A batch as one object of JSON."""
    return {"pipeline": pipeline, **msgspec.to_builtins(progress)}


@contextlib.contextmanager
def displayed(pipeline: Pipeline, output: Output) -> Iterator[Display]:
    """A display for the time of a run."""
    if not output.is_table or not sys.stdout.isatty():
        yield Display(pipeline, output, None)
        return
    from rich.live import Live
    from rich.spinner import Spinner

    waiting = Spinner("dots", f"{printable(pipeline.name)}: waiting for the first batch")
    with Live(waiting, console=console(), refresh_per_second=4) as live:
        yield Display(pipeline, output, live)


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


_LOG_BYTES_MAX = 16 << 20


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says about a run."""

    master: str = "local[*]"
    checkpoint: str | None = None
    is_once: bool = False


def run_pipeline_file(file: Path, flags: Flags, output: Output) -> int:
    """Run it; the exit code."""
    log: str | None = None
    try:
        pipeline = read_pipeline(file)
        settings = chosen_settings(click.get_current_context())
        request = RunRequest(
            pipeline=pipeline,
            folder=file.resolve().parent,
            link=link_to(settings, is_local=flags.master.startswith("local")),
            checkpoint=None if flags.checkpoint is None else _absolute(flags.checkpoint),
            is_once=flags.is_once,
        )
        _check_topics(asked_of(pipeline))
        log = str(log_path(local_checkpoint(request)))
        return _run(request, flags.master, Path(log), output)
    except EXPECTED as error:
        raise ended(error, str(file), log) from error


def _run(request: RunRequest, master: str, log: Path, output: Output) -> int:
    # A failure is reported in one sentence; these loggers would repeat it at length.
    for name in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    conf = option_texts(request.pipeline.configuration)
    started_at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    journal = Journal(request.pipeline.name, local_checkpoint(request), started_at)
    spark = session(
        f"goqueue {request.pipeline.name}", master=master, conf=conf, log=log, is_modest=True
    )
    try:
        # Spark has set a handler of its own, which would end its jobs: this one goes over it.
        with stopped_by_signals() as stop, displayed(request.pipeline, output) as display:
            journal.tell(display.batch)
            totals = run_pipeline(spark, request, journal, stop, display.rows)
        if stop.is_urgent:
            return ExitCode.INTERRUPTED
        display.end(totals, is_stopped=stop.is_asked)
    finally:
        spark.stop()
    return ExitCode.DONE


def log_path(checkpoint: Path | None) -> Path:
    """Where Spark's own words go: beside the checkpoint, unless that is on another machine."""
    if checkpoint is None:
        return Path(tempfile.gettempdir()) / "goqueue-spark.log"
    path = folder_of(checkpoint) / "spark.log"
    if path.is_file() and path.stat().st_size > _LOG_BYTES_MAX:
        path.replace(path.with_suffix(".old"))
    return path


def _absolute(checkpoint: str) -> str:
    return checkpoint if "://" in checkpoint else str(Path(checkpoint).resolve())


def _check_topics(topics: list[str]) -> None:
    found = run_session(lambda asking: look_at_topics(asking, topics))
    for each in found:
        if each.partitions is None:
            raise explained("topic_not_found", "", {"topic": each.topic})
