"""Durations as Go writes them and times as RFC 3339 does: read exactly, written back the same."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import (
    HOUR,
    MILLISECOND,
    SECOND,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
    plain_duration,
)

LARGEST = (1 << 63) - 1
MINUTE = 60 * SECOND


@given(st.integers(0, LARGEST))
def test_a_duration_that_was_written_is_read_as_the_same_number(ns: int) -> None:
    assert parse_duration(format_duration(ns)) == ns
    assert parse_duration(plain_duration(ns)) == ns


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (250 * MILLISECOND, "250ms"),
        (SECOND - 1, "999.999999ms"),
        (1_500 * MILLISECOND, "1.5s"),
        (MINUTE, "1m0s"),
        (90 * MINUTE, "1h30m0s"),
        (HOUR + 1, "1h0m0.000000001s"),
        (671_088_640 * MILLISECOND, "186h24m48.64s"),
        (-1_500 * MILLISECOND, "-1.5s"),
        (LARGEST, "2562047h47m16.854775807s"),
    ],
)
def test_durations_are_written_as_go_writes_them(ns: int, text: str) -> None:
    assert format_duration(ns) == text


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0s", 0),
        ("30s", 30 * SECOND),
        ("1.5h", 90 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("7d", 7 * 24 * 60 * MINUTE),
        ("1.5d", 36 * 60 * MINUTE),
        ("1w1d1h", (8 * 24 + 1) * 60 * MINUTE),
        ("1m1h", 61 * MINUTE),
        (".5s", 500 * MILLISECOND),
        ("1.s", SECOND),
        ("+2s", 2 * SECOND),
        ("7us", 7_000),
        ("7µs", 7_000),
        ("7\u03bcs", 7_000),
        ("671088.640s", 671_088_640 * MILLISECOND),
        ("0.1s", 100 * MILLISECOND),
        ("0.3ns", 0),
        ("9223372036854775807ns", LARGEST),
    ],
)
def test_durations_are_read_exactly(text: str, ns: int) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "5",
        "s",
        ".s",
        "-1s",
        "-0s",
        "+",
        "+-1s",
        "1 s",
        " 1s",
        "1s\n",
        "1S",
        "1s1",
        "1e3s",
        "nan",
        "inf",
        "0x1s",
        "1..5s",
        "\u0661s",
        "1s\x00",
        "9223372036854775808ns",
        "2562048h",
        "1" * 5000 + "s",
        "1s" * 5000,
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|years|negative"):
        parse_duration(text)


@given(st.text(max_size=20))
def test_any_text_is_a_duration_within_bounds_or_refused(text: str) -> None:
    try:
        assert 0 <= parse_duration(text) <= LARGEST
    except ValueError as refused:
        assert str(refused)


@given(st.integers(-(1 << 63), LARGEST))
def test_a_time_that_was_written_is_read_as_the_same_number(ns: int) -> None:
    assert parse_time(format_time(ns)) == ns


@given(st.datetimes(dt.datetime(1678, 1, 1), dt.datetime(2262, 1, 1)))
def test_times_agree_with_the_calendar_of_the_standard_library(moment: dt.datetime) -> None:
    aware = moment.replace(tzinfo=dt.UTC)
    since = aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    ns = (since // dt.timedelta(microseconds=1)) * 1000
    assert parse_time(aware.isoformat()) == ns
    assert dt.datetime.fromisoformat(format_time(ns)) == aware


def test_every_day_has_its_date_and_every_date_its_day() -> None:
    first = dt.date(1678, 1, 1)
    count = (dt.date(2262, 1, 1) - first).days
    start = (first - dt.date(1970, 1, 1)).days
    for number in range(0, count, 13):
        date = first + dt.timedelta(days=number)
        assert format_time((start + number) * 86_400 * SECOND) == f"{date}T00:00:00Z"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1_500 * MILLISECOND, "1970-01-01T00:00:01.5Z"),
        (951_782_400 * SECOND, "2000-02-29T00:00:00Z"),
        (951_868_800 * SECOND, "2000-03-01T00:00:00Z"),
        (978_220_800 * SECOND, "2000-12-31T00:00:00Z"),
        (LARGEST, "2262-04-11T23:47:16.854775807Z"),
        (-(1 << 63), "1677-09-21T00:12:43.145224192Z"),
    ],
)
def test_times_are_written_in_utc_without_trailing_zeros(ns: int, text: str) -> None:
    assert format_time(ns) == text
    assert parse_time(text) == ns


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1970-01-01t00:00:00z", "1970-01-01T00:00:00Z"),
        ("2025-01-01T01:30:00+01:30", "2025-01-01T00:00:00Z"),
        ("2024-12-31T19:00:00-05:00", "2025-01-01T00:00:00Z"),
        ("2025-01-01T00:00:00-00:00", "2025-01-01T00:00:00Z"),
        ("2025-01-01T00:00:00.120000000Z", "2025-01-01T00:00:00.12Z"),
    ],
)
def test_offsets_and_small_letters_name_the_same_moment(text: str, same: str) -> None:
    assert format_time(parse_time(text)) == same


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2025-01-01",
        "2025-01-01T00:00:00",
        "2025-01-01 00:00:00Z",
        "2025-1-1T00:00:00Z",
        "2025-13-01T00:00:00Z",
        "2025-00-01T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2025-04-31T00:00:00Z",
        "2025-01-00T00:00:00Z",
        "2025-01-01T24:00:00Z",
        "2025-01-01T00:60:00Z",
        "2016-12-31T23:59:60Z",
        "2025-01-01T00:00:00.Z",
        "2025-01-01T00:00:00.1234567890Z",
        "2025-01-01T00:00:00+24:00",
        "2025-01-01T00:00:00+0100",
        "2025-01-01T00:00:00Z\n",
        "2025-01-01T00:00:00Z\x00",
        "\u0662025-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2262-04-11T23:47:16.854775808Z",
        "1677-09-21T00:12:43.145224191Z",
        "2025-01-01T00:00:00." + "1" * 5000 + "Z",
    ],
)
def test_what_is_no_time_or_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time|no such|finer|between"):
        parse_time(text)
