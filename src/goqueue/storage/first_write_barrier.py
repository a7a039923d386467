"""Makes the files that were found at an opening durable before the first change.

An opening with nothing to repair changes nothing and syncs nothing, so a crash after it finds the
same files. But an earlier process may have left a name, a length or a recovery point in the page
cache only. They are made durable before the first change; otherwise a power cut after that change
could restore older versions of them.

So a log that is opened and never written to costs no sync; others pay at their first write.
"""

import enum

from goqueue.log import RecoveryPoint
from goqueue.storage.epochs_file import save_epochs
from goqueue.storage.filesystem import FileSystem, sync_once
from goqueue.storage.layout import directories_above, segment_name
from goqueue.storage.recovery_point import RecoveryPointFile
from goqueue.storage.segment import SegmentFile

__all__ = ["Durability", "FirstWriteBarrier"]


class Durability(enum.Enum):
    """How durable the files of a log are."""

    # An empty directory; the names of its parents may not be durable.
    BARE = enum.auto()
    # An empty directory that survives a power cut.
    MADE = enum.auto()
    # The files of an earlier process.
    FOUND = enum.auto()
    # Everything is durable, or known to be dirty.
    SURE = enum.auto()


class FirstWriteBarrier:
    """The barrier of one log; passed once."""

    __slots__ = ("_directory", "_files", "_ground", "_has_epochs")

    def __init__(self, files: FileSystem, directory: str, ground: Durability) -> None:
        self._files = files
        self._directory = directory
        self._ground = ground
        self._has_epochs = False

    @property
    def is_sure(self) -> bool:
        return self._ground is Durability.SURE

    @property
    def is_bare(self) -> bool:
        return self._ground in {Durability.BARE, Durability.MADE}

    def note_epochs(self) -> None:
        """The log has an epoch from its first record on: an empty saved history would be wrong."""
        self._has_epochs = True

    def settle(self, active: SegmentFile, point: RecoveryPointFile, reached: RecoveryPoint) -> None:
        """Make everything up to `reached` durable; may be retried after an OSError.

        A new log costs one sync, of its directory: the segment is empty, and its name is durable
        before a record is. Its first recovery point need not be: without it the whole log is
        scanned, and there is no older one that a crash could restore.
        """
        if self._ground is Durability.BARE:
            for path in directories_above(self._directory):
                self._sync_names(path)
            self._ground = Durability.MADE
        if self._ground is Durability.MADE:
            self._files.create(f"{self._directory}/{segment_name(active.base)}").close()
            # If the rest fails, a second attempt finds a file.
            self._ground = Durability.FOUND
            if not self._has_epochs:
                save_epochs(self._files, self._directory, (), is_durable=False)
            point.save(reached)
        else:
            sync_once(active.settle)
            point.save_durably(reached)
        self._sync_names(self._directory)
        self._ground = Durability.SURE

    def _sync_names(self, directory: str) -> None:
        sync_once(lambda: self._files.sync_directory(directory))
