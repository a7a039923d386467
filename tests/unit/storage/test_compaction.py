"""Compaction through log and storage: the newest of each key stays, at its old offset."""

import errno

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import ControlKind, Log
from goqueue.model import HOUR, Cleanup, Compacted, Message, Offset, Record
from goqueue.records import Flag, decode
from tests.unit.storage.driven_log import DIRECTORY, LOG, SMALL, DrivenLog, path_of, split
from tests.unit.storage.memory_files import MemoryFiles

SETTINGS = msgspec.structs.replace(
    SMALL, segment_bytes=700, cleanup=Cleanup.COMPACT, dirty_percent_min=1
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    value = draw(st.none() | st.binary(max_size=60))
    match draw(st.integers(0, 19)):
        case 0:
            return Message(key=b"gq.test", value=value, is_control=True)
        case 1:
            due = (("gq.deliver-at", b"1"),)
            return Message(key=b"a", value=value, headers=due, is_delayed=True)
        case _:
            return Message(key=draw(st.sampled_from([b"", b"a", b"b", b"c", b"d"])), value=value)


plans = st.lists(st.lists(messages(), min_size=1, max_size=6), min_size=5, max_size=25)


def decoded(served: dict[int, bytes]) -> dict[int, Record]:
    return {offset: decode(data) for offset, data in served.items()}


def is_foldable(record: Record) -> bool:
    return bool(record.key) and not record.flags & (Flag.CONTROL | Flag.DELAYED)


def is_over(record: Record) -> bool:
    """A delayed message below the floor was delivered or cancelled."""
    return bool(record.key) and bool(record.flags & Flag.DELAYED)


def is_placeholder(record: Record) -> bool:
    is_control = bool(record.flags & Flag.CONTROL)
    return is_control and record.key == ControlKind.PLACEHOLDER.encode()


def survivors(truth: dict[int, Record], sealed_end: int, is_late: bool) -> list[int]:
    """What a full compaction of everything below `sealed_end` must leave."""
    newest = {
        record.key: offset
        for offset, record in truth.items()
        if is_foldable(record) and offset < sealed_end
    }
    return [
        offset
        for offset, record in truth.items()
        if offset >= sealed_end
        or not (is_foldable(record) or is_over(record))
        or (
            is_foldable(record)
            and newest[record.key] == offset
            and not (record.value is None and is_late)
        )
    ]


def without_placeholders(served: dict[int, bytes]) -> dict[int, bytes]:
    return {o: data for o, data in served.items() if not is_placeholder(decode(data))}


@given(plans, st.booleans(), st.integers(1, 3))
def test_exactly_the_newest_record_of_each_key_survives(
    plan: list[list[Message]], is_late: bool, passes: int
) -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    for batch in plan:
        driven.append(batch)
    truth = driven.read_all()
    sealed_end = int(driven.log.segments[-1].base)
    if is_late:
        driven.pass_time(24 * HOUR + 1)

    for _ in range(passes):
        driven.maintain()
        driven.log = DrivenLog(MemoryFiles(files.copy()), SETTINGS).log

    left = without_placeholders(driven.read_all())
    assert list(left) == survivors(decoded(truth), sealed_end, is_late)
    assert all(truth[offset] == data for offset, data in left.items())
    assert driven.log.end == len(truth)
    for offset in truth:
        # A read that asks for a record that is gone gets the next one, never one before it.
        if offset < driven.log.high_watermark:
            assert next(iter(driven.read(offset))) >= offset


@given(plans)
def test_between_any_two_steps_readers_find_the_newest_of_each_key(
    plan: list[list[Message]],
) -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    for batch in plan:
        driven.append(batch)
    truth = decoded(driven.read_all())
    must_stay = survivors(truth, int(driven.log.segments[-1].base), is_late=False)

    driven.carry_out(driven.log.maintain(driven.now))
    while driven.storage.has_background_work:
        events = driven.storage.work()
        # The log has not heard of it yet: its slices still name the old segments.
        assert set(must_stay) <= set(driven.read_all())
        driven.take(events)
        served = decoded(driven.read_all())
        assert set(must_stay) <= set(served)
        assert all(truth[o] == r for o, r in served.items() if not is_placeholder(r))
        again = DrivenLog(MemoryFiles(files.copy()), SETTINGS)
        assert set(must_stay) <= set(again.read_all())
        assert not again.log.damaged


def keyed(driven: DrivenLog, count: int, keys: int = 5) -> None:
    for number in range(count):
        driven.append([Message(key=b"k%d" % (number % keys), value=b"%020d" % number)])


def test_writes_go_on_between_the_steps() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    keyed(driven, 80)
    driven.carry_out(driven.log.maintain(driven.now))
    written = []
    while driven.storage.has_background_work:
        written.append(driven.put(b"in between").first)
        driven.carry_out(driven.take(driven.storage.work()))
    assert len(written) > 5
    assert set(written) <= set(driven.read_all())
    assert driven.read_all() == DrivenLog(MemoryFiles(files.copy()), SETTINGS).read_all()


def test_the_log_gets_smaller_and_a_second_pass_has_nothing_to_do() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    keyed(driven, 200)
    before = driven.log.size
    driven.maintain()
    assert driven.log.size < before // 4
    assert driven.log.maintain(driven.now) == []
    assert sum(len(d) for p, d in files.copy().items() if p.endswith(".log")) == driven.log.size


def test_what_lies_at_or_above_the_floor_is_left_alone() -> None:
    driven = DrivenLog(MemoryFiles(), SETTINGS)
    keyed(driven, 80)
    floor = driven.log.segments[2].base
    truth = driven.read_all()
    driven.maintain(Offset(floor + 1))
    served = driven.read_all()
    assert all(offset in served for offset in truth if offset >= floor)
    assert not all(offset in served for offset in truth)


def test_sequential_reads_of_a_compacted_log_write_nothing() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    for number in range(200):
        key = b"k%d" % (number % 50) if number % 3 else b"only-%d" % number
        driven.append([Message(key=key, value=b"%020d" % number)])
    driven.maintain()
    files.faults.calls.clear()
    offset = int(driven.log.start)
    while offset < driven.log.high_watermark:
        offset = max(driven.read(offset, 150)) + 1
    assert files.faults.count("create") == files.faults.count("remove") == 0
    assert files.faults.count("write") == 0


def test_a_read_bounded_within_a_gap_gets_nothing_and_reports_no_damage() -> None:
    driven = DrivenLog(MemoryFiles(), SETTINGS)
    keyed(driven, 60, keys=1)
    driven.maintain()
    for below in range(1, 12):
        bounded = driven.log.read(Offset(0), 1 << 20, below=Offset(below))
        assert bounded is not None
        data = driven.storage.read(bounded)
        assert all(offset < below for offset in split(data))


@pytest.mark.parametrize("operation", ["create", "write", "sync"])
def test_a_disk_without_space_for_the_rewrite_leaves_the_log_as_it_was(operation: str) -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    keyed(driven, 80)
    truth = driven.read_all()
    files.faults.broken[operation, ".cleaned"] = errno.ENOSPC
    driven.maintain()
    assert driven.read_all() == truth
    assert driven.log.failure is None
    assert not [path for path in files.copy() if path.endswith(".cleaned")]
    files.faults.broken.clear()
    driven.maintain()
    assert len(driven.read_all()) < len(truth)
    assert driven.put(b"goes on").next == driven.log.high_watermark


def test_a_compaction_that_is_given_up_removes_its_file() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    keyed(driven, 80)
    truth = driven.read_all()
    driven.carry_out(driven.log.maintain(driven.now))
    while not any(path.endswith(".cleaned") for path in files.copy()):
        assert driven.storage.work() == []
    driven.close()
    assert not [path for path in files.copy() if path.endswith(".cleaned")]
    assert DrivenLog(MemoryFiles(files.copy()), SETTINGS).read_all() == truth


def merged_half_way(operation: str, number: int) -> tuple[MemoryFiles, DrivenLog, list[int]]:
    """A log whose merge of neighbours fails after the rename, and the offsets that must stay."""
    files = MemoryFiles()
    narrow = DrivenLog(files, msgspec.structs.replace(SETTINGS, segment_bytes=300))
    for count in range(80):
        # Something of each second segment stays, and nothing of those between.
        key = b"only-%d" % count if count % 10 == 3 else b"k"
        narrow.append([Message(key=key, value=b"%020d" % count)])
    narrow.close()
    driven = DrivenLog(files, SETTINGS)
    driven.put(b"the first change since the opening")
    truth = decoded(driven.read_all())
    ending = DIRECTORY if operation == "sync_directory" else ".log"
    files.faults.broken[operation, ending] = number
    driven.maintain()
    files.faults.broken.clear()
    assert files.faults.count("rename", ".cleaned") == 1
    return files, driven, survivors(truth, int(driven.log.segments[-1].base), is_late=False)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["sync_directory", "remove"])
