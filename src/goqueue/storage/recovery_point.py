"""The recovery point of one log, kept in a file of two slots.

Owns the promise "everything below this was synced". It is rewritten in place after each sync and
itself synced only where a lower promise must not outlive a change of files (truncation, deletion,
a new segment, a clean stop): a lost update leaves an older promise, which is still true.

Each slot is one readable line with its own CRC in a sector of its own, and updates alternate, so a
torn write costs one update.
"""

import msgspec

from goqueue.log import RecoveryPoint
from goqueue.records import crc32c
from goqueue.storage.filesystem import File, FileSystem
from goqueue.storage.layout import POINT_FILE

__all__ = ["POINT_BYTES", "RecoveryPointFile", "read_point"]

_SLOT_SIZE = 512
_SLOTS = 2
POINT_BYTES = _SLOTS * _SLOT_SIZE

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RecoveryPoint)


class RecoveryPointFile:
    """The open file and the newest point in it."""

    def __init__(self, file: File, point: RecoveryPoint) -> None:
        self._file = file
        self._point = point

    @classmethod
    def open(cls, files: FileSystem, directory: str, point: RecoveryPoint) -> "RecoveryPointFile":
        """Go on with `point`, durably, whatever the file held before."""
        path = f"{directory}/{POINT_FILE}"
        file = files.create(path) if files.kind(path) is None else files.open(path)
        opened = cls(file, point)
        try:
            opened.save_durably(point)
        except OSError:
            opened.close()
            raise
        return opened

    @property
    def point(self) -> RecoveryPoint:
        return self._point

    def save(self, point: RecoveryPoint) -> None:
        """Write the newest promise over the older slot, without waiting for the disk."""
        newer = msgspec.structs.replace(point, sequence=self._point.sequence + 1)
        self._file.write_at(newer.sequence % _SLOTS * _SLOT_SIZE, _encode(newer))
        # Only now: after a failed write the next one must not go to the other, good slot.
        self._point = newer

    def save_durably(self, point: RecoveryPoint) -> None:
        """Make `point` the only promise that any crash can leave behind."""
        for _ in range(_SLOTS):
            self.save(point)
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def read_point(data: bytes) -> RecoveryPoint | None:
    """The newest promise in the bytes of a recovery-point file, or None if no slot is whole."""
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
