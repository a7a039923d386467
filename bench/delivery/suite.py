"""The delivery bench as a command: which figures, how much, and how they are shown."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.delivery.accuracy import measure_accuracy
from bench.delivery.backlog import measure_backlog
from bench.delivery.lanes import measure_lanes
from bench.delivery.memory import measure_memory
from bench.delivery.pending import measure_pending
from bench.delivery.restart import measure_restart
from bench.delivery.wheel import measure_wheel
from bench.log.figure import Figure

__all__ = ["bench"]

ROOT = Path(__file__).resolve().parents[2]
_TABLE_WIDTH = 140
_SCALES = {"full": 1.0, "quick": 0.2, "tiny": 0.005}
_SUITES: dict[str, Callable[[str, float], Iterator[Figure]]] = {
    "wheel": lambda _, scale: measure_wheel(scale),
    "memory": lambda _, scale: measure_memory(scale),
    "pending": measure_pending,
    "accuracy": measure_accuracy,
    "restart": measure_restart,
    "lanes": measure_lanes,
    "backlog": measure_backlog,
}


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(_SUITES)), help="Repeatable.")
@click.option("--quick", "scale", flag_value="quick", help="A fifth of the work.")
@click.option("--tiny", "scale", flag_value="tiny", help="Only to see that it runs.")
@click.option("--dir", "parent", type=click.Path(file_okay=False), help="Where to put the files.")
def bench(only: tuple[str, ...], scale: str | None, parent: str | None) -> None:
    """Measure delays and lanes: the wheel in this process, the rest with a broker."""
    folder = tempfile.mkdtemp(prefix="goqueue-bench-", dir=parent or _default_parent())
    figures: list[Figure] = []
    try:
        for name, measure in _SUITES.items():
            if not only or name in only:
                for figure in measure(folder, _SCALES[scale or "full"]):
                    judged = figure.judged()
                    click.echo(msgspec.json.encode(judged).decode())
                    figures.append(judged)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    is_narrow = not sys.stderr.isatty()
    Console(stderr=True, width=_TABLE_WIDTH if is_narrow else None).print(_table(figures))


def _default_parent() -> Path:
    parent = ROOT / "build"
    parent.mkdir(exist_ok=True)
    return parent


def _table(figures: list[Figure]) -> Table:
    table = Table(title="GoQueue delivery", title_justify="left")
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
