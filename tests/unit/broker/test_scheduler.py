"""Schedules of a node: each tick exactly once, over crashes, clock jumps, pauses and deletions."""

import contextlib

import msgspec
import pytest

from goqueue.model import (
    HOUR,
    MILLISECOND,
    SCHEDULE_HEADER,
    SECOND,
    TICK_HEADER,
    Code,
    LogId,
    Refused,
    Timestamp,
    parse_time,
)
from goqueue.model.requests import (
    SCHEDULE_MESSAGE_BYTES_MAX,
    AlterSchedule,
    CreateSchedule,
    DeleteSchedule,
    DeleteTopic,
    DescribeSchedule,
    Done,
    ListSchedules,
    MissedPolicy,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    ScheduleChanges,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleList,
    ScheduleRan,
    ScheduleSpec,
    ScheduleState,
    TopicConfig,
)
from goqueue.model.settings import Cleanup
from goqueue.schedules import UTC, FixedZone, Zone
from tests.unit.broker.driven_node import EPOCH_NS, Crashed, DrivenNode, cut_off
from tests.unit.broker.users import ORDERS, create, publish, read

MINUTE = 60 * SECOND


class Zones:
    """Two zones; the offset of one may be changed."""

    def __init__(self) -> None:
        self.offset = 3600

    def find(self, name: str) -> Zone | None:
        return {"UTC": UTC, "Test/City": FixedZone(self.offset)}.get(name)


def _spec(name: str = "report", every_ns: int | None = MINUTE, **more: object) -> ScheduleSpec:
    spec = ScheduleSpec(
        name=name,
        topic="orders",
        message=ScheduledMessage(value=name.encode()),
        every_ns=every_ns,
    )
    return msgspec.structs.replace(spec, **more)


def _node(partitions: int = 1) -> DrivenNode:
    node = DrivenNode(zones=Zones())
    create(node, partitions=partitions)
    return node


def _create(node: DrivenNode, spec: ScheduleSpec | None = None) -> ScheduleDescription:
    return node.ask(CreateSchedule(spec=spec or _spec()), ScheduleDescription)


def _describe(node: DrivenNode, name: str = "report") -> ScheduleDescription:
    return node.ask(DescribeSchedule(name=name), ScheduleDescription)


def _ticks(node: DrivenNode, log: LogId = ORDERS, name: str = "report") -> list[int]:
    """The ticks whose messages can be read, in nanoseconds since the clock of the test began."""
    found: list[int] = []
    for record in read(node, log):
        headers = dict(record.headers)
        if headers.get(SCHEDULE_HEADER) == name.encode() and TICK_HEADER in headers:
            found.append(parse_time(headers[TICK_HEADER].decode()) - EPOCH_NS)
    return found


def _pause(node: DrivenNode, name: str = "report") -> ScheduleDescription:
    return node.ask(PauseSchedule(name=name), ScheduleDescription)


def _refusal(node: DrivenNode, spec: ScheduleSpec) -> Refused:
    with pytest.raises(Refused) as refused:
        _create(node, spec)
    return refused.value


# Ticks


def test_an_interval_ticks_from_its_creation_on() -> None:
    node = _node()
    described = _create(node)
    assert described.is_new
    assert described.next_tick == EPOCH_NS + MINUTE

    node.advance(3 * MINUTE)

    assert _ticks(node) == [MINUTE, 2 * MINUTE, 3 * MINUTE]
    described = _describe(node)
    assert described.sent == 3
    assert described.last_tick == EPOCH_NS + 3 * MINUTE
    assert described.next_tick == EPOCH_NS + 4 * MINUTE
    assert [record.value for record in read(node, ORDERS)] == [b"report"] * 3


