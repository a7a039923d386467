"""Writes and syncs of several files with one call.

Compiled, because then the interpreter lock is given up and taken back once for a whole group
commit: under load each hand-over waits for the event loop, and a write and a sync per log are many.

Invariant: every file is written before the first is synced, and a file whose write failed is not
synced.
"""

from goqueue.records import Buffer

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.runtime.commit_calls import commit_all

__all__ = ["COMPILED", "Job", "Outcome", "commit_files"]

COMPILED: bool = cython.compiled

# Descriptor, position, buffers, whether to sync.
Job = tuple[int, int, list[Buffer], bool]
# The error of the write, the error of the sync (0 is none), and the nanoseconds that the sync took.
Outcome = tuple[int, int, int]


def commit_files(jobs: list[Job]) -> list[Outcome]:
    """Write all files, then sync those that are to be synced side by side."""
    return commit_all(jobs)
