"""Reads beside the event loop: what an ordinary read brings, and no lock meanwhile."""

import threading
from collections.abc import Callable

import msgspec
import pytest

from goqueue.model import Message, Offset, Refused, Slice
from goqueue.records import last_offset
from goqueue.storage import DamageFound, Storage
from tests.unit.storage.driven_log import LOG, SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import MemoryFiles

FIRST = "00000000000000000000.log"
LARGE = msgspec.structs.replace(SMALL, segment_bytes=1 << 20, index_interval_bytes=200)


def filled(files: MemoryFiles, settings: object = SMALL) -> DrivenLog:
    driven = DrivenLog(files, settings)  # type: ignore[arg-type]  # the settings of a log
    for number in range(60):
        driven.append([Message(value=b"%d" % number + bytes(90))])
    return driven


def everything(driven: DrivenLog, read: Callable[[Slice], memoryview]) -> list[bytes]:
    """Every record of a log, piece by piece."""
    pieces: list[bytes] = []
    offset = driven.log.start
    while (wanted := driven.log.read(offset, 700)) is not None:
        data = read(wanted)
        pieces.append(bytes(data))
        offset = Offset(last_offset(data) + 1)
    return pieces


def test_a_background_read_brings_what_an_ordinary_one_brings() -> None:
    driven = filled(MemoryFiles())
    assert len(driven.log.segments) > 3
    ordinary = everything(driven, driven.storage.read)
    assert everything(driven, driven.storage.background.read) == ordinary


def test_a_segment_that_nobody_read_is_indexed_by_its_first_background_read() -> None:
    files = MemoryFiles()
    filled(files).close()
    files = MemoryFiles(files.copy())
    driven = DrivenLog(files)
    wanted = driven.log.read(Offset(0), 700)
    assert wanted is not None
    first = bytes(driven.storage.background.read(wanted))
    files.faults.calls.clear()
    assert bytes(driven.storage.read(wanted)) == first
    assert not [call for call in files.faults.calls if "index" in str(call)]


def test_damage_found_by_a_background_read_is_that_of_an_ordinary_one() -> None:
    files = MemoryFiles()
    filled(files).close()
    content = files.copy()
    damaged = bytearray(content[path_of(FIRST)])
    damaged[200] ^= 1
    content[path_of(FIRST)] = bytes(damaged)
    driven = DrivenLog(MemoryFiles(content))
    wanted = driven.log.read(Offset(0), 700)
    assert wanted is not None
    with pytest.raises(DamageFound) as found:
        # The record before the damage is served first.
        driven.storage.background.read(msgspec.structs.replace(wanted, offset=Offset(1)))
    assert found.value.event.first == 1


def test_records_that_were_dropped_before_their_read_are_refused() -> None:
    driven = filled(MemoryFiles())
    wanted = driven.log.read(Offset(0), 700)
    assert wanted is not None
    driven.carry_out(driven.log.delete_before(Offset(40)))
    with pytest.raises(Refused):
        driven.storage.background.read(wanted)


def test_a_segment_that_is_removed_during_a_read_is_read_to_its_end() -> None:
    files = MemoryFiles()
    driven = filled(files)
    wanted = driven.log.read(Offset(0), 700)
    assert wanted is not None
    expected = bytes(driven.storage.read(wanted))
    while_read(files, lambda: driven.carry_out(driven.log.delete_before(Offset(40))))
    assert bytes(driven.storage.background.read(wanted)) == expected


def while_read(files: MemoryFiles, do: Callable[[], object]) -> None:
    """Do something right before the next read of the first segment."""
    patch, meet = pytest.MonkeyPatch(), files.faults.meet

    def met(operation: str, path: str) -> None:
        meet(operation, path)
        if operation == "read" and path.endswith(FIRST):
            patch.undo()
            do()

    patch.setattr(files.faults, "meet", met)


def test_a_background_read_holds_no_lock() -> None:
    files = MemoryFiles()
    filled(files, LARGE).close()
    files = MemoryFiles(files.copy())
    guard = threading.Lock()
    storage = Storage(files, guard=guard)
    end = storage.open(LOG, LARGE).state.end
    wanted = Slice(log=LOG, segment=Offset(0), offset=Offset(0), below=end, bytes_max=700)
    is_held: list[bool] = []

    while_read(files, lambda: is_held.append(guard.locked()))
    assert len(storage.background.read(wanted))
    assert is_held == [False]