def test_a_cron_rule_ticks_in_its_zone() -> None:
    node = _node()
    # The clock begins at 2023-11-14T22:13:20Z; it is 23:13 in the zone.
    spec = _spec(every_ns=None, cron="30 23 * * *", time_zone="Test/City")
    _create(node, spec)

    node.advance(25 * HOUR)

    first = parse_time("2023-11-14T22:30:00Z") - EPOCH_NS
    assert _ticks(node) == [first, first + 24 * HOUR]


def test_ticks_are_within_start_and_end() -> None:
    node = _node()
    start, end = Timestamp(EPOCH_NS + 90 * SECOND), Timestamp(EPOCH_NS + 210 * SECOND)
    _create(node, _spec(start=start, end=end))

    node.advance(10 * MINUTE)

    assert _ticks(node) == [90 * SECOND, 150 * SECOND, 210 * SECOND]
    described = _describe(node)
    assert described.state is ScheduleState.ENDED
    assert described.next_tick is None


def test_the_message_is_what_was_asked_for() -> None:
    node = _node(partitions=3)
    message = ScheduledMessage(
        value=None, key=b"k", headers=(("a", b"1"),), priority=0, partition=2
    )
    _create(node, _spec(message=message))
    node.advance(MINUTE)

    (record,) = read(node, LogId("orders", 2))
    assert record.value is None
    assert record.key == b"k"
    assert record.priority == 0
    assert [name for name, _ in record.headers] == ["a", SCHEDULE_HEADER, TICK_HEADER]


def test_messages_without_a_key_go_to_each_partition_in_turn() -> None:
    node = _node(partitions=3)
    _create(node)
    node.advance(6 * MINUTE)

    counts = [len(_ticks(node, LogId("orders", number))) for number in range(3)]
    assert counts == [2, 2, 2]


def test_schedules_that_are_due_together_share_batches() -> None:
    node = _node()
    for number in range(500):
        _create(node, _spec(f"s{number}"))
    node.turn_units_max = 0
    node.advance(MINUTE)

    found = [record.value or b"" for record in read(node, ORDERS)]
    assert sorted(found) == sorted(f"s{number}".encode() for number in range(500))
    # One marker for each batch, and no turn that grows with the number of schedules.
    end = read(node, ORDERS)[-1].offset + 1
    assert end < 500 + 50
    assert node.turn_units_max < 2_500


# Crashes


def _live_cut_off(number: int, budget_units: int) -> tuple[DrivenNode, bool]:
    """A schedule ticks for three minutes; the process ends before one piece of work, or never."""
    node = DrivenNode(budget_units=budget_units)
    create(node)
    _create(node)
    node.crash_before = cut_off(number)
    has_crashed = True
    with contextlib.suppress(Crashed):
        node.advance(3 * MINUTE)
        has_crashed = False
    node.restart()
    node.advance(6 * MINUTE + EPOCH_NS + 100 * MILLISECOND - node.now.wall)
    return node, has_crashed


@pytest.mark.parametrize("budget_units", [5, 500])
def test_a_crash_before_any_piece_of_work_neither_loses_nor_doubles_a_tick(
    budget_units: int,
) -> None:
    number, has_crashed = 0, True
    while has_crashed:
        node, has_crashed = _live_cut_off(number, budget_units)
        assert _ticks(node) == [each * MINUTE for each in range(1, 7)], number
        assert _describe(node).sent == 6
        number += 1
    # An append, a decision and a marker for each tick, with their syncs.
    assert number > 15


@pytest.mark.parametrize("without_snapshots", [True, False])
def test_schedules_survive_a_clean_stop_and_a_crash(*, without_snapshots: bool) -> None:
    node = _node()
    _create(node)
    _create(
        node, _spec("other", message=ScheduledMessage(value=b"\xff\0", headers=(("h", b"\xfe"),)))
    )
    _pause(node, "other")
    node.advance(MINUTE)
    before = [_describe(node, name) for name in ("report", "other")]
    node.stop()
    node.restart(without_snapshots=without_snapshots)

    assert [_describe(node, name) for name in ("report", "other")] == before


