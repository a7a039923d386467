"""The bench as a command: which figures, how much, where, and how they are shown."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.log.amounts import FULL, QUICK, TINY, Amounts
from bench.log.append import measure_append
from bench.log.disk import measure_disk
from bench.log.figure import Figure
from bench.log.memory import measure_memory
from bench.log.passes import measure_passes
from bench.log.read import measure_read
from bench.log.reopen import measure_reopen
from bench.log.scan import measure_scan
from goqueue import records

__all__ = ["bench"]

ROOT = Path(__file__).resolve().parents[2]
INTERPRETED = "interpreted"
_TABLE_WIDTH = 130
_TWINS = ("append", "read", "scan")
_SUITES: dict[str, Callable[[str, Amounts], Iterator[Figure]]] = {
    "disk": measure_disk,
    "append": measure_append,
    "read": measure_read,
    "scan": measure_scan,
    "passes": measure_passes,
    "reopen": measure_reopen,
    "memory": measure_memory,
}

_decoder = msgspec.json.Decoder(Figure)


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice([*_SUITES, INTERPRETED]), help="Repeatable."
)
@click.option("--quick", "amounts", flag_value="quick", help="Smaller amounts: about a minute.")
@click.option("--tiny", "amounts", flag_value="tiny", help="Only to see that it runs.")
@click.option("--dir", "parent", type=click.Path(file_okay=False), help="Where to put the files.")
def bench(only: tuple[str, ...], amounts: str | None, parent: str | None) -> None:
    """Measure the log against raw system calls on the same bytes in the same run."""
    # The system's temporary directory may be memory: by default the files go beside the sources.
    folder = tempfile.mkdtemp(prefix="goqueue-bench-", dir=parent or _default_parent())
    figures: list[Figure] = []
    try:
        for figure in _measure(only, amounts or "full", folder):
            click.echo(msgspec.json.encode(figure).decode())
            figures.append(figure)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    is_narrow = not sys.stderr.isatty()
    Console(stderr=True, width=_TABLE_WIDTH if is_narrow else None).print(_table(figures))


def _default_parent() -> Path:
    parent = ROOT / "build"
    parent.mkdir(exist_ok=True)
    return parent


def _measure(only: tuple[str, ...], amounts: str, folder: str) -> Iterator[Figure]:
    sizes = {"full": FULL, "quick": QUICK, "tiny": TINY}[amounts].here()
    for name, measure in _SUITES.items():
        if not only or name in only:
            for figure in measure(folder, sizes):
                yield figure.judged()
    if (not only or INTERPRETED in only) and records.COMPILED:
        yield from _interpreted(amounts, folder)


def _interpreted(amounts: str, folder: str) -> Iterator[Figure]:
    """The same figures from a process that does not load the extensions."""
    options = [option for name in _TWINS for option in ("--only", name)]
    if amounts != "full":
        options.append(f"--{amounts}")
    twin = subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / "log" / "run.py"), *options, "--dir", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "GOQUEUE_NO_EXTENSIONS": "1"},
    )
    assert twin.stdout is not None
    for line in twin.stdout:
        yield _decoder.decode(line)
    if twin.wait():
        raise click.ClickException("the interpreted run failed")


def _table(figures: list[Figure]) -> Table:
    table = Table(title="GoQueue log", title_justify="left")
    for column in ("figure", "value", "raw", "of raw", "target", "", "interpreted"):
        is_words = column in {"figure", "target", ""}
        table.add_column(column, justify="left" if is_words else "right", no_wrap=True)
    twins = {figure.figure: figure for figure in figures if figure.mode == INTERPRETED}
    is_alone = all(figure.mode == INTERPRETED for figure in figures)
    for figure in figures:
        if figure.mode == INTERPRETED and not is_alone:
            continue
        twin = twins.get(figure.figure)
        table.add_row(
            figure.figure,
            f"{figure.value:,} {figure.unit}",
            f"{figure.raw:,}" if figure.raw is not None else "",
            f"{figure.ratio:.0%}" if figure.ratio is not None else "",
            str(figure.target or ""),
            {True: "reached", False: "MISSED", None: ""}[figure.is_reached],
            f"{twin.value:,}" if twin else "",
        )
    return table