def test_a_swap_that_fails_after_its_rename_fails_the_log(operation: str, number: int) -> None:
    files, driven, must_stay = merged_half_way(operation, number)
    assert driven.log.failure is not None
    again = DrivenLog(MemoryFiles(files.copy()), SETTINGS)
    assert not again.log.damaged
    assert set(must_stay) <= set(again.read_all())


@pytest.mark.parametrize("operation", ["sync_directory", "remove"])
def test_every_offset_is_still_readable_after_a_swap_that_failed_half_way(operation: str) -> None:
    _, driven, must_stay = merged_half_way(operation, errno.EIO)
    for offset in must_stay:
        assert next(iter(driven.read(offset))) == offset
    assert not driven.log.damaged


@pytest.mark.parametrize("operation", ["sync_directory", "remove"])
def test_a_reader_gets_on_to_the_end_after_a_swap_that_failed_half_way(operation: str) -> None:
    _, driven, must_stay = merged_half_way(operation, errno.EIO)
    assert set(must_stay) <= set(driven.read_all())


def test_damage_met_by_a_compaction_is_refused_and_the_rest_survives() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    keyed(driven, 80)
    content = files.copy()
    base = driven.log.segments[1].base
    broken = bytearray(content[path_of(f"{base:020d}.log")])
    broken[40] ^= 1
    files = MemoryFiles({**content, path_of(f"{base:020d}.log"): bytes(broken)})
    driven = DrivenLog(files, SETTINGS)

    driven.maintain()

    assert [(gap.first, gap.below) for gap in driven.log.damaged] == [(base, base + 1)]
    assert driven.log.failure is None
    driven.maintain()
    assert max(driven.read_all()) == 79