def test_a_number_is_never_used_again_after_a_restart() -> None:
    node = _node()
    _create(node)
    node.ask(DeleteSchedule(name="report"), Done)
    node.stop()
    node.restart()
    _create(node)
    node.advance(MINUTE)

    assert _ticks(node) == [MINUTE]


# Missed ticks and clocks


def _missed(**more: object) -> list[int]:
    """Ticks of a schedule for each minute, whose node is down for ten minutes."""
    node = _node()
    _create(node, msgspec.structs.replace(_spec(), **more))
    node.advance(MINUTE)
    node.now_ns += 10 * MINUTE + 30 * SECOND
    node.restart()
    node.advance(MINUTE)
    return _ticks(node)


def test_of_missed_ticks_the_latest_is_sent_unless_it_is_told_otherwise() -> None:
    assert _missed() == [MINUTE, 11 * MINUTE, 12 * MINUTE]


def test_missed_ticks_are_skipped_on_request() -> None:
    # The last is still within its grace.
    assert _missed(missed=MissedPolicy.SKIP) == [MINUTE, 11 * MINUTE, 12 * MINUTE]
    skipped = _missed(missed=MissedPolicy.SKIP, grace_ns=10 * SECOND)
    assert skipped == [MINUTE, 12 * MINUTE]


def test_all_missed_ticks_are_sent_up_to_a_bound() -> None:
    assert _missed(missed=MissedPolicy.ALL) == [each * MINUTE for each in range(1, 13)]
    bounded = _missed(missed=MissedPolicy.ALL, missed_max=3)
    assert bounded == [each * MINUTE for each in (1, 9, 10, 11, 12)]


def test_a_year_of_missed_minutes_is_not_looked_at_minute_by_minute() -> None:
    node = _node()
    _create(node, _spec(every_ns=None, cron="* * * * *", missed=MissedPolicy.ALL, missed_max=5))
    node.now_ns += 365 * 24 * HOUR
    node.restart()
    node.turn_units_max = 0
    node.advance(1)

    assert len(_ticks(node)) == 5
    assert node.turn_units_max < 2_000


def test_a_clock_that_is_set_back_repeats_no_tick() -> None:
    node = _node()
    _create(node)
    node.advance(2 * MINUTE)
    node.wall_shift_ns -= 90 * SECOND
    node.advance(2 * MINUTE + 30 * SECOND)

    # An hour and a half of wall time was seen twice; the tick after the last is still to come once.
    assert _ticks(node) == [MINUTE, 2 * MINUTE, 3 * MINUTE]


def test_a_clock_that_is_set_forward_makes_ticks_due_within_a_second() -> None:
    node = _node()
    _create(node)
    node.wall_shift_ns += 30 * MINUTE + 10 * SECOND
    node.advance(2 * SECOND)

    assert _ticks(node) == [30 * MINUTE]


def test_another_rule_of_a_zone_moves_the_next_tick_after_a_restart() -> None:
    zones = Zones()
    node = DrivenNode(zones=zones)
    create(node)
    _create(node, _spec(every_ns=None, cron="0 9 * * *", time_zone="Test/City"))
    assert _describe(node).next_tick == parse_time("2023-11-15T08:00:00Z")
    zones.offset = 2 * 3600
    node.restart()

    assert _describe(node).next_tick == parse_time("2023-11-15T07:00:00Z")


def test_a_zone_that_disappeared_stops_its_schedule_and_is_told() -> None:
    node = _node()
    _create(node, _spec(every_ns=None, cron="* * * * *", time_zone="Test/City"))
    node.zones = None
    node.restart()
    node.advance(5 * MINUTE)

    described = _describe(node)
    assert described.state is ScheduleState.FAILED
    assert "Test/City" in (described.problem or "")
    assert _ticks(node) == []


# Pause, resume, run, change, delete


