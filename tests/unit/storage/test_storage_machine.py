"""A log and its storage with everything between them delayed, in any order that can happen.

Effects and events wait in queues as between the core and the disk thread. Whatever happens in
between, what is committed is served as it was written or refused as damaged, also after a crash.
"""

from collections import deque

import msgspec
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.log import Appended, Log
from goqueue.model import Cleanup, Code, Damaged, DiskEvent, Effect, Message, Offset, Refused, Write
from goqueue.records import build, decode
from goqueue.storage import DamageFound
from tests.examples import examples
from tests.unit.storage.driven_log import LOG, SMALL, DrivenLog, split
from tests.unit.storage.memory_files import MemoryFiles

SETTINGS = msgspec.structs.replace(
    SMALL,
    segment_bytes=300,
    index_interval_bytes=100,
    cleanup=Cleanup.COMPACT_AND_DELETE,
    dirty_percent_min=1,
    retention_bytes=800,
)


class DelayedLog(RuleBasedStateMachine):
    """One log, its disk, and the truth about every offset that was given."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.driven = DrivenLog(self.files, SETTINGS)
        self.effects: deque[list[Effect]] = deque()
        self.events: deque[DiskEvent] = deque()
        self.given: dict[int, bytes] = {}
        self.epoch = 0

    @property
    def log(self) -> Log:
        return self.driven.log

    def submit(self, effects: list[Effect]) -> None:
        if effects:
            self.effects.append(effects)

    def note(self, appended: Appended) -> None:
        for effect in appended.effects:
            if isinstance(effect, Write):
                self.given |= split(memoryview(effect.data))
        self.submit(list(appended.effects))

    # What the core is asked

    @rule(
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=9),
        key=st.sampled_from([b"", b"a", b"b"]),
    )
    def append(self, sizes: list[int], key: bytes) -> None:
        batch = build([Message(key=key, value=bytes(size)) for size in sizes])
        try:
            self.note(self.log.append(batch, self.driven.now))
        except Refused as refused:
            assert refused.code in {Code.STORAGE_FULL, Code.STORAGE_FAILED, Code.LOG_BUSY}
        self.driven.pass_time()

    @rule(key=st.sampled_from([b"", b"a"]))
    def grow(self, key: bytes) -> None:
        """Some segments more, without a hitch: so that there is something to remove."""
        for _ in range(4):
            self.append([40, 40, 40], key)
            self.settle()

    @rule()
    def start_epoch(self) -> None:
        self.epoch += 1
        try:
            self.note(self.log.start_epoch(self.epoch, self.driven.now))
        except Refused as refused:
            assert refused.code in {Code.STORAGE_FULL, Code.STORAGE_FAILED, Code.LOG_BUSY}

    @rule(share=st.integers(0, 100))
    def truncate(self, share: int) -> None:
        span = self.log.end - self.log.start
        try:
            self.submit(self.log.truncate(Offset(self.log.start + span * share // 100)))
        except Refused as refused:
            assert refused.code in {Code.STORAGE_FAILED, Code.LOG_BUSY}

    @rule()
    def maintain(self) -> None:
        self.submit(self.log.maintain(self.driven.now))

    @rule(number=st.integers(0, 100))
    def find_damage(self, number: int) -> None:
        """A reader met damage; only committed records are read."""
        readable = [s for s in self.log.segments if s.base < self.log.high_watermark]
        if readable:
            segment = readable[number % len(readable)]
            self.events.append(
                Damaged(
                    log=LOG,
                    segment=segment.base,
                    position=0,
                    first=segment.base,
                    below=min(segment.end, self.log.high_watermark),
                    reason="crc",
                )
            )

    # What happens in between

    @precondition(lambda self: bool(self.effects))
    @rule(count=st.integers(1, 4))
    def carry_out(self, count: int) -> None:
        group: list[Effect] = []
        for _ in range(min(count, len(self.effects))):
            group += self.effects.popleft()
        self.events.extend(self.driven.storage.carry_out(group))

    @precondition(lambda self: bool(self.events))
    @rule(count=st.integers(1, 4))
    def hear(self, count: int) -> None:
        for _ in range(min(count, len(self.events))):
            self.submit(self.log.handle(self.events.popleft(), self.driven.now))
        self.forget_taken_back()

    def forget_taken_back(self) -> None:
        self.given = {o: data for o, data in self.given.items() if o < self.log.end}

    @rule()
    def work(self) -> None:
        self.events.extend(self.driven.storage.work())

    @rule(room=st.none() | st.integers(0, 300))
    def fill_disk(self, room: int | None) -> None:
        self.files.faults.room = room
        self.driven.pass_time(SETTINGS.full_retry_ns)

    @rule(is_clean=st.booleans())
    @precondition(lambda self: len(self.log.segments) > 3)
    def restart(self, is_clean: bool) -> None:
        """Stop or crash; then everything committed must be there."""
        if is_clean:
            self.settle()
        start, committed = self.log.start, self.log.high_watermark
        now_ns, damaged = self.driven.now_ns, self.log.damaged
        if is_clean:
            self.driven.close()
        self.effects.clear()
        self.events.clear()
        self.files = MemoryFiles(self.files.copy())
        self.driven = DrivenLog(self.files, SETTINGS)
        self.driven.now_ns = now_ns
        assert self.log.start <= start
        assert self.log.end >= committed
        served = self.driven.read_all()
        for offset in range(start, committed):
            was_damaged = any(gap.first <= offset < gap.below for gap in damaged)
            is_damaged = any(gap.first <= offset < gap.below for gap in self.log.damaged)
            assert not is_damaged or was_damaged, f"{offset} was healthy before"
            if not is_damaged and not self.may_be_compacted(offset):
                assert served[offset] == self.given[offset]
        self.given = served
        self.epoch = max(self.epoch, self.log.epochs.latest or 0)

    def may_be_compacted(self, offset: int) -> bool:
        """Whether a newer one, since truncated, may have replaced the record."""
        record = decode(self.given[offset]) if offset in self.given else None
        return record is None or record.key in {b"a", b"b", b"gq.placeholder"}

    def settle(self) -> None:
        """Let everything that is under way come to its end."""
        self.files.faults.room = None
        while self.effects or self.events or self.driven.storage.has_background_work:
            if self.effects:
                self.carry_out(count=9)
            if self.events:
                self.hear(count=9)
            self.work()

    # What must hold at every moment

    @invariant()
    def committed_records_are_served_or_refused_as_damaged(self) -> None:
        log = self.log
        assert log.start <= log.watermarks.stable <= log.high_watermark <= log.end
        for offset in range(log.start, log.high_watermark, 3):
            try:
                wanted = log.read(Offset(offset), 100)
                assert wanted is not None
                data = self.driven.storage.read(wanted)
            except Refused as refused:
                assert refused.code is Code.RECORDS_DAMAGED, refused
            except DamageFound as found:
                raise AssertionError(found.event) from found
            else:
                for found_at, record in split(data).items():
                    assert self.given.get(found_at) == record or b"gq.placeholder" in record

    def teardown(self) -> None:
        """Settled, the log is not stuck: it takes and commits writes, unless it failed."""
        self.settle()
        self.driven.pass_time(SETTINGS.full_retry_ns)
        if self.log.failure is None:
            self.append([1], b"")
            self.settle()
            assert self.log.high_watermark == self.log.end
        self.restart(is_clean=False)


TestDelayedLog = DelayedLog.TestCase

TestDelayedLog.settings = hypothesis_settings(
    max_examples=examples(25), stateful_step_count=50, deadline=None
)
