"""Scans of whole segments for their index, beside those who read and write.

A scan takes as long as the segment is large, so it holds no lock, on a file of its own, and leaves
its index to the segment only if that is still what was scanned.
"""

import errno
from collections.abc import Callable

from goqueue.model import Offset
from goqueue.records import Corrupt
from goqueue.storage.log_files import LogFiles

__all__ = ["rebuild_index"]


def rebuild_index(
    files: LogFiles, base: Offset, is_current: Callable[[], bool] = lambda: True
) -> None:
    """Scan a segment without a lock, and let the log use the index; raises OSError."""
    with files.guard:
        facts, segment = files.facts_of(base), files.opened(base)
        known = None if segment is None else segment.index
    if facts is None:
        return
    view = files.view(facts)
    is_kept = False
    try:
        view.make_index(facts.end)
        with files.guard:
            if not is_current():
                return
            opened = files.opened(base)
            if opened is not None and opened is segment and opened.index is known:
                opened.adopt_index(view)
            elif opened is None and files.facts(base) is facts:
                files.keep_opened(view)
                is_kept = True
            files.meter.index_rebuilds += 1
    except Corrupt as corrupt:
        raise OSError(errno.EIO, f"{files.log}: {corrupt}") from corrupt
    finally:
        if not is_kept:
            view.close()
