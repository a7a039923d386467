"""A pipeline while it runs: a live table on a terminal, else a line per batch, or JSON.

Batches come from threads of Spark; one lock keeps their words apart.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from goqueue.cli.output import Output
from goqueue.cli.render import console, encode, printable, table
from goqueue.pipelines.plan import Table
from goqueue.pipelines.progress import BatchProgress, Totals
from goqueue.pipelines.spec import Pipeline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

__all__ = ["Display", "batch_document", "batch_line", "displayed"]


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
            if self._output is not Output.TABLE:
                self._write(batch_document(self._pipeline.name, progress))
            elif self._live is not None:
                self._live.update(self._drawn(progress), refresh=True)
            else:
                print(printable(batch_line(progress)), flush=True)

    def rows(self, shown: Table) -> None:
        """The rows of a batch, for a sink that is the screen."""
        with self._lock:
            if self._output is not Output.TABLE:
                rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
                self._write({"batch": shown.batch, "count": shown.count, "rows": rows})
                return
            drawn = table(shown.columns, shown.rows)
            screen = console() if self._live is None else self._live.console
            if shown.rows:
                screen.print(drawn)

    def end(self, totals: Totals, *, is_stopped: bool) -> None:
        """The last line for a person."""
        if self._output is Output.TABLE:
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
    if output is not Output.TABLE or not sys.stdout.isatty():
        yield Display(pipeline, output, None)
        return
    from rich.live import Live
    from rich.spinner import Spinner

    waiting = Spinner("dots", f"{printable(pipeline.name)}: waiting for the first batch")
    with Live(waiting, console=console(), refresh_per_second=4) as live:
        yield Display(pipeline, output, live)


def _many(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
