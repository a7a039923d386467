"""A bar on standard error while messages are sent; nothing at all when that is no terminal."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from typing import Protocol

from goqueue.cli.produce.roads.tally import Tally

__all__ = ["Bar", "show_bar"]


class Bar(Protocol):
    """Told how many bytes more were worked off."""

    def advance(self, size_bytes: int) -> None: ...


class _NoBar:
    def advance(self, size_bytes: int) -> None:
        """Nobody looks."""


@contextlib.contextmanager
def show_bar(topic: str, descriptor: int, tally: Tally) -> Iterator[Bar]:
    """A bar for a file whose size is known, a count for everything else."""
    if not sys.stderr.isatty() or os.isatty(descriptor):
        # Whoever types the messages sees them already.
        yield _NoBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    found = os.fstat(descriptor)
    size = found.st_size if stat.S_ISREG(found.st_mode) else None
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    sent = TextColumn("{task.fields[count]}", markup=False)
    console = Console(stderr=True)
    with Progress(*columns, sent, TimeRemainingColumn(), console=console, transient=True) as drawn:
        task = drawn.add_task(f"to {topic}", total=size, count=str(tally))

        class _Drawn:
            def advance(self, size_bytes: int) -> None:
                drawn.update(task, advance=size_bytes, count=str(tally))

        yield _Drawn()
