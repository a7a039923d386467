"""The delivery bench as a command: which figures, how much, and how they are shown."""

import sys
from collections.abc import Callable, Iterator

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.delivery.memory import measure_memory
from bench.delivery.wheel import measure_wheel
from bench.log.figure import Figure

__all__ = ["bench"]

_TABLE_WIDTH = 140
_SCALES = {"full": 1.0, "quick": 0.2, "tiny": 0.005}
_SUITES: dict[str, Callable[[float], Iterator[Figure]]] = {
    "wheel": measure_wheel,
    "memory": measure_memory,
}


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(_SUITES)), help="Repeatable.")
@click.option("--quick", "scale", flag_value="quick", help="A fifth of the work.")
@click.option("--tiny", "scale", flag_value="tiny", help="Only to see that it runs.")
def bench(only: tuple[str, ...], scale: str | None) -> None:
    """Measure the machines of the delivery room in this process, without disk or network."""
    figures: list[Figure] = []
    for name, measure in _SUITES.items():
        if not only or name in only:
            for figure in measure(_SCALES[scale or "full"]):
                judged = figure.judged()
                click.echo(msgspec.json.encode(judged).decode())
                figures.append(judged)
    is_narrow = not sys.stderr.isatty()
    Console(stderr=True, width=_TABLE_WIDTH if is_narrow else None).print(_table(figures))


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
