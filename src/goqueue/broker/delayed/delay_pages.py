"""A page of the messages that wait in a topic, by due time, however many there are.

Delayed messages are kept in the order of their offsets, so a page deep in a million of them would
have to sort them all. Instead the range of due times that the page covers is narrowed by counting,
a few passes over the columns, each in small steps; only what is in the range is sorted.

Between two steps messages may become due or be cancelled: the page is then right for one of the
moments in between.
"""

from collections.abc import Generator, Sequence

from goqueue.delivery import Delays
from goqueue.model import LogId, Offset

__all__ = ["Pages", "WaitingMessage", "find_page"]

# When a message is due, and where it stands.
WaitingMessage = tuple[int, LogId, Offset]
Pages = Generator[int, None, list[WaitingMessage]]

_BINS = 1024
# So few are sorted at once.
_SORTED_MAX = 4096
# Entries of a column that are passed over in one step; so many of them are one unit of work.
_STEP_ENTRIES = 1000
_UNIT_ENTRIES = 25

_Logs = Sequence[tuple[LogId, Delays]]


class _Window:
    """Due times from `low` to `high`: all of the page, with others before and behind it."""

    def __init__(self, low: int, high: int, skip: int, limit: int) -> None:
        self.low = low
        self.high = high
        # How many of the window come before the page.
        self.skip = skip
        self.limit = limit
        self.width = (high - low) // _BINS + 1

    def narrow(self, counts: Sequence[int]) -> int:
        """Leave out the bins before the page and behind it; how many messages are left."""
        first = 0
        while first < _BINS - 1 and counts[first] <= self.skip:
            self.skip -= counts[first]
            first += 1
        last, covered = first, counts[first]
        while last < _BINS - 1 and covered < self.skip + self.limit:
            last += 1
            covered += counts[last]
        low, width = self.low, self.width
        self.low, self.high = low + first * width, low + (last + 1) * width - 1
        return covered


def find_page(logs: _Logs, skip: int, limit: int) -> Pages:
    """The messages that wait, `limit` of them behind the first `skip`, by time, log and offset."""
    low, high = yield from _bounds(logs)
    window = _Window(low, high, skip, limit)
    is_sorted = False
    while not is_sorted:
        counts = [0] * _BINS
        for _, delays in logs:
            for first in _steps(delays):
                found = delays.waiting_within(first, _STEP_ENTRIES, window.low, window.high)
                for due, _ in found:
                    counts[(due - window.low) // window.width] += 1
                yield _units(delays)
        is_sorted = window.narrow(counts) <= _SORTED_MAX
        if window.width == 1:
            # Very many are due at the same moment: they need no sorting.
            return (yield from _collect_moments(logs, window))
        window = _Window(window.low, window.high, window.skip, limit)
    return (yield from _collect(logs, window))


def _steps(delays: Delays) -> range:
    return range(delays.pending_from, delays.entry_count, _STEP_ENTRIES)


def _units(delays: Delays) -> int:
    return 1 + min(_STEP_ENTRIES, delays.entry_count - delays.pending_from) // _UNIT_ENTRIES


def _bounds(logs: _Logs) -> Generator[int, None, tuple[int, int]]:
    """Between what times everything is due."""
    low, high = 0, 0
    for _, delays in logs:
        for first in _steps(delays):
            dues = delays.dues_of(first, _STEP_ENTRIES)
            low, high = min(low or dues[0], *dues), max(high, *dues)
            yield _units(delays)
    return low, high


def _collect(logs: _Logs, window: _Window) -> Pages:
    """The page from what is in the window."""
    page: list[WaitingMessage] = []
    for log, delays in logs:
        for first in _steps(delays):
            found = delays.waiting_within(first, _STEP_ENTRIES, window.low, window.high)
            page += [(due, log, Offset(offset)) for due, offset in found]
            yield _units(delays)
    page.sort()
    return page[window.skip : window.skip + window.limit]


def _collect_moments(logs: _Logs, window: _Window) -> Pages:
    """The page where every bin is one moment: the first and the last may hold far too many.

    Those of one moment are met in the order of log and offset, which is theirs in the page, too.
    """
    page: list[WaitingMessage] = []
    met: dict[int, int] = {}
    for log, delays in logs:
        for first in _steps(delays):
            found = delays.waiting_within(first, _STEP_ENTRIES, window.low, window.high)
            for due, offset in found:
                rank = met[due] = met.get(due, -1) + 1
                skip = window.skip if due == window.low else 0
                if skip <= rank < skip + window.limit:
                    page.append((due, log, Offset(offset)))
            yield _units(delays)
    page.sort()
    return page[: window.limit]
