"""What the log of the process says of a node: its recovery, and a disk that is full or damaged."""

from goqueue.broker import StorageHealth
from goqueue.log import DamagedRange
from goqueue.model import (
    SECOND,
    Instant,
    LogId,
    NodeRecovered,
    Now,
    Offset,
    Timestamp,
    TopicCreated,
)
from goqueue.runtime.node_log import NodeLog
from goqueue.storage import Cut, RecoveryReport
from tests.unit.runtime.event_lines import EventLines

ORDERS, USERS = LogId("orders", 0), LogId("users", 3)
DAMAGE = DamagedRange(first=Offset(5), below=Offset(7), reason="crc")


class Scene:
    """The log of a node, a clock that tests move, and the state of its storage."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.storage = StorageHealth()
        self.lines = EventLines()
        self.log = NodeLog(
            self.lines.log,
            previous_end="crash",
            free_bytes=lambda: 4096,
            monotonic=lambda: self.seconds,
        )

    def check(self) -> list[dict[str, object]]:
        self.log.check(self.storage)
        return self.lines.take()


def at(seconds: int = 0) -> Now:
    return Now(Instant(seconds * SECOND), Timestamp(seconds * SECOND))


def opened(log: LogId, scanned: int = 0, cut: Cut | None = None) -> RecoveryReport:
    return RecoveryReport(
        log=log,
        scanned_bytes=scanned,
        cut=cut,
        damaged=(),
        set_aside=(),
        rebuilt_indexes=(),
        removed=(),
        foreign=(),
    )


def test_a_full_disk_is_told_when_it_begins_and_when_it_ends() -> None:
    scene = Scene()
    for second in range(5):
        scene.storage.record_full(ORDERS, at(second))
        scene.storage.record_full(USERS, at(second))
        expected = {
            "level": "error",
            "event": "disk_full",
            "logs": ["orders-0", "users-3"],
            "free_bytes": 4096,
        }
        assert scene.check() == ([] if second else [expected])
    scene.storage.record_written(USERS)
    assert scene.check() == []
    scene.storage.record_written(ORDERS)
    scene.seconds = 61.5
    assert scene.check() == [{"level": "warning", "event": "disk_free", "full_s": 61.5}]
    assert scene.check() == []


def test_damage_is_told_with_where_to_go_on_and_when_none_is_left() -> None:
    scene = Scene()
    scene.storage.record_damage(ORDERS, [DAMAGE])
    [line] = scene.check()
    assert (line["event"], line["log"]) == ("records_damaged", "orders-0")
    assert (line["first"], line["next_offset"]) == (5, 7)
    scene.storage.record_damage(ORDERS, [DAMAGE])
    assert scene.check() == []

    scene.storage.record_damage(ORDERS, [])
    assert [line["event"] for line in scene.check()] == ["damage_gone"]


def test_a_log_that_the_disk_failed_is_told_once_with_the_reason() -> None:
    scene = Scene()
    scene.storage.record_failed(ORDERS, "EIO")
    [line] = scene.check()
    assert line == {"level": "error", "event": "log_failed", "log": "orders-0", "reason": "EIO"}
    scene.storage.record_failed(USERS, "EROFS")
    assert [line["log"] for line in scene.check()] == ["users-3"]


def test_recovery_is_told_with_its_sums_and_how_long_it_took() -> None:
    scene = Scene()
    scene.log.opened(ORDERS, opened(ORDERS, scanned=100))
    scene.seconds = 2.25
    torn = Cut(segment=Offset(0), position=40, size=60, reason="checksum")
    scene.log.opened(USERS, opened(USERS, scanned=60, cut=torn))
    scene.log.report(NodeRecovered(topics=2, partitions=2, groups=1, data_bytes=140))
    cut, recovered = scene.lines.take()
    assert (cut["event"], cut["level"], cut["log"]) == ("torn_write_removed", "info", "users-3")
    assert recovered == {
        "level": "info",
        "event": "node_recovered",
        "topics": 2,
        "partitions": 2,
        "groups": 1,
        "data_bytes": 140,
        "recovery_s": 2.25,
        "logs_opened": 2,
        "scanned_bytes": 160,
        "removed_bytes": 60,
        "previous_end": "crash",
    }


def test_a_cut_with_good_records_is_a_warning_with_the_name_of_its_copy() -> None:
    scene = Scene()
    for kept, not_kept in (("orders/0/0.log.cut-300", ""), ("", "4 are kept already")):
        cut = Cut(
            segment=Offset(0),
            position=300,
            size=134,
            reason="checksum",
            has_good_records=True,
            kept=kept,
            not_kept=not_kept,
        )
        scene.log.opened(ORDERS, opened(ORDERS, cut=cut))
        [line] = scene.lines.take()
        assert (line["event"], line["level"]) == ("log_tail_cut", "warning")
        assert line["copy"] == (kept or "none: 4 are kept already")


def test_a_long_recovery_tells_how_far_it_is() -> None:
    scene = Scene()
    for _ in range(25):
        scene.seconds += 1.0
        scene.lines.pass_time(1)
        scene.log.opened(ORDERS, opened(ORDERS, scanned=10))
    told = scene.lines.take()
    assert [line["event"] for line in told] == ["recovery_progress"] * 2
    assert [line["logs_opened"] for line in told] == [10, 20]


def test_reports_of_the_core_become_events_with_the_same_fields() -> None:
    scene = Scene()
    scene.log.report(TopicCreated(topic="orders", partitions=3))
    assert scene.lines.take() == [
        {"level": "info", "event": "topic_created", "topic": "orders", "partitions": 3}
    ]
