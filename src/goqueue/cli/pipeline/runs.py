"""`pipeline run FILE`: from a file to a running query, and its end as an exit code.

What can be known to be wrong before Spark starts is told before, because that takes seconds.
"""

import datetime as dt
import logging
import tempfile
from pathlib import Path

import click
import msgspec

from goqueue.cli.asking import ServerRefusal, chosen_settings, describe, run_session
from goqueue.cli.output import Output
from goqueue.cli.pipeline.endings import EXPECTED, ended
from goqueue.cli.pipeline.servers import asked_of, link_to, look_at_topics
from goqueue.cli.pipeline.showing import displayed
from goqueue.pipelines import session
from goqueue.pipelines.progress import Journal, folder_of
from goqueue.pipelines.running import Wish, local_checkpoint, run_pipeline, stopped_by_signals
from goqueue.pipelines.spec import option_texts, read_pipeline

__all__ = ["Flags", "log_path", "run_pipeline_file"]

DONE = 0
INTERRUPTED = 130
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
        wish = Wish(
            pipeline=pipeline,
            folder=file.resolve().parent,
            link=link_to(settings, is_local=flags.master.startswith("local")),
            checkpoint=None if flags.checkpoint is None else _absolute(flags.checkpoint),
            is_once=flags.is_once,
        )
        _check_topics(asked_of(pipeline))
        log = str(log_path(local_checkpoint(wish)))
        return _run(wish, flags.master, Path(log), output)
    except EXPECTED as error:
        raise ended(error, str(file), log) from error


def _run(wish: Wish, master: str, log: Path, output: Output) -> int:
    # What goes wrong is told in one sentence; these would tell it again, at length.
    for name in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    conf = option_texts(wish.pipeline.configuration)
    started_at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    journal = Journal(wish.pipeline.name, local_checkpoint(wish), started_at)
    spark = session(
        f"goqueue {wish.pipeline.name}", master=master, conf=conf, log=log, is_modest=True
    )
    try:
        # Spark has set a handler of its own, which would end its jobs: this one goes over it.
        with stopped_by_signals() as stop, displayed(wish.pipeline, output) as display:
            journal.tell(display.batch)
            totals = run_pipeline(spark, wish, journal, stop, display.rows)
        if stop.is_urgent:
            return INTERRUPTED
        display.end(totals, is_stopped=stop.is_asked)
    finally:
        spark.stop()
    return DONE


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
            raise ServerRefusal(describe("topic_not_found", f"There is no topic {each.topic!r}."))