def test_a_paused_schedule_does_not_tick_and_misses_nothing() -> None:
    node = _node()
    _create(node, _spec(missed=MissedPolicy.ALL))
    node.advance(MINUTE)
    described = _pause(node)
    assert described.state is ScheduleState.PAUSED
    assert described.next_tick is None
    node.advance(5 * MINUTE)
    node.ask(ResumeSchedule(name="report"), ScheduleDescription)
    node.advance(MINUTE)

    assert _ticks(node) == [MINUTE, 7 * MINUTE]


@pytest.mark.parametrize("command", [PauseSchedule(name="report"), DeleteSchedule(name="report")])
def test_a_command_waits_for_the_tick_that_is_on_its_way(
    command: PauseSchedule | DeleteSchedule,
) -> None:
    node = _node()
    _create(node)
    node.advance(MINUTE)
    node.slow_down(ORDERS)
    node.advance(MINUTE)
    request = node.begin(command)
    assert not node.is_answered(request)

    node.speed_up()

    assert node.is_answered(request)
    assert _ticks(node) == [MINUTE, 2 * MINUTE]
    node.advance(5 * MINUTE)
    assert _ticks(node) == [MINUTE, 2 * MINUTE]


def test_a_crash_while_a_pause_waits_leaves_the_tick_due_or_sent() -> None:
    node = _node()
    _create(node)
    node.advance(MINUTE)
    node.slow_down(ORDERS)
    node.advance(MINUTE)
    node.begin(PauseSchedule(name="report"))
    node.restart()
    node.advance(SECOND)

    assert _ticks(node) == [MINUTE, 2 * MINUTE]


def test_running_a_schedule_publishes_beside_its_ticks() -> None:
    node = _node()
    _create(node)
    _pause(node)
    ran = node.ask(RunSchedule(name="report"), ScheduleRan)

    (record,) = read(node, ORDERS)
    assert ran.log == ORDERS
    assert record.offset == ran.offset
    assert dict(record.headers) == {SCHEDULE_HEADER: b"report"}
    assert _describe(node).sent == 0


def test_another_interval_counts_from_the_change() -> None:
    node = _node()
    _create(node)
    node.advance(90 * SECOND)
    changes = ScheduleChanges(every_ns=10 * SECOND)
    node.ask(AlterSchedule(name="report", changes=changes), ScheduleDescription)
    node.advance(20 * SECOND)

    assert _ticks(node) == [MINUTE, 100 * SECOND, 110 * SECOND]


def test_another_message_leaves_the_times_as_they_are() -> None:
    node = _node()
    _create(node)
    node.advance(90 * SECOND)
    changes = ScheduleChanges(message=ScheduledMessage(value=b"new"))
    node.ask(AlterSchedule(name="report", changes=changes), ScheduleDescription)
    node.advance(MINUTE)

    assert _ticks(node) == [MINUTE, 2 * MINUTE]
    assert read(node, ORDERS)[-1].value == b"new"


def test_a_cron_rule_takes_the_place_of_an_interval() -> None:
    node = _node()
    _create(node)
    changes = ScheduleChanges(cron="0 0 * * *")
    altered = node.ask(AlterSchedule(name="report", changes=changes), ScheduleDescription)

    assert altered.spec.every_ns is None
    assert altered.spec.cron == "0 0 * * *"


def test_the_same_definition_again_does_not_begin_the_interval_anew() -> None:
    node = _node()
    _create(node)
    node.advance(50 * SECOND)
    replaced = node.ask(CreateSchedule(spec=_spec(), may_replace=True), ScheduleDescription)
    assert not replaced.is_new
    node.advance(10 * SECOND)

    assert _ticks(node) == [MINUTE]


def test_a_schedule_can_be_deleted_and_created_again() -> None:
    node = _node()
    _create(node)
    node.ask(DeleteSchedule(name="report"), Done)
    with pytest.raises(Refused) as refused:
        _describe(node)
    assert refused.value.code is Code.SCHEDULE_NOT_FOUND
    node.advance(5 * MINUTE)
    assert _ticks(node) == []
    _create(node)
    node.advance(MINUTE)
    assert _ticks(node) == [6 * MINUTE]


