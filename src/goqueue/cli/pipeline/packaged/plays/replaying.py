"""A replay as a command plays it: chunks shown as they are sent."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goqueue.cli.asking import draw
from goqueue.cli.output import Output
from goqueue.cli.pipeline.packaged.plays.endeavour import endeavour, is_drawn, write_result
from goqueue.cli.render import encode
from goqueue.pipelines.packaged.replay import (
    Done,
    Replayed,
    ReplayOptions,
    load,
    make_plan,
    replay,
    shown,
)
from goqueue.pipelines.running import stopped_by_signals

__all__ = ["run_replay"]

_NAME = "replay"


def run_replay(
    given: Mapping[str, Any], checkpoint: str | None, master: str, output: Output, *, is_dry: bool
) -> None:
    with endeavour(_NAME, master) as run:
        options = ReplayOptions(
            wiring=run.wiring,
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
        _show(result, options, output)


def _tell(progress: Replayed, output: Output) -> None:
    if is_drawn(output):
        rate = progress.rows / progress.seconds if progress.seconds else 0.0
        of = f"chunk {progress.chunks_done:,} of {progress.chunks:,}"
        print(f"{of}, {progress.rows:,} rows, {rate:,.0f} rows/s", flush=True)
    else:
        sys.stdout.buffer.write(encode({"pipeline": _NAME, "progress": progress}) + b"\n")
        sys.stdout.flush()


def _show_plan(plan: Replayed, options: ReplayOptions, output: Output) -> None:
    if not is_drawn(output):
        write_result(_NAME, plan, output)
        return
    rows = [(each.partition, each.start, each.end - 1) for each in plan.stretches]
    empty = f"{options.topic} has nothing to send there"
    draw(("PARTITION", "FIRST OFFSET", "LAST OFFSET"), rows, empty=empty)
    if rows:
        left = plan.rows_at_most - plan.rows
        pace = f", {left / options.rate:,.0f} s at least" if options.rate else ""
        chunks = f"{plan.chunks - plan.chunks_done:,} of {plan.chunks:,} chunks are left"
        print(f"at most {left:,} rows to {options.to}; {chunks}{pace}; nothing was sent")


def _show(result: Replayed, options: ReplayOptions, output: Output) -> None:
    if not is_drawn(output):
        write_result(_NAME, result, output, is_line=True)
        return
    again = f"its progress is in {options.place}"
    if result.is_done:
        words = f"{result.rows:,} rows of {result.topic} are in {result.to}"
        print(f"{words}; remove {options.place} to send them again")
    else:
        print(f"stopped after {result.rows:,} rows; the same command goes on; {again}")