@pytest.mark.parametrize("keys_bytes", [0, 1, 200, 1_000])
def test_a_pass_with_little_memory_for_keys_gets_on_and_ends(keys_bytes: int) -> None:
    settings = msgspec.structs.replace(SETTINGS, compaction_keys_bytes=keys_bytes)
    driven = DrivenLog(MemoryFiles(), settings)
    keyed(driven, 150, keys=30)
    truth = decoded(driven.read_all())
    must_stay = survivors(truth, int(driven.log.segments[-1].base), is_late=False)
    for _ in range(400):
        effects = driven.log.maintain(driven.now)
        if not effects:
            break
        driven.carry_out(effects)
        driven.work()
    assert not driven.log.maintain(driven.now), "passes without end"
    assert list(without_placeholders(driven.read_all())) == must_stay


def test_a_merge_that_the_log_has_not_heard_of_outlives_a_deletion_and_a_restart() -> None:
    settings = msgspec.structs.replace(
        SETTINGS, cleanup=Cleanup.COMPACT_AND_DELETE, segment_bytes=2_000
    )
    files = MemoryFiles()
    narrow = DrivenLog(files, msgspec.structs.replace(settings, segment_bytes=500))
    for number in range(60):
        narrow.append([Message(key=b"key-%d" % number, value=b"%020d" % number)])
    narrow.close()
    driven = DrivenLog(files, settings)
    driven.now_ns = narrow.now_ns
    truth = driven.read_all()
    driven.carry_out(driven.log.maintain(driven.now))
    unheard: list[Compacted] = []
    while driven.storage.has_background_work:
        unheard += [e for e in driven.storage.work() if isinstance(e, Compacted)]
    assert any(len(event.replaced) > 1 for event in unheard)

    # Retention deletes the first segment as the log knows it, which is a part of a merged one.
    second = driven.log.segments[1]
    shorter = msgspec.structs.replace(
        settings, cleanup=Cleanup.DELETE, retention_bytes=driven.log.size - 500
    )
    driven.log = Log(LOG, shorter, driven.opened.state)
    effects = driven.log.maintain(driven.now)
    assert driven.log.start == second.base
    driven.carry_out([*effects, *driven.take(unheard)])

    kept = {offset: data for offset, data in truth.items() if offset >= second.base}
    assert without_placeholders(driven.read_all()) == kept
    again = DrivenLog(MemoryFiles(files.copy()), settings)
    assert not again.log.damaged
    assert without_placeholders(again.read_all()) == kept


