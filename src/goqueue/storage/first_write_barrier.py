"""What the first change of a log since its opening stands on.

An opening that finds nothing to mend changes nothing and syncs nothing, so a crash after it finds
what was there before it, as if it had not been. But an earlier process may have left things in the
page cache alone: a name, a length, a promise. Before the first change they are made durable, or
else a power cut after that change could bring back some of what was there before theirs.

So a log that is opened and never written to costs no sync, and one that is pays at its first write.
"""

import enum

from goqueue.log import RecoveryPoint
from goqueue.storage.epochs_file import save_epochs
from goqueue.storage.filesystem import FileSystem, sync_once
from goqueue.storage.layout import directories_above, segment_name
from goqueue.storage.recovery_point import RecoveryPointFile
from goqueue.storage.segment import SegmentFile

__all__ = ["Footing", "Ground"]


class Ground(enum.Enum):
    """How much of a log's files can be relied on."""

    # An empty directory; the names on the way to it may not be durable.
    BARE = enum.auto()
    # An empty directory that a power cut leaves in place.
    MADE = enum.auto()
    # The files of an earlier process.
    FOUND = enum.auto()
    # All of it is durable, or dirty and known to be.
    SURE = enum.auto()


class Footing:
    """The ground of one log, made sure of once."""

    __slots__ = ("_directory", "_files", "_ground", "_has_epochs")

    def __init__(self, files: FileSystem, directory: str, ground: Ground) -> None:
        self._files = files
        self._directory = directory
        self._ground = ground
        self._has_epochs = False

    @property
    def is_sure(self) -> bool:
        return self._ground is Ground.SURE

    @property
    def is_bare(self) -> bool:
        return self._ground in {Ground.BARE, Ground.MADE}

    def note_epochs(self) -> None:
        """The log has an epoch from its first record on: an empty history of it would be a lie."""
        self._has_epochs = True

    def settle(self, active: SegmentFile, point: RecoveryPointFile, reached: RecoveryPoint) -> None:
        """Make sure of everything up to `reached`; may be tried again after an OSError.

        A new log costs one sync, of its directory: the segment is empty, and its name is durable
        before a record is. Its first promise need not be: without it all of the log is looked at,
        and there is no other promise that a crash could bring back.
        """
        if self._ground is Ground.BARE:
            for path in directories_above(self._directory):
                self._sync_names(path)
            self._ground = Ground.MADE
        if self._ground is Ground.MADE:
            self._files.create(f"{self._directory}/{segment_name(active.base)}").close()
            # A second attempt, should the rest of this one be refused, finds a file.
            self._ground = Ground.FOUND
            if not self._has_epochs:
                save_epochs(self._files, self._directory, (), is_durable=False)
            point.save(reached)
        else:
            sync_once(active.settle)
            point.save_durably(reached)
        self._sync_names(self._directory)
        self._ground = Ground.SURE

    def _sync_names(self, directory: str) -> None:
        sync_once(lambda: self._files.sync_directory(directory))
