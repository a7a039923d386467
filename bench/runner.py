"""The runner of every bench: `python bench/broker/run.py`, or `python -m bench.runner broker`.

A bench is a folder with a `suite.py` whose `SUITE` names its measures. The runner chooses among
them, gives each a folder and a scale, and prints the figures in one form: one JSON line each on
stdout, and a table for people on stderr. Without a bench it lists them all.
"""

import importlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Brokers under measurement are started with the first two entries.
sys.path[1:1] = [str(ROOT / "src")]

from bench.broker_process import compare_with, serve_from  # noqa: E402 - needs the path
from bench.figure import Figure  # noqa: E402 - needs the path
from goqueue import records  # noqa: E402 - needs the path

__all__ = ["FULL", "QUICK", "ROOT", "TINY", "Measure", "Suite", "main", "suites"]

FULL, QUICK, TINY = 1.0, 0.2, 0.005
_TABLE_WIDTH = 150

Measure = Callable[[str, float], Iterator[Figure]]


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """The measures of one bench by name; each gets a folder for its files, and a scale."""

    words: str
    measures: Mapping[str, Measure]
    # Whether it starts brokers, which `--source` takes from another tree.
    has_broker: bool = True
    # What stands beside the figures.
    baseline: str = "raw"


def suites() -> dict[str, Suite]:
    """Every bench by name."""
    return {
        path.parent.name: _suite(path.parent.name) for path in sorted(ROOT.glob("bench/*/suite.py"))
    }


def _suite(name: str) -> Suite:
    suite: Suite = importlib.import_module(f"bench.{name}.suite").SUITE
    return suite


def main(*arguments: str) -> None:
    if not arguments or arguments[0].startswith("-"):
        for name, suite in suites().items():
            click.echo(f"{name}: {suite.words}")
            click.echo(f"    --only {', '.join(suite.measures)}")
        return
    name, *options = arguments
    _command(name, _suite(name)).main(options, prog_name=f"bench/{name}/run.py")


def _command(name: str, suite: Suite) -> click.Command:
    measures = suite.measures

    @click.command(help=suite.words)
    @click.option("--only", multiple=True, type=click.Choice(list(measures)), help="Repeatable.")
    @click.option(
        "--quick", "scale", flag_value=QUICK, type=float, help="About a fifth of the work."
    )
    @click.option("--tiny", "scale", flag_value=TINY, type=float, help="Only to see that it runs.")
    @click.option("--dir", "parent", type=click.Path(file_okay=False), help="Where files go.")
    @click.option(
        "--source",
        type=click.Path(file_okay=False, exists=True),
        help="Run the brokers of this source tree: an older version, to compare.",
    )
    @click.option(
        "--against",
        type=click.Path(file_okay=False, exists=True),
        help="Compare with the brokers of this source tree, in turns (measures that can).",
    )
    def bench(
        only: tuple[str, ...],
        scale: float | None,
        parent: str | None,
        source: str | None,
        against: str | None,
    ) -> None:
        if against is not None:
            _check_built(against)
            compare_with(against)
        if source is not None:
            if not suite.has_broker:
                raise click.UsageError("this bench starts no broker: run it in the other tree")
            serve_from(source)
        figures: list[Figure] = []
        # The system's temporary directory may be memory: by default files go beside the sources.
        folder = tempfile.mkdtemp(prefix="goqueue-bench-", dir=parent or _default_parent())
        try:
            for each in only or measures:
                for figure in measures[each](folder, scale or FULL):
                    judged = figure.judged()
                    click.echo(msgspec.json.encode(judged).decode())
                    figures.append(judged)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        width = None if sys.stderr.isatty() else _TABLE_WIDTH
        Console(stderr=True, width=width).print(_table(f"GoQueue {name}", figures, suite.baseline))

    return bench


def _check_built(tree: str) -> None:
    if records.COMPILED and not any(Path(tree).glob("src/goqueue/records/*.so")):
        raise click.UsageError(f"{tree} is not compiled: run `make setup` there")


def _default_parent() -> Path:
    parent = ROOT / "build"
    parent.mkdir(exist_ok=True)
    return parent


def _table(title: str, figures: list[Figure], baseline: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("figure", "value", baseline, f"of {baseline}", "target", "", "details"):
        is_number = column in {"value", baseline, f"of {baseline}"}
        table.add_column(column, justify="right" if is_number else "left")
    modes = {figure.mode for figure in figures}
    for figure in figures:
        details = ", ".join(f"{name} {value}" for name, value in figure.details.items())
        table.add_row(
            f"{figure.figure} {figure.mode}" if len(modes) > 1 else figure.figure,
            f"{figure.value:,} {figure.unit}",
            f"{figure.raw:,}" if figure.raw is not None else "",
            f"{figure.ratio:.0%}" if figure.ratio is not None else "",
            figure.target.describe(baseline) if figure.target else "",
            {True: "reached", False: "MISSED", None: ""}[figure.is_reached],
            details,
        )
    return table


if __name__ == "__main__":
    main(*sys.argv[1:])
