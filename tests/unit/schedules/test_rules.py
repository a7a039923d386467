"""When schedules tick, against a model that looks at every minute, around changes of clocks."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model import SECOND, Timestamp
from goqueue.runtime.time_zones import SystemZones
from goqueue.schedules import UTC as UTC_ZONE
from goqueue.schedules import CronRule, FixedZone, IntervalRule, Ticks, Zone, parse_cron
from tests.examples import examples
from tests.unit.schedules.cron_model import model_ticks

_MINUTE = 60
_HOUR = 3600
_DAY = 24 * _HOUR
_ZONES = SystemZones()

# Days on which clocks change: by an hour in both hemispheres, by half an hour, at midnight, over
# midnight (00:01), by a whole day, and where the year is otherwise unusual.
_CHANGES = [
    ("Europe/Vienna", "2026-03-29"),
    ("Europe/Vienna", "2026-10-25"),
    ("America/New_York", "2027-03-14"),
    ("America/New_York", "2027-11-07"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Australia/Lord_Howe", "2027-04-04"),
    ("America/Havana", "2026-03-08"),
    ("America/Havana", "2026-11-01"),
    ("America/St_Johns", "2010-03-14"),
    ("America/St_Johns", "2010-11-07"),
    ("Pacific/Apia", "2011-12-30"),
    ("Pacific/Kwajalein", "1993-08-21"),
    ("Africa/Casablanca", "2026-03-22"),
    ("Africa/Casablanca", "2026-02-15"),
    ("Europe/Dublin", "2026-10-25"),
    ("Asia/Kathmandu", "2026-05-05"),
]


def _zone(name: str) -> Zone:
    zone = _ZONES.find(name)
    assert zone is not None
    return zone


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def _shown(ticks: list[int]) -> list[str]:
    return [datetime.fromtimestamp(each, UTC).strftime("%d %H:%M") for each in ticks]


def _forwards(rule: CronRule, first: int, end: int) -> list[int]:
    ticks: list[int] = []
    tick = rule.next_after((first - 1) * SECOND)
    while tick is not None and tick <= end * SECOND:
        ticks.append(tick // SECOND)
        tick = rule.next_after(tick)
    return ticks


def _backwards(rule: CronRule, first: int, end: int) -> list[int]:
    ticks: list[int] = []
    tick = rule.last_upto(end * SECOND)
    while tick is not None and tick >= first * SECOND:
        ticks.append(tick // SECOND)
        tick = rule.last_upto(tick - 1)
    return ticks[::-1]


def _field(lowest: int, highest: int) -> st.SearchStrategy[str]:
    numbers = st.integers(lowest, highest)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.tuples(st.one_of(st.just("*"), ranges), st.integers(1, highest)).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    part = st.one_of(numbers.map(str), ranges, steps)
    lists = st.lists(part, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), lists)


_expressions = st.tuples(
    _field(0, 59),
    st.one_of(_field(0, 23), _field(0, 4)),
    st.one_of(st.just("*"), _field(1, 31), st.just("L")),
    st.just("*"),
    st.one_of(st.just("*"), _field(0, 7)),
).map(" ".join)


# The model tries every minute.
@settings(max_examples=examples(10))
@given(text=_expressions, change=st.sampled_from(_CHANGES), shift=st.integers(-2880, 1440))
def test_ticks_around_a_change_of_clocks_are_those_of_the_model(
    text: str, change: tuple[str, str], shift: int
) -> None:
    name, date = change
    zone = _zone(name)
    first = _seconds(date) + shift * _MINUTE
    end = first + 14 * _HOUR
    rule = CronRule(parse_cron(text), zone)
    expected = model_ticks(text, zone, first, end)

    assert _shown(_forwards(rule, first, end)) == _shown(expected)
    assert _shown(_backwards(rule, first, end)) == _shown(expected)


@given(text=_expressions, time=st.integers(0, 4_000_000_000), name=st.sampled_from(_CHANGES))
def test_the_two_directions_agree_at_any_time(text: str, time: int, name: tuple[str, str]) -> None:
    rule = CronRule(parse_cron(text), _zone(name[0]))
    tick = rule.next_after(time * SECOND)

    assert tick is not None
    assert tick > time * SECOND
    assert rule.last_upto(tick) == tick
    before = rule.last_upto(tick - 1)
    assert before is None or before <= time * SECOND


def _local_ticks(text: str, name: str, date: str, hours: int = 24) -> list[str]:
    first = _seconds(date) - 12 * _HOUR
    zone = _zone(name)
    rule = CronRule(parse_cron(text), zone)
    ticks = _forwards(rule, first, first + (hours + 24) * _HOUR)
    local = [each + zone.offset_at(each) for each in ticks]
    begin = _seconds(date)
    return [
        datetime.fromtimestamp(each, UTC).strftime("%H:%M")
        for each in local
        if begin <= each < begin + hours * _HOUR
    ]


def test_a_time_inside_a_gap_ticks_once_when_the_gap_ends() -> None:
    assert _local_ticks("30 2 * * *", "Europe/Vienna", "2026-03-29") == ["03:00"]
    assert _local_ticks("*/10 2 * * *", "Europe/Vienna", "2026-03-29") == ["03:00"]
    assert _local_ticks("0 2,3 * * *", "Europe/Vienna", "2026-03-29") == ["03:00"]


def test_a_repeated_time_ticks_the_first_time() -> None:
    assert _local_ticks("30 2 * * *", "Europe/Vienna", "2026-10-25") == ["02:30"]
    zone = _zone("Europe/Vienna")
    tick = CronRule(parse_cron("30 2 * * *"), zone).next_after(_seconds("2026-10-25") * SECOND)
    assert tick == _seconds("2026-10-25 00:30") * SECOND


def test_a_rule_for_every_hour_follows_elapsed_time() -> None:
    half_past = _local_ticks("30 * * * *", "Europe/Vienna", "2026-03-29", hours=5)
    assert half_past == ["00:30", "01:30", "03:30", "04:30"]
    half_past = _local_ticks("30 * * * *", "Europe/Vienna", "2026-10-25", hours=5)
    assert half_past == ["00:30", "01:30", "02:30", "02:30", "03:30", "04:30"]


def test_a_day_that_a_zone_skipped_ticks_when_it_is_over() -> None:
    # Samoa had no 30 December 2011.
    zone = _zone("Pacific/Apia")
    rule = CronRule(parse_cron("0 9 30 12 *"), zone)
    tick = rule.next_after(_seconds("2011-12-01") * SECOND)

    assert tick == _seconds("2011-12-30 10:00") * SECOND


def test_a_rare_date_is_found_years_ahead_and_years_ago() -> None:
    rule = CronRule(parse_cron("0 12 29 2 *"), UTC_ZONE)

    assert rule.next_after(_seconds("2096-03-01") * SECOND) == _seconds("2104-02-29 12:00") * SECOND
    assert rule.last_upto(_seconds("2104-02-29") * SECOND) == _seconds("2096-02-29 12:00") * SECOND


def test_there_is_no_tick_before_1970() -> None:
    assert CronRule(parse_cron("0 12 * * *"), UTC_ZONE).last_upto(_HOUR * SECOND) is None
    assert CronRule(parse_cron("0 12 * * *"), FixedZone(-_DAY + 1)).last_upto(0) is None


@given(
    start=st.integers(0, 1 << 62),
    every=st.integers(100_000_000, 366 * _DAY * SECOND),
    ahead=st.integers(0, 1 << 60),
)
def test_an_interval_ticks_at_multiples_from_its_start(start: int, every: int, ahead: int) -> None:
    rule = IntervalRule(every, start)
    time = start + ahead
    tick = rule.next_after(time)

    assert tick is not None
    assert time < tick <= time + every
    assert (tick - start) % every == 0
    assert rule.last_upto(time) == tick - every
    assert rule.next_after(start - 1) == start
    assert rule.last_upto(start - 1) is None


def test_ticks_are_within_start_and_end() -> None:
    start, end = _seconds("2026-11-01 10:30") * SECOND, _seconds("2026-11-01 13:00") * SECOND
    rule = CronRule(parse_cron("0 * * * *"), UTC_ZONE)
    ticks = Ticks(rule, Timestamp(start), Timestamp(end))
    first = ticks.next_after(Timestamp(0))

    assert first == _seconds("2026-11-01 11:00") * SECOND
    assert ticks.next_after(Timestamp(end - 1)) == end
    assert ticks.next_after(Timestamp(end)) is None
    assert ticks.last_upto(Timestamp(end + _DAY * SECOND)) == end
    assert ticks.last_upto(Timestamp(start + 1)) is None


@pytest.mark.parametrize("name", ["", "../passwd", "/etc/passwd", "Europe", "Nowhere/City", "\0"])
def test_a_name_that_is_no_zone_finds_nothing(name: str) -> None:
    assert _ZONES.find(name) is None
