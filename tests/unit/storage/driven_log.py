"""A log and its storage joined without threads: each command is carried out before it returns.

After each command the disk is idle for so long that the recovery point of the log is written.
"""

from collections.abc import Iterable, Sequence

from goqueue.log import Appended, Log
from goqueue.model import (
    MILLISECOND,
    Code,
    DiskEvent,
    Effect,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Refused,
    Timestamp,
)
from goqueue.records import build, walk
from goqueue.storage import DamageFound, FileSystem, Storage, log_directory

LOG = LogId("orders", 0)
DIRECTORY = log_directory(LOG)
# A wall clock that starts far from zero, so that a time left out is noticed.
EPOCH_NS = 1_700_000_000_000_000_000
SMALL = LogSettings(segment_bytes=2_000, index_interval_bytes=256, retention_ns=None)


def path_of(name: str) -> str:
    return f"{DIRECTORY}/{name}"


class DrivenLog:
    """Log and storage over one file system, with a clock that the test moves."""

    def __init__(
        self,
        files: FileSystem,
        settings: LogSettings = SMALL,
        *,
        reserve_bytes: int = 0,
        open_segments_max: int = 64,
    ) -> None:
        self.settings = settings
        self.now_ns = 0
        self.ticks_ns = 0
        self.storage = Storage(
            files,
            reserve_bytes=reserve_bytes,
            open_segments_max=open_segments_max,
            ticks=lambda: self.ticks_ns,
        )
        self.opened = self.storage.open(LOG, settings)
        self.log = Log(LOG, settings, self.opened.state)
        self.events: list[DiskEvent] = []

    @property
    def now(self) -> Now:
        return Now(Instant(self.now_ns), Timestamp(EPOCH_NS + self.now_ns))

    def pass_time(self, nanoseconds: int = MILLISECOND) -> None:
        self.now_ns += nanoseconds

    def carry_out(self, effects: Sequence[Effect]) -> list[DiskEvent]:
        """Carry out effects and what follows from them, until nothing does."""
        happened: list[DiskEvent] = []
        while effects:
            events = self.storage.carry_out(effects)
            happened += events
            effects = self.take(events)
        self.events += happened
        self.rest()
        return happened

    def rest(self) -> None:
        """The disk is idle until nothing is left for it to do."""
        while (point_at := self.storage.next_point_at) is not None:
            self.ticks_ns = max(self.ticks_ns, point_at)
            self.storage.save_points()

    def take(self, events: Iterable[DiskEvent]) -> list[Effect]:
        return [effect for event in events for effect in self.log.handle(event, self.now)]

    def append(self, messages: Sequence[Message]) -> Appended:
        """Append at the present time, which then advances by a millisecond."""
        appended = self.log.append(build(messages), self.now)
        self.carry_out(appended.effects)
        self.pass_time()
        return appended

    def put(self, *values: bytes) -> Appended:
        return self.append([Message(value=value) for value in values])

    def start_epoch(self, epoch: int) -> None:
        self.carry_out(self.log.start_epoch(epoch, self.now).effects)
        self.pass_time()

    def maintain(self, floor: Offset | None = None) -> None:
        """Retention and compaction, to their end."""
        self.carry_out(self.log.maintain(self.now, floor))
        self.work()

    def work(self) -> None:
        while self.storage.has_background_work:
            self.carry_out(self.take(self.storage.work()))

    def read(self, offset: int, bytes_max: int = 1 << 20) -> dict[int, bytes]:
        """Records by offset, from one read; raises Refused as a reader would see it."""
        wanted = self.log.read(Offset(offset), bytes_max)
        if wanted is None:
            return {}
        try:
            return split(self.storage.read(wanted))
        except DamageFound as found:
            self.carry_out(self.take([found.event]))
        return self.read(offset, bytes_max)

    def read_all(self) -> dict[int, bytes]:
        """Every record that is served, from start to end, damage skipped."""
        served: dict[int, bytes] = {}
        offset = int(self.log.start)
        while offset < self.log.high_watermark:
            try:
                got = self.read(offset)
            except Refused as refused:
                assert refused.code is Code.RECORDS_DAMAGED, refused
                next_offset = refused.facts["next_offset"]
                assert isinstance(next_offset, int)
                assert next_offset > offset
                offset = next_offset
                continue
            assert got, f"nothing at {offset}, below the high watermark"
            served |= got
            offset = max(got) + 1
        return served

    def seek(self, timestamp: int) -> Offset:
        found = self.storage.time_search.find(self.log.seek(Timestamp(timestamp)))
        return self.log.high_watermark if found is None else found

    def close(self) -> None:
        self.storage.close()


def split(data: memoryview) -> dict[int, bytes]:
    """The bytes of each record by its offset."""
    columns = walk(data)
    bounds = [*columns.positions, len(data)]
    return {
        offset: bytes(data[bounds[index] : bounds[index + 1]])
        for index, offset in enumerate(columns.offsets)
    }
