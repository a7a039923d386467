"""One log of a data directory on which no node runs: read, or written durably at once.

For commands on a stopped node; nobody else uses the log meanwhile.
"""

from collections.abc import Iterator, Sequence

from goqueue.log import Log
from goqueue.model import Effect, LogId, LogSettings, Message, Now, Offset
from goqueue.records import build
from goqueue.storage.filesystem import FileSystem
from goqueue.storage.storage import Storage

__all__ = ["OfflineLog"]

_READ_BYTES = 256 * 1024


class OfflineLog:
    """An open log; opening one that is not there makes it. Methods may raise OSError."""

    def __init__(self, files: FileSystem, log: LogId, settings: LogSettings) -> None:
        self._storage = Storage(files)
        state = self._storage.open(log, settings).state
        # Up to where a replicated log knew that it is committed.
        self.committed = state.committed
        self._log = Log(log, settings, state)

    @property
    def log(self) -> Log:
        return self._log

    def batches(self) -> Iterator[memoryview]:
        """All stored records, committed or not, in pieces; raises DamageFound."""
        offset = self._log.start
        while (wanted := self._log.read_for_follower(offset, _READ_BYTES)) is not None:
            yield self._storage.read(wanted)
            offset = wanted.below

    def begin_at(self, start: Offset, now: Now) -> None:
        """Let the first record of an empty log have this offset."""
        assert self._log.end == self._log.start, "the log is empty"
        self._carry_out(self._log.reset(start), now)

    def append(self, records: Sequence[Message], now: Now) -> None:
        """Append records, durably."""
        self._carry_out(self._log.append(build(records), now).effects, now)
        if self._log.watermarks.durable != self._log.end:
            raise OSError(f"{self._log.id} could not be written: is the disk full?")

    def _carry_out(self, effects: Sequence[Effect], now: Now) -> None:
        while effects:
            events = self._storage.carry_out(effects)
            effects = [each for event in events for each in self._log.handle(event, now)]

    def close(self) -> None:
        self._storage.close()