def messages_of(driven: DrivenLog) -> dict[int, Record]:
    records = decoded(driven.read_all()).items()
    return {offset: record for offset, record in records if not is_placeholder(record)}


def rewritten(files: MemoryFiles) -> int:
    return files.faults.count("create", ".log.cleaned")


def test_a_restart_does_not_rewrite_what_is_clean() -> None:
    files = MemoryFiles()
    settings = msgspec.structs.replace(SETTINGS, dirty_percent_min=50)
    driven = DrivenLog(files, settings)
    for number in range(100):
        driven.append([Message(key=b"%d" % number, value=bytes(40))])
    driven.maintain()
    assert rewritten(files) > 5
    driven.storage.close()
    files.faults.calls.clear()

    driven = DrivenLog(files, settings)
    driven.maintain()

    assert rewritten(files) == 0
    assert driven.log.dirty_bytes == 0


@pytest.mark.parametrize("spoil", ["flip", "remove", "cut"])
def test_progress_that_is_lost_or_damaged_costs_a_pass_and_no_more(spoil: str) -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    for number in range(60):
        driven.append([Message(key=b"%d" % (number % 7), value=bytes(40))])
    driven.maintain()
    served = messages_of(driven)
    driven.storage.close()
    content = files.copy()
    saved = content.pop(path_of("cleaned-upto"))
    if spoil == "flip":
        content[path_of("cleaned-upto")] = b"9" + saved[1:]
    elif spoil == "cut":
        content[path_of("cleaned-upto")] = saved[:10]

    driven = DrivenLog(MemoryFiles(content), SETTINGS)

    assert driven.log.dirty_bytes == driven.log.sealed_bytes
    driven.maintain()
    assert messages_of(driven) == served


def test_what_is_written_after_a_truncation_is_dirty_also_after_a_restart() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    for number in range(60):
        driven.append([Message(key=b"%d" % number, value=bytes(40))])
    driven.maintain()
    driven.carry_out(driven.log.truncate(Offset(3)))
    driven.storage.close()
    driven = DrivenLog(files, SETTINGS)
    for _ in range(60):
        driven.append([Message(key=b"same", value=bytes(40))])
    driven.storage.close()

    driven = DrivenLog(files, SETTINGS)
    driven.maintain()

    assert len(driven.read_all()) < 20
