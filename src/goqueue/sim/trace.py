"""The record of a run: what happened, in order, and one hash over all of it.

Two runs of one seed have the same hash, whatever the process, or the run depends on something
other than its seed.
"""

import hashlib
from collections.abc import Callable

__all__ = ["Trace"]


class Trace:
    """Records what happens; passes each line to `show` if given."""

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._show = show
        self._count = 0

    def note(self, kind: str, value: object) -> None:
        line = f"{self._count:5d} {kind} {value}"
        self._count += 1
        self._hash.update(line.encode())
        if self._show is not None:
            self._show(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def __len__(self) -> int:
        return self._count
