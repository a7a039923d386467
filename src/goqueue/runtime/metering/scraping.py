"""The one collector: asks the node, the storage and the process, and shows what they say.

Runs on the event loop, in slices: others run in between, and what they change is seen or not. One
scrape at a time, so that no number of scrapers takes more of the loop than one.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from goqueue.metrics import Family, expose

__all__ = ["Scraping"]

Source = Callable[[], Iterable[Family]]

# How long others wait at most for a slice to end is this and one slice more.
_SLICE_NS = 4_000_000


class Scraping:
    """Makes the text of all metrics."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = tuple(sources)
        self._turn = asyncio.Lock()

    async def scrape(self) -> tuple[bytes, ...]:
        """The text in pieces, in the order in which they belong together."""
        async with self._turn:
            pieces: list[bytes] = []
            until = time.monotonic_ns() + _SLICE_NS
            for source in self._sources:
                for piece in expose(source()):
                    if piece:
                        pieces.append(piece)
                    if time.monotonic_ns() >= until:
                        await asyncio.sleep(0)
                        until = time.monotonic_ns() + _SLICE_NS
            return tuple(pieces)
