"""Runs the packaged pipelines and prints their progress and results.

Archive and replay print each batch or chunk as it ends; redrive, traces and audit print tables.
Every expected failure ends the command with one sentence and an exit code: 1 the work failed or an
audit has findings, 2 wrong usage, 3 no server was reached.
"""

import contextlib
import datetime as dt
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from goqueue.cli.client import chosen_settings
from goqueue.cli.errors import as_failure
from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import Output
from goqueue.cli.output import cut, draw, encode, printable, sized, write_document
from goqueue.cli.pipeline.run import batch_document, batch_line, log_path
from goqueue.cli.pipeline.session import ENDS, Misused, WorkFailed, link_to
from goqueue.client import GoQueueError
from goqueue.pipelines import JavaMissing, session
from goqueue.pipelines.archive.compaction import Compacted, compact
from goqueue.pipelines.archive.manifest import Layout
from goqueue.pipelines.archive.run import Archived, archive
from goqueue.pipelines.audit import CopyFindings, Findings, audit, audit_copy
from goqueue.pipelines.connection import ConnectionOptions, OptionWrong, PipelineFailed
from goqueue.pipelines.errors import explain
from goqueue.pipelines.packaged_options import (
    ArchiveOptions,
    AuditOptions,
    CompactOptions,
    CopyOptions,
    RedriveOptions,
    ReplayOptions,
    TracesOptions,
)
from goqueue.pipelines.progress import BatchProgress, CheckpointBusy, Journal
from goqueue.pipelines.redrive import LetterGroup, Report, redrive
from goqueue.pipelines.replay import Done, Replayed, load, make_plan, replay, shown
from goqueue.pipelines.runner import stopped_by_signals
from goqueue.pipelines.traces import TraceReport, trace_report
from goqueue.spark import DataLost, OptionInvalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "PipelineRun",
    "Request",
    "expectations",
    "is_drawn",
    "pipeline_run",
    "run_archive",
    "run_audit",
    "run_redrive",
    "run_replay",
    "run_traces",
    "write_result",
]

# A failure is reported in one sentence; these loggers would repeat it at length.
_TALKATIVE = ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger")


class PipelineRun:
    """One run of a packaged pipeline."""

    def __init__(self, name: str, master: str, connection: ConnectionOptions) -> None:
        self.connection = connection
        self._name = name
        self._master = master

    @contextlib.contextmanager
    def spark(self, checkpoint: Path | None = None) -> Iterator["SparkSession"]:
        """A session; Spark's own words go to a file, beside the checkpoint if there is one."""
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        log = log_path(checkpoint)
        spark = session(f"goqueue {self._name}", master=self._master, log=log, is_modest=True)
        try:
            yield spark
        finally:
            spark.stop()


@contextlib.contextmanager
def pipeline_run(name: str, master: str) -> Iterator[PipelineRun]:
    """Play a pipeline against the server of the command line; errors end the command."""
    from pyspark.errors import PySparkException

    settings = chosen_settings(click.get_current_context())
    link = link_to(settings, is_local=master.startswith("local"))
    connection = ConnectionOptions(
        server=settings.server,
        token_file=link.get("goqueue.tokenFile"),
        ca_file=link.get("goqueue.tls.caFile"),
        cert_file=link.get("goqueue.tls.certFile"),
        key_file=link.get("goqueue.tls.keyFile"),
        allow_plaintext=settings.allow_plaintext,
        timeout_s=settings.timeout_s,
    )
    try:
        yield PipelineRun(name, master, connection)
    except (OptionWrong, OptionInvalid, JavaMissing) as wrong:
        raise Misused(f"{name}: {wrong}") from wrong
    except (CheckpointBusy, DataLost, PipelineFailed) as failed:
        raise WorkFailed(f"{name}: {failed}") from failed
    except GoQueueError as error:
        raise as_failure(error, settings.server) from error
    except PySparkException as error:
        failure = explain(str(error))
        raise ENDS[failure.fault](f"{name}: {failure.sentence}") from error


def is_drawn(output: Output) -> bool:
    return output.is_table


def write_result(name: str, result: object, output: Output, *, is_line: bool = False) -> None:
    """The result as a document, or as the last of many lines."""
    if is_line and output in (Output.JSON, Output.JSONL):
        sys.stdout.buffer.write(encode({"pipeline": name, "result": result}) + b"\n")
        sys.stdout.flush()
    else:
        write_document(result, output)


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
    with pipeline_run(_NAME, request.master) as run:
        if request.is_compacted and not request.is_once:
            options = _compaction(request)
            with run.spark() as spark:
                _show_compacted(compact(spark, options), output)
            return ExitCode.DONE
        return _archive(run, request, output)


