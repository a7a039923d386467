"""Reads and searches against a plain list of all records, and while a sync does not come back."""

import errno
import threading
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import Log
from goqueue.model import (
    HOUR,
    Cleanup,
    Code,
    Create,
    Delete,
    Effect,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Refused,
    Reshape,
    SaveEpochs,
    Timestamp,
)
from goqueue.records import build, walk
from goqueue.storage import Storage
from tests.unit.storage.driven_log import DIRECTORY, EPOCH_NS, SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, Faults, MemoryFiles

batches = st.lists(
    st.lists(
        st.tuples(st.integers(0, 120), st.integers(-2_000, 50)),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
    max_size=12,
)


def filled(
    files: MemoryFiles, plan: list[list[tuple[int, int]]], interval: int = 200
) -> tuple[DrivenLog, dict[int, bytes]]:
    """A log of values of these sizes, stamped by the producer this far from the clock."""
    settings = msgspec.structs.replace(SMALL, index_interval_bytes=interval)
    driven = DrivenLog(files, settings)
    truth: dict[int, bytes] = {}
    for batch in plan:
        data = build(
            [
                Message(value=bytes(size), timestamp=EPOCH_NS + driven.now_ns + 1_000 * shift)
                for size, shift in batch
            ]
        )
        appended = driven.log.append(data, driven.now)
        bounds = [*walk(data).positions, len(data)]
        for index in range(len(batch)):
            truth[appended.first + index] = bytes(data[bounds[index] : bounds[index + 1]])
        driven.carry_out(appended.effects)
        driven.pass_time(500_000)
    return driven, truth


def stamp_of(record: bytes) -> int:
    return int.from_bytes(record[16:24], "big")


def first_stamped(truth: dict[int, bytes], timestamp: int) -> int:
    found = (offset for offset, data in truth.items() if stamp_of(data) >= timestamp)
    return next(found, len(truth))


@given(batches, st.integers(34, 2_500), st.sampled_from([1, 100, 400, 5_000]), st.booleans())
def test_a_read_from_any_offset_gets_whole_records_within_its_bounds(
    plan: list[list[tuple[int, int]]], bytes_max: int, interval: int, is_reopened: bool
) -> None:
    files = MemoryFiles()
    driven, truth = filled(files, plan, interval)
    if is_reopened:
        driven = DrivenLog(MemoryFiles(files.copy()), driven.settings)
    for offset in list(truth)[::3]:
        got = driven.read(offset, bytes_max)
        assert list(got) == list(range(offset, offset + len(got)))
        assert all(truth[found] == data for found, data in got.items())
        size = sum(map(len, got.values()))
        assert len(got) == 1 or size <= bytes_max


@given(batches, st.integers(0, 300), st.integers(0, 300))
def test_a_read_never_reaches_its_upper_bound(
    plan: list[list[tuple[int, int]]], first: int, below: int
) -> None:
    driven, truth = filled(MemoryFiles(), plan)
    offset = first % len(truth)
    wanted = driven.log.read(Offset(offset), 1 << 20, below=Offset(below))
    if below <= offset:
        assert wanted is None
        return
    assert wanted is not None
    got = walk(driven.storage.read(wanted)).offsets
    assert got[0] == offset
    assert got[-1] < below


@given(batches, st.booleans(), st.sampled_from([1, 100, 400, 5_000]))
def test_a_search_by_time_finds_the_first_record_whatever_order_the_stamps_have(
    plan: list[list[tuple[int, int]]], is_reopened: bool, interval: int
) -> None:
    files = MemoryFiles()
    driven, truth = filled(files, plan, interval)
    if is_reopened:
        driven = DrivenLog(MemoryFiles(files.copy()), driven.settings)
    stamps = [stamp_of(data) for data in truth.values()]
    for timestamp in [0, *stamps[::3], *(stamp + 1 for stamp in stamps[::5])]:
        assert driven.seek(timestamp) == first_stamped(truth, timestamp)


@given(batches)
def test_reopening_changes_nothing_that_the_log_knows(plan: list[list[tuple[int, int]]]) -> None:
    files = MemoryFiles()
    driven, _ = filled(files, plan)
    for _ in range(2):
        before = driven.log
        driven.close()
        driven = DrivenLog(MemoryFiles(files.copy()), driven.settings)
        assert (driven.log.start, driven.log.end) == (before.start, before.end)
        assert [(s.base, s.end, s.size) for s in driven.log.segments] == [
            (s.base, s.end, s.size) for s in before.segments
        ]


def test_retention_goes_by_the_stamps_of_records_before_and_after_a_restart_alike() -> None:
    files = MemoryFiles()
    settings = msgspec.structs.replace(SMALL, retention_ns=1_000_000_000)
    driven = DrivenLog(files, settings)
    old = Timestamp(EPOCH_NS - 1_000_000_000_000)
    while len(driven.log.segments) < 3:
        driven.append([Message(value=bytes(50), timestamp=old)])
    kept_from = driven.append([Message(value=bytes(50))]).first
    again = DrivenLog(MemoryFiles(files.copy()), settings)
    again.now_ns = driven.now_ns

    driven.maintain()
    again.maintain()

    assert 0 < driven.log.start <= kept_from
    assert again.log.start == driven.log.start


def test_sequential_reads_of_a_healthy_log_write_nothing() -> None:
    files = MemoryFiles()
    driven, truth = filled(files, [[(40, 0)] * 3] * 40)
    files.faults.calls.clear()
    offset = 0
    while offset < len(truth):
        offset += len(driven.read(offset, 300))
    assert files.faults.count("write") == files.faults.count("create") == 0


# An index that lies


def harmed(content: Content, base: int, ending: str, data: bytes) -> MemoryFiles:
    return MemoryFiles({**content, path_of(f"{base:020d}{ending}"): data})


@st.composite
def lies(draw: st.DrawFn, count: int = 12) -> bytes:
    """Entries that look right: rising numbers, now and then one that does not."""
    numbers = st.integers(0, 80) | st.integers(0, 2_000) | st.integers(-(1 << 63), (1 << 63) - 1)
    column = st.lists(numbers, min_size=1, max_size=count)
    first, second = draw(column), draw(column)
    if draw(st.booleans()):
        first, second = sorted(set(first)), sorted(set(second))
        second[0] = draw(st.sampled_from([0, second[0]]))
    pairs = zip(first, second, strict=False)
    entries = b"".join(number.to_bytes(8, "big", signed=True) for pair in pairs for number in pair)
    return entries + draw(st.sampled_from([b"", b"x"]))


PLAN = [[(50, 0)]] * 60

ORIGINAL = MemoryFiles()

ORIGINAL_TRUTH = filled(ORIGINAL, PLAN)[1]

ORIGINAL_CONTENT = ORIGINAL.copy()

BASES = sorted(
    int(path.removeprefix(f"{DIRECTORY}/")[:20])
    for path in ORIGINAL_CONTENT
    if path.endswith(".log")
)


@given(
    st.sampled_from(BASES),
    lies() | st.binary(max_size=200),
    st.none() | lies() | st.binary(max_size=200),
    st.sampled_from([60, 300, 5_000]),
)
def test_no_index_whatever_it_says_makes_a_wrong_record_be_served(
    base: int, offsets: bytes, times: bytes | None, bytes_max: int
) -> None:
    files = harmed(ORIGINAL_CONTENT, base, ".index", offsets)
    if times is not None:
        files = harmed(files.copy(), base, ".timeindex", times)
    driven = DrivenLog(files)
    for offset in list(ORIGINAL_TRUTH)[::2]:
        got = driven.read(offset, bytes_max)
        assert next(iter(got)) == offset
        assert all(ORIGINAL_TRUTH[found] == data for found, data in got.items())
    driven.put(b"goes on")
    assert driven.log.failure is None
    assert not driven.log.damaged


@given(st.sampled_from(BASES), lies())
def test_no_time_index_whatever_it_says_makes_a_search_go_wrong(base: int, times: bytes) -> None:
    driven = DrivenLog(harmed(ORIGINAL_CONTENT, base, ".timeindex", times))
    for data in list(ORIGINAL_TRUTH.values())[::3]:
        timestamp = stamp_of(data)
        assert driven.seek(timestamp) == first_stamped(ORIGINAL_TRUTH, timestamp)


def test_a_short_or_missing_index_is_made_good() -> None:
    for base in BASES:
        for ending in (".index", ".timeindex"):
            whole = ORIGINAL_CONTENT[path_of(f"{base:020d}{ending}")]
            for size in range(0, len(whole), 16):
                driven = DrivenLog(harmed(ORIGINAL_CONTENT, base, ending, whole[:size]))
                assert driven.read_all() == ORIGINAL_TRUTH
            content = dict(ORIGINAL_CONTENT)
            del content[path_of(f"{base:020d}{ending}")]
            files = MemoryFiles(content)
            driven = DrivenLog(files)
            assert driven.read_all() == ORIGINAL_TRUTH
            assert driven.opened.report.rebuilt_indexes == (base,)


def test_an_index_that_cannot_be_read_does_not_hide_the_records() -> None:
    files = MemoryFiles(ORIGINAL_CONTENT)
    files.faults.broken["read", "index"] = errno.EIO
    driven = DrivenLog(files)
    assert driven.read_all() == ORIGINAL_TRUTH


def test_a_search_goes_on_behind_damage() -> None:
    content = dict(ORIGINAL_CONTENT)
    data = bytearray(content[path_of(f"{0:020d}.log")])
    data[60] ^= 1
    content[path_of(f"{0:020d}.log")] = bytes(data)
    driven = DrivenLog(MemoryFiles(content))
    found = driven.seek(EPOCH_NS + 1)
    assert found in driven.read(found)


def test_a_segment_cut_short_under_an_open_log_is_refused_as_damaged() -> None:
    files = MemoryFiles(ORIGINAL_CONTENT)
    driven = DrivenLog(files)
    files.open(path_of(f"{0:020d}.log")).truncate(70)

    with pytest.raises(Refused) as refused:
        driven.read(2)

    assert refused.value.code is Code.RECORDS_DAMAGED
    assert [gap.first for gap in driven.log.damaged] == [0]


LOG, OTHER = LogId("orders", 0), LogId("other", 0)

SETTINGS = LogSettings(
    segment_bytes=1_000,
    index_interval_bytes=256,
    retention_ns=HOUR,
    cleanup=Cleanup.COMPACT_AND_DELETE,
    dirty_percent_min=1,
)

PATIENCE_S = 20.0


class Stuck(Faults):
    """Syncs of paths with this ending wait until they are let go."""

    def __init__(self, operation: str, ending: str) -> None:
        super().__init__()
        self.waits = threading.Event()
        self.goes_on = threading.Event()
        self.is_stuck = False
        self._stuck = (operation, ending)

    def meet(self, operation: str, path: str) -> None:
        stuck, ending = self._stuck
        if self.is_stuck and operation == stuck and path.endswith(ending):
            self.waits.set()
            assert self.goes_on.wait(PATIENCE_S)
        super().meet(operation, path)


class Shop:
    """A log of several segments and a storage whose guard is a real lock."""

    def __init__(self, faults: Faults) -> None:
        self.files = MemoryFiles()
        self.files.faults = faults
        self.storage = Storage(self.files, guard=threading.RLock())
        self.log = Log(LOG, SETTINGS, self.storage.open(LOG, SETTINGS).state)
        for number in range(40):
            self.carry_out(self.append(b"%d" % (number % 30)))

    def now(self, wall: int = 10 * HOUR) -> Now:
        return Now(Instant(0), Timestamp(wall))

    def append(self, key: bytes) -> list[Effect]:
        batch = build([Message(key=key, value=bytes(50))])
        return list(self.log.append(batch, self.now()).effects)

    def carry_out(self, effects: list[Effect]) -> None:
        while effects:
            events = self.storage.carry_out(effects)
            effects = [effect for event in events for effect in self.log.handle(event, self.now())]

    def read(self, offset: int) -> list[int]:
        wanted = self.log.read(Offset(offset), 1 << 20)
        assert wanted is not None
        return list(walk(self.storage.read(wanted)).offsets)


def write(shop: Shop) -> None:
    shop.storage.carry_out(shop.append(b"new"))


def roll(shop: Shop) -> None:
    shop.storage.carry_out(shop.log.begin_segment())


def drop(shop: Shop) -> None:
    # All segments but the last: what is read below is in that one.
    shop.storage.carry_out(shop.log.drop_below(shop.log.end))


def compact(shop: Shop) -> None:
    shop.storage.carry_out(shop.log.maintain(shop.now()))
    while shop.storage.has_background_work:
        shop.storage.work()


def delete(shop: Shop) -> None:
    make = Reshape(log=OTHER, change=Create(msgspec.structs.replace(SETTINGS)))
    shop.storage.carry_out([make, Reshape(log=OTHER, change=Delete())])


def save_epochs(shop: Shop) -> None:
    shop.storage.carry_out([Reshape(log=LOG, change=SaveEpochs(((1, 0),)))])


def save_snapshot(shop: Shop) -> None:
    shop.storage.save("delays-1-0", b"{}")


@pytest.mark.parametrize(
    ("change", "operation", "ending"),
    [
        (write, "write", ".log"),
        (write, "sync", ".log"),
        (roll, "sync_directory", "orders/0"),
        (roll, "sync", "recovery-point"),
        (drop, "sync", "recovery-point"),
        (drop, "sync_directory", "orders/0"),
        (compact, "write", ".log.cleaned"),
        (compact, "sync", ".log.cleaned"),
        (compact, "sync_directory", "orders/0"),
        (delete, "sync_directory", "logs/other"),
        (delete, "sync_directory", "trash"),
        (save_epochs, "sync", "epochs.json.tmp"),
        (save_snapshot, "sync", ".json.tmp"),
    ],
)
def test_a_read_does_not_wait_for_the_disk(
    change: Callable[[Shop], None], operation: str, ending: str
) -> None:
    stuck = Stuck(operation, ending)
    shop = Shop(stuck)
    last = shop.log.end - 1
    stuck.is_stuck = True
    changing = threading.Thread(target=change, args=(shop,), daemon=True)
    reading_done = threading.Event()
    served: list[int] = []

    def read() -> None:
        served.extend(shop.read(last))
        reading_done.set()

    changing.start()
    assert stuck.waits.wait(PATIENCE_S), "the change never came to its sync"
    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    is_read = reading_done.wait(PATIENCE_S / 4)
    stuck.goes_on.set()
    changing.join(PATIENCE_S)
    reading.join(PATIENCE_S)

    assert is_read, "the read waited for the disk"
    assert last in served