def test_pages_are_in_the_order_of_names() -> None:
    node = _node()
    for name in ("c", "a", "b", "d"):
        _create(node, _spec(name))
    listed = node.ask(ListSchedules(limit=2, skip=1), ScheduleList)

    assert [each.spec.name for each in listed.schedules] == ["b", "c"]
    assert listed.total == 4


# Trouble


def test_ticks_wait_for_a_topic_that_was_deleted() -> None:
    node = _node()
    _create(node)
    node.advance(MINUTE)
    node.ask(DeleteTopic(name="orders"), Done)
    node.advance(MINUTE)
    assert _describe(node).problem == "there is no topic orders"

    create(node)
    node.advance(SECOND)

    assert _ticks(node) == [2 * MINUTE]
    assert _describe(node).problem is None


def test_a_topic_that_is_deleted_while_a_tick_is_on_its_way_keeps_the_tick_due() -> None:
    node = _node()
    _create(node)
    node.slow_down(ORDERS)
    node.advance(MINUTE)
    node.begin(DeleteTopic(name="orders"))
    node.speed_up()
    create(node)
    node.advance(SECOND)

    assert _ticks(node) == [MINUTE]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (_spec(cron="* * * * *"), "cron"),
        (_spec(every_ns=None), "cron"),
        (_spec(every_ns=MILLISECOND), "every"),
        (_spec(every_ns=400 * 24 * HOUR), "every"),
        (_spec(time_zone="Test/City"), "time_zone"),
        (_spec(every_ns=None, cron="x"), "cron"),
        (_spec(every_ns=None, cron="* * * * *", time_zone="Nowhere"), "time_zone"),
        (_spec(end=Timestamp(EPOCH_NS)), "end"),
        (_spec(start=Timestamp(-1)), "start"),
        (_spec(missed_max=0), "missed_max"),
        (_spec(missed_max=101), "missed_max"),
        (_spec(grace_ns=0), "grace"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(spec: ScheduleSpec, field: str) -> None:
    refused = _refusal(_node(), spec)

    assert refused.code is Code.REQUEST_INVALID
    assert refused.facts["field"] == field


def test_what_the_topic_would_not_take_is_refused() -> None:
    node = _node()
    create(node, "keyed", config=TopicConfig(cleanup_policy=Cleanup.COMPACT))
    create(node, "small", config=TopicConfig(max_message_bytes=4))
    too_large = ScheduledMessage(value=bytes(SCHEDULE_MESSAGE_BYTES_MAX + 1))

    assert _refusal(node, _spec(topic="nowhere")).code is Code.TOPIC_NOT_FOUND
    assert _refusal(node, _spec(topic="__groups")).code is Code.TOPIC_INTERNAL
    assert _refusal(node, _spec(topic="keyed")).code is Code.MESSAGE_INVALID
    assert _refusal(node, _spec(topic="small")).code is Code.MESSAGE_TOO_LARGE
    assert _refusal(node, _spec(message=too_large)).code is Code.MESSAGE_TOO_LARGE
    away = ScheduledMessage(value=b"", partition=7)
    assert _refusal(node, _spec(message=away)).code is Code.PARTITION_NOT_FOUND
    assert _refusal(node, _spec("a/b")).code is Code.NAME_INVALID


def test_a_name_is_taken_once() -> None:
    node = _node()
    _create(node)

    assert _refusal(node, _spec()).code is Code.SCHEDULE_EXISTS


def test_ticks_and_other_messages_share_a_log() -> None:
    node = _node()
    _create(node)
    for minute in range(3):
        publish(node, f"m{minute}")
        node.advance(MINUTE)

    found = [(record.value or b"").decode() for record in read(node, ORDERS)]
    assert found == ["m0", "report", "m1", "report", "m2", "report"]
