"""The recovery point of one log, kept in a file of two slots.

Owns the statement "everything below this was synced". It is rewritten in place after each sync, and
synced itself only where a lower point must not survive a change of files (truncation, deletion, a
new segment, a clean stop): a lost update leaves an older point, which is still true.

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

    __slots__ = ("_directory", "_files", "_point")

    def __init__(self, files: FileSystem, directory: str, point: RecoveryPoint) -> None:
        self._files = files
        self._directory = directory
        self._point = point

    @property
    def point(self) -> RecoveryPoint:
        return self._point

    def save(self, point: RecoveryPoint) -> None:
        """Write the newest point over the older slot, without waiting for the disk."""
        file = self._open()
        try:
            self._write(file, point)
        finally:
            file.close()

    def save_durably(self, point: RecoveryPoint) -> None:
        """Make `point` the only one that any crash can leave.

        The name of a new file is durable after the next sync of the log's directory.
        """
        file = self._open()
        try:
            for _ in range(_SLOTS):
                self._write(file, point)
            sync_once(file.sync)
        finally:
            file.close()

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