def _archive(run: PipelineRun, request: Request, output: Output) -> int:
    options = ArchiveOptions(
        connection=run.connection,
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
                return ExitCode.INTERRUPTED
            error = None
            _show(done, output)
            if request.is_compacted and not stop.is_asked:
                _show_compacted(compact(spark, _compaction(request)), output)
    finally:
        journal.end(_now(), error)
    return ExitCode.DONE


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


_REPLAY = "replay"


def run_replay(
    given: Mapping[str, Any], checkpoint: str | None, master: str, output: Output, *, is_dry: bool
) -> None:
    with pipeline_run(_REPLAY, master) as run:
        options = ReplayOptions(
            connection=run.connection,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            **given,
        )
        if is_dry:
            kept = load(options.place, options.fingerprint())
            plan, done = kept or (make_plan(options, time.time_ns() // 1000), Done())
            _show_plan(shown(options, plan, done), options, output)
            return
        with run.spark(options.place) as spark, stopped_by_signals() as stop:
            result = replay(
                spark,
                options,
                told=lambda each: _tell(each, output),
                is_stopped=lambda: stop.is_asked,
            )
        _show_replay(result, options, output)


def _tell(progress: Replayed, output: Output) -> None:
    if is_drawn(output):
        rate = progress.rows / progress.seconds if progress.seconds else 0.0
        of = f"chunk {progress.chunks_done:,} of {progress.chunks:,}"
        print(f"{of}, {progress.rows:,} rows, {rate:,.0f} rows/s", flush=True)
    else:
        sys.stdout.buffer.write(encode({"pipeline": _REPLAY, "progress": progress}) + b"\n")
        sys.stdout.flush()


def _show_plan(plan: Replayed, options: ReplayOptions, output: Output) -> None:
    if not is_drawn(output):
        write_result(_REPLAY, plan, output)
        return
    rows = [(each.partition, each.start, each.end - 1) for each in plan.stretches]
    empty = f"{options.topic} has nothing to send there"
    draw(("PARTITION", "FIRST OFFSET", "LAST OFFSET"), rows, empty=empty)
    if rows:
        left = plan.rows_at_most - plan.rows
        pace = f", {left / options.rate:,.0f} s at least" if options.rate else ""
        chunks = f"{plan.chunks - plan.chunks_done:,} of {plan.chunks:,} chunks are left"
        print(f"at most {left:,} rows to {options.to}; {chunks}{pace}; nothing was sent")


def _show_replay(result: Replayed, options: ReplayOptions, output: Output) -> None:
    if not is_drawn(output):
        write_result(_REPLAY, result, output, is_line=True)
        return
    again = f"its progress is in {options.place}"
    if result.is_done:
        words = f"{result.rows:,} rows of {result.topic} are in {result.to}"
        print(f"{words}; remove {options.place} to send them again")
    else:
        print(f"stopped after {result.rows:,} rows; the same command resumes; {again}")


_REDRIVE = "redrive"
_HEADINGS = ("ORIGIN", "GROUP", "CAUSE", "REASON", "LETTERS", "REDRIVEN", "SELECTED", "FIRST")
_VALUE_WIDTH = 60


def run_redrive(given: Mapping[str, Any], master: str, output: Output) -> None:
    with pipeline_run(_REDRIVE, master) as run:
        options = RedriveOptions(connection=run.connection, **given)
        with run.spark() as spark:
            report = redrive(spark, options)
    if not is_drawn(output):
        write_result(_REDRIVE, report, output)
        return
    headings = (*_HEADINGS, "LAST", "SAMPLE")
    empty = f"no dead letters of {options.topic}"
    draw(headings, [_row(group) for group in report.groups], empty=empty)
    if report.groups:
        print(_sentence(report))


def _row(group: LetterGroup) -> tuple[str | int, ...]:
    sample = ""
    if group.samples:
        first = group.samples[0]
        sample = cut(f"{first.partition}:{first.offset} {first.value or '(null)'}", _VALUE_WIDTH)
    return (
        group.origin,
        group.consumer_group,
        group.cause,
        group.reason,
        group.letters,
        group.redriven,
        group.selected,
        group.first_died[:19],
        group.last_died[:19],
        sample,
    )


def _sentence(report: Report) -> str:
    if not report.is_sent:
        return f"{report.selected:,} dead letters are selected; nothing was sent: add --send"
    return f"{report.sent:,} dead letters were redriven"


_TRACES = "traces"


def run_traces(given: Mapping[str, Any], master: str, output: Output) -> None:
    with pipeline_run(_TRACES, master) as run:
        options = TracesOptions(**given)
        with run.spark() as spark:
            report = trace_report(spark, options)
    if is_drawn(output):
        _draw(report)
    else:
        write_result(_TRACES, report, output)


def _draw(report: TraceReport) -> None:
    hops = [
        (
            each.topic,
            each.hop,
            each.journeys,
            _ms(each.p50_ms),
            _ms(each.p90_ms),
            _ms(each.p99_ms),
            _ms(each.p999_ms),
            _ms(each.max_ms),
        )
        for each in report.latencies
    ]
    headings = ("TOPIC", "HOP", "JOURNEYS", "P50 ms", "P90 ms", "P99 ms", "P99.9 ms", "MAX ms")
    draw(headings, hops, empty="no journeys in these files")
    if report.slowest:
        slow = [
            (
                each.trace_id,
                f"{each.topic}-{each.partition}:{each.offset}",
                each.consumer_group or "",
                *(_ms(took) for took in (each.publish_ms, each.wait_ms, each.work_ms)),
                _ms(each.total_ms),
            )
            for each in report.slowest
        ]
        names = ("SLOWEST", "PLACE", "GROUP", "PUBLISH ms", "WAIT ms", "WORK ms", "TOTAL ms")
        draw(names, slow, empty="")
    if report.incomplete:
        rows = [(each.topic, each.state, each.journeys, each.example) for each in report.incomplete]
        draw(("TOPIC", "NOT FINISHED", "JOURNEYS", "EXAMPLE"), rows, empty="")
    broken = f"; {report.broken_lines:,} lines could not be read" if report.broken_lines else ""
    done = f"{report.completed:,} of {report.journeys:,} journeys ended"
    print(f"{report.events:,} events; {done}{broken}")


def _ms(took: float | None) -> str:
    return "" if took is None else f"{took:,.2f}"


_AUDIT = "audit"
CLEAN = 0
WRONG = 1
_NUMBERED = ("sequence", "producer", "first", "expected")


def run_audit(given: Mapping[str, Any], master: str, output: Output) -> int:
    with pipeline_run(_AUDIT, master) as run:
        fields = {**given, "connection": run.connection}
        if given["against"] is not None:
            copied = _copy_options(fields)
            with run.spark() as spark:
                return _show_copy(audit_copy(spark, copied), output)
        for name in ("against", "target_identity"):
            if fields.pop(name) is not None:
                raise OptionWrong("--target-id", "goes with --against")
        options = AuditOptions(**{**fields, "expected": expectations(given["expected"])})
        with run.spark() as spark:
            return _show_audit(audit(spark, options), output)


def expectations(texts: Sequence[str]) -> dict[str, int]:
    """`PRODUCER=N` of the command line."""
    found = {}
    for text in texts:
        name, equals, count = text.rpartition("=")
        if not equals or not count.isdigit():
            raise OptionWrong("--expected", f"{text!r} is not PRODUCER=N")
        found[name] = int(count)
    return found


def _copy_options(fields: dict[str, Any]) -> CopyOptions:
    for name in _NUMBERED:
        if fields.pop(name) not in {None, ()}:
            raise OptionWrong(f"--{name}", "does not go with --against")
    if fields["identity"] is None:
        del fields["identity"]
    return CopyOptions(**fields)


def _show_audit(found: Findings, output: Output) -> int:
    if not is_drawn(output):
        write_result(_AUDIT, {**_fields(found), "is_clean": found.is_clean}, output)
    else:
        if found.troubled:
            rows = [
                (each.producer, each.rows, each.missing, each.duplicates, each.disorders)
                for each in found.troubled
            ]
            headings = ("PRODUCER", "ROWS", "MISSING", "DUPLICATES", "OUT OF ORDER")
            draw(headings, rows, empty="")
        gaps = [(gap.producer, gap.first, gap.last) for gap in found.gaps]
        if gaps:
            draw(("MISSING OF", "FIRST", "LAST"), gaps, empty="")
        for heading, places in (
            ("DUPLICATE", found.duplicate_rows),
            ("OUT OF ORDER", found.disordered_rows),
        ):
            if places:
                shown = [(at.producer, at.sequence, f"{at.partition}:{at.offset}") for at in places]
                draw((heading, "NUMBER", "PLACE"), shown, empty="")
        for name in found.absent:
            print(f"nothing of producer {name}")
        word = "clean" if found.is_clean else "NOT CLEAN"
        print(
            f"{word}: {found.rows:,} rows of {found.producers:,} producers; "
            f"{found.missing:,} missing, {found.duplicates:,} duplicates, "
            f"{found.disorders:,} out of order, {found.unreadable:,} unreadable"
        )
    return CLEAN if found.is_clean else WRONG


def _show_copy(found: CopyFindings, output: Output) -> int:
    if not is_drawn(output):
        write_result(_AUDIT, {**_fields(found), "is_clean": found.is_clean}, output)
    else:
        if found.differences:
            rows = [(each.identity, each.in_source, each.in_target) for each in found.differences]
            draw(("ROW", "IN SOURCE", "IN COPY"), rows, empty="")
        if found.disordered:
            draw(("OUT OF ORDER",), [(each,) for each in found.disordered], empty="")
        word = "clean" if found.is_clean else "NOT CLEAN"
        print(
            f"{word}: {found.source_rows:,} rows, {found.target_rows:,} in the copy; "
            f"{found.missing:,} missing, {found.surplus:,} too many, "
            f"{found.disorders:,} out of order, {found.unreadable:,} unreadable"
        )
    return CLEAN if found.is_clean else WRONG


def _fields(found: Findings | CopyFindings) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}
