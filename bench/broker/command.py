"""A bench as a command: which figures, how much, where, and how they are shown."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.broker.broker import serve_from
from bench.log.figure import Figure

__all__ = ["Measure", "bench_command"]

ROOT = Path(__file__).resolve().parents[2]
_TABLE_WIDTH = 140
_SCALES = {"full": 1.0, "quick": 0.2, "tiny": 0.005}

Measure = Callable[[str, float], Iterator[Figure]]


def bench_command(title: str, suites: Mapping[str, Measure], words: str) -> click.Command:
    """The command that measures these suites, each with a folder and a scale."""

    @click.command(help=words)
    @click.option("--only", multiple=True, type=click.Choice(list(suites)), help="Repeatable.")
    @click.option("--quick", "scale", flag_value="quick", help="A fifth of the work.")
    @click.option("--tiny", "scale", flag_value="tiny", help="Only to see that it runs.")
    @click.option("--dir", "parent", type=click.Path(file_okay=False), help="Where files go.")
    @click.option(
        "--source",
        type=click.Path(file_okay=False, exists=True),
        help="Serve from this source tree: an older version, to compare.",
    )
    def bench(
        only: tuple[str, ...], scale: str | None, parent: str | None, source: str | None
    ) -> None:
        if source is not None:
            serve_from(source)
        folder = tempfile.mkdtemp(prefix="goqueue-bench-", dir=parent or _default_parent())
        figures: list[Figure] = []
        try:
            for name, measure in suites.items():
                if not only or name in only:
                    for figure in measure(folder, _SCALES[scale or "full"]):
                        judged = figure.judged()
                        click.echo(msgspec.json.encode(judged).decode())
                        figures.append(judged)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        is_narrow = not sys.stderr.isatty()
        console = Console(stderr=True, width=_TABLE_WIDTH if is_narrow else None)
        console.print(_table(title, figures))

    return bench


def _default_parent() -> Path:
    parent = ROOT / "build"
    parent.mkdir(exist_ok=True)
    return parent


def _table(title: str, figures: list[Figure]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("figure", "value", "target", "", "details"):
        table.add_column(column, justify="left" if column != "value" else "right")
    for figure in figures:
        details = ", ".join(f"{name} {value}" for name, value in figure.details.items())
        table.add_row(
            figure.figure,
            f"{figure.value:,} {figure.unit}",
            str(figure.target or ""),
            {True: "reached", False: "MISSED", None: ""}[figure.is_reached],
            details,
        )
    return table
