"""Logs when a disk becomes full or damaged, and when it recovers.

Checks the state of the node after each turn, which costs one comparison while nothing changes.
"""

from collections.abc import Callable

from goqueue.broker import StorageHealth
from goqueue.model.requests import DamagedOffsets

__all__ = ["StorageLog"]

_RANGES_MAX = 100
_NAMED_MAX = 5


class StorageLog:
    """Logs each change once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._version = 0
        self._was_full = False
        self._damaged: dict[DamagedOffsets, None] = {}

    def look(self, storage: StorageHealth) -> None:
        """Log what changed since the last call."""
        if storage.version == self._version:
            return
        self._version = storage.version
        self._tell_of_space(storage)
        self._tell_of_damage(dict.fromkeys(storage.damaged(_RANGES_MAX)))

    def _tell_of_space(self, storage: StorageHealth) -> None:
        full = storage.full
        if full and not self._was_full:
            named = ", ".join(map(str, full[:_NAMED_MAX]))
            self._tell(f"the disk is full: {named} take no messages until there is space")
        elif self._was_full and not full:
            self._tell("the disk has space again: no log lacks any")
        self._was_full = bool(full)

    def _tell_of_damage(self, damaged: dict[DamagedOffsets, None]) -> None:
        for each in damaged:
            if each not in self._damaged:
                self._tell(
                    f"records of {each.log} are damaged ({each.reason}): offsets {each.first} to "
                    f"{each.below - 1} are refused, reading continues at {each.below}"
                )
        if self._damaged and not damaged:
            self._tell("no damaged records are left: retention or a deletion removed them")
        self._damaged = damaged
