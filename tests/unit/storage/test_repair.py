"""Damaged records are replaced in place by those of another copy, and nothing else is touched."""

import pytest

from goqueue.model import Message, Offset, Repair, Repaired, Reshape
from goqueue.storage import DamageFound
from tests.unit.storage.driven_log import LOG, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, Killed, MemoryFiles

FIRST = "00000000000000000000.log"
COUNT = 12


def whole() -> MemoryFiles:
    files = MemoryFiles()
    driven = DrivenLog(files)
    for number in range(COUNT):
        driven.append([Message(value=b"%02d" % number + bytes(250))])
    driven.close()
    return files


def damaged(content: Content, *positions: int) -> MemoryFiles:
    """The same with bytes of the first segment flipped; its caches do not know of them."""
    changed = dict(content)
    data = bytearray(changed[path_of(FIRST)])
    for position in positions:
        data[position] ^= 1
    changed[path_of(FIRST)] = bytes(data)
    return MemoryFiles(changed)


def find_damage(driven: DrivenLog, offset: int) -> None:
    wanted = driven.log.read(Offset(offset), 1)
    assert wanted is not None
    with pytest.raises(DamageFound) as found:
        driven.storage.read(wanted)
    driven.log.handle(found.value.event, driven.now)


def record(driven: DrivenLog, first: int, below: int) -> bytes:
    """The bytes of records, of the copy that is whole."""
    parts = []
    for offset in range(first, below):
        wanted = driven.log.read(Offset(offset), 1)
        assert wanted is not None
        parts.append(bytes(driven.storage.read(wanted)))
    return b"".join(parts)


@pytest.fixture
def good() -> DrivenLog:
    return DrivenLog(MemoryFiles(whole().copy()))


def size_of(good: DrivenLog) -> int:
    return len(record(good, 0, 1))


def test_a_repaired_record_is_served_again_and_the_file_is_what_it_was(good: DrivenLog) -> None:
    content = whole().copy()
    files = damaged(content, 2 * size_of(good) + 100)
    driven = DrivenLog(files)
    find_damage(driven, 2)
    assert [(gap.first, gap.below) for gap in driven.log.damaged] == [(2, 3)]

    (event,) = driven.carry_out(driven.log.repair(Offset(2), record(good, 2, 3)))

    assert event == Repaired(log=LOG, first=Offset(2), below=Offset(3))
    assert driven.log.damaged == ()
    assert record(driven, 0, COUNT) == record(good, 0, COUNT)
    assert files.copy()[path_of(FIRST)] == content[path_of(FIRST)]


def test_a_range_is_repaired_from_its_front_in_pieces(good: DrivenLog) -> None:
    size = size_of(good)
    # Headers too: nothing tells any more that there are two records.
    driven = DrivenLog(damaged(whole().copy(), 2 * size, 2 * size + 100, 3 * size, 3 * size + 100))
    find_damage(driven, 2)
    assert [(gap.first, gap.below) for gap in driven.log.damaged] == [(2, 4)]

    driven.carry_out(driven.log.repair(Offset(2), record(good, 2, 3)))
    assert [(gap.first, gap.below) for gap in driven.log.damaged] == [(3, 4)]
    driven.carry_out(driven.log.repair(Offset(3), record(good, 3, 4)))
    assert driven.log.damaged == ()
    assert record(driven, 0, COUNT) == record(good, 0, COUNT)


@pytest.mark.parametrize("wrong", ["other offset", "too much", "not whole", "empty"])
def test_what_does_not_fit_changes_nothing(good: DrivenLog, wrong: str) -> None:
    files = damaged(whole().copy(), 2 * size_of(good) + 100)
    driven = DrivenLog(files)
    find_damage(driven, 2)
    before = files.copy()[path_of(FIRST)]
    data = {
        "other offset": record(good, 3, 4),
        "too much": record(good, 2, 4),
        "not whole": record(good, 2, 3)[:-1],
        "empty": b"",
    }[wrong]

    driven.carry_out([Reshape(log=LOG, change=Repair(Offset(2), data))])

    assert [(gap.first, gap.below) for gap in driven.log.damaged] == [(2, 3)]
    assert files.copy()[path_of(FIRST)] == before


def test_nothing_is_written_over_records_that_are_whole(good: DrivenLog) -> None:
    files = MemoryFiles(whole().copy())
    driven = DrivenLog(files)
    assert driven.log.repair(Offset(2), record(good, 2, 3)) == []
    reshape = Reshape(log=LOG, change=Repair(Offset(2), record(good, 2, 3)))
    assert driven.carry_out([reshape]) == [Repaired(log=LOG, first=Offset(2), below=Offset(3))]
    assert files.faults.count("write", FIRST) == 0


def test_a_repair_that_is_cut_short_leaves_damage_or_whole_records(good: DrivenLog) -> None:
    content = whole().copy()
    for steps in range(1, 40):
        files = damaged(content, 2 * size_of(good) + 100)
        driven = DrivenLog(files)
        find_damage(driven, 2)
        files.faults.operations_left = steps
        try:
            driven.carry_out(driven.log.repair(Offset(2), record(good, 2, 3)))
        except Killed:
            pass
        else:
            return
        again = DrivenLog(MemoryFiles(files.copy()))
        assert record(again, 0, 2) == record(good, 0, 2)
        assert record(again, 3, COUNT) == record(good, 3, COUNT)
    raise AssertionError("the repair never ended")
