"""The recovery point of one log, kept in a file of two slots.

Owns the statement "everything below this was synced". A sync only notes its point (`advance`); the
owner of the log writes the newest one later (`catch_up`), in place and without a sync. A point that
was not written, or was lost, leaves an older one, which is still true: the next opening scans more.
It is synced only where a lower point must not survive a change of files (truncation, deletion, a
new segment, a clean stop).

Invariant: a noted point is never written after a save that followed it, so a truncation that lowers
the point is not undone.

Each slot is one readable line with its own CRC in a sector of its own, and updates alternate, so a
torn write costs one update.
"""

import msgspec

from goqueue.log import RecoveryPoint
from goqueue.records import crc32c
from goqueue.storage.filesystem import File, FileSystem, sync_once
from goqueue.storage.layout import POINT_FILE

__all__ = ["POINT_BYTES", "RecoveryPointFile", "read_point"]

_SLOT_SIZE = 512
_SLOTS = 2
POINT_BYTES = _SLOTS * _SLOT_SIZE

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RecoveryPoint)


class RecoveryPointFile:
    """The newest point and its file.

    The file is open only while it is written: thousands of logs share the descriptors of a
    process. No error of an earlier write is missed, because a durable save writes both slots
    again.
    """

    __slots__ = ("_directory", "_files", "_noted", "_point")

    def __init__(self, files: FileSystem, directory: str, point: RecoveryPoint) -> None:
        self._files = files
        self._directory = directory
        self._point = point
        self._noted: RecoveryPoint | None = None

    @property
    def point(self) -> RecoveryPoint:
        """The newest point that was written."""
        return self._point

    @property
    def is_behind(self) -> bool:
        """Whether a newer point is noted than the one that was written."""
        return self._noted is not None

    def advance(self, point: RecoveryPoint) -> None:
        """Note a newer point, without writing it."""
        self._noted = point

    def catch_up(self) -> None:
        """Write the noted point, if there is one; after an error only a newer one is written."""
        if self._noted is not None:
            self.save(self._noted)

    def save(self, point: RecoveryPoint) -> None:
        """Write the newest point over the older slot, without waiting for the disk."""
        self._noted = None
        file = self._open()
        try:
            self._write(file, point)
        finally:
            file.close()

    def save_durably(self, point: RecoveryPoint) -> None:
        """Make `point` the only one that any crash can leave.

        The name of a new file is durable after the next sync of the log's directory.
        """
        file = self.write_all(point)
        try:
            sync_once(file.sync)
        finally:
            file.close()

    def write_all(self, point: RecoveryPoint) -> File:
        """Write `point` into every slot; the caller syncs and closes the file, with others."""
        self._noted = None
        file = self._open()
        try:
            for _ in range(_SLOTS):
                self._write(file, point)
        except BaseException:
            file.close()
            raise
        return file

    def _open(self) -> File:
        path = f"{self._directory}/{POINT_FILE}"
        try:
            return self._files.open(path)
        except FileNotFoundError:
            return self._files.create(path)

    def _write(self, file: File, point: RecoveryPoint) -> None:
        newer = msgspec.structs.replace(point, sequence=self._point.sequence + 1)
        file.write_at(newer.sequence % _SLOTS * _SLOT_SIZE, _encode(newer))
        # Only now: after a failed write the next one must not overwrite the other, good slot.
        self._point = newer


def read_point(data: bytes) -> RecoveryPoint | None:
    """The newest point in the bytes of a recovery-point file; None if no slot is valid."""
    points = [
        point
        for slot in range(_SLOTS)
        if (point := _decode(data[slot * _SLOT_SIZE : (slot + 1) * _SLOT_SIZE])) is not None
    ]
    return max(points, key=lambda point: point.sequence, default=None)


def _encode(point: RecoveryPoint) -> bytes:
    text = _encoder.encode(point)
    line = b"%08x %s" % (crc32c(text), text)
    return line.ljust(_SLOT_SIZE - 1) + b"\n"


def _decode(slot: bytes) -> RecoveryPoint | None:
    digits, separator, rest = slot.partition(b" ")
    text = rest.rstrip()
    if not separator or digits != b"%08x" % crc32c(text):
        return None
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None
