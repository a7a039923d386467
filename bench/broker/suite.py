"""The broker bench as a command: which figures, how much, where, and how they are shown."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.broker.consume import measure_consume
from bench.broker.in_process import measure_in_process
from bench.broker.publish import measure_publish
from bench.broker.scale import measure_scale
from bench.broker.sdk import measure_sdk
from bench.log.figure import Figure

__all__ = ["bench"]

ROOT = Path(__file__).resolve().parents[2]
_TABLE_WIDTH = 140
_SCALES = {"full": 1.0, "quick": 0.2, "tiny": 0.005}
_SUITES: dict[str, Callable[[str, float], Iterator[Figure]]] = {
    "in_process": measure_in_process,
    "publish": measure_publish,
    "consume": measure_consume,
    "sdk": measure_sdk,
    "scale": measure_scale,
}


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(_SUITES)), help="Repeatable.")
@click.option("--quick", "scale", flag_value="quick", help="A fifth of the work.")
@click.option("--tiny", "scale", flag_value="tiny", help="Only to see that it runs.")
@click.option("--dir", "parent", type=click.Path(file_okay=False), help="Where to put the files.")
def bench(only: tuple[str, ...], scale: str | None, parent: str | None) -> None:
    """Measure a broker process over HTTP; client and broker share the machine."""
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
    table = Table(title="GoQueue broker", title_justify="left")
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
